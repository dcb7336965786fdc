"""Digests of files, and stamps that every change of a file alters.

A dataset's folder keeps a record of each output in .digests/, at the output's own path: a JSON
object with the digest of the file, or of each file of a folder. Writers note it (`outputs`),
readers `check` it, and `verify` walks it. Each output has its own record, replaced whole, because
concurrent jobs that append to one file on NFS would damage it.
"""

import hashlib
import json
import os
from pathlib import Path

from bimix.errors import InputError

RECORDS = ".digests"
POINTER = b"version https://git-lfs.github.com/spec/"  # what git-lfs leaves in the place of a file begins so


def digest_file(path: Path) -> str:
    """blake2b of a file, 32 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def stamp_file(path: Path) -> list[int]:
    """Bytes of a file, its mtime and ctime in ns; `cp -p` and `rsync -t` set the mtime only."""
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def home_of(path: Path | str) -> Path | None:
    """The folder of a file's dataset: the nearest with records, or results/{dataset}; or None."""
    named = None
    for folder in Path(os.path.abspath(path)).parents:
        if (folder / RECORDS).is_dir():
            return folder
        if named is None and folder.parent.name == "results":
            named = folder
    return named


def record_of(path: Path | str) -> Path | None:
    """The record of an output, file or folder; None outside a dataset's folder, and for a file in a
    folder that is being written, since the folder has the record.
    """
    home = home_of(path)
    inside = home and Path(os.path.relpath(path, home))
    if home is None or any(name.endswith(".partial") for name in inside.parts):
        return None
    return home / RECORDS / f"{inside}.json"


def read_record(record: Path) -> dict[str, str]:
    """{path inside the output: digest} of an output. Errors: the record is damaged."""
    try:
        noted = json.loads(record.read_text(encoding="utf-8"))
        if not isinstance(noted, dict) or not all(isinstance(digest, str) for digest in noted.values()):
            raise ValueError("no object of digests")
    except ValueError as error:
        raise InputError(
            f"{record} is damaged ({error}); delete the file it is of, and both are made again."
        ) from error
    return noted


def noted_digest(path: Path) -> tuple[str, Path] | None:
    """The digest noted when a file was written, and the record that holds it; None without any."""
    home = home_of(path)
    if home is None:
        return None
    inside = Path(os.path.relpath(path, home))
    for output in (inside, *inside.parents[:-1]):
        record = home / RECORDS / f"{output}.json"
        if record.is_file():
            digest = read_record(record).get(inside.name if output == inside else str(inside.relative_to(output)))
            return digest and (digest, record)
    return None


def check_fetched(path: Path | str) -> None:
    """Errors: a local file that is there is a pointer of git-lfs."""
    if os.path.isfile(path):
        with Path(path).open("rb") as file:
            if file.read(len(POINTER)) == POINTER:
                raise InputError(f"{path} is a pointer of git-lfs, not the file: fetch its content by `git lfs pull`.")


def check(path: Path | str) -> Path:
    """`path`, a file, after its bytes were compared with the digest that its writer noted.

    A file without a digest, such as a user's own table, is accepted. Errors: the digests differ; a
    pointer of git-lfs.
    """
    path = Path(path)
    for _ in range(2):
        noted = noted_digest(path) if path.is_file() else None
        if noted is None:
            check_fetched(path)
            return path
        expected, record = noted
        found = digest_file(path)
        if found == expected:
            return path
        for folder in (record.parent, path.parent):  # on NFS this asks the server for names that may have moved
            os.listdir(folder)
    raise InputError(
        f"{path} is not as it was written: its digest is {found}, {expected} in {record}; delete it to have it made"
        f" again, or that record where the change is your own."
    )
