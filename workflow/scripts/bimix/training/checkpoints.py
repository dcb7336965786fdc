"""Checkpoints of a run: written whole, checked when they are read, the last two kept, a folder for
each configuration.

The folder of a run holds a lock and one folder for each configuration that it was trained with,
named by the key of its fingerprint. It holds fingerprint.json, the checkpoints, the kept weights of
evaluations, attempts.jsonl and, at the end, the outputs. Another configuration has its own folder;
nothing is overwritten.
"""

import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

import torch

from bimix.errors import NO_ROOM, InputError
from bimix.outputs import open_own, replacing, write_json
from bimix.training.artefacts import link
from bimix.training.costs import CHECKPOINTS

SETTLING = 5  # seconds
PROGRESS = "progress.json"
HALF_WRITTEN = re.compile(r"\..*\.partial|\.tmp\w{6}")  # ours, and those of safetensors
PATIENCE = 60  # seconds that a process waits for a checkpoint which the first one sees; directories of NFS lag


def lock(folder: Path, patience: float) -> TextIO:
    """Lock the run for this process until the returned file is closed or the process ends in any
    way.

    Another holder is left over from an earlier attempt: the Snakemake that started it was killed,
    or its node was given up too early. The file `stop` asks it to save its state and stop within
    `patience` seconds. The file names the newest attempt: other waiting attempts end at once, so
    that the run is handed over once. The next holder removes the file. On NFS the lock is kept on
    the server, so that it holds between nodes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = open_own(folder / "lock")
    until, request = time.monotonic() + patience, None
    while True:
        held = try_lock(handle, folder)
        if request is not None:
            check_newest(folder, request)
        if held:
            break
        if time.monotonic() > until:
            handle.seek(0)
            raise InputError(
                f"Another process works in {folder} and did not stop within {patience:.0f} s; wait for it or stop it. It"
                f" is {handle.read().strip() or 'not known which'}."
            )
        if request is None:
            request = json.dumps(whereabouts() | {"request": secrets.token_hex(8)})
            with replacing(folder / "stop", vouched=False) as temporary:
                temporary.write_text(request, encoding="utf-8")
        time.sleep(0.5)
    (folder / "stop").unlink(missing_ok=True)
    handle.truncate(0)
    handle.write(json.dumps(whereabouts()) + "\n")
    handle.flush()
    if request is not None:
        time.sleep(SETTLING)  # the Snakemake of the attempt before removes that one's outputs, which are ours too
    return handle


def try_lock(handle: TextIO, folder: Path) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise InputError(f"{folder} cannot be locked ({error.strerror}); use a file system with locks.") from error
        return False
    return True


def check_newest(folder: Path, request: str) -> None:
    """Errors: `request` is not the last one, since a newer attempt has come."""
    try:
        newest = (folder / "stop").read_text(encoding="utf-8")
    except FileNotFoundError:
        newest = None
    if newest != request:
        raise InputError(
            f"A later attempt goes on with the training in {folder}, so this one ends before it begins; only one"
            f" Snakemake should run in this folder."
        )


def must_stop(folder: Path) -> bool:
    """Whether another attempt waits for the run."""
    return (folder / "stop").exists()


def whereabouts() -> dict:
    return {"host": socket.gethostname(), "process": os.getpid(), "job": os.environ.get("SLURM_JOB_ID")}


def note(folder: Path, event: str, step: int, **more: object) -> None:
    """Append what an attempt did, where and when, to attempts.jsonl, under the lock."""
    line = {"time": time.time(), "event": event, "step": step} | whereabouts() | more
    path = folder / "attempts.jsonl"
    # a line that a kill truncated gets its end first, so that this one is valid
    cut = path.exists() and not path.read_bytes().endswith(b"\n")
    with open_own(path) as lines:
        lines.write(("\n" if cut else "") + json.dumps(line) + "\n")


def show_progress(folder: Path, content: dict) -> None:
    """Write the progress.json of a run with its checkpoints in `folder`, one configuration's
    folder, next to the run's outputs.
    """
    with replacing(folder.parents[1] / PROGRESS, vouched=False) as temporary:
        temporary.write_text(json.dumps(content) + "\n", encoding="utf-8")


def attempts(folder: Path) -> list[dict]:
    """The lines of attempts.jsonl without truncated ones."""
    try:
        written = (folder / "attempts.jsonl").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    lines = []
    for text in written.splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:
            continue
    return [line for line in lines if isinstance(line, dict) and "event" in line]


def key_of(fingerprint: dict) -> str:
    """The name of a configuration's folder, 16 hexadecimal digits; 1 and 1.0 are one number."""
    same = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in fingerprint.items()
    }
    text = json.dumps(same, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode("utf-8"), digest_size=8).hexdigest()


def claim(folder: Path, fingerprint: dict) -> tuple[Path, str | None]:
    """The folder of a configuration inside the run's `folder`, and a sentence if it is new while
    older ones exist. Call it while holding the lock, since it removes files of killed attempts.
    """
    own = folder / key_of(fingerprint)
    others = [path.parent for path in folder.glob("*/fingerprint.json") if path.parent != own]
    for configuration in (own, *others):
        for path in (*configuration.glob(".*"), *configuration.glob("*/.*")):
            if HALF_WRITTEN.fullmatch(path.name):
                path.unlink(missing_ok=True)
    begins = not (own / "fingerprint.json").exists()
    if begins and take_over(folder, own):
        return own, f"{own} is taken over from another run of this very configuration, which has ended."
    if begins:
        write_json(own / "fingerprint.json", fingerprint)
    if not begins or not others:
        return own, None
    newest = max(others, key=lambda path: (path / "fingerprint.json").stat().st_mtime)
    stored = json.loads((newest / "fingerprint.json").read_text(encoding="utf-8"))
    differing = sorted(name for name in stored.keys() | fingerprint.keys() if stored.get(name) != fingerprint.get(name))
    changes = "; ".join(f"{name}: {stored.get(name)} there, {fingerprint.get(name)} now" for name in differing)
    return own, (
        f"{own} begins next to another configuration of this run, which is kept in {newest} and differs in {changes};"
        f" delete that folder if its room is needed and you will not go back to it."
    )


def take_over(folder: Path, own: Path) -> bool:
    """Whether another run of the model has finished in the configuration of `own`; if so, its
    outputs are hard-linked here.

    Two names of one mixture are one training. Only below runs/{model}/.
    """
    if folder.name != "state" or folder.parts[-4:-3] != ("runs",):
        return False
    for report in sorted(folder.parent.parent.glob(f"*/state/{own.name}/run.json")):
        for path in report.parent.rglob("*"):
            left = path.match("step-*.pt") or path.parent.name == "damaged" or path.name.startswith(".")
            if path.is_file() and path != report and not left:
                target = own / path.relative_to(report.parent)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.unlink(missing_ok=True)
                if path.name == "attempts.jsonl":  # to which lines are added
                    shutil.copyfile(path, target)
                else:
                    link(path, target)
        write_json(own / report.name, json.loads(report.read_text(encoding="utf-8")))  # last: all is there
        return True
    return False


def sweep(places: Iterable[Path]) -> None:
    """Remove half-written files of killed attempts next to the outputs `places`."""
    for place in places:
        if place.parent.is_dir():
            for path in place.parent.iterdir():
                if re.fullmatch(rf"\.{re.escape(place.name)}\.\d+\.partial", path.name):
                    path.unlink(missing_ok=True)


def check_room(folder: Path, size: int) -> None:
    """Errors: the disk or a quota has no room for the checkpoints of a run that begins, of `size`
    bytes each: those kept and the one being written.
    """
    free, probe = shutil.disk_usage(folder).free, folder / f".room.{os.getpid()}.partial"
    try:
        with open(probe, "wb") as file:
            if free >= (CHECKPOINTS + 1) * size:
                os.posix_fallocate(file.fileno(), 0, size)  # quotas are in no count of free bytes
                return
            full = "the disk is full"
    except OSError as error:
        if error.errno not in (*NO_ROOM, errno.EFBIG):
            raise
        full = error.strerror
    finally:
        probe.unlink(missing_ok=True)
    raise InputError(
        f"{folder} has no room for {CHECKPOINTS + 1} checkpoints of {size / 1e6:,.1f} MB each: {full}, with {free / 1e6:,.1f} MB"
        f" free on the disk; make room and start again."
    )


def save(folder: Path, state: dict) -> None:
    """Write the state after `state["step"]` updates, keep the last two, also on a full disk."""
    path = folder / f"step-{state['step']:09d}.pt"
    try:
        with replacing(path, vouched=False) as temporary:  # the archive has checksums of its own
            torch.save(state, temporary)
    except (OSError, RuntimeError) as error:  # torch's own writer turns a full disk into a RuntimeError
        free = shutil.disk_usage(folder).free / 1e6
        raise InputError(
            f"{path} cannot be written ({error}): the disk or a quota is probably full, with {free:,.1f} MB free on the"
            f" disk; make room and start again."
        ) from error
    for old in sorted(folder.glob("step-*.pt"))[:-CHECKPOINTS]:
        old.unlink()


class Damaged(Exception):
    """A checkpoint whose bytes differ from those written."""


def read(path: Path, checksum: str | None = None) -> tuple[dict, str]:
    """The state in `path` and its checksum; another than `checksum` is refused.

    Torch's archive holds a CRC of each member, which torch does not check; it is checked here. The
    checksum of a state is that of its members' names, sizes and CRCs.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = [(member.filename, member.file_size, member.CRC) for member in archive.infolist()]
            found = hashlib.blake2b(json.dumps(members).encode(), digest_size=16).hexdigest()
            if checksum not in (None, found):
                raise Damaged("another file than the first process reads")
            bad = archive.testzip()
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, ValueError, EOFError) as error:
        raise Damaged(f"no whole archive: {error}") from error
    if bad is not None:
        raise Damaged(f"{bad} is not as it was written")
    # mapped: else each process of a machine would hold all of it in memory
    return torch.load(path, map_location="cpu", weights_only=True, mmap=True), found


def choose(folder: Path) -> tuple[dict | None, tuple[str, str] | None, list[str]]:
    """The newest intact state with its file's name and checksum, or None; a sentence for each
    damaged one.

    Damaged checkpoints are moved to damaged/, where they are not tried again and do not count among
    those kept. If all are damaged, that is an InputError: a run never restarts unnoticed.
    """
    complaints, aside = [], folder / "damaged"
    for path in sorted(folder.glob("step-*.pt"), reverse=True):
        try:
            state, checksum = read(path)
            return state, (path.name, checksum), complaints
        except Damaged as error:
            aside.mkdir(exist_ok=True)
            os.replace(path, aside / path.name)
            complaints.append(f"{path} is damaged ({error}) and was moved to {aside}; the one before it is used.")
        except Exception as error:  # what the file system or torch.load gives, of bytes that may well be good
            complaints.append(f"{path} cannot be read ({type(error).__name__}: {error}); the one before it is used.")
    bad = len(list(folder.glob("step-*.pt"))) + len(list(aside.glob("step-*.pt")))
    if bad:
        raise InputError(
            f"None of the {bad} checkpoints in {folder} can be read ({' '.join(complaints) or f'all lie in {aside}'});"
            f" give a good one back, or move that folder away to train again from the start."
        )
    return None, None, complaints


def load(path: Path, checksum: str, patience: float) -> dict:
    """The state that the first process chose, as soon as this node sees the file."""
    until = time.monotonic() + patience
    while True:
        try:
            return read(path, checksum)[0]
        except (OSError, Damaged) as error:
            if time.monotonic() > until:
                raise InputError(
                    f"{path}, from which the first process goes on, could not be read within {patience:.0f} s"
                    f" ({type(error).__name__}: {error}); look at the file system of that node and start again."
                ) from error
        time.sleep(0.5)


def kept_weights(folder: Path, step: int) -> Path:
    """The path of a configuration's weights after `step` updates: in its folder of checkpoints,
    which Snakemake does not know and so does not delete.
    """
    return folder / "weights" / f"step-{step:09d}.safetensors"
