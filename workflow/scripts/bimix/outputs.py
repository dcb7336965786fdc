"""Outputs that are whole or absent: each is written under a temporary name, flushed to disk and
renamed. Before the renaming its digest is noted in the dataset's folder.
"""

import errno
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import polars as pl

from bimix.digests import digest_file, record_of
from bimix.errors import InputError

UMASK = os.umask(0o077)  # it can only be read by setting it: once, before there are threads that write
os.umask(UMASK)


def open_own(path: Path) -> TextIO:
    """Open a lock or a list of the workflow's own to be read and appended to, or create it.

    Errors: it is a link. One in results of others may lead to any file of the user's.
    """
    try:
        return open(
            path, "a+", encoding="utf-8", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o666)
        )
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise InputError(f"{path} is a link, and what it leads to is not written to: delete the link.") from None


def sync(path: Path) -> None:
    """Flush the file or folder `path` to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replacing(path: Path | str, vouched: bool = True) -> Iterator[Path]:
    """Yield a temporary path, renamed to `path` at a sound end; if `vouched`, with a digest."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(path.parent, os.W_OK):  # the error of the temporary file would name that
        raise PermissionError(errno.EACCES, "its folder cannot be written to", str(path))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield temporary
        temporary.chmod(0o666 & ~UMASK)  # safetensors, for one, writes for the owner alone
        sync(temporary)
        if vouched:
            note_digests(path, {path.name: digest_file(temporary)})
        os.replace(temporary, path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def note_digests(path: Path, digests: dict[str, str]) -> None:
    """Note the digests of an output that is about to be renamed to `path`.

    A kill between the two leaves a record that does not match the old output, which the next reader
    reports, and never an output without a record.
    """
    record = record_of(path)
    if record is not None:
        with replacing(record, vouched=False) as temporary:
            temporary.write_text(json.dumps(digests, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def replacing_folder(path: Path | str) -> Iterator[Path]:
    """Yield a new temporary folder next to `path`, which is renamed to `path` when the block ends
    without an error. Temporary folders that killed processes left for the same `path` are removed
    first.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for other in path.parent.iterdir():
        if re.fullmatch(rf"\.{re.escape(path.name)}\.\w{{8}}\.partial", other.name):
            shutil.rmtree(other, ignore_errors=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent))
    temporary.chmod(0o777 & ~UMASK)
    try:
        yield temporary
        found = {}
        for written in sorted(temporary.rglob("*")):
            sync(written)
            if written.is_file():
                found[str(written.relative_to(temporary))] = digest_file(written)
        note_digests(path, found)
        if path.exists():
            shutil.rmtree(path)
        os.replace(temporary, path)
        sync(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_json(path: Path | str, content: object) -> None:
    """Write `content` as indented JSON; numbers keep all their digits, NaN is refused."""
    write_text(path, json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def write_text(path: Path | str, text: str) -> None:
    """Write `text` to `path`."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_pieces(pieces: Iterable[pl.DataFrame], path: Path | str) -> None:
    """Write consecutive tables as one parquet file, with one of them in memory at a time."""
    with replacing(path) as temporary, tempfile.TemporaryDirectory(dir=temporary.parent, prefix=".pieces.") as folder:
        files = []
        for number, piece in enumerate(pieces):
            files.append(Path(folder, f"{number}.parquet"))
            piece.write_parquet(files[-1])
        if len(files) == 1:
            os.replace(files[0], temporary)
        else:
            pl.scan_parquet(files, glob=False).sink_parquet(temporary, maintain_order=True)


def write_table(frame: pl.DataFrame, path: Path | str) -> None:
    """Write `frame` as csv or parquet, by the ending of `path`."""
    with replacing(path) as temporary:
        if Path(path).suffix == ".csv":
            frame.write_csv(temporary)
        else:
            frame.write_parquet(temporary)
