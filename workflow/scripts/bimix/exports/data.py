"""What a training run has of each domain: files or prefixes with their sizes, keyed by the domain's
name.

docs/export.md says what data.json holds, with an example.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from bimix.errors import InputError

# What the sizes of a domain's files may be in. Bytes only share a weight between files.
UNITS = ("tokens", "samples", "documents", "bytes")
RECORDS = ("documents", "samples")
KEYS = ("sequence_length", "records", "domains")
DOMAIN_KEYS = ("train", "validation", "unit", "tokens_per_document", "unique_tokens")
FILE_KEYS = ("path", "size")


@dataclass(frozen=True)
class File:
    """A file, folder or prefix as the consumer calls it; `size` in the unit of its domain."""

    path: str
    size: float | None = None


@dataclass(frozen=True)
class Domain:
    """The files of a domain."""

    train: tuple[File, ...]
    validation: tuple[File, ...] = ()
    unit: str = "tokens"
    tokens_per_document: float | None = None
    unique_tokens: float | None = None


@dataclass(frozen=True)
class Data:
    """All domains by name.

    `records` says what one record of the files is: a document, or a sample of `sequence_length`
    tokens. `name` is that of the file, for sentences.
    """

    domains: Mapping[str, Domain]
    sequence_length: int | None
    records: str | None
    name: str

    @property
    def validation(self) -> list[str]:
        """The validation files of all domains, whatever their weights."""
        return [file.path for domain in self.domains.values() for file in domain.validation]

    def tokens(self, name: str) -> float | None:
        """Unique tokens of a domain: what it says itself, else what its sizes come to; None where
        it has no sizes of that kind.

        Errors: sizes in samples or documents, and not how many tokens one has.
        """
        domain = self.domains[name]
        if domain.unique_tokens is not None:
            return domain.unique_tokens
        sizes = [file.size for file in domain.train]
        if domain.unit == "bytes" or None in sizes:
            return None
        return math.fsum(sizes) * self.tokens_in(name, domain.unit)

    def tokens_in(self, name: str, unit: str) -> float:
        """Tokens in one of a unit. Errors: they are not known."""
        if unit == "documents":
            found, key = self.domains[name].tokens_per_document, f"domains/{name}/tokens_per_document"
        else:
            found, key = (1, "") if unit == "tokens" else (self.sequence_length, "sequence_length")
        if found is None:
            raise InputError(f"{self.name} has no key {key!r}: it says how many tokens one of the {unit} has.")
        return found


def as_data(content: Mapping, name: str) -> Data:
    """The content of data.json, checked.

    Errors: an unknown key, a value of another kind, a domain without files, a path twice.
    """
    _known(content, KEYS, name, "")
    length = _number(content, "sequence_length", name, "")
    if length is not None and length != int(length):
        raise InputError(f"{name}: the value of 'sequence_length' is {length!r}: it must be a whole number.")
    records = content.get("records")
    if records not in (None, *RECORDS):
        raise InputError(f"{name}: the value of 'records' is {records!r}: it must be one of {', '.join(RECORDS)}.")
    domains = content.get("domains")
    if not isinstance(domains, dict) or not domains:
        raise InputError(f"{name} has no key 'domains': it must be an object of domains and their files.")
    found = {domain: _domain(block, name, f"domains/{domain}") for domain, block in domains.items()}
    seen: dict[str, str] = {}
    for domain, block in found.items():
        for path in [file.path for file in (*block.train, *block.validation)]:
            if path in seen:
                raise InputError(f"{name}: {path!r} is there twice, of {seen[path]!r} and of {domain!r}.")
            seen[path] = domain
    return Data(found, None if length is None else int(length), records, name)


def _domain(block: object, name: str, key: str) -> Domain:
    if not isinstance(block, dict):
        raise InputError(f"{name}: {key} is no object: it needs the key 'train', a list of files.")
    _known(block, DOMAIN_KEYS, name, key)
    unit = block.get("unit", "tokens")
    if unit not in UNITS:
        raise InputError(f"{name}: the value of '{key}/unit' is {unit!r}: it must be one of {', '.join(UNITS)}.")
    files = {split: _files(block.get(split, []), name, f"{key}/{split}") for split in ("train", "validation")}
    if not files["train"]:
        raise InputError(f"{name}: {key} has no files: it needs the key 'train', a list of them.")
    numbers = {each: _number(block, each, name, key) for each in ("tokens_per_document", "unique_tokens")}
    return Domain(unit=unit, **files, **numbers)


def _files(entries: object, name: str, key: str) -> tuple[File, ...]:
    """The files of a list of paths, or of objects with path and size."""
    if not isinstance(entries, list):
        raise InputError(f"{name}: {key} is no list: it holds paths, or objects with 'path' and 'size'.")
    files = []
    for number, entry in enumerate(entries, 1):
        place = f"{key}, file {number}"
        entry = {"path": entry} if isinstance(entry, str) else entry
        if not isinstance(entry, dict) or not isinstance(entry.get("path"), str) or not entry["path"]:
            raise InputError(f"{name}: {place} has no path: it is one, or an object with 'path' and 'size'.")
        _known(entry, FILE_KEYS, name, place)
        if any(ord(mark) < 32 for mark in entry["path"]):
            raise InputError(
                f"{name}: the path of {place}, {entry['path']!r}, holds a line break or control character."
            )
        files.append(File(entry["path"], _number(entry, "size", name, place)))
    return tuple(files)


def _known(block: Mapping, keys: tuple[str, ...], name: str, place: str) -> None:
    strange = [key for key in block if key not in keys]
    if strange:
        raise InputError(
            f"{name}: {place or 'it'} has the key {strange[0]!r}, which is not known: it may have {', '.join(keys)}."
        )


def _number(block: Mapping, key: str, name: str, place: str) -> float | None:
    """A number above 0, or None where there is none."""
    value = block.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        place = f"{place}/{key}" if place else key
        raise InputError(f"{name}: the value of {place!r} is {value!r}: it must be a finite number above 0.")
    return value
