"""Raw files as records: JSON lines or one array of JSON, parquet and plain text, also packed as
.gz, .xz or .zst, on a disk or at an address; and token ids on a disk.

A Rejected stands in for a record that cannot be read.
"""

import codecs
import io
import json
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import BinaryIO

import fsspec
import numpy as np
import polars as pl
import smart_open
import urllib3
from smart_open.compression import compression_wrapper

from bimix.corpus.shards import PACKED, ending_of
from bimix.digests import check_fetched
from bimix.errors import InputError
from bimix.names import named

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdError
else:
    from backports.zstd import ZstdError

READ_BYTES = 2**17  # unpacked at once: in the 8 kB of the standard library, the lock changes hands for each
SILENCE_SECONDS = 60  # after which a web server that sends nothing is given up
BATCH_ROWS = 1024  # rows of a parquet file that exist as Python objects at once
BROKEN_STREAM = (EOFError, OSError, ZstdError, lzma.LZMAError, zlib.error, urllib3.exceptions.HTTPError)
EMPTY = "empty text"  # the one reason that is no fault of the file: counted, and always allowed

Records = Iterator[tuple[int, object]]


class Rejected(Exception):
    """A record that cannot be used; `reason` is its group in the report, the message says more."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def parse_record(line: bytes) -> object:
    """One line as JSON. Raises Rejected: invalid UTF-8, or invalid JSON."""
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Rejected("invalid UTF-8", f"the line is not UTF-8 ({error.reason} at byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise Rejected("invalid JSON", f"the line is not JSON ({error})") from None
    except (RecursionError, ValueError):  # whose own words advise settings of Python
        raise Rejected("invalid JSON", "the line is nested too deeply, or has a number of too many digits") from None


def too_long(longest: int) -> Rejected:
    """A Rejected in the place of a record of more than `longest` bytes."""
    return Rejected(
        "too long",
        f"the record is longer than {longest / 10**6:g} MB; raise corpus.document_megabytes and, to keep to the memory, "
        "set corpus.cut_characters",
    )


class Unpacked(io.RawIOBase):
    """The content of an xz stream to its end; the standard library's reader takes a damaged later part
    for the end, and drops it.
    """

    def __init__(self, packed: BinaryIO) -> None:
        self.packed = packed
        self.unpacker = lzma.LZMADecompressor()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        content = b""
        while not content:
            packed = b""
            if self.unpacker.eof:
                packed = self.unpacker.unused_data.lstrip(b"\0")  # zeros may stand between two parts
                while not packed:
                    more = self.packed.read(READ_BYTES)
                    if not more:
                        return 0
                    packed = more.lstrip(b"\0")
                self.unpacker = lzma.LZMADecompressor()
            elif self.unpacker.needs_input:
                packed = self.packed.read(READ_BYTES)
                if not packed:
                    raise EOFError("the packed file ends before its end marker")
            content = self.unpacker.decompress(packed, len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        self.packed.close()
        super().close()


def open_stream(path: str) -> BinaryIO:
    """A binary stream of a file's unpacked content; http, s3, gs and hf (the hub) addresses are
    streamed.

    s3 and gs need the packages that smart_open names. Errors: a file that cannot be opened; a pipe
    or a device, which may have no end; a packed file of 0 bytes; a pointer of git-lfs.
    """
    if os.path.exists(path):
        if not os.path.isfile(path):
            raise InputError(f"{path} is no file; check corpus.train and corpus.validation.")
        if re.search(PACKED, path) and not os.path.getsize(path):
            raise InputError(f"{path} has 0 bytes, which no packed file has: fetch it again, or name others.")
    check_fetched(path)
    try:
        packing = "disable" if path.endswith(".xz") else "infer_from_extension"
        if path.startswith("hf://"):
            from huggingface_hub import HfFileSystem  # slow to import, and few need it

            stream = compression_wrapper(HfFileSystem().open(path, "rb"), "rb", packing, filename=path)
        else:
            far = path.startswith(("http://", "https://"))
            settings = {"timeout": SILENCE_SECONDS} if far else None
            stream = smart_open.open(path, "rb", compression=packing, transport_params=settings)
        return io.BufferedReader(Unpacked(stream)) if path.endswith(".xz") else stream
    except (OSError, ImportError, NotImplementedError) as error:
        raise InputError(f"{path} cannot be opened ({error}); check corpus.train and corpus.validation.") from error


def list_files(pattern: str) -> list[tuple[str, int]]:
    """Addresses and bytes of remote files that match a glob, in order. Errors: no listing."""
    if pattern.startswith(("http://", "https://")):
        raise InputError(f"{pattern!r} cannot be listed: a web server does not say what it has; name the files.")
    try:
        store, path = fsspec.core.url_to_fs(pattern)
        found = store.glob(path, detail=True)
    except (ImportError, OSError, ValueError, NotImplementedError) as error:
        raise InputError(f"{pattern!r} cannot be listed ({error}); check the address or name the files.") from error
    return sorted(
        (store.unstrip_protocol(name), info["size"]) for name, info in found.items() if info["type"] == "file"
    )


def number_lines(stream: BinaryIO, name: str, longest: int) -> Records:
    """Lines of a binary stream that are not blank, numbered from 1; the records of one array of JSON.

    A line of more than `longest` bytes, its end included, becomes a Rejected; no more of it than
    that is ever in memory. Errors: those of `number_records`.
    """
    number, begins = 0, True
    while line := stream.readline(longest + 1):
        number += 1
        line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if begins and line.lstrip().startswith(b"["):
            yield from number_records(line, stream, name, longest)
            return
        begins = begins and (not line or line.isspace())
        if len(line) > longest:
            while line and not line.endswith(b"\n"):
                line = stream.readline(longest)
            yield number, too_long(longest)
        elif line and not line.isspace():
            yield number, line


def number_records(begun: bytes, stream: BinaryIO, name: str, longest: int) -> Records:
    """Records of an array of JSON, numbered from 1, few at a time in memory; `begun` are its first
    bytes. Errors: it is not UTF-8 or no array, breaks off, or has a record longer than `longest`.
    """
    number, decode, utf8 = 0, json.JSONDecoder().raw_decode, codecs.getincrementaldecoder("utf-8")()
    try:
        text = utf8.decode(begun).lstrip()[1:]
        while not (text := text.lstrip(" \t\r\n,")).startswith("]"):
            try:
                record, end = decode(text)
            except (ValueError, RecursionError) as error:
                more = stream.read(max(READ_BYTES, len(text)))  # as much again, so that few tries read a long record
                if not more or len(text) > longest + READ_BYTES:
                    why = f"record {number + 1} of its array of JSON breaks off, is too long or no JSON ({error})"
                    raise InputError(f"{name}: {why}: mend it, or write a line for each record.") from error
                text += utf8.decode(more)
            else:
                number, text = number + 1, text[end:]
                yield number, record
        if text[1:].strip() or stream.read(READ_BYTES).strip():
            raise InputError(f"{name}: more follows its array of JSON: write an object in each line, or one array.")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: the array of JSON is not UTF-8 after record {number} ({error.reason}).") from error


def read_lines(path: str, fields: list[str], longest: int) -> Records:
    """Lines of a file of JSON lines, numbered from 1, not parsed."""
    with open_stream(path) as stream, io.BufferedReader(stream, READ_BYTES) as buffered:
        yield from number_lines(buffered, path, longest)


def read_parquet(path: str, fields: list[str], longest: int) -> Records:
    """Rows of parquet from 1, as dicts of `fields`, of any length; a row group at a time in memory.
    Errors: a column that is not there, since a file without any would have no row.
    """
    columns = list(dict.fromkeys(field.split(".")[0] for field in fields))
    check_fetched(path)
    table = pl.scan_parquet(path, glob=False)
    there = table.collect_schema().names()
    if lacking := [name for name in columns if name not in there]:
        why = f"the file has no column {lacking[0]!r}, only {named(there)}: set text_field and domain_field, or"
        raise InputError(f"{path}: {why} rename the column (one name holds for all files of a dataset).")
    number = 0
    for batch in table.select(columns).collect_batches(chunk_size=BATCH_ROWS, lazy=True, engine="streaming"):
        for start in range(0, len(batch), BATCH_ROWS):
            for row in batch.slice(start, BATCH_ROWS).iter_rows(named=True):
                number += 1
                yield number, row


def read_text(path: str, fields: list[str], longest: int) -> Records:
    """A file of plain text as one record, in the first of `fields`."""
    with open_stream(path) as stream:
        content = stream.read(longest + 1)
    if len(content) > longest:
        yield 1, too_long(longest)
        return
    try:
        text = content.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        yield 1, Rejected("invalid UTF-8", f"the file is not UTF-8 ({error.reason} at byte {error.start})")
    else:
        yield 1, write_field(fields[0], text)


def read_tokens(path: str, fields: list[str], longest: int) -> Records:
    """Documents as token ids (uint32), as datatrove writes them: `path` holds ids of two or four
    bytes one after the other, `path`.index the end of each document in ids (uint64), little-endian.

    Errors: a file at an address or that cannot be read; the index is of other ids.
    """
    if "://" in path:
        raise InputError(f"{path}: files of tokens are read from a disk: copy it, with its index.")
    try:
        check_fetched(path)
        ends, size = np.fromfile(f"{path}.index", "<u8"), os.path.getsize(path)
        total = int(ends[-1]) if len(ends) else 0
        width = size // max(total, 1)
        if size != total * width or (total and width not in (2, 4)) or (ends[1:] < ends[:-1]).any():
            sentence = f"holds {size} bytes, and its index ends with the id {total}: these are not ids of two or four"
            raise InputError(f"{path} {sentence} bytes. Fetch both files again.")
        ids = np.memmap(path, f"<u{width}", "r") if total else ends
    except OSError as error:
        raise InputError(f"{path} or {path}.index cannot be read ({error}): a file of tokens needs both.") from error
    for number, (start, end) in enumerate(pairwise([0, *ends.tolist()]), start=1):
        document = ids[start:end].astype("<u4")
        yield number, too_long(longest) if document.nbytes > longest else document


FORMATS: dict[str, Callable[[str, list[str], int], Records]] = {
    "lines": read_lines,
    "parquet": read_parquet,
    "text": read_text,
    "tokens": read_tokens,
}


def write_field(name: str, value: object) -> dict[str, object]:
    """The record in which the dotted field `name` holds `value`: "a.b", 1 gives {"a": {"b": 1}}."""
    for key in reversed(name.split(".")):
        value = {key: value}
    return value


def read_records(path: str, formats: Mapping[str, str], fields: list[str], longest: int) -> Records:
    """Records of one raw file, numbered from 1.

    `formats` maps a file's ending to its format; `fields` are the dotted names of the fields to
    read, the text's first. A record of more than `longest` bytes becomes a Rejected, but in parquet.
    Errors: no format fits, or the file breaks off or cannot be read.
    """
    ending = ending_of(path, formats)
    if ending is None:
        raise InputError(f"{path} has none of the endings {', '.join(formats)}; say in corpus.formats what it holds.")
    number = 0
    try:
        for number, record in FORMATS[formats[ending]](path, fields, longest):
            yield number, record
    except (*BROKEN_STREAM, pl.exceptions.PolarsError) as error:
        raise InputError(
            f"{path}:{number + 1}: the file breaks off or is damaged here, or cannot be read ({error}); fetch it again."
        ) from error
