"""The files that a dataset of text names: those that a path, folder, glob or list stands for, those that are
not there, and those of unknown form.
"""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from glob import escape, iglob
from pathlib import Path

from bimix.corpus.shards import ENDINGS, PACKED, ending_of, name_file
from bimix.corpus.tasks import task_files, task_folders
from bimix.errors import InputError

File = tuple[str, int]  # path, bytes
Key = tuple[str | int, ...]
PAPERS = ("data/pile/", "data/slimpajama/", "data/cc.en.300.bin", "data/qa/")  # whose files docs/data.md lists
# How a dataset does without a block that names a file.
WITHOUT = {
    "vectors": "`vectors: null` trains vectors on the text",
    "downstream": "`downstream: null` asks no questions",
}
NO_TEXT = (".ds.index", ".ds.metadata", ".ds.loss", "/_SUCCESS")  # what datatrove and Spark write beside their files
FORM_OF = {".ds": "tokens"}  # of endings that no format names; that of others is text
# Tables and archives that no form reads: as text they would be trained on with their marks.
UNREAD = r"(?i)\.(csv|tsv|arrow|feather|avro|orc|tar|tgz|zip|7z|rar|bz2|lz4|lzma|br|z|gz|xz|zst)$"


def has_wildcards(pattern: str) -> bool:
    """Whether a path is a glob. A file of that name is not, nor is a question mark in a web address."""
    marks = r"[*\[]" if re.match("https?://", pattern) else r"[*?\[]"
    return bool(re.search(marks, pattern)) and not os.path.isfile(pattern)


def held_by_hash(corpus: Mapping) -> bool:
    """Whether a share of the documents is held out by hash, without validation files."""
    validation = corpus["validation"]
    # a block of paths may have a domain called share
    return isinstance(validation, dict) and isinstance(validation.get("share"), float)


def corpus_patterns(corpus: Mapping) -> Iterator[tuple[Key, list[str]]]:
    """The paths, globs and lists of a corpus by their keys."""
    for name in ("train", "validation", "validation_only"):
        part = corpus.get(name, {})
        by_key = {(name, one): own for one, own in part.items()} if isinstance(part, dict) else {(name,): part}
        for key, patterns in by_key.items():
            if isinstance(patterns, str | list):
                yield key, [patterns] if isinstance(patterns, str) else patterns


def named_files(block: Mapping, folder: str) -> Iterator[tuple[Key, str]]:
    """Paths, globs and lists (@file) that a dataset's block names, with their keys. A finished tokenizer
    in `folder` needs no source.
    """
    for key, patterns in corpus_patterns(block.get("corpus", {})):
        yield from ((("corpus", *key, number), pattern) for number, pattern in enumerate(patterns))
    for name, key in (("vectors", "file"), ("tokenizer", "file"), ("export", "data")):
        made = name == "tokenizer" and Path(folder, "tokenizer.json").exists()
        if key in block.get(name, {}) and not made:
            yield (name, key), block[name][key]
    for name, path in block.get("mixture_files", {}).items():
        yield ("mixture_files", name), path
    downstream = block.get("downstream", {})
    tasks, more = downstream.get("tasks", []), downstream.get("task_files")
    if more and not Path(more).is_dir():
        yield ("downstream", "task_files"), more
    for task, paths in task_files(tasks, task_folders(more)).items():
        yield from ((("downstream", "tasks", tasks.index(task)), path) for path in paths)


def missing_files(found: Iterable[tuple[Key, str]], folder: str) -> dict[str, Key]:
    """Those of `named_files` that are not there, but for those far away or made in `folder`."""
    return {path: key for key, path in found if "://" not in path and is_missing(path, folder)}


def is_missing(path: str, folder: str) -> bool:
    """Whether a path, a list, or all files of a glob are not there."""
    if path.startswith("@"):
        return not os.path.lexists(path[1:])
    if has_wildcards(path):
        return not any(local_paths(path))
    return not os.path.lexists(path) and not path.startswith(f"{folder}/")


def missing_sentence(missing: Mapping[str, Key]) -> str:
    """That files are not there, and which of their blocks may be left out."""
    ways = [way for block, way in WITHOUT.items() if any(key[0] == block for key in missing.values())]
    kind = "these files are" if len(missing) > 1 else "this file is"
    where = (
        ["docs/data.md says where those of the paper's datasets come from"]
        if any(path.startswith(PAPERS) for path in missing)
        else []
    )
    return "; ".join([f"{kind} not there: {', '.join(missing)}", *where, *ways]) + "."


def unknown_endings(formats: Mapping[str, str], paths: Iterable[str]) -> str | None:
    """A sentence on files whose endings `formats` lacks, with the line to write; None without any."""
    known, unknown = {}, {}
    for path in paths:
        ending = ending_of(path, formats)
        if ending is None:
            unknown.setdefault(Path(re.sub(PACKED, "", path)).suffix, []).append(path)
        else:
            known[ending] = formats[ending]
    if not unknown:
        return None
    count = sum(map(len, unknown.values()))
    first = ", ".join(paths[0] for paths in unknown.values())
    files = f"{count} files have endings" if count > 1 else "a file has an ending"
    sentence = f"{files} that `formats` lacks ({first}): name others, or"
    if any(re.search(UNREAD, ending) for ending in unknown):
        return f"{sentence} make JSON lines, parquet or text of them, plain or packed as .gz, .xz or .zst."
    forms = {**formats, **FORM_OF}
    guessed = {ending: forms.get(ending.lower(), "text") for ending in unknown}
    line = ", ".join(f'"{ending}": {form}' for ending, form in (known | guessed).items())
    return f"{sentence} write `formats: {{{line}}}` under `corpus`."


def is_remote(path: str) -> bool:
    return "://" in path


def raw_files(
    patterns: str | list[str], unknown: int, key: str, without_text: bool = False
) -> Iterator[tuple[str, str, int]]:
    """Files (name, path, bytes) of paths, folders, globs and lists (@file: one path per line, its bytes
    after a tab); unknown sizes count as `unknown`, and `without_text` a local pattern without a file
    as one.

    Errors, at the `key` of the config: such a pattern, a list or a store that cannot be read; a file
    that is there twice, also by a link, or packed and unpacked.
    """
    seen: dict[object, str] = {}
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        try:
            folder, found = expand(pattern, unknown, without_text)
            if not found:
                raise InputError(f"no file matches {pattern!r}.")
            for path, size in found:
                for identity in identities(path):
                    if identity in seen:
                        raise InputError(f"{path!r} and {seen[identity]!r} are one file or its packed copy: name one.")
                    seen[identity] = path
                yield name_file(path, folder), path, size
        except InputError as error:
            raise InputError(f"{key}: {error}") from error


def expand(pattern: str, unknown: int, without_text: bool = False) -> tuple[str, list[File]]:
    """The files that a pattern stands for, and the folder below which shards are named after them."""
    if without_text and not is_remote(pattern) and is_missing(pattern, ""):
        return "", [(pattern, unknown)]
    if pattern.startswith("@"):
        found = read_list(Path(pattern[1:]), unknown)
        # strings, not paths: a list may mix addresses, relative and absolute paths
        common = os.path.commonprefix([os.path.dirname(path) + "/" for path, _ in found])  # noqa: RUF071
        return common[: common.rfind("/") + 1], found
    if os.path.isdir(pattern):
        return f"{pattern.rstrip('/')}/", list_local(pattern)
    if not has_wildcards(pattern):  # one file, perhaps not there yet or far away
        return pattern[: pattern.rfind("/") + 1], [(pattern, unknown)]
    folder = re.split(r"[^/]*[*?\[]", pattern)[0]
    if is_remote(pattern):
        from bimix.corpus.sources import list_files  # here only: most corpora lie on a disk

        return folder, list_files(pattern)
    return folder, list_local(pattern)


def identities(path: str) -> Iterator[object]:
    """What two paths of one file have in common: the name without its packing, and the place on the disk."""
    yield re.sub(PACKED, "", path)
    if not is_remote(path):
        with contextlib.suppress(OSError):  # a file that a job makes
            found = os.stat(path)
            yield found.st_dev, found.st_ino


def read_list(path: Path, unknown: int) -> list[File]:
    """The files in a list, of `unknown` bytes where it gives no number."""
    if path.exists() and not path.is_file():
        raise InputError(f"{str(path)!r} is no file; name a list of files.")
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
        entries = [line.partition("\t") for line in lines if line.strip()]
        return [(name, int(given) if tab else unknown) for name, tab, given in entries]
    except (OSError, ValueError) as error:
        raise InputError(f"{str(path)!r} cannot be read as a list of files ({error}).") from error


def local_paths(pattern: str) -> Iterator[str]:
    """Local files that match a glob, or that lie in a folder or below it, but for hidden ones.

    Errors: a link to nothing; a folder with the name of a file, which a glob of its files should name.
    """
    named = f"{escape(pattern)}/**" if os.path.isdir(pattern) else pattern
    for path in iglob(named, recursive=True):
        if os.path.isfile(path):
            if not path.endswith(NO_TEXT):
                yield path
        elif not os.path.exists(path):
            raise InputError(f"{path!r} is a link to nothing: fetch the file, or name others.")
        elif "**" not in named and re.search(ENDINGS, path):
            raise InputError(f"{path!r} is a folder: name the files in it, as by {pattern + '/*'!r}.")


def list_local(pattern: str) -> list[File]:
    """The local files of a glob or a folder, in order."""
    return [(path, os.path.getsize(path)) for path in sorted(local_paths(pattern))]
