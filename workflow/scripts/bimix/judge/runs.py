"""Runs side by side: of one size of model, to one step, each with its seed, and of each column what
its numbers are.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import polars as pl

from bimix.errors import InputError
from bimix.observations.wide import ROW

NATS = "nats per token"


@dataclass(frozen=True)
class Column:
    """What is measured of runs: the loss of a domain, or a metric, in a unit. Lower is better."""

    name: str
    unit: str
    metric: bool


@dataclass(frozen=True)
class Runs:
    """Runs of n mixtures with s seeds at k steps, of d columns."""

    mixtures: tuple[str, ...]  # in the order of the table
    seeds: tuple[int, ...]
    steps: np.ndarray  # (k,) increasing, the last of each run at the end
    columns: tuple[Column, ...]
    losses: np.ndarray  # (n, s, k, d), NaN where there is no such run, or it was not measured
    parameters: float | None = None  # of the model; None: not known

    @property
    def step(self) -> int:
        return int(self.steps[-1])

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return [column.name for column in self.columns]

    def last(self) -> np.ndarray:
        """What the runs end with (n, s, d)."""
        return self.losses[:, :, -1]

    def check(self, needed: np.ndarray) -> None:
        """Errors: of the columns `needed` (d,) a run has one not at its end, or no number there."""
        last = self.last()
        wrong = ~np.isfinite(last) & needed & ~np.isnan(last).all(axis=2, keepdims=True)
        for n, s, i in zip(*np.nonzero(wrong), strict=True):
            column = self.columns[i]
            what = f"{'metric' if column.metric else 'loss of'} {column.name!r}"
            raise InputError(
                f"mixture {self.mixtures[n]!r} with seed {self.seeds[s]} has no {what} at step {self.step} that is a finite"
                " number: averages over different domains cannot be compared, so evaluate every run on the same ones."
            )

    def seeds_of(self, mixture: str) -> list[int]:
        there = np.isfinite(self.last()[self.mixtures.index(mixture)]).any(axis=1)
        return [seed for seed, one in zip(self.seeds, there, strict=True) if one]


def measured(table: pl.DataFrame, mixtures: Collection[str] | None = None, step: int | None = None) -> Runs:
    """The runs in tidy losses: mixture, step, domain, loss; optional are seed, parameters and
    metric, which is true of rows whose `domain` is the name of a metric.

    Only those of `mixtures`, or of all; to `step`, or to their end. Where mixtures were run with
    several sizes of model they are those of the largest that all have.

    Errors: no size that all have; runs that end at different steps; no run.
    """
    table = table.drop(ROW, strict=False).with_columns(pl.col("mixture", "domain").cast(pl.String))
    if mixtures is not None:
        table = table.filter(pl.col("mixture").is_in(list(mixtures)))
    if not table.height:
        raise InputError("there is no run to compare: none of the mixtures has losses.")
    table, parameters = one_size(table)
    if "seed" not in table.columns:
        table = table.with_columns(pl.lit(1).alias("seed"))
    if step is not None:
        table = table.filter(pl.col("step") <= step)
    run = ["mixture", "seed"]
    ends = table.group_by(run, maintain_order=True).agg(pl.col("step").max())
    last = step if step is not None else int(ends["step"].max())
    if step is not None:  # runs that were not measured at it say nothing of it
        table = table.join(ends.filter(pl.col("step") == step), on=run, how="semi", maintain_order="left")
        if not table.height:
            raise InputError(f"there is no run to compare: none was measured at step {step}.")
    elif (ends["step"] < last).any():
        early = ends.filter(pl.col("step") < last).row(0, named=True)
        raise InputError(
            f"mixture {early['mixture']!r} with seed {early['seed']} ends at step {early['step']}, others at step {last}:"
            " only runs of the same length can be compared."
        )
    names = {key: table[key].unique(maintain_order=True).to_list() for key in ("mixture", "seed", "domain")}
    steps = np.sort(table["step"].unique().to_numpy())
    losses = np.full((len(names["mixture"]), len(names["seed"]), len(steps), len(names["domain"])), np.nan)
    places = {key: {name: number for number, name in enumerate(own)} for key, own in names.items()}
    at = [table[key].replace_strict(places[key], return_dtype=pl.Int64).to_numpy() for key in places]
    losses[at[0], at[1], np.searchsorted(steps, table["step"].to_numpy()), at[2]] = table["loss"].to_numpy()
    metrics = set(table.filter(pl.col("metric"))["domain"]) if "metric" in table.columns else set()
    columns = tuple(Column(name, name if name in metrics else NATS, name in metrics) for name in names["domain"])
    return Runs(tuple(names["mixture"]), tuple(names["seed"]), steps, columns, losses, parameters)


def one_size(table: pl.DataFrame) -> tuple[pl.DataFrame, float | None]:
    """The rows of the largest size that all mixtures have, and that size."""
    if "parameters" not in table.columns or table["parameters"].null_count() == table.height:
        return table.drop("parameters", strict=False), None
    table = table.with_columns(pl.col("parameters").cast(pl.Float64))
    of = table.group_by("parameters").agg(pl.col("mixture").n_unique()).sort("parameters")
    shared = of.filter(pl.col("mixture") == table["mixture"].n_unique())["parameters"]
    if not len(shared):
        sizes = ", ".join(f"{size:g}" for size in of["parameters"])
        most = of.sort("mixture", "parameters")["parameters"][-1]
        there = set(table.filter(pl.col("parameters") == most)["mixture"])
        lacks = next(name for name in table["mixture"].unique(maintain_order=True) if name not in there)
        raise InputError(
            f"the mixtures were run with models of {sizes} parameters, and no size has all of them: {lacks!r} was not run"
            f" with {most:g}. Compare mixtures of one size."
        )
    return table.filter(pl.col("parameters") == shared[-1]).drop("parameters"), float(shared[-1])
