"""What the checks of a dataset's block read and tell: the config, what was found in it, the files
that it names.
"""

import os
import re
import stat
from dataclasses import dataclass, field
from glob import iglob
from pathlib import Path

from bimix.names import named, shown
from bimix.plan.raw import has_wildcards
from bimix.settings.complete import Key, merged_recipe
from bimix.settings.fault import Fault


@dataclass
class Findings:
    """A merged config, the datasets that are to be built and those of single targets, and what was
    found so far; `faults` and `remarks` grow.

    `code`: the folder of published tables. What `broken` names the schema has found wrong: no check
    reads it.
    """

    config: dict
    code: Path
    wanted: frozenset[str]
    faults: list[Fault]
    named: frozenset[str] = frozenset()
    remarks: list[Fault] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.broken = [fault.key for fault in self.faults]

    def fault(self, key: Key, sentence: str) -> None:
        self.faults.append(Fault(key, sentence))

    def remark(self, key: Key, sentence: str) -> None:
        self.remarks.append(Fault(key, sentence))

    def sound(self, *keys: Key) -> bool:
        """Whether the schema finds nothing wrong in, around or below any of the keys."""
        return not any(key[: len(bad)] == bad[: len(key)] for key in keys for bad in self.broken)


class BlockChecker:
    """One dataset's block, read with care, and the files that it names."""

    def __init__(self, checker: Findings, dataset: str, block: dict) -> None:
        self.checker, self.dataset, self.block, self.config = checker, dataset, block, checker.config

    def key(self, *parts: str | int) -> Key:
        return "datasets", self.dataset, *parts

    def recipe(self, model: str) -> dict | None:
        """Training settings of a model in full, None where something is wrong with them."""
        if not self.sound(f"training/{model}") or not self.sound_elsewhere("training"):
            return None
        own = self.block["training"][model]
        return merged_recipe(self.config, own) if own["recipe"] in self.config["training"] else None

    def fault(self, *parts: str | int, sentence: str) -> None:
        self.checker.fault(self.key(*parts), sentence)

    def remark(self, *parts: str | int, sentence: str) -> None:
        self.checker.remark(self.key(*parts), sentence)

    def sound(self, *paths: str) -> bool:
        """Whether the block has what stands behind these paths (keys and slashes), and nothing is
        wrong in it.
        """
        for path in paths:
            found = self.block
            for key in path.split("/"):
                if not isinstance(found, dict) or key not in found:
                    return False
                found = found[key]
        return self.checker.sound(*(self.key(*path.split("/")) for path in paths))

    def sound_elsewhere(self, *paths: str) -> bool:
        """The same of the config's other blocks."""
        return self.checker.sound(*(tuple(path.split("/")) for path in paths))

    def remark_files(self) -> None:
        """Raw files and mixtures that are not there, which named targets may need: until the text
        is tokenised Snakemake's own words for that would name no key.
        """
        if not Path("results", self.dataset, "tokens/train.parquet").exists():
            before = len(self.checker.faults)
            self.files()
            self.checker.remarks += self.checker.faults[before:]
            del self.checker.faults[before:]

    def files(self) -> None:
        """Files on this machine's disks that the config names and that are not there, or are
        none.
        """
        block, results = self.block, Path("results", self.dataset)
        if self.sound("tokenizer") and "file" in block["tokenizer"] and not Path(results, "tokenizer.json").exists():
            self.file("tokenizer", "file", path=block["tokenizer"]["file"])
        if self.sound("vectors") and "file" in block["vectors"]:
            self.file("vectors", "file", path=block["vectors"]["file"])
        for name, path in (block["mixture_files"] if self.sound("mixture_files") else {}).items():
            self.file("mixture_files", name, path=path)
        if self.sound("export/data"):
            self.file("export", "data", path=block["export"]["data"])
        for task, settings in (block["downstream"]["tasks"] if self.sound("downstream") else {}).items():
            for key in ("items", "shots"):
                if isinstance(settings.get(key), str) and "://" not in settings[key]:
                    self.file("downstream", "tasks", task, key, path=settings[key])
        if not self.sound("corpus"):
            return
        corpus = self.block["corpus"]
        formats = corpus.get("formats")
        if formats is None and self.sound_elsewhere("corpus"):
            formats = self.config["corpus"]["formats"]
        for name in ("train", "validation", "validation_only"):
            part = corpus.get(name, {})
            if name == "validation" and isinstance(part, dict) and {"share", "tokens"} & part.keys():
                continue
            for domain, patterns in part.items() if isinstance(part, dict) else [(None, part)]:
                key = ("corpus", name) if domain is None else ("corpus", name, domain)
                for number, pattern in enumerate([patterns] if isinstance(patterns, str) else patterns):
                    own = key if isinstance(patterns, str) else (*key, number)
                    self.pattern(own, pattern, formats)

    def pattern(self, key: Key, pattern: str, formats: dict[str, str] | None) -> None:
        """One path, glob or list of a corpus."""
        if pattern.startswith("@"):
            if self.file(*key, path=pattern[1:]):
                # what it says of its lines is said where they are read
                for line in Path(pattern[1:]).read_text(encoding="utf-8", errors="replace").split("\n"):
                    path = line.partition("\t")[0]
                    if path and "://" not in path and os.path.exists(path):
                        self.file(*key, path=path)
        elif "://" in pattern:
            return
        elif has_wildcards(pattern):
            if not any(os.path.isfile(path) for path in iglob(pattern, recursive=True)):
                self.fault(*key, sentence=f"no file matches {pattern!r}.")
        elif self.file(*key, path=pattern):
            name = re.sub(r"\.(gz|xz|zst)$", "", pattern)
            if formats and not any(name.endswith(ending) for ending in formats):
                self.fault(
                    *key,
                    sentence=f"{pattern!r} ends in none of {named(formats)}; say in corpus/formats what such files hold.",
                )

    def file(self, *key: str | int, path: str) -> bool:
        """Whether `path` is a file, or a link to one; a device or a pipe would be read without an
        end.
        """
        try:
            mode = os.stat(path).st_mode
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            self.fault(*key, sentence=f"{shown(path)} cannot be found ({reason}).")
            return False
        if stat.S_ISREG(mode):
            return True
        kind = "a folder; name its files, as in a glob" if stat.S_ISDIR(mode) else "a pipe or a device; name a file"
        self.fault(*key, sentence=f"{shown(path)} is {kind}.")
        return False
