"""What a machine trains on, seen before the first job and without torch."""

import os
import shutil
from dataclasses import dataclass, replace

from bimix.errors import InputError
from bimix.training.devices import allowed_devices


@dataclass(frozen=True)
class Machine:
    """`count` devices of a kind, gpu or cpu (a core); `threads` of the processor for each."""

    kind: str
    count: int
    threads: int


GPU_THREADS = 8  # of the processor for a GPU, at most


def seen_machine(wanted: str, count: int | str) -> Machine:
    """The GPUs that are allowed here, else the cores; `wanted` is auto, or names one kind, `count`
    auto or their number.

    Where both are named nothing is looked up: jobs will run elsewhere.
    Errors (InputError): GPUs are wanted and there are none.
    """
    if wanted != "auto" and isinstance(count, int):
        return Machine(wanted, count, GPU_THREADS if wanted == "gpu" else 1)
    seen = _seen(wanted)
    return replace(seen, count=count) if isinstance(count, int) else seen


def _seen(wanted: str) -> Machine:
    """What this machine has."""
    cores = len(os.sched_getaffinity(0))
    if wanted == "cpu" or (wanted == "auto" and not shutil.which("nvidia-smi")):
        return Machine("cpu", cores, 1)
    try:
        gpus = len(allowed_devices(os.environ.get("CUDA_VISIBLE_DEVICES")))
    except InputError as error:
        if wanted == "auto":  # a driver without a card
            return Machine("cpu", cores, 1)
        raise InputError(f"config: ladder/device: gpu is given. {error}") from None
    if not gpus:
        if wanted == "auto":
            return Machine("cpu", cores, 1)
        raise InputError("config: ladder/device: gpu is given, and CUDA_VISIBLE_DEVICES allows none.")
    return Machine("gpu", gpus, max(min(cores // gpus, GPU_THREADS), 1))
