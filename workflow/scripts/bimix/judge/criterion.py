"""What measured runs are judged by: the objective of the optimum, in the same averages."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bimix.errors import InputError
from bimix.judge.runs import Column, Runs
from bimix.optimum.families import by_domain, checked
from bimix.optimum.objective import objective_block
from bimix.tables import read_numbers

MIXED = "units of several metrics"
HELD = 1e-6  # relative rise of a loss from which on `no_worse_than` is broken: less is rounding


@dataclass(frozen=True)
class Criterion:
    """weighted: the weighted average. minimax: the worst ratio to what the reference ends with, of
    a family or column. no_worse_than: weighted, and no column ends above (1 + margin) times the
    reference's.

    `weights` are of columns; without them all losses weigh the same.
    """

    reference: str
    kind: str = "weighted"
    weights: Mapping[str, float] = field(default_factory=dict)
    families: Mapping[str, Sequence[str]] = field(default_factory=dict)
    margin: float = 0.0

    def target(self, columns: Sequence[Column]) -> np.ndarray:
        """Weights (d,) that sum to 1.

        Errors: a weight of none of the columns, nothing above 0; metrics among them and no weights.
        """
        names = [column.name for column in columns]
        checked(self.families, names)
        strange = [name for name in self.weights if name not in names]
        if strange:
            raise InputError(f"the weights name {strange[0]!r}, which has no losses: {', '.join(names)} have.")
        metrics = [column.name for column in columns if column.metric]
        if metrics and not self.weights:
            raise InputError(
                f"losses and metrics ({', '.join(metrics[:3])}) have no common average: say by `weights` or families of an"
                " objective what the mixture is to be best at."
            )
        found = np.array([float(self.weights.get(name, 0.0)) if self.weights else 1.0 for name in names])
        if not found.sum() > 0:
            raise InputError("all weights are 0: give at least one domain a weight above 0.")
        return found / found.sum()

    def unit(self, columns: Sequence[Column]) -> str:
        """Of the average."""
        units = {column.unit for column, one in zip(columns, self.target(columns), strict=True) if one > 0}
        return units.pop() if len(units) == 1 else MIXED

    def averages(self, runs: Runs) -> np.ndarray:
        """The weighted average (n, s, k) of runs; NaN where a column that weighs is not known."""
        target = self.target(runs.columns)
        return np.where(target > 0, runs.losses, 0.0) @ target

    def values(self, runs: Runs) -> np.ndarray:
        """What is minimised (n, s, k): the average, or the worst ratio to the reference's end."""
        if self.kind != "minimax":
            return self.averages(runs)
        return self.worst(runs.losses / self.ends(runs), runs.columns)

    def worst(self, ratios: np.ndarray, columns: Sequence[Column]) -> np.ndarray:
        """The worst of ratios (..., d): of families their means, else of columns that weigh."""
        names, target = [column.name for column in columns], self.target(columns)
        parts = list(self.families.values()) or [[name] for name in names]
        places = [[names.index(one) for one in part] for part in parts]
        return np.stack([ratios[..., own].mean(axis=-1) for own in places if target[own[0]] > 0]).max(axis=0)

    def predicted(self, losses: np.ndarray, names: Sequence[str]) -> np.ndarray:
        """What is minimised (n,) of predicted losses (n, d), the first row the reference's; which
        of the columns are metrics does not matter with weights, and without them there is none.
        """
        columns = [Column(name, "", metric=False) for name in names]
        if self.kind == "minimax":
            return self.worst(losses / losses[0], columns)
        target = self.target(columns)
        return np.where(target > 0, losses, 0.0) @ target

    def ends(self, runs: Runs) -> np.ndarray:
        """What the reference ends with (d,), the geometric mean over its seeds."""
        own = runs.last()[runs.mixtures.index(self.reference)]
        own = own[np.isfinite(own).any(axis=1)]
        return np.exp(np.log(own).mean(axis=0))


def criterion(reference: str, objective: str | None = None, weights: Mapping[str, float] | None = None) -> Criterion:
    """The criterion of the flags of an optimum: the JSON of a config's block `objective`, and the
    weights of loss domains, which stand there where it has none of its own.
    """
    block = objective_block(objective) if objective else {}
    kind, families = block.get("kind", "weighted"), block.get("families", {})
    own = by_domain(block.get("weights", {}), families) or dict(weights or {})
    against = reference if kind == "weighted" else block.get("reference", reference)
    return Criterion(against, kind, own, families, block.get("margin", 0.0))


def add_criterion(parser: argparse.ArgumentParser) -> None:
    """Add what measured runs are judged by, beside --reference, for `criterion_of`."""
    parser.add_argument(
        "--weights",
        help="{loss domain: weight}, JSON: the average of losses; one left out weighs 0; without it all weigh the same",
    )
    parser.add_argument(
        "--objective", help="a kind, or the JSON of a config's block `objective`; without it the weighted average"
    )


def criterion_of(options: argparse.Namespace) -> Criterion:
    """The criterion of these flags."""
    weights = read_numbers(options.weights) if options.weights else {}
    return criterion(options.reference, options.objective, weights)
