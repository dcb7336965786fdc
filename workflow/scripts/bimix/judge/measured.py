"""Measured runs and the criterion that compares them: runs of one model size to one step, each with
its seed; the criterion is the objective of the optimum, with the same averages.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from bimix.errors import InputError
from bimix.names import check_weights
from bimix.observations.tables import ROW, run_key, with_schedules
from bimix.optimum.config import combined
from bimix.optimum.families import by_domain, check_known
from bimix.optimum.objective import objective_block
from bimix.tables import read_numbers

NATS = "nats per token"
MIXED = "units of several metrics"


@dataclass(frozen=True)
class Column:
    """The loss of a domain, or a metric in a unit of its own. Lower is better."""

    name: str
    metric: bool

    @property
    def unit(self) -> str:
        return self.name if self.metric else NATS


@dataclass(frozen=True)
class Runs:
    """Runs of n mixtures with s seeds at k steps, with d columns."""

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
        """The names of the columns."""
        return [column.name for column in self.columns]

    def last(self) -> np.ndarray:
        """Last losses of the runs (n, s, d)."""
        return self.losses[:, :, -1]

    def seeds_of(self, mixture: str) -> list[int]:
        there = np.isfinite(self.last()[self.mixtures.index(mixture)]).any(axis=1)
        return [seed for seed, one in zip(self.seeds, there, strict=True) if one]


def measured(table: pl.DataFrame, step: int | None = None) -> Runs:
    """The runs in tidy losses: mixture, step, domain, loss; optional are seed, parameters and
    metric, which is true where `domain` is the name of a metric.

    Runs go to `step`, or to their last step. Of several model sizes the largest that all mixtures
    have is taken. Errors: no size that all have; runs that end at different steps; no run.
    """
    table = table.drop(ROW, strict=False).with_columns(pl.col("mixture", "domain").cast(pl.String))
    if not table.height:
        raise InputError("there is no run to compare: none of the mixtures has losses.")
    table, parameters = one_size(table)
    if "seed" not in table.columns:
        table = table.with_columns(pl.lit(1).alias("seed"))
    if step is not None:
        table = table.filter(pl.col("step") <= step)
    run = ["mixture", "seed"]
    ends = table.group_by(run, maintain_order=True).agg(pl.col("step").max())
    if step is not None:  # runs that were not measured at it say nothing of it
        table = table.join(ends.filter(pl.col("step") == step), on=run, how="semi", maintain_order="left")
        if not table.height:
            raise InputError(f"there is no run to compare: none was measured at step {step}.")
    elif ends["step"].n_unique() > 1:
        last = ends["step"].max()
        early = ends.filter(pl.col("step") < last).row(0, named=True)
        which = f" with seed {early['seed']}" if ends["seed"].n_unique() > 1 else ""
        raise InputError(
            f"mixture {early['mixture']!r}{which} ends at step {early['step']}, others at step {last}: only runs of the"
            " same length can be compared."
        )
    keys = ("mixture", "seed", "step", "domain")
    names = {key: table[key].unique(maintain_order=True).to_list() for key in keys}
    names["step"].sort()
    losses = np.full([len(own) for own in names.values()], np.nan)
    at = (table[key].replace_strict(own, range(len(own)), return_dtype=pl.Int64) for key, own in names.items())
    losses[tuple(one.to_numpy() for one in at)] = table["loss"].to_numpy()
    metrics = set(table.filter(pl.col("metric"))["domain"]) if "metric" in table.columns else set()
    columns = tuple(Column(name, name in metrics) for name in names["domain"])
    return Runs(tuple(names["mixture"]), tuple(names["seed"]), np.array(names["step"]), columns, losses, parameters)


def evaluated(table: pl.DataFrame, step: int) -> bool:
    """Whether every run in tidy losses was evaluated at a step."""
    table = with_schedules(table)
    runs = table.group_by(run_key(table, "seed"))
    return bool(runs.agg((pl.col("step") == step).any().alias("there"))["there"].all())


def one_size(table: pl.DataFrame) -> tuple[pl.DataFrame, float | None]:
    """The rows of the largest size that all mixtures have, and that size; of a mixture's runs of that size
    the longest.
    """
    table = with_schedules(table)
    if "schedule" in table.columns:
        of = [name for name in ("mixture", "parameters") if name in table.columns]
        table = table.filter(pl.col("schedule") == pl.col("schedule").max().over(of)).drop("schedule")
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


@dataclass(frozen=True)
class Criterion:
    """weighted: the weighted average. minimax: the worst ratio of a family or column to the
    reference's final value. no_worse_than: weighted, and no column ends above (1 + margin) times
    the reference's.

    `weights` are those of columns; without them all losses have equal weights.
    """

    reference: str
    kind: str = "weighted"
    weights: Mapping[str, float] = field(default_factory=dict)
    families: Mapping[str, Sequence[str]] = field(default_factory=dict)
    margin: float = 0.0

    def target(self, columns: Sequence[Column]) -> np.ndarray:
        """Weights (d,), sum 1. Errors: unknown column, none above 0, metrics without weights."""
        names = [column.name for column in columns]
        check_known(self.families, names)
        check_weights(self.weights, names)
        metrics = [column.name for column in columns if column.metric]
        if metrics and not self.weights:
            raise InputError(
                f"losses and metrics ({', '.join(metrics[:3])}) have no common average: say by `weights` or families of an"
                " objective what the mixture is to be best at."
            )
        found = np.array([float(self.weights.get(name, 0.0)) if self.weights else 1.0 for name in names])
        return found / found.sum()

    def unit(self, columns: Sequence[Column]) -> str:
        """The unit of the average."""
        units = {column.unit for column, one in zip(columns, self.target(columns), strict=True) if one > 0}
        return units.pop() if len(units) == 1 else MIXED

    def averages(self, runs: Runs) -> np.ndarray:
        """The weighted average (n, s, k) of runs; NaN where a weighted column is not known."""
        target = self.target(runs.columns)
        return np.where(target > 0, runs.losses, 0.0) @ target

    def values(self, runs: Runs) -> np.ndarray:
        """The criterion (n, s, k): the average, or the worst ratio to the reference."""
        if self.kind != "minimax":
            return self.averages(runs)
        ends = runs.last()[runs.mixtures.index(self.reference)]
        ends = ends[np.isfinite(ends).any(axis=1)]
        return self._combined(runs.losses, runs.columns, np.exp(np.log(ends).mean(axis=0)))

    def _combined(self, losses: np.ndarray, columns: Sequence[Column], before: np.ndarray) -> np.ndarray:
        """The objective (...) of losses (..., d), beside the reference's (d,)."""
        names, target = [column.name for column in columns], self.target(columns)
        parts = [[names.index(one) for one in part] for part in self.families.values() or zip(names, strict=True)]
        return combined(self.kind, losses, target, [part for part in parts if target[part[0]] > 0], before)

    def predicted(self, losses: np.ndarray, names: Sequence[str]) -> np.ndarray:
        """The objective (n,) of predicted losses (n, d), the first row the reference's."""
        columns = [Column(name, metric=False) for name in names]  # metrics have weights, and then no other use
        return self._combined(losses, columns, losses[0])


def add_criterion(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the criterion, to be read together with --reference by `criterion_of`."""
    parser.add_argument(
        "--weights",
        help="{loss domain: weight}, JSON: the average of losses; one left out weighs 0; without it all weigh the same",
    )
    parser.add_argument("--objective", help="a kind, or the JSON of a config's `objective`; else the weighted average")


def criterion_of(options: argparse.Namespace) -> Criterion:
    """The criterion of these flags; --weights apply where the objective has none of its own."""
    block = objective_block(options.objective or "weighted")
    weights = by_domain(block.weights, block.families) or (read_numbers(options.weights) if options.weights else {})
    reference = options.reference if block.kind == "weighted" else block.reference or options.reference
    return Criterion(reference, block.kind, weights, block.families, block.margin)
