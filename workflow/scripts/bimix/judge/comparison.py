"""Mixtures compared by their runs: what each ends with by the criterion, which differences are
significant, and when each gets to the end of the reference.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from bimix.errors import InputError
from bimix.judge.criterion import HELD, Criterion
from bimix.judge.noise import Known, Noise, levels
from bimix.judge.runs import Runs

COMPARISON = {
    "mixture": pl.String,
    "step": pl.Int64,
    "average_loss": pl.Float64,
    "unit": pl.String,
    "bits_per_byte": pl.Float64,
    "worst_ratio": pl.Float64,
    "difference_percent": pl.Float64,
    "low_percent": pl.Float64,
    "high_percent": pl.Float64,
    "significant": pl.Boolean,
    "ties_with_best": pl.Boolean,
    "broken": pl.String,
    "domains_better": pl.Int64,
    "domains": pl.Int64,
    "worst_domain": pl.String,
    "worst_loss": pl.Float64,
    "steps_to_reference": pl.Float64,
    "steps_ratio": pl.Float64,
    "runs": pl.Int64,
    "deviation_percent": pl.Float64,
}


@dataclass(frozen=True)
class Comparison:
    """n mixtures of one size at one step, in the order of `runs`."""

    runs: Runs
    criterion: Criterion
    levels: np.ndarray  # (n,) log of what is minimised
    noise: Noise | None  # None: not known
    broken: tuple[dict[str, float], ...]  # of each the columns above the margin: by how much, relative
    outside: frozenset[str] = frozenset()  # mixtures outside the bounds of the optimum

    @property
    def mixtures(self) -> tuple[str, ...]:
        return self.runs.mixtures

    def value(self, mixture: str) -> float:
        """What is minimised."""
        return float(np.exp(self.levels[self.mixtures.index(mixture)]))

    def holds(self, mixture: str) -> bool:
        """Whether a mixture holds the objective's constraint and the bounds."""
        return not self.broken[self.mixtures.index(mixture)] and mixture not in self.outside

    def ranked(self) -> list[str]:
        """Those that hold the objective first, then the best first."""
        return sorted(self.mixtures, key=lambda name: (not self.holds(name), self.value(name)))

    def lead(self, one: str, other: str) -> float:
        """By how much the log value of one is below that of another."""
        return float(self.levels[self.mixtures.index(other)] - self.levels[self.mixtures.index(one)])

    def ties(self, mixture: str) -> bool | None:
        """Whether a mixture may be as good as the best of those that hold the objective; None where
        the noise is not known.
        """
        if self.noise is None:
            return None
        n, best = (self.mixtures.index(name) for name in (mixture, self.ranked()[0]))
        return n == best or bool(self.levels[n] - self.levels[best] <= self.noise.behind_best(n, best))

    def width(self, one: str, other: str) -> float | None:
        """Half the 95 % interval of `lead`; None where the noise is not known."""
        if self.noise is None:
            return None
        return self.noise.between(self.mixtures.index(one), self.mixtures.index(other))

    def significant(self, one: str, other: str) -> bool | None:
        """Whether two mixtures named beforehand differ."""
        width = self.width(one, other)
        return None if width is None else abs(self.lead(one, other)) > width


def compared(runs: Runs, criterion: Criterion, known: Known | None = None, outside: Iterable[str] = ()) -> Comparison:
    """The comparison of runs by a criterion; `known` is the noise where no run was repeated,
    `outside` are mixtures that no one asked for, as bounds forbid them.

    Errors: the reference is not among them; a loss that the criterion reads is not there.
    """
    if criterion.reference not in runs.mixtures:
        raise InputError(
            f"{criterion.reference!r}, which the others are compared with, has no losses: {', '.join(runs.mixtures)} have."
        )
    target = criterion.target(runs.columns)
    losses = np.array([not column.metric for column in runs.columns])
    runs.check(losses | (target > 0) if criterion.kind == "no_worse_than" else target > 0)
    found, noise = levels(criterion.values(runs)[:, :, -1], known)
    return Comparison(runs, criterion, found, noise, _broken(runs, criterion), frozenset(outside))


def _broken(runs: Runs, criterion: Criterion) -> tuple[dict[str, float], ...]:
    """Of each mixture the columns that end above (1 + margin) times the reference's, and by how
    much, as a part of that; seeds paired as for the average.
    """
    if criterion.kind != "no_worse_than":
        return ({},) * len(runs.mixtures)
    base, found = runs.mixtures.index(criterion.reference), [{} for _ in runs.mixtures]
    for i, column in enumerate(runs.columns):
        # a metric that a mixture has not breaks nothing there
        logs = _levels(runs.last()[:, :, i])
        excess = np.expm1(logs - logs[base] - np.log1p(criterion.margin))
        for n in np.nonzero(excess > HELD)[0]:
            found[n][column.name] = float(excess[n])
    return tuple(found)


def table(comparison: Comparison, factors: Mapping[str, float | None] | None = None) -> pl.DataFrame:
    """One row for each mixture, in order, in the columns of COMPARISON.

    average_loss: by the weights, in `unit`, as if each had run with all seeds; worst_ratio: of
    minimax, to the reference's end. difference_percent: to the reference of what is minimised, with
    its 95 % interval, and whether it is significant; ties_with_best: null where the noise is not
    known. broken: the domains that `no_worse_than` is broken by, with the percent above the margin;
    empty where it holds, null without such an objective. domains_better than the reference at the
    end. steps_to_reference: when the curve is where the reference ends (null: never), steps_ratio
    to its steps. deviation_percent between the runs of a mixture, seeds' effects included. With
    `factors` {domain: bits per byte of a nat per token} bits_per_byte of the average.
    """
    runs, judged = comparison.runs, comparison.criterion
    base = runs.mixtures.index(judged.reference)
    target, unit = judged.target(runs.columns), judged.unit(runs.columns)
    averages, curves = judged.averages(runs), np.log(judged.values(runs))
    means, _ = levels(averages[:, :, -1])
    ends = np.stack([_levels(runs.last()[:, :, i]) for i in range(len(target))], axis=1)  # (n, d) logs
    curves = _mean(curves)
    curves = np.exp(curves + (comparison.levels - curves[:, -1])[:, None])  # what its seeds did is removed
    bits = in_bits(comparison, factors) if factors else None
    losses = np.array([not column.metric for column in runs.columns])
    rows = []
    for n, name in enumerate(runs.mixtures):
        lead, width = comparison.lead(name, judged.reference), comparison.width(name, judged.reference)
        own = averages[n, :, -1][np.isfinite(averages[n, :, -1])]
        known = np.isfinite(curves[n])
        needed = steps_to_reach(runs.steps[known], curves[n][known], float(np.exp(comparison.levels[base])))
        shown = np.where(losses & np.isfinite(ends[n]), ends[n], -np.inf)
        worst = int(shown.argmax())
        interval = (None, None) if width is None or n == base else (_percent(-lead - width), _percent(-lead + width))
        row = (name, runs.step, float(np.exp(means[n])), unit, bits and bits.value(name))
        row += (comparison.value(name) if judged.kind == "minimax" else None, _percent(-lead), *interval)
        row += (None if n == base else comparison.significant(name, judged.reference), comparison.ties(name))
        row += (said_broken(comparison.broken[n]) if judged.kind == "no_worse_than" else None,)
        row += (int((ends[n] < ends[base])[losses].sum()), int(losses.sum()))
        row += (
            runs.columns[worst].name,
            float(np.exp(ends[n, worst])),
            needed,
            needed and needed / runs.step,
            len(own),
        )
        row += (None if len(own) < 2 else float(100 * own.std(ddof=1) / own.mean()),)
        rows.append(row)
    return pl.DataFrame(rows, schema=COMPARISON, orient="row")


def in_bits(comparison: Comparison, factors: Mapping[str, float | None]) -> Comparison | None:
    """The same comparison of the average in bits per byte, with `factors` {domain: bits per byte of
    a nat per token}; None where the bytes of a domain that weighs are not known.
    """
    runs, judged = comparison.runs, comparison.criterion
    weigh = judged.target(runs.columns) > 0
    if any(factors.get(name) is None for name, one in zip(runs.names, weigh, strict=True) if one):
        return None
    per_byte = np.array([factors.get(name) or np.nan for name in runs.names])
    plain = replace(judged, kind="weighted")
    return compared(replace(runs, losses=runs.losses * per_byte), plain, outside=comparison.outside)


def said_broken(by: Mapping[str, float]) -> str:
    """The domains a constraint is broken by, the worst first: "law 2.3 %, web 0.1 %"."""
    return ", ".join(f"{name} {100 * by[name]:.2g} %" for name in sorted(by, key=by.get, reverse=True))


def steps_to_reach(steps: np.ndarray, losses: np.ndarray, target: float) -> float | None:
    """The first step at which a curve of k losses is at `target`; None if it never is.

    Between evaluations log loss is taken as linear in log step. A curve that is there at its first
    evaluation already gets the step of that evaluation.
    """
    low = np.nonzero(losses <= target * (1 + 1e-12))[0]
    if not len(low):
        return None
    k = low[0]
    if k == 0:
        return float(steps[0])
    drop = np.log(losses[k - 1] / target) / np.log(losses[k - 1] / losses[k])
    return float(steps[k - 1] * (steps[k] / steps[k - 1]) ** min(drop, 1.0))


def _levels(values: np.ndarray) -> np.ndarray:
    """Logs (n,) of values (n, s) of which some mixtures may have none: NaN."""
    found = np.full(len(values), np.nan)
    there = np.isfinite(values).any(axis=1)
    if there.any():
        found[there] = levels(values[there])[0]
    return found


def _mean(curves: np.ndarray) -> np.ndarray:
    """The mean over seeds (n, k) of curves (n, s, k), over those that were run; NaN without one."""
    there = np.isfinite(curves)
    total = np.where(there, curves, 0.0).sum(axis=1)
    return np.divide(total, there.sum(axis=1), out=np.full(total.shape, np.nan), where=there.any(axis=1))


def _percent(log: float) -> float:
    """A difference of logs as percent."""
    return float(100 * np.expm1(log))
