"""Raw files as records: JSON lines, parquet and plain text, plain or .gz, .xz,
.zst, local or far away.

The one module besides `outputs` that opens paths, since every script that reads
a corpus needs the same.
"""

import io
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO

import polars as pl
import smart_open
from smart_open.compression import compression_wrapper

from bimix.corpus.documents import BROKEN_STREAM, Rejected, number_lines, too_long
from bimix.errors import InputError

COMPRESSED = r"\.(gz|xz|zst)$"
READ_BYTES = 2**17  # unpacked at once: in the 8 kB of the standard library, the lock changes hands for each
SILENCE_SECONDS = 60  # after which a web server that sends nothing is given up
BATCH_ROWS = 1024  # rows of a parquet file that exist as Python objects at once

Records = Iterator[tuple[int, object]]


def open_stream(path: str) -> BinaryIO:
    """A binary stream of what a file holds once unpacked.

    Http, s3, gs and hf (the hub) addresses are streamed.

    s3 and gs need the packages that smart_open names. Errors: what cannot be opened, or is a pipe
    or a device, which may have no end.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError(f"{path} is no file; check corpus.train and corpus.validation.")
    try:
        if path.startswith("hf://"):
            from huggingface_hub import HfFileSystem  # slow to import, and few need it

            stream = HfFileSystem().open(path, "rb")
            return compression_wrapper(stream, "rb", "infer_from_extension", filename=path)
        far = path.startswith(("http://", "https://"))
        return smart_open.open(path, "rb", transport_params={"timeout": SILENCE_SECONDS} if far else None)
    except (OSError, ImportError, NotImplementedError) as error:
        raise InputError(f"{path} cannot be opened ({error}); check corpus.train and corpus.validation.") from error


def read_lines(path: str, text_field: str, domain_field: str | None, longest: int) -> Records:
    """Lines of a file of JSON lines, numbered from 1."""
    with open_stream(path) as stream, io.BufferedReader(stream, READ_BYTES) as buffered:
        yield from number_lines(buffered, path, longest)


def read_parquet(path: str, text_field: str, domain_field: str | None, longest: int) -> Records:
    """Rows of a parquet file, numbered from 1, as dicts of the columns that hold text and domain.

    Row groups are streamed; each is in memory whole, as it is in the file and unpacked.
    """
    wanted = {field.split(".")[0] for field in (text_field, domain_field) if field}
    number = 0
    try:
        table = pl.scan_parquet(path, glob=False)
        columns = [name for name in table.collect_schema().names() if name in wanted]
        for batch in table.select(columns).collect_batches(chunk_size=BATCH_ROWS, lazy=True, engine="streaming"):
            for start in range(0, len(batch), BATCH_ROWS):
                for row in batch.slice(start, BATCH_ROWS).iter_rows(named=True):
                    number += 1
                    strings = (value for value in row.values() if isinstance(value, str))
                    yield number, too_long(longest) if sum(map(len, strings)) > longest else row
    except (*BROKEN_STREAM, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path}:{number + 1}: the file is damaged here or cannot be read ({error}).") from error


def read_text(path: str, text_field: str, domain_field: str | None, longest: int) -> Records:
    """A file of plain text as one record."""
    with open_stream(path) as stream:
        try:
            content = stream.read(longest + 1)
            if len(content) > longest:
                yield 1, too_long(longest)
                return
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            yield 1, Rejected("invalid UTF-8", f"the file is not UTF-8 ({error.reason} at byte {error.start})")
            return
        except BROKEN_STREAM as error:
            raise InputError(f"{path}: the file breaks off or is damaged ({error}); fetch it again.") from error
    yield 1, write_field(text_field, text)


FORMATS: dict[str, Callable[[str, str, str | None, int], Records]] = {
    "lines": read_lines,
    "parquet": read_parquet,
    "text": read_text,
}


def write_field(name: str, value: object) -> dict[str, object]:
    """The record in which the dotted field `name` holds `value`: "a.b", 1 gives {"a": {"b": 1}}."""
    for key in reversed(name.split(".")):
        value = {key: value}
    return value


def read_records(
    path: str, formats: Mapping[str, str], text_field: str, domain_field: str | None, longest: int
) -> Records:
    """Records of one raw file, numbered from 1; `formats` gives the format (lines,
    parquet, text) by the ending.

    One of more than `longest` bytes is a Rejected.
    """
    name = re.sub(COMPRESSED, "", re.sub(r"\?.*", "", path) if "://" in path else path)
    fitting = [ending for ending in formats if name.endswith(ending)]
    if not fitting:
        raise InputError(f"{path} has none of the endings {', '.join(formats)}; say in corpus.formats what it holds.")
    return FORMATS[formats[max(fitting, key=len)]](path, text_field, domain_field, longest)
