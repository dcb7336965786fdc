"""Models and the cost of a run of each, for a search with a budget."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from bimix.errors import InputError
from bimix.tables import read_table

# A parameter and token, forward and backward (Kaplan et al. 2020, Sec. 2.1), where a table does not
# say more.
FLOPS = 6
# Names of a column; the second are those of a plan of costs (plan.csv).
COLUMNS = {"name": ("name", "model"), "parameters": ("parameters",), "tokens": ("tokens", "tokens_per_run")}


@dataclass(frozen=True)
class Model:
    """A model that could be trained: its parameters, the tokens of a run of it, and its FLOPs."""

    name: str
    parameters: float
    tokens: float
    flops: float


def model(name: str, parameters: float, tokens: float, flops: float | None = None) -> Model:
    """A model whose run takes so many FLOPs, or 6 for a parameter and token."""
    return Model(name, parameters, tokens, FLOPS * parameters * tokens if flops is None else flops)


def add_models(parser: argparse.ArgumentParser) -> None:
    """Add the models that could be run, to be read by `read_models` and `read_large`."""
    parser.add_argument("--models", nargs="?", type=Path, help="name, parameters, tokens of a run; or plan.csv")
    parser.add_argument("--offered", nargs="*", default=[], help="models of that table that may be run; none: all")
    parser.add_argument("--large", help="the run to be made good: parameters,tokens, or a name in --models")


def read_models(path: Path, offered: Sequence[str] = ()) -> list[Model]:
    """The models of a table with name, parameters, tokens and, if it has them, flops; or those of
    plan.csv. Cheapest first, `offered` names only, or all.

    Errors: a column that is missing, a number that is not above 0, a name twice or not there.
    """
    table = read_table(path)
    if "what" in table.columns:  # a plan of costs, with other kinds of trainings and with totals
        table = table.filter(pl.col("what") == "pretraining").unique("model", keep="first", maintain_order=True)
    found = {}
    for column, names in COLUMNS.items():
        there = [name for name in names if name in table.columns]
        if not there:
            raise InputError(f"{path} has no column {column!r}: models have name, parameters, tokens.")
        found[column] = table[there[0]].to_list()
    costs = next((table[name].to_list() for name in ("flops", "flops_per_run") if name in table.columns), None)
    models: dict[str, Model] = {}
    for row, name in enumerate(map(str, found["name"])):
        numbers = [found["parameters"][row], found["tokens"][row], *([costs[row]] if costs else [])]
        for number in numbers:
            if not isinstance(number, int | float) or not 0 < number < np.inf:
                raise InputError(f"{path}: model {name!r} has {number!r}: parameters, tokens and FLOPs are above 0.")
        if name in models:
            raise InputError(f"{path}: model {name!r} is there twice: give each size a name of its own.")
        models[name] = model(name, *map(float, numbers))
    for name in offered:
        if name not in models:
            raise InputError(f"{path} has no model {name!r}: it has {', '.join(models)}.")
    kept = [one for name, one in models.items() if not offered or name in offered]
    if not kept:
        raise InputError(f"{path} has no model: it needs one at least.")
    return sorted(kept, key=lambda one: one.flops)


def read_large(text: str, path: Path | None) -> Model:
    """The large run: `parameters,tokens`, or the name of a model in the table."""
    parts = text.split(",")
    if len(parts) == 2:
        try:
            numbers = [float(part) for part in parts]
        except ValueError:
            numbers = []
        if len(numbers) == 2 and all(0 < number < np.inf for number in numbers):
            return model("large", *numbers)
    elif path is not None:
        return read_models(path, [text])[0]
    raise InputError(f"--large is {text!r}: it must be parameters,tokens, as in 1e9,2e10, or a model of --models.")


def read_budget(text: str, large: Model | None) -> float:
    """FLOPs, or a percentage of the large run's. Errors: none above 0, no large run."""
    try:
        amount = float(text.removesuffix("%"))
    except ValueError:
        amount = np.nan
    if not 0 < amount < np.inf:
        raise InputError(f"--budget is {text!r}: it must be FLOPs, as in 2e18, or a share of the large run, as in 5%.")
    if not text.endswith("%"):
        return amount
    if large is None:
        raise InputError(f"--budget {text} is a share of the large run: name it by --large parameters,tokens.")
    return amount / 100 * large.flops
