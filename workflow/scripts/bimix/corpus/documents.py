"""Documents of a corpus: records become (text, domain) or a reason why not.

Hashes of whole documents decide which of them, or which ends of long ones, are held out.
"""

import hashlib
import json
import lzma
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

import urllib3

from bimix.errors import InputError

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdError
else:
    from backports.zstd import ZstdError

EMPTY = "empty text"  # the one reason that is no fault of the file: counted, never held against it
ENDS = "ends of documents whose beginnings train"  # as logs say it
BROKEN_STREAM = (EOFError, OSError, ZstdError, lzma.LZMAError, zlib.error, urllib3.exceptions.HTTPError)


class Rejected(Exception):
    """A record that is no document; `reason` groups such records in the
    report, the message says more.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def lookup_field(record: object, name: str) -> object:
    """Value of the dotted field `name`; an object on the way may itself be written as a JSON
    string, as some mirrors do.
    """
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


def parse_record(line: bytes) -> object:
    """One line as JSON; invalid UTF-8 and invalid JSON are told apart."""
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Rejected("invalid UTF-8", f"the line is not UTF-8 ({error.reason} at byte {error.start})") from None
    except RecursionError:
        raise Rejected("invalid JSON", "the line is not JSON that can be read (nested too deeply)") from None
    except ValueError as error:
        raise Rejected("invalid JSON", f"the line is not JSON ({error})") from None


def parse_document(
    raw: object, text_field: str, domain_field: str | None, domains: Mapping[str, str]
) -> tuple[str, str]:
    """Text and domain of one record: a line of JSON, a parsed record, or a
    Rejected that stands for one.

    `domains` maps the values of `domain_field` to domains. Without a domain field it has one entry,
    the domain of every line. Raises Rejected.
    """
    if isinstance(raw, Rejected):
        raise raw
    record = parse_record(raw) if isinstance(raw, bytes) else raw
    text = lookup_field(record, text_field)
    if not isinstance(text, str):
        raise Rejected("text is no string", f"field {text_field!r} holds {type(text).__name__}, not a string")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise Rejected(
            "lone surrogate", f"field {text_field!r} holds half a surrogate pair, which is no text"
        ) from None
    if domain_field is None:
        (domain,) = domains.values()
    else:
        label = lookup_field(record, domain_field)
        if not isinstance(label, str) or label not in domains:
            known = ", ".join(sorted(domains))
            raise Rejected("unknown domain", f"field {domain_field!r} holds {label!r}, which is none of {known}")
        domain = domains[label]
    if not text:
        raise Rejected(EMPTY, "the text is empty")
    return text, domain


def too_long(longest: int) -> Rejected:
    """What stands for a record of more than `longest` bytes."""
    return Rejected(
        "too long",
        f"the record is longer than {longest / 10**6:g} MB; raise corpus.document_megabytes and, to keep to the memory, "
        "set corpus.cut_characters",
    )


def number_lines(stream: BinaryIO, name: str, longest: int) -> Iterator[tuple[int, bytes | Rejected]]:
    """Lines of a binary stream that are not blank, numbered from 1; a stream that
    breaks off is an InputError.

    Of a line of more than `longest` bytes, its end included, never more than that
    is held: it is a Rejected.
    """
    number = 0
    try:
        while line := stream.readline(longest + 1):
            number += 1
            if len(line) > longest:
                while line and not line.endswith(b"\n"):
                    line = stream.readline(longest)
                yield number, too_long(longest)
            elif not line.isspace():
                yield number, line
    except BROKEN_STREAM as error:
        raise InputError(
            f"{name}:{number + 1}: the file breaks off or is damaged here ({error}); fetch it again."
        ) from error


def cut_text(text: str, limit: int | None) -> list[str]:
    """Pieces of at most `limit` characters whose concatenation is `text`.

    A cut falls after the last line end or before the last space that allows it, or at the
    limit where there is none.
    """
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


def hash_text(text: str) -> bytes:
    """16 bytes that depend on the text alone: the same text is in the same split and
    sample wherever it is read.
    """
    return hashlib.blake2b(text.encode("utf-8"), digest_size=16).digest()


def split_hashes(content: bytes) -> frozenset[bytes]:
    """Hashes that stand one after the other in `content`; about 100 bytes of memory each."""
    return frozenset(content[start : start + 16] for start in range(0, len(content), 16))


def is_within(part: bytes, share: float) -> bool:
    """Whether 8 bytes of a hash, read as a fraction of one, lie below `share`: true for
    that share of all documents.

    The first 8 bytes of `hash_text` decide the split, the last 8 any choice
    that must not depend on it.
    """
    return int.from_bytes(part, "big") < share * 2**64


def split_document(text: str, key: bytes, share: float, longest: int) -> tuple[str, str]:
    """(what trains, what is held out) of a document with the hash `key`; one of them may be "".

    Up to `longest` characters a document is held out whole, with the probability `share`. Of a
    longer one the end is, from a line end or a space on: about `longest` characters, with such a
    probability that it is `share` of the characters in the mean, or always `share` of them where
    that is more. So a domain of few long documents has held-out text as well. The text alone
    decides, so all files and all lengths of pieces agree.
    """
    if len(text) <= longest:
        return ("", text) if is_within(key[:8], share) else (text, "")
    size = max(longest, int(share * len(text)))
    if not is_within(key[:8], share * len(text) / size):
        return text, ""
    start = len(text) - size
    last = start + size // 2  # a cut never takes more than half of the end away
    after_line = text.find("\n", start - 1, last) + 1
    before_space = text.find(" ", start, last)
    start = after_line or (before_space if before_space >= 0 else start)
    return text[:start], text[start:]


@dataclass
class Reader:
    """Reads documents and keeps account: records read = kept + rejected (by reason).

    `rejects` is the share of records that may be rejected; at 0 the first one raises InputError
    with its place, otherwise `check` does, once all is read.
    """

    text_field: str
    domain_field: str | None
    domains: Mapping[str, str]
    rejects: float
    records: int = 0
    kept: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    first_fault: str = ""

    def read(self, records: Iterable[tuple[int, object]], name: str) -> Iterator[tuple[str, str]]:
        """Documents (text, domain) of the numbered records of a file called `name`."""
        for number, raw in records:
            self.records += 1
            try:
                text, domain = parse_document(raw, self.text_field, self.domain_field, self.domains)
            except Rejected as rejection:
                self.rejected[rejection.reason] += 1
                if rejection.reason != EMPTY:
                    self._fault(f"{name}:{number}: {rejection}")
                continue
            self.kept += 1
            yield text, domain

    def check(self) -> None:
        """Raise InputError if more records were rejected than the stated share allows."""
        faults = self.rejected.total() - self.rejected[EMPTY]
        if faults > self.rejects * self.records:
            raise InputError(
                f"{faults} of {self.records} records were rejected, more than the share {self.rejects:g} that "
                f"corpus.rejects allows; the first is {self.first_fault}."
            )

    def _fault(self, sentence: str) -> None:
        if self.rejects == 0:
            raise InputError(f"{sentence}. Mend the record or allow a share of rejects (corpus.rejects).")
        self.first_fault = self.first_fault or sentence
