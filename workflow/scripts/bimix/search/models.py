"""Models and the cost of a run of each, for a search with a budget."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from bimix.errors import InputError
from bimix.names import unknown
from bimix.observations.tables import check_amounts, check_once, numbered
from bimix.tables import read_table

# A parameter and token, forward and backward (Kaplan et al. 2020, Sec. 2.1), where a table does not
# say more.
FLOPS = 6
PLANNED = {"model": "name", "tokens_per_run": "tokens", "flops_per_run": "flops"}  # columns of plan.csv


@dataclass(frozen=True)
class Model:
    """A model that could be trained: its parameters, the tokens of a run of it, and its FLOPs."""

    name: str
    parameters: float
    tokens: float
    flops: float


def add_models(parser: argparse.ArgumentParser) -> None:
    """Add the models that could be run, to be read by `read_models`."""
    parser.add_argument("--models", nargs="?", type=Path, help="name, parameters, tokens of a run; or plan.csv")
    parser.add_argument("--offered", nargs="*", default=[], help="models of that table that may be run; none: all")
    parser.add_argument("--large", help="the run to be made good, a name in --models")


def read_models(path: Path, offered: Sequence[str] = ()) -> list[Model]:
    """The models of a table with name, parameters, tokens and, if it has them, flops; or those of
    plan.csv. Cheapest first, `offered` names only, or all.

    Errors: a column that is missing, a number that is not above 0, a name twice or not there.
    """
    table = numbered(read_table(path), str(path))
    if "what" in table.columns:  # a plan of costs, with other kinds of trainings and with totals
        table = table.filter(pl.col("what") == "pretraining").unique("model", keep="first", maintain_order=True)
    table = table.rename({old: new for old, new in PLANNED.items() if new not in table.columns}, strict=False)
    for column in ("name", "parameters", "tokens"):
        if column not in table.columns:
            raise InputError(f"{path} has no column {column!r}: models have name, parameters, tokens.")
    for column in ("parameters", "tokens", "flops"):
        check_amounts(table, column, str(path))
    check_once(table, ["name"], str(path))
    if "flops" not in table.columns:
        table = table.with_columns(flops=FLOPS * pl.col("parameters").cast(pl.Float64) * pl.col("tokens"))
    models = {str(row["name"]): row for row in table.iter_rows(named=True)}
    for name in offered:
        if name not in models:
            raise InputError(f"{path}: {unknown('model', name, models)}")
    kept = [
        Model(name, float(row["parameters"]), float(row["tokens"]), float(row["flops"]))
        for name, row in models.items()
        if not offered or name in offered
    ]
    if not kept:
        raise InputError(f"{path} has no model: it needs one at least.")
    return sorted(kept, key=lambda one: one.flops)


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
        raise InputError(f"--budget {text} is a share of the large run: name its model by --large.")
    return amount / 100 * large.flops
