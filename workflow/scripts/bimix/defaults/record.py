"""The machine and the sizes that a dataset's defaults were chosen for: they stay as they are while
its text does.

A job on another machine, or a call from a login node, must find the models that the first call
chose.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from bimix.defaults.device import Machine
from bimix.defaults.ladder import Choice
from bimix.defaults.sizes import Sizes
from bimix.errors import InputError


@dataclass(frozen=True)
class Basis:
    """What the defaults of a dataset are estimated from."""

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
            f"{record_path(dataset)} cannot be read ({error}); delete it, and models are chosen anew."
        ) from error


def keep(dataset: str, basis: Basis, choice: Choice | None) -> None:
    """Write the basis, and beside it what was chosen, unless it stands there."""
    from bimix.outputs import write_json  # it brings polars, a quarter of a second of each call of Snakemake

    if read_basis(dataset) != basis:
        record_path(dataset).parent.mkdir(parents=True, exist_ok=True)
        write_json(
            record_path(dataset), {"basis": asdict(basis), "chosen": asdict(choice) if choice is not None else None}
        )
