"""Compares mixtures by their runs: final values, significance, steps to the reference's end."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from bimix.errors import InputError
from bimix.judge.measured import Criterion, Runs
from bimix.judge.noise import Known, Noise, levels

HELD = 1e-6  # relative rise of a loss from which on `no_worse_than` is broken: less is rounding

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
    "search_runs": pl.Int64,
    "search_flops": pl.Float64,
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
        """The final value of the criterion, which is minimised."""
        return float(np.exp(self.levels[self.mixtures.index(mixture)]))

    def holds(self, mixture: str) -> bool:
        """Whether a mixture satisfies the objective's constraint and the bounds."""
        return not self.broken[self.mixtures.index(mixture)] and mixture not in self.outside

    def ranked(self) -> list[str]:
        """Mixtures from best to worst, those that satisfy the constraints first."""
        return sorted(self.mixtures, key=lambda name: (not self.holds(name), self.value(name)))

    def lead(self, one: str, other: str) -> float:
        """How far the log value of one mixture is below that of another."""
        return float(self.levels[self.mixtures.index(other)] - self.levels[self.mixtures.index(one)])

    def below(self, best: str, other: str) -> bool:
        """Whether the best of the mixtures is significantly below another; no, without a noise."""
        b, n = (self.mixtures.index(name) for name in (best, other))
        return self.noise is not None and bool(self.levels[n] - self.levels[b] > self.noise.behind_best(n, b))

    def ties(self, mixture: str) -> bool | None:
        """Whether it ties with the best that satisfies the constraints; None: noise not known."""
        best = self.ranked()[0]
        return None if self.noise is None else mixture == best or not self.below(best, mixture)

    def width(self, one: str, other: str) -> float | None:
        """Half the width of the 95 % interval of `lead`; None where the noise is not known."""
        if self.noise is None:
            return None
        return self.noise.between(self.mixtures.index(one), self.mixtures.index(other))

    def significant(self, one: str, other: str) -> bool | None:
        """Whether two mixtures chosen beforehand differ significantly."""
        width = self.width(one, other)
        return None if width is None else abs(self.lead(one, other)) > width


def compared(runs: Runs, criterion: Criterion, known: Known | None = None, outside: Iterable[str] = ()) -> Comparison:
    """The comparison of runs by a criterion; `known` is the noise without further seeds,
    `outside` are mixtures that violate the bounds.

    Errors: the reference is not among the runs; a loss of the criterion is missing.
    """
    if criterion.reference not in runs.mixtures:
        names = ", ".join(runs.mixtures)
        size = "" if runs.parameters is None else f" of {runs.parameters:.3g} parameters"
        raise InputError(
            f"{criterion.reference!r}, the reference, has no losses at step {runs.step}{size}: {names} have."
        )
    needed = criterion.target(runs.columns) > 0
    if criterion.kind == "no_worse_than":
        needed |= [not column.metric for column in runs.columns]
    last = runs.last()
    wrong = ~np.isfinite(last) & needed & ~np.isnan(last).all(axis=2, keepdims=True)
    for n, s, i in zip(*np.nonzero(wrong), strict=True):
        what = f"{'metric' if runs.columns[i].metric else 'loss of'} {runs.columns[i].name!r}"
        which = f" with seed {runs.seeds[s]}" if len(runs.seeds) > 1 else ""
        raise InputError(
            f"mixture {runs.mixtures[n]!r}{which} has no {what} at step {runs.step} that is a finite"
            " number: averages over different domains cannot be compared, so evaluate every run on the same ones."
        )
    found, noise = levels(criterion.values(runs)[:, :, -1], known)
    broken: tuple[dict[str, float], ...] = tuple({} for _ in runs.mixtures)
    if criterion.kind == "no_worse_than":
        ends = column_levels(runs)
        # a metric that a mixture lacks cannot violate the constraint
        excess = np.expm1(ends - ends[runs.mixtures.index(criterion.reference)] - np.log1p(criterion.margin))
        for n, i in zip(*np.nonzero(excess > HELD), strict=True):
            broken[n][runs.columns[i].name] = float(excess[n, i])
    return Comparison(runs, criterion, found, noise, broken, frozenset(outside))


def column_levels(runs: Runs) -> np.ndarray:
    """Final log values (n, d), adjusted to all seeds for each mixture; NaN where not measured."""
    last = runs.last()
    found = np.full((last.shape[0], last.shape[2]), np.nan)
    for i in range(last.shape[2]):
        there = np.isfinite(last[:, :, i]).any(axis=1)
        if there.any():
            found[there, i] = levels(last[there, :, i])[0]
    return found


def loss_changes(comparison: Comparison, one: str, other: str) -> dict[str, float]:
    """{domain: percent} by which each final loss of a mixture is above another's, "" the criterion; without
    those that were not measured.
    """
    own, whose = (comparison.mixtures.index(name) for name in (one, other))
    ends = column_levels(comparison.runs)
    logs = dict(zip(comparison.runs.names, (ends[own] - ends[whose]).tolist(), strict=True))
    logs[""] = -comparison.lead(one, other)
    return {name: percent(by) for name, by in logs.items() if np.isfinite(by)}


def table(
    comparison: Comparison,
    factors: Mapping[str, float | None] | None = None,
    spent: Mapping[str, tuple[int, float]] | None = None,
) -> pl.DataFrame:
    """One row for each mixture, in order, in the columns of COMPARISON.

    average_loss: weighted, in `unit`, adjusted to all seeds; worst_ratio: of minimax, to the
    reference's final value. difference_percent: of the criterion from the reference, with its 95 %
    interval and its significance; ties_with_best: null where the noise is not known. broken: the
    domains that violate `no_worse_than`, with the percent above the margin; empty where none does,
    null without such an objective. domains_better: than the reference at the end.
    steps_to_reference: until the reference's final value is reached (null: never, or one evaluated
    step); steps_ratio: to the reference's steps. deviation_percent: between the runs of a mixture,
    seed effects included. With `factors` {domain: bits per byte of a nat per token}: bits_per_byte
    of the average. With `spent` {mixture: runs that it was found from, their FLOPs}: these two; null
    for a mixture that is not in there.
    """
    runs, judged = comparison.runs, comparison.criterion
    base = runs.mixtures.index(judged.reference)
    unit, ends = judged.unit(runs.columns), column_levels(runs)
    averages = judged.averages(runs)[:, :, -1]
    means, _ = levels(averages)
    curves = mean_over_seeds(np.log(judged.values(runs)))
    curves = np.exp(curves + (comparison.levels - curves[:, -1])[:, None])  # what its seeds did is removed
    bits = in_bits(comparison, factors) if factors else None
    losses = np.array([not column.metric for column in runs.columns])
    rows = []
    for n, name in enumerate(runs.mixtures):
        lead, width = comparison.lead(name, judged.reference), comparison.width(name, judged.reference)
        interval = None if width is None or n == base else (percent(-lead - width), percent(-lead + width))
        own = averages[n][np.isfinite(averages[n])]
        known = np.isfinite(curves[n])
        aim = float(np.exp(comparison.levels[base]))
        needed = steps_to_reach(runs.steps[known], curves[n][known], aim) if len(runs.steps) > 1 else None
        found_from = (spent or {}).get(name, (None, None))
        worst = int(np.where(losses & np.isfinite(ends[n]), ends[n], -np.inf).argmax())
        rows.append(
            {
                "mixture": name,
                "step": runs.step,
                "average_loss": float(np.exp(means[n])),
                "unit": unit,
                "bits_per_byte": bits and bits.value(name),
                "worst_ratio": comparison.value(name) if judged.kind == "minimax" else None,
                "difference_percent": percent(-lead),
                "low_percent": interval and interval[0],
                "high_percent": interval and interval[1],
                "significant": None if n == base else comparison.significant(name, judged.reference),
                "ties_with_best": comparison.ties(name),
                "broken": "outside the bounds"
                if name in comparison.outside
                else said_broken(comparison.broken[n])
                if judged.kind == "no_worse_than"
                else None,
                "domains_better": int((ends[n] < ends[base])[losses].sum()),
                "domains": int(losses.sum()),
                "worst_domain": runs.columns[worst].name,
                "worst_loss": float(np.exp(ends[n, worst])),
                "steps_to_reference": needed,
                "steps_ratio": needed and needed / runs.step,
                "runs": len(own),
                "deviation_percent": None if len(own) < 2 else float(100 * own.std(ddof=1) / own.mean()),
                "search_runs": found_from[0],
                "search_flops": found_from[1],
            }
        )
    return pl.DataFrame(rows, schema=COMPARISON)


def in_bits(comparison: Comparison, factors: Mapping[str, float | None]) -> Comparison | None:
    """The comparison of the average in bits per byte, with `factors` {domain: bits per byte of a
    nat per token}; None where the bytes of a weighted domain are not known.
    """
    runs, judged = comparison.runs, comparison.criterion
    weigh = judged.target(runs.columns) > 0
    if any(factors.get(name) is None for name, one in zip(runs.names, weigh, strict=True) if one):
        return None
    per_byte = np.array([factors.get(name) or np.nan for name in runs.names])
    plain = replace(judged, kind="weighted")
    return compared(replace(runs, losses=runs.losses * per_byte), plain, outside=comparison.outside)


def said_broken(by: Mapping[str, float]) -> str:
    """The domains that violate a constraint, the worst first: "law 2.3 %, web 0.1 %"."""
    return ", ".join(f"{name} {100 * by[name]:.2g} %" for name in sorted(by, key=by.get, reverse=True))


def steps_to_reach(steps: np.ndarray, losses: np.ndarray, target: float) -> float | None:
    """The first step at which a curve of k losses reaches `target`; None if it never does.

    Log loss is interpolated linearly in log step between evaluations. A curve that is below the
    target at its first evaluation gets the step of that evaluation.
    """
    low = np.nonzero(losses <= target * (1 + 1e-12))[0]
    if not len(low):
        return None
    k = low[0]
    if k == 0:
        return float(steps[0])
    drop = np.log(losses[k - 1] / target) / np.log(losses[k - 1] / losses[k])
    return float(steps[k - 1] * (steps[k] / steps[k - 1]) ** min(drop, 1.0))


def mean_over_seeds(curves: np.ndarray) -> np.ndarray:
    """The mean (n, k) of curves (n, s, k) over the existing seeds; NaN without any."""
    there = np.isfinite(curves)
    total = np.where(there, curves, 0.0).sum(axis=1)
    return np.divide(total, there.sum(axis=1), out=np.full(total.shape, np.nan), where=there.any(axis=1))


def percent(log: float) -> float:
    """A difference of logs in percent."""
    return float(100 * np.expm1(log))
