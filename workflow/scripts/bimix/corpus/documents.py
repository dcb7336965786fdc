"""Documents of a corpus: (text, domain) of records; the hash of the text decides the split.

The text of a document from a file of tokens is its ids, an array of uint32 without the end of text.
"""

import argparse
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from bimix.blocks import checked
from bimix.corpus.reading import Reading
from bimix.corpus.sources import EMPTY, Rejected, parse_record, read_records, too_long
from bimix.errors import InputError
from bimix.tables import parsed_json

Text = str | np.ndarray


def reading_parser(description: str) -> argparse.ArgumentParser:
    """A parser with the flags of every script that reads a corpus: the shards, and how to read."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--shards", type=Path, required=True, help="manifest of the shards")
    parser.add_argument("--reading", type=_reading, required=True, help="fields of reading.Reading, JSON")
    return parser


def _reading(text: str) -> Reading:
    try:
        return checked(Reading, parsed_json(text, "--reading"), "--reading")
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


class Reader:
    """Reads the documents of raw files and counts records, and the rejected ones by `reasons`.

    `domains` maps the values of the dotted `domain_field` to domains. Without such a field it has
    one entry, the domain of every record. `ids`: the id of the end of text and the number of ids,
    with which files of tokens are compared. `allowed` is the share of records that may be rejected:
    at 0 the first one raises InputError with its place, else `check` does, after all are read.
    """

    def __init__(
        self,
        reading: Reading,
        domain_field: str | None = None,
        domains: Mapping[str, str] | None = None,
        ids: tuple[int, int] | None = None,
    ) -> None:
        self.reading = reading
        self.ids = ids
        self.longest = int(reading.document_megabytes * 10**6)
        self.domain_field = domain_field
        self.domains = domains or {"": ""}
        self.allowed = reading.rejects
        self.records = 0
        self.reasons: Counter[str] = Counter()
        self.first = ""  # the first rejected record that is not empty, and why
        self.empty: list[str] = []  # files that gave no document and no fault

    @property
    def kept(self) -> int:
        """The number of records that became documents."""
        return self.records - self.reasons.total()

    def read(self, path: str) -> Iterator[tuple[Text, str]]:
        """Documents (text, domain) of a raw file. Errors: of `read_records`; the first Rejected."""
        fields = [field for field in (self.reading.text_field, self.domain_field) if field]
        useful = self.records - self.reasons[EMPTY]
        for number, record in read_records(path, self.reading.formats, fields, self.longest):
            self.records += 1
            try:
                document = self.parse(record)
            except Rejected as rejection:
                self.reject(f"{path}:{number}", rejection)
            else:
                yield document
        if self.records - self.reasons[EMPTY] == useful:
            self.empty.append(path)

    def reject(self, place: str, rejection: Rejected) -> None:
        self.reasons[rejection.reason] += 1
        if rejection.reason == EMPTY:
            return
        self.first = self.first or f"{place}: {rejection}"
        if self.allowed == 0:
            raise InputError(f"{self.first}. Mend the record or allow a share of rejects (corpus.rejects).")

    def check(self) -> None:
        """Refuse more rejected records than are allowed."""
        faults = self.reasons.total() - self.reasons[EMPTY]
        if faults > self.allowed * self.records:
            raise InputError(
                f"{faults} of {self.records} records were rejected, more than the share {self.allowed:g} that "
                f"corpus.rejects allows; the first is {self.first}."
            )

    def parse(self, record: object) -> tuple[Text, str]:
        """Text and domain of a line of JSON, a parsed record, token ids or a Rejected. Raises
        Rejected.
        """
        if isinstance(record, Rejected):
            raise record
        if isinstance(record, np.ndarray):
            return self.parse_ids(record)
        record = parse_record(record) if isinstance(record, bytes) else record
        field = self.reading.text_field
        text = lookup_field(record, field)
        if not isinstance(text, str):
            raise Rejected("text is no string", f"field {field!r} holds {type(text).__name__}, not a string")
        try:
            size = len(text.encode("utf-8"))
        except UnicodeEncodeError:
            raise Rejected("lone surrogate", f"field {field!r} holds half a surrogate pair, which is no text") from None
        if size > self.longest:  # of a row of parquet, which is read whole
            raise too_long(self.longest)
        if self.domain_field is None:
            (domain,) = self.domains.values()
        else:
            label = lookup_field(record, self.domain_field)
            if not isinstance(label, str) or label not in self.domains:
                known = ", ".join(map(repr, sorted(self.domains)))
                raise Rejected("unknown domain", f"field {self.domain_field!r} holds {label!r}, none of {known}")
            domain = self.domains[label]
        if not text:
            raise Rejected(EMPTY, "the text is empty")
        return text, domain

    def parse_ids(self, ids: np.ndarray) -> tuple[np.ndarray, str]:
        """Ids of a document without its end of text, and its domain. Raises Rejected."""
        if self.domain_field is not None:
            raise Rejected("missing field", "files of tokens have no fields: name those of each domain (corpus.train)")
        if len(ids) < 2:
            raise Rejected(EMPTY, "the text is empty")
        if self.ids is not None:
            end, number = self.ids
            if ids[-1] != end or ids.max() >= number:
                detail = (
                    f"the document ends with the id {ids[-1]} and holds {ids.max()}, but the end of text is {end} of"
                )
                raise Rejected("other tokens", f"{detail} {number} ids; name the tokenizer that wrote it (tokenizer)")
        (domain,) = self.domains.values()
        return ids[:-1], domain


def held_out_keys(reading: Reading, paths: Iterable[str]) -> frozenset[bytes]:
    """Hashes of the documents of validation files and of their pieces, which never train. Errors:
    of `Reader`.
    """
    reader = Reader(reading)
    texts = (text for path in paths for text, _ in reader.read(path))
    keys = frozenset(hash_text(part) for text in texts for part in (text, *cut_text(text, reading.cut_characters)))
    reader.check()
    return keys


def lookup_field(record: object, name: str) -> object:
    """Value of the dotted field `name`, also within JSON written as a string. Raises Rejected."""
    value = record
    for key in name.split("."):
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                value = None
        if not isinstance(value, dict) or key not in value:
            raise Rejected("missing field", f"the record has no field {name!r}; set text_field and domain_field")
        value = value[key]
    return value


def cut_text(text: Text, limit: int | None) -> list[Text]:
    """Pieces of at most `limit` characters whose concatenation is `text`. A cut falls after the
    last line end or before the last space that allows it, or at the limit if there is none. Token
    ids are one piece.
    """
    if not isinstance(text, str):
        return [text]
    pieces, start = [], 0
    while limit is not None and len(text) - start > limit:
        after_line = text.rfind("\n", start, start + limit) + 1
        before_space = text.rfind(" ", start + 1, start + limit + 1)
        end = max(after_line, before_space)
        if end <= start:
            end = start + limit
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]]


def hash_text(text: Text) -> bytes:
    """16 bytes of the text alone, so that its split and sample are the same wherever it is read."""
    content = text.encode("utf-8") if isinstance(text, str) else text.tobytes()
    return hashlib.blake2b(content, digest_size=16).digest()


def split_hashes(content: bytes) -> frozenset[bytes]:
    """The concatenated hashes in `content`; about 100 bytes of memory each."""
    return frozenset(content[start : start + 16] for start in range(0, len(content), 16))


def is_within(part: bytes, share: float) -> bool:
    """Whether 8 bytes of a hash, read as a fraction of one, lie below `share`: true for that share
    of all documents.

    The first 8 bytes of `hash_text` decide the split, the last 8 decide any choice that must not
    depend on the split.
    """
    return int.from_bytes(part, "big") < share * 2**64


def split_document(text: Text, key: bytes, share: float, longest: int) -> tuple[Text, Text]:
    """(training text, held-out text) of a document with the hash `key`; one of them may be empty.

    A document of up to `longest` characters is held out whole, with the probability `share`. Of a
    longer one the end may be held out, from a line end or a space on: about `longest` characters,
    with the probability that makes it `share` of the characters on average; or always `share` of
    them if that is more. So a domain of few long documents has held-out text as well. The text
    alone decides, whatever its file and the length of pieces. Token ids are always whole.
    """
    if len(text) <= longest or not isinstance(text, str):
        return (text[:0], text) if is_within(key[:8], share) else (text, text[:0])
    size = max(longest, int(share * len(text)))
    if not is_within(key[:8], share * len(text) / size):
        return text, ""
    start = len(text) - size
    last = start + size // 2  # a cut never takes more than half of the end away
    after_line = text.find("\n", start - 1, last) + 1
    before_space = text.find(" ", start, last)
    start = after_line or (before_space if before_space >= 0 else start)
    return text[:start], text[start:]
