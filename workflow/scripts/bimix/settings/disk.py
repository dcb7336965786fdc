"""Checks of the files that a config names: whether they are there, and hold enough text.

Tokens are estimated from bytes: good to a fifth for plain text, to a few times for packed files. So
only what would not do with SURE times as many is a fault.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from glob import iglob
from pathlib import Path

from bimix.names import named, shown
from bimix.plan.dataset import Dataset
from bimix.plan.shards import has_wildcards
from bimix.settings.complete import UNKNOWN_VOCABULARY
from bimix.settings.faults import Fault, Key
from bimix.settings.ladder import text_bytes, token_bytes
from bimix.settings.scope import Scope

SURE = 10


def file_fault(key: Key, path: str) -> Fault | None:
    """Why `path` is no file, nor a link to one; a device or a pipe would be read without an end."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        return Fault(key, f"{shown(path)} cannot be found ({reason}).")
    if stat.S_ISREG(mode):
        return None
    kind = "a folder; name its files, as in a glob" if stat.S_ISDIR(mode) else "a pipe or a device; name a file"
    return Fault(key, f"{shown(path)} is {kind}.")


def check_files(scope: Scope) -> Iterator[Fault]:
    """Files on this machine's disks that a dataset of text names."""
    block, named_files = scope.block, []
    if scope.sound("tokenizer/file") and not Path("results", scope.name, "tokenizer.json").exists():
        named_files.append((("tokenizer", "file"), block.tokenizer.file))
    if scope.sound("vectors/file"):
        named_files.append((("vectors", "file"), block.vectors.file))
    for name, path in (block.mixture_files if scope.sound("mixture_files") else {}).items():
        named_files.append((("mixture_files", name), path))
    if scope.sound("export/data"):
        named_files.append((("export", "data"), block.export.data))
    for task, own in (block.downstream.tasks if scope.sound("downstream/tasks") else {}).items():
        for key in ("items", "shots"):
            path = getattr(own, key)
            if isinstance(path, str) and "://" not in path:
                named_files.append((("downstream", "tasks", task, key), path))
    yield from filter(None, (file_fault(key, path) for key, path in named_files))
    if not scope.sound("corpus", "/corpus"):
        return
    for key, patterns in _sources(scope.own["corpus"]):
        for number, pattern in enumerate(patterns):
            yield from _pattern_faults(("corpus", *key, number), pattern, block.corpus.formats)


def _pattern_faults(key: Key, pattern: str, formats: Mapping[str, str]) -> Iterator[Fault]:
    """Of one path, glob or list of a corpus."""
    if pattern.startswith("@"):
        if fault := file_fault(key, pattern[1:]):
            yield fault
            return
        # faults of its lines are reported where they are read
        for line in Path(pattern[1:]).read_text(encoding="utf-8", errors="replace").split("\n"):
            path = line.partition("\t")[0]
            if path and "://" not in path and os.path.exists(path) and (fault := file_fault(key, path)):
                yield fault
    elif "://" in pattern:
        return
    elif has_wildcards(pattern):
        if not any(os.path.isfile(path) for path in iglob(pattern, recursive=True)):
            yield Fault(key, f"no file matches {pattern!r}.")
    elif fault := file_fault(key, pattern):
        yield fault
    elif not any(re.sub(r"\.(gz|xz|zst)$", "", pattern).endswith(ending) for ending in formats):
        sentence = f"{pattern!r} ends in none of {named(formats)}; say in corpus/formats what such files hold."
        yield Fault(key, sentence)


def _sources(corpus: Mapping) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """The paths, globs and lists of a corpus by their keys."""
    for name in ("train", "validation", "validation_only"):
        part = corpus.get(name, {})
        for domain, patterns in part.items() if isinstance(part, dict) else [(None, part)]:
            if isinstance(patterns, str | list):
                key = (name,) if domain is None else (name, domain)
                yield key, [patterns] if isinstance(patterns, str) else patterns


# How much text there is


def check_text(config: dict, dataset: str) -> Iterator[Fault]:
    """Faults and remarks of a dataset in an expanded config: files without text, rows longer than a
    domain's text, epochs that no mixture keeps to. Of text far away nothing is said.
    """
    block = config["datasets"][dataset]
    corpus, key = block.get("corpus", {}), ("datasets", dataset)
    faults = []
    for own, patterns in _sources(corpus):
        sizes = {one: os.path.getsize(one) for one in _near(patterns)}
        empty = [one for one, size in sizes.items() if not size]
        if empty:
            listed = f"{', '.join(empty[:3])}{' and more' if len(empty) > 3 else ''}"
            sentence = f"{listed}: 0 bytes, so there is no text in it."
            faults.append(Fault((*key, "corpus", *own), sentence, remark=any(sizes.values())))
    yield from faults
    far = any("://" in one or one.startswith("@") for _, patterns in _sources(corpus) for one in patterns)
    if far or not corpus or not all(fault.remark for fault in faults):
        return
    vocabulary = block["tokenizer"].get("train", {}).get("vocabulary", UNKNOWN_VOCABULARY)
    tokens = {domain: size / token_bytes(vocabulary) for domain, size in text_bytes(config, dataset).items()}
    fault = _row_fault(block, tokens) or _epoch_fault(config, dataset, tokens)
    if fault:
        yield Fault((*key, *fault.key), fault.sentence, remark=fault.remark)


def _near(patterns: list[str]) -> Iterator[str]:
    """The files on this machine's disks that paths and globs stand for."""
    for pattern in patterns:
        if "://" not in pattern and not pattern.startswith("@"):
            found = sorted(iglob(pattern, recursive=True)) if has_wildcards(pattern) else [pattern]
            yield from filter(os.path.isfile, found)


def _row_fault(block: dict, tokens: Mapping[str, float]) -> Fault | None:
    """The smallest domain, or what is held out of it, fills no row."""
    length, validation = block["sequence_length"], block["corpus"]["validation"]
    share = validation.get("share") if isinstance(validation, dict) else None
    parts = {"its text": 1.0}
    if isinstance(share, float):
        parts[f"the {share:g} of it that is held out"] = share
    domain = min(tokens, key=tokens.__getitem__)
    for what, part in parts.items():
        own = part * tokens[domain]
        if own < length:
            whose = f"of {domain} " if domain else ""
            sentence = (
                f"{length:,} tokens are a row, and {whose}{what} is about {own:,.0f} tokens by the size of its files: no row"
                " is filled. Set a smaller number, or add text."
            )
            return Fault(("sequence_length",), sentence, remark=SURE * own >= length)
    return None


def _epoch_fault(config: dict, dataset: str, tokens: Mapping[str, float]) -> Fault | None:
    """With the bound on epochs all text together is less than the run reads."""
    block = config["datasets"][dataset]
    optimum = block["optimum"]
    if "max_epochs" not in optimum:
        return None
    model = optimum.get("for", optimum["model"])
    run = Dataset(config, dataset).run_tokens(model)
    if "for" not in optimum:
        run = run // block["training"][model]["steps"] * optimum["step"]
    there = optimum["max_epochs"] * sum(tokens.values())
    if there >= run:
        return None
    sentence = (
        f"{optimum['max_epochs']:g} epochs of all text are about {there:,.0f} tokens by the size of its files, and a run"
        f" of {model} to step {optimum['step']:,} reads {run:,}: no mixture keeps to that. Allow more, or run for less."
    )
    return Fault(("optimum", "max_epochs"), sentence, remark=SURE * there >= run)
