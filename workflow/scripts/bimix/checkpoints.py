"""Saved states of a run: written whole, the last two kept, refused when they belong to another configuration.

Beside them lie the weights of those evaluations that were to be kept.
"""

import errno
import fcntl
import json
import os
import socket
import time
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from bimix.errors import InputError
from bimix.model import Shape
from bimix.outputs import replacing, write_json

KEPT = 2
SETTLING = 5  # seconds


def lock(folder: Path, patience: float, work: str = "training") -> object:
    """Hold the run for this process until the returned file is closed or the process ends, however it ends.

    Whoever holds it is left over from an attempt before this one: the Snakemake that started it was killed, or its node
    was given up too early. It is asked to save its state and stop, and waited for `patience` seconds. On NFS the kernel
    keeps the lock on the server, so that it holds between nodes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = open(folder / "lock", "a")  # noqa: SIM115 (held open on purpose)
    until, waited = time.monotonic() + patience, False
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise InputError(
                    f"{folder} cannot be locked ({error.strerror}); use a file system with locks."
                ) from error
            if time.monotonic() > until:
                raise InputError(
                    f"Another process is {work} in {folder} and did not stop within {patience:.0f} s; wait for it or"
                    f" stop it. The last line of {folder / 'attempts.jsonl'} says where it runs."
                ) from None
        (folder / "stop").touch()
        waited = True
        time.sleep(0.5)
    (folder / "stop").unlink(missing_ok=True)
    if waited:
        time.sleep(SETTLING)  # the Snakemake of the attempt before removes that one's outputs, which are ours too
    return handle


def must_stop(folder: Path) -> bool:
    """Whether another attempt waits for this one to save its state and stop."""
    return (folder / "stop").exists()


def note(folder: Path, event: str, step: int) -> None:
    """Append what an attempt has done, where and when, to attempts.jsonl; written only while the lock is held."""
    line = {"time": time.time(), "event": event, "step": step, "host": socket.gethostname(), "process": os.getpid()}
    line["job"] = os.environ.get("SLURM_JOB_ID")
    with (folder / "attempts.jsonl").open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(line) + "\n")


def claim(folder: Path, fingerprint: dict) -> None:
    """Record what defines the run on its first start; refuse to go on in the folder of another run."""
    path = folder / "fingerprint.json"
    if not path.exists():
        write_json(path, fingerprint)
        return
    stored = json.loads(path.read_text(encoding="utf-8"))
    differing = sorted(key for key in stored.keys() | fingerprint.keys() if stored.get(key) != fingerprint.get(key))
    if differing:
        changes = "; ".join(f"{key}: {stored.get(key)} there, {fingerprint.get(key)} now" for key in differing)
        raise InputError(
            f"{folder} holds the run of another configuration ({changes}). Nothing was touched: give the old"
            f" configuration back, or move that folder away to train anew."
        )


def save(folder: Path, state: dict) -> None:
    """Write the state after `state["step"]` updates and drop all but the last two; a full disk costs nothing older."""
    path = folder / f"step-{state['step']:09d}.pt"
    try:
        with replacing(path) as temporary:
            torch.save(state, temporary)
    except (OSError, RuntimeError) as error:  # torch's own writer turns a full disk into a RuntimeError
        raise InputError(
            f"{path} cannot be written ({error}); make room and start again from the checkpoint before it."
        ) from error
    for old in sorted(folder.glob("step-*.pt"))[:-KEPT]:
        old.unlink()


def discard(folder: Path) -> None:
    """Drop the checkpoints of a run whose results are kept elsewhere."""
    for path in folder.glob("step-*.pt"):
        path.unlink()


def load_latest(folder: Path) -> tuple[dict | None, list[str]]:
    """The newest state that can be read, None where there is none; and one sentence for each that could not be read.

    Checkpoints of which none can be read are an InputError: a run is not begun anew behind its owner's back.
    """
    complaints = []
    for path in sorted(folder.glob("step-*.pt"), reverse=True):
        try:
            # mapped: else each process of a machine would have all of it in memory at once
            return torch.load(path, map_location="cpu", weights_only=True, mmap=True), complaints
        except Exception as error:  # torch.load raises whatever the damaged archive or pickle provokes
            complaints.append(f"{path} cannot be read ({type(error).__name__}); the checkpoint before it is used.")
    if complaints:
        raise InputError(
            f"None of the {len(complaints)} checkpoints in {folder} can be read. Nothing was touched: give a good one back, or"
            f" move that folder away to train anew."
        )
    return None, complaints


def kept_weights(folder: Path, step: int) -> Path:
    """Where a run with its checkpoints in `folder` keeps its weights after `step` updates, if it was asked to.

    In the run's own state, which Snakemake does not know: nothing deletes them, and they leave with it.
    """
    return folder / "weights" / f"step-{step:09d}.safetensors"


def read_weights(path: Path, framework: str = "numpy") -> tuple[dict, Shape]:
    """Weights, as arrays of numpy or pt, and the shape that stands in their file's metadata; no code runs from the file."""
    try:
        with safe_open(path, framework=framework) as file:
            metadata = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
        shape = Shape(**json.loads(metadata["shape"]))
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} cannot be read as safetensors ({error}); train it again.") from error
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} does not say the shape of its model in its metadata; give a file of pretrain_model.py."
        ) from error
    return weights, shape
