"""Shards: raw files grouped by a rule under which a new file changes one shard only."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from bimix.digests import digest_file, stamp_file
from bimix.errors import InputError

ENDINGS = r"\.(jsonl?|ndjson|parquet|te?xt)(\.\w+)?$"
PACKED = r"\.(gz|xz|zst)$"


@dataclass(frozen=True)
class Shard:
    """The raw files that one job reads. `split` is train, validation or hash (each document by the
    hash of its text); `domain` is that of all documents, or None where each record names its own.
    """

    name: str
    split: str
    domain: str | None
    files: tuple[str, ...]


def longest_of(lengths: int | Mapping[str, int], domain: str | None) -> int:
    """The longest document that is held out whole: one number, or one for each domain."""
    return lengths[domain] if isinstance(lengths, Mapping) else lengths


def ends_shard(path: str, size: int, target: int) -> bool:
    """Whether a shard ends after the file `path` of `size` bytes: true with probability
    size / target, drawn from the path's hash.

    So shards hold `target` bytes on average, and an added or removed file changes its own shard
    only; with cuts by running totals all later shards would change.
    """
    drawn = int.from_bytes(hashlib.blake2b(path.encode("utf-8"), digest_size=8).digest(), "big")
    return drawn * target < size * 2**64


def group_files(files: Iterable[tuple[str, str, int]], target: int) -> list[tuple[str, tuple[str, ...]]]:
    """Shards (name, paths) of files (name, path, bytes) in order, named as their last file."""
    groups, waiting, name = [], [], ""
    for name, path, size in files:
        waiting.append(path)
        if ends_shard(path, size, target):
            groups.append((name, tuple(waiting)))
            waiting = []
    return [*groups, (name, tuple(waiting))] if waiting else groups


def ending_of(path: str, endings: Iterable[str]) -> str | None:
    """The longest of the `endings` that a file has, packed or not; None if it has none of them."""
    name = re.sub(PACKED, "", re.sub(r"\?.*", "", path) if "://" in path else path)
    return max((ending for ending in endings if name.endswith(ending)), key=len, default=None)


def parts_of(path: str, formats: Mapping[str, str]) -> list[str]:
    """The files that are read for a raw file: itself and, of a file of tokens, its index."""
    ending = ending_of(path, formats)
    return [path, f"{path}.index"] if ending is not None and formats[ending] == "tokens" else [path]


def name_file(path: str, folder: str) -> str:
    """A file's name without its ending, prefixed by its folders below `folder`; safe as one part of
    a path.

    The query of an address, which may be a secret, is replaced by a digest. Errors: a name that is
    not UTF-8, or a local one with braces.
    """
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"{path!a}: the name of the file is not UTF-8; rename it.") from None
    if "://" not in path and re.search("[{}]", path):
        raise InputError(f"{path!r}: Snakemake reads {{ and }} in the name of a file as a wildcard; rename it.")
    if "://" in path:
        path, question, query = path.partition("?")
        if question:
            own = hashlib.blake2b(query.encode("utf-8"), digest_size=4).hexdigest()
            return f"{name_file(path, folder)}.{own}"
    return re.sub(r"[^\w.+@=,()-]", "_", re.sub(ENDINGS, "", path.removeprefix(folder).strip("/")).replace("/", "."))


def write_shards(shards: Iterable[Shard]) -> str:
    """The manifest: one line of JSON for each shard."""
    return "".join(json.dumps(asdict(shard), ensure_ascii=False) + "\n" for shard in shards)


def read_shards(lines: Iterable[str], manifest: str = "shards.jsonl") -> dict[str, Shard]:
    """Shards of a manifest by name. Errors: a line that is no shard."""
    found = {}
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            found[record["name"]] = Shard(**record | {"files": tuple(record["files"])})
        except (ValueError, TypeError, KeyError) as error:
            sentence = f"{manifest}, line {number}: this is no shard: the next call of Snakemake writes the file again."
            raise InputError(sentence) from error
    return found


def validation_files(shards: Iterable[Shard]) -> list[str]:
    """The files whose documents never train."""
    return [path for shard in shards if shard.split == "validation" for path in shard.files]


def describe_raw(files: Iterable[str], formats: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """{path: bytes, digest and stamp} of the local raw files that were tokenised, by their `formats`."""
    found = {}
    for path in (part for file in files for part in parts_of(file, formats)):
        if Path(path).is_file():
            stamp = stamp_file(Path(path))
            found[str(Path(path))] = {"bytes": stamp[0], "digest": digest_file(Path(path)), "stamp": stamp}
    return found


def check_unchanged(raw: Mapping[str, Mapping[str, object]]) -> None:
    """Refuse raw files that were written to while they were read or digested."""
    for path, found in raw.items():
        if stamp_file(Path(path)) != found["stamp"]:
            raise InputError(f"{path} was written to while it was read; start again when it is whole.")
