"""Checks of the files that a config names: whether they are there, and hold enough text.

Tokens are estimated from bytes: good to a fifth for plain text, to a few times for packed files. So
only what would not do with SURE times as many is a fault.
"""

import math
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
from bimix.settings.ladder import text_bytes, token_bytes
from bimix.settings.scope import Faults, Scope

SURE = 10


def file_fault(path: str) -> str | None:
    """Why `path` is no file, nor a link to one; a device or a pipe would be read without an end."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        return f"{shown(path)} cannot be found ({error.strerror if isinstance(error, OSError) else error})."
    if stat.S_ISREG(mode):
        return None
    kind = "a folder; name its files, as in a glob" if stat.S_ISDIR(mode) else "a pipe or a device; name a file"
    return f"{shown(path)} is {kind}."


def check_files(scope: Scope) -> Faults:
    """Files on this machine's disks that a dataset of text names."""
    keys = ["vectors/file", "export/data"]
    keys += [] if Path("results", scope.name, "tokenizer.json").exists() else ["tokenizer/file"]
    named_files = {tuple(key.split("/")): scope.value(key) for key in keys}
    named_files |= {("mixture_files", name): path for name, path in (scope.value("mixture_files") or {}).items()}
    for task, own in (scope.value("downstream/tasks") or {}).items():
        named_files |= {("downstream", "tasks", task, key): own.get(key) for key in ("items", "shots")}
    for key, path in named_files.items():
        if isinstance(path, str) and not (key[0] == "downstream" and "://" in path) and (fault := file_fault(path)):
            yield key, fault
    for key, patterns in _sources(scope.own["corpus"]) if scope.sound("corpus", "/corpus") else ():
        for number, pattern in enumerate(patterns):
            for fault in filter(None, _pattern_faults(pattern, scope.block.corpus.formats)):
                yield ("corpus", *key, number), fault


def _pattern_faults(pattern: str, formats: Mapping[str, str]) -> Iterator[str | None]:
    """Of one path, glob or list of a corpus."""
    if pattern.startswith("@"):
        yield (fault := file_fault(pattern[1:]))
        # faults of its lines are reported where they are read
        lines = "" if fault else Path(pattern[1:]).read_text(encoding="utf-8", errors="replace")
        for path in (line.partition("\t")[0] for line in lines.split("\n")):
            if path and "://" not in path and os.path.exists(path):
                yield file_fault(path)
    elif has_wildcards(pattern) and "://" not in pattern:
        if not any(os.path.isfile(path) for path in iglob(pattern, recursive=True)):
            yield f"no file matches {pattern!r}."
    elif "://" not in pattern:
        fault = file_fault(pattern)
        if not fault and not any(re.sub(r"\.(gz|xz|zst)$", "", pattern).endswith(ending) for ending in formats):
            fault = f"{pattern!r} ends in none of {named(formats)}; say in corpus/formats what such files hold."
        yield fault


def _sources(corpus: Mapping) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """The paths, globs and lists of a corpus by their keys."""
    for name in ("train", "validation", "validation_only"):
        part = corpus.get(name, {})
        by_key = {(name, one): own for one, own in part.items()} if isinstance(part, dict) else {(name,): part}
        for key, patterns in by_key.items():
            if isinstance(patterns, str | list):
                yield key, [patterns] if isinstance(patterns, str) else patterns


# How much text there is


def check_text(config: dict, dataset: str) -> Faults:
    """Faults and remarks of a dataset in an expanded config: files without text, rows longer than a
    domain's text, epochs that no mixture keeps to. Of text far away nothing is said.
    """
    block = config["datasets"][dataset]
    sources = list(_sources(block.get("corpus", {})))
    lacking = False
    for key, patterns in sources:
        sizes = {one: os.path.getsize(one) for one in _near(patterns)}
        if empty := [one for one, size in sizes.items() if not size]:
            named_files = f"{', '.join(empty[:3])}{' and more' if len(empty) > 3 else ''}"
            yield ("corpus", *key), f"{named_files}: 0 bytes, so there is no text in it.", any(sizes.values())
            lacking |= not any(sizes.values())
    far = any("://" in one or one.startswith("@") for _, patterns in sources for one in patterns)
    if far or lacking or "corpus" not in block:
        return
    vocabulary = block["tokenizer"].get("train", {}).get("vocabulary", UNKNOWN_VOCABULARY)
    tokens = {domain: size / token_bytes(vocabulary) for domain, size in text_bytes(config, dataset).items()}
    yield from list(_row_faults(block, tokens)) or _epoch_faults(Dataset(config, dataset), sum(tokens.values()))


def _near(patterns: list[str]) -> Iterator[str]:
    """The files on this machine's disks that paths and globs stand for."""
    for pattern in patterns:
        if "://" not in pattern and not pattern.startswith("@"):
            found = sorted(iglob(pattern, recursive=True)) if has_wildcards(pattern) else [pattern]
            yield from filter(os.path.isfile, found)


def _row_faults(block: dict, tokens: Mapping[str, float]) -> Faults:
    """The smallest domain, or what is held out of it, fills no row."""
    length, validation = block["sequence_length"], block["corpus"]["validation"]
    share = validation.get("share") if isinstance(validation, dict) else None
    domain = min(tokens, key=tokens.__getitem__)
    part = share if isinstance(share, float) and tokens[domain] >= length else 1.0
    if (own := part * tokens[domain]) < length:
        what = (f"of {domain} " if domain else "") + ("its text" if part == 1 else f"the {part:g} of it held out")
        sentence = f"{length:,} tokens are a row, and {what} is about {own:,.0f} tokens by the size of its files: no"
        yield "sequence_length", f"{sentence} row is filled. Set a smaller number, or add text.", SURE * own >= length


def _epoch_faults(dataset: Dataset, tokens: float) -> Faults:
    """With the bound on epochs all text together is less than the run reads."""
    optimum = dataset.block["optimum"]
    most, model = optimum.get("max_epochs", math.inf), optimum.get("for", optimum["model"])
    run = dataset.run_tokens(model)
    if "for" not in optimum:
        run = run // dataset.block["training"][model]["steps"] * optimum["step"]
    if most * tokens < run:
        sentence = f"{most:g} epochs of all text are about {most * tokens:,.0f} tokens by the size of its files, and"
        sentence += f" a run of {model} to step {optimum['step']:,} reads {run:,}:"
        yield "optimum/max_epochs", f"{sentence} allow more, or run for less.", SURE * most * tokens >= run
