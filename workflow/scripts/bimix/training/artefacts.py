"""The outputs of a finished run: stored next to its checkpoints, restored if they are missing,
checked when they are read.

A run stores its outputs in the folder of its configuration, and hard-links them to the paths that
the workflow declares, so that files the workflow deletes are not lost. run.json is written last: it
marks the run as finished, with the digest of each other file. Its own digest is recorded like that
of any output (`digests`).
"""

import errno
import json
import os
import shutil
import sys
from pathlib import Path

from bimix import digests
from bimix.digests import digest_file
from bimix.errors import InputError
from bimix.outputs import replacing, write_json

REPORT = "run.json"
NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)


def finish(folder: Path, report: dict, names: list[str], kept: dict[str, str]) -> None:
    """Write `report` as run.json, with digests of `names` in `folder` and of those `kept`."""
    files = {name: digest_file(folder / name) for name in names}
    write_json(folder / REPORT, report | {"files": files | kept})


def is_finished(folder: Path, names: list[str]) -> bool:
    """Whether the run in `folder` has finished, with all files `names` as they were written.

    A run with a damaged file counts as unfinished: its files are moved to damaged/, with a sentence
    on standard error.
    """
    bad = REPORT
    try:
        files = json.loads(digests.check(folder / REPORT).read_text(encoding="utf-8"))["files"]
        stored = [name for name in names if name != REPORT]
        bad = next((name for name in stored if not is_stored(folder / name, files.get(name))), None)
    except FileNotFoundError:
        return False
    except (ValueError, KeyError, TypeError):  # an InputError of `check` is a ValueError
        pass
    if bad is None:
        return True
    (folder / "damaged").mkdir(exist_ok=True)
    for name in names:
        if (folder / name).exists():
            os.replace(folder / name, folder / "damaged" / name)
    print(
        f"{folder / bad} is missing or not as it was written; what the run had left was moved to {folder / 'damaged'}"
        f" and is made again from its last checkpoint.",
        file=sys.stderr,
    )
    return False


def is_stored(path: Path, digest: str | None) -> bool:
    return path.is_file() and digest_file(path) == digest


def deliver(folder: Path, places: dict[str, Path]) -> list[Path]:
    """Put the file of that name in `folder` at each of `places`, by a hard link or, if the file
    system refuses one, a copy; return the places that lacked it, in order.
    """
    changed = []
    for name, place in places.items():
        source = folder / name
        if place.exists() and (place.samefile(source) or digest_file(place) == digest_file(source)):
            continue
        with replacing(place, vouched=name == REPORT) as temporary:
            link(source, temporary)
            os.utime(temporary)  # made now, after its inputs
        changed.append(place)
    return changed


def link(source: Path, target: Path) -> None:
    """Make `target` a hard link to `source` or, if the file system refuses one, a copy."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        try:
            shutil.copyfile(source, target)
        except OSError as full:
            raise InputError(f"{target.parent} has no room for {source} ({full}); make room and start again.") from full


def check(path: Path) -> Path:
    """`path`, a file of a finished run, after a check of its digest in the run.json next to it."""
    report = path.with_name(REPORT)
    try:
        expected = json.loads(digests.check(report).read_text(encoding="utf-8")).get("files", {}).get(path.name)
    except FileNotFoundError:
        expected = None
    except InputError:
        raise
    except (ValueError, AttributeError) as error:
        raise InputError(f"{report} is damaged ({error}); delete it, and the run's state puts it back.") from error
    check_digest(path, expected, report)
    return path


def check_digest(path: Path, expected: str | None, report: Path) -> str:
    """Digest of a file; a remark if none was `expected`. Errors: the digests differ."""
    if not path.is_file():
        raise InputError(f"{path} does not exist; request its run again, which puts it back or makes it.")
    found = digest_file(path)
    if expected is None:
        print(f"{path} was not checked: {report} has no digest of it.", file=sys.stderr)
    elif found != expected:
        raise InputError(
            f"{path} is not as it was written: its digest is {found}, {expected} in {report}; delete it to have it put"
            f" back from the run's state, or made again."
        )
    return found
