"""Finds free GPUs of a machine and reserves them: each by a kernel lock on one byte of a file.

The lock belongs to the open file, not to a process: every process that inherits the file keeps it.
When the last of them has ended, in any way, the GPU is free again.
"""

import csv
import fcntl
import hashlib
import os
import re
import struct
import subprocess
from pathlib import Path

from bimix.errors import InputError

MPS_SERVER = "nvidia-cuda-mps-server"


def nvidia_smi(*flags: str) -> str:
    """The output of nvidia-smi with these arguments."""
    try:
        done = subprocess.run(["nvidia-smi", *flags], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise InputError("GPUs are requested, and there is no nvidia-smi; install a driver or train on CPUs.") from None
    if done.returncode:
        raise InputError(f"nvidia-smi failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def query(what: str) -> list[list[str]]:
    """Rows of a query of nvidia-smi."""
    printed = nvidia_smi(what, "--format=csv,noheader")
    return [row for row in csv.reader(printed.splitlines(), skipinitialspace=True) if row]


def instances() -> dict[str, list[str]]:
    """{unique id of a GPU: ids of its MIG instances}, from `nvidia-smi -L`, which lists each
    instance on a line below its GPU.
    """
    found: dict[str, list[str]] = {}
    for line in nvidia_smi("-L").splitlines():
        named = re.search(r"\(UUID: ([^)\s]+)\)", line)
        if named and line.lstrip().startswith("GPU "):
            found[named[1]] = own = []
        elif named and line.lstrip().startswith("MIG "):
            own.append(named[1])
    return {device: parts for device, parts in found.items() if parts}


def allowed_devices(visible: str | None) -> list[str]:
    """Unique ids of the GPUs that CUDA_VISIBLE_DEVICES allows, by number or id; of all GPUs if it
    is not set (None).

    A MIG instance is a device like a whole GPU, named by its id. Errors: a partitioned GPU is named
    instead of one of its instances.
    """
    listed, cut = query("--query-gpu=index,uuid"), instances()
    parts = [part for own in cut.values() for part in own]
    if visible is None:
        return [part for _, device in listed for part in cut.get(device, [device])]
    found = []
    for entry in (entry.strip() for entry in visible.split(",") if entry.strip()):
        found += [part for part in parts if part.startswith(entry)]
        named = [device for index, device in listed if index == entry or device.startswith(entry)]
        if any(device in cut for device in named):
            raise InputError(
                f"CUDA_VISIBLE_DEVICES names the GPU {entry}, which MIG has cut into instances; name those that may be"
                f" used by their ids, as `nvidia-smi -L` lists them ({', '.join(cut[named[0]])})."
            )
        found += named
    return found


def busy_devices() -> set[str]:
    """Unique ids of the GPUs on which any process, of any user, computes.

    The MPS server, which has a context on every GPU, does not count. A process on a MIG instance is
    listed under its GPU and says nothing about the other instances.
    """
    listed = query("--query-compute-apps=gpu_uuid,process_name")
    return {device for device, *name in listed if Path(",".join(name)).name != MPS_SERVER}


def open_locks(path: Path) -> int:
    """The file of the locks, shared by all users of a machine who may use its GPUs."""
    try:
        locks = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    share(locks)
    return locks


def share(locks: int, device: Path = Path("/dev/nvidia0")) -> None:
    """Give access to the file of the locks to users who may open the GPUs."""
    try:
        allowed = device.stat()
    except OSError:
        return
    if allowed.st_mode & 0o006 == 0o006:
        os.fchmod(locks, 0o666)
    elif allowed.st_mode & 0o060 == 0o060:
        try:
            os.fchown(locks, -1, allowed.st_gid)
        except PermissionError:  # the creator is not of the group, and only root may use its GPUs, too
            return
        os.fchmod(locks, 0o660)


def hold(locks: int, device: str) -> bool:
    """Try to lock a GPU's byte for as long as any process has the file `locks` open."""
    place = int.from_bytes(hashlib.sha256(device.encode()).digest()[:7])
    try:
        fcntl.fcntl(locks, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0))
    except BlockingIOError:
        return False
    return True


def hold_gpus(path: Path, devices: list[str], count: int) -> tuple[int, list[str]] | None:
    """The open file and ids of `count` of the `devices` that are held; None: too few are free."""
    locks = open_locks(path)
    held = []
    for device in devices:
        if len(held) < count and hold(locks, device):
            held.append(device)
    if len(held) == count:
        return locks, held
    os.close(locks)
    return None
