"""The raw files of a corpus, near or far away: what its paths, globs and lists stand for."""

import os
import re
from collections.abc import Iterator
from glob import glob
from pathlib import Path

from bimix.corpus.shards import name_file
from bimix.errors import InputError

File = tuple[str, int]  # path, bytes


def is_remote(path: str) -> bool:
    """Whether a path is an address."""
    return "://" in path


def has_wildcards(pattern: str) -> bool:
    """Whether a path is a glob; the question mark of a web address is none."""
    return bool(re.search(r"[*\[]" if re.match("https?://", pattern) else r"[*?\[]", pattern))


def raw_files(config: dict, dataset: str, split: str, patterns: str | list[str]) -> Iterator[tuple[str, str, int]]:
    """Files (name, path, bytes) that paths, globs and lists stand for.

    A list is @file: one path to a line, its bytes after a tab. A file of unknown size fills a
    shard.
    Errors: a pattern without a file, a list or a store that cannot be read.
    """
    key = f"config: datasets/{dataset}/corpus/{split}"
    unknown = shard_bytes(config, dataset)
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        if pattern.startswith("@"):
            found = read_list(Path(pattern[1:]), unknown, key)
            # of strings, not paths: a list may mix addresses, relative and absolute paths
            folder = os.path.commonprefix([os.path.dirname(path) + "/" for path, _ in found])  # noqa: RUF071
            folder = folder[: folder.rfind("/") + 1]
        elif not has_wildcards(pattern):  # one file, perhaps not there yet or far away
            found, folder = [(pattern, unknown)], pattern[: pattern.rfind("/") + 1]
        else:
            found = list_remote(pattern, key) if is_remote(pattern) else list_local(pattern)
            folder = re.split(r"[^/]*[*?\[]", pattern)[0]
        if not found:
            raise InputError(f"{key}: no file matches {pattern!r}.")
        for path, size in found:
            try:
                yield name_file(path, folder), path, size
            except InputError as error:
                raise InputError(f"{key}: {error}") from error


def shard_bytes(config: dict, dataset: str) -> int:
    """Bytes of raw files that a shard holds on average."""
    return config["datasets"][dataset]["corpus"]["shard_megabytes"] * 10**6


def read_list(path: Path, unknown: int, key: str) -> list[File]:
    """Files that a list names, of `unknown` bytes where it gives no number.

    Errors: it cannot be read, named by the `key` of the config.
    """
    try:
        entries = [line.partition("\t") for line in path.read_text(encoding="utf-8").split("\n") if line]
        return [(name, int(given) if tab else unknown) for name, tab, given in entries]
    except (OSError, ValueError) as error:
        raise InputError(f"{key}: {str(path)!r} cannot be read as a list of files ({error}).") from error


def list_local(pattern: str) -> list[File]:
    """Files on a disk that match a glob, in order."""
    paths = sorted(glob(pattern, recursive=True))
    return [(path, os.path.getsize(path)) for path in paths if os.path.isfile(path)]


def list_remote(pattern: str, key: str) -> list[File]:
    """Files far away that match a glob, as their store lists them.

    Errors: it cannot be listed, named by the `key` of the config.
    """
    from bimix.corpus.sources import list_files  # here only: most corpora lie on a disk

    try:
        return list_files(pattern)
    except InputError as error:
        raise InputError(f"{key}: {error}") from error
