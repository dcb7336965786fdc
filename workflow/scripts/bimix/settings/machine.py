"""What a machine trains on, seen before the first job and without torch, and the record of what was
chosen for it: that stays as it is while the text does.

A job on another machine, or a call from a login node, must find the models that the first call
chose.
"""

import json
import os
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bimix.errors import InputError
from bimix.settings.ladder import Choice, Sizes


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
    """The devices and memory of this machine."""
    cores = len(os.sched_getaffinity(0))
    if wanted == "cpu" or (wanted == "auto" and not shutil.which("nvidia-smi")):
        return Machine("cpu", cores, 1)
    from bimix.training.devices import allowed_devices  # here only: most calls ask no driver

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


@dataclass(frozen=True)
class Basis:
    """The basis of the defaults of a dataset."""

    machine: Machine
    sizes: Sizes


def record_path(dataset: str) -> Path:
    return Path("results", dataset, "ladder.json")


def read_basis(dataset: str) -> Basis | None:
    """The basis of the defaults that a dataset's results were made with, None without any."""
    try:
        kept = json.loads(record_path(dataset).read_text(encoding="utf-8"))["basis"]
        return Basis(Machine(**kept["machine"]), kept["sizes"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{record_path(dataset)} cannot be read ({error}); delete it, and models are chosen again."
        ) from error


def keep(dataset: str, basis: Basis, choice: Choice | None) -> None:
    """Write the basis and what was chosen, unless the record has them."""
    from bimix.outputs import write_json  # it brings polars, a quarter of a second of each call of Snakemake

    if read_basis(dataset) != basis:
        record_path(dataset).parent.mkdir(parents=True, exist_ok=True)
        write_json(
            record_path(dataset), {"basis": asdict(basis), "chosen": asdict(choice) if choice is not None else None}
        )
