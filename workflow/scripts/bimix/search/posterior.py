"""The posterior of a mixture after the runs: the law fitted to them, corrected by its errors.

A law errs most where its optimum lies. Kriging of its residuals, a Gaussian process over mixtures,
squared-exponential in Hellinger distance, says how far it is off there and how sure that is. Two
voices look at the same runs, so that one that misfits does not decide alone:

law      log objective = that of the fitted law + m(r), m the kriged residuals of the runs
shares   log objective = a + b sum_i w_i log(r_i + 0.003) + m(r), w_i the weights of the losses:
         what has most of the wanted domains is best. Without a, b and m it ranks with no run.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from bimix.errors import InputError
from bimix.judge.evidence import NEAR, ROUNDED
from bimix.laws.fitted import predict_runs
from bimix.mixtures.by_hand import SHARE_FLOOR
from bimix.observations.observations import Observations
from bimix.optimum.goal import HELD, Goal
from bimix.optimum.intervals import LeftOut, left_out
from bimix.transfer.unseen import deviations

LENGTHS = (0.2, 0.35, 0.6)
USUAL_LENGTH, LENGTH_SPREAD = 0.35, 0.5  # prior of its logarithm: a few runs do not choose it alone
USUAL_NOISE = 0.003  # of the log loss of a run, without further seeds
NOISES = (0.5, 1.0, 2.0)  # times the noise that is known or usual
FLOOR = 1e-6  # of a share, where its root has no slope
SHARE_LENGTH, SHARE_NUGGET = 0.2, 0.3  # of the kriging for the voice of shares
MISSED = 10.0  # what a missed constraint adds to a log objective, and again for its size
FEWEST, UNKNOWN = 3, 0.1  # runs that can be left out; what a law is taken to miss with fewer


def squares(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Squared Hellinger distances (n, k), from 0 to 1, of mixtures (n, m) and (k, m)."""
    return np.maximum(1 - np.sqrt(np.maximum(some, 0)) @ np.sqrt(np.maximum(others, 0)).T, 0.0)


def total_variation(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Total variations (n, k), from 0 to 1, of mixtures (n, m) and (k, m)."""
    return 0.5 * np.abs(some[:, None] - others[None]).sum(axis=2)


@dataclass(frozen=True)
class Kriged:
    """Kriging of n runs (n, m): a mean and a deviation at any mixture."""

    runs: np.ndarray  # (n, m)
    weights: np.ndarray  # (n,)
    inverse: np.ndarray  # (n, n) of the covariance, in units of the variance
    length: float
    deviation: float  # where no run is near
    noise: float  # of a run

    def near(self, shares: np.ndarray) -> np.ndarray:
        return np.exp(-squares(shares, self.runs) / (2 * self.length**2))

    def mean(self, shares: np.ndarray) -> np.ndarray:
        """The mean (k,) at mixtures (k, m)."""
        return self.near(shares) @ self.weights

    def slope(self, shares: np.ndarray) -> np.ndarray:
        """Its gradient (m,) at a mixture (m,)."""
        roots = np.sqrt(self.runs / np.maximum(shares, FLOOR))
        return (self.near(shares[None])[0] * self.weights) @ roots / (4 * self.length**2)

    def spread(self, shares: np.ndarray) -> np.ndarray:
        """The deviation (k,) at mixtures (k, m): small near the runs."""
        near = self.near(shares)
        explained = np.einsum("kn,nl,kl->k", near, self.inverse, near)
        return self.deviation * np.sqrt(np.maximum(1 - explained, 0.0))

    def difference(self, one: np.ndarray, other: np.ndarray) -> float:
        """The deviation of the difference between two mixtures (m,)."""
        pair = np.stack([one, other])
        near = self.near(pair)
        apart = np.exp(-squares(pair, pair) / (2 * self.length**2)) - near @ self.inverse @ near.T
        return self.deviation * float(np.sqrt(max(apart[0, 0] + apart[1, 1] - 2 * apart[0, 1], 0.0)))


def kriged(
    runs: np.ndarray, values: np.ndarray, deviation: float, noise: float | None, counts: np.ndarray | None = None
) -> Kriged:
    """Kriging of values (n,) of runs (n, m), 0 far from all; `deviation` as known from elsewhere;
    of `counts` (n,) each is the mean.

    The length, the deviation within a factor of two and the noise are those at which each run is
    likeliest, predicted by the others; noise that is known stays as it is.
    """
    known = USUAL_NOISE if noise is None else max(noise, 1e-6)
    apart, best = squares(runs, runs), None
    repeated = np.diag(1 / (np.ones(len(runs)) if counts is None else counts))
    for length in LENGTHS:
        near = np.exp(-apart / (2 * length**2))
        for times in (0.5, 1.0, 2.0):
            for noisy in (1.0,) if noise is not None else NOISES:
                variance = (max(deviation, known) * times) ** 2
                nugget = (known * noisy) ** 2 / variance
                inverse = np.linalg.inv(near + nugget * repeated)
                left, open_ = (inverse @ values) / np.diag(inverse), variance / np.diag(inverse)
                likely = -0.5 * (left**2 / open_ + np.log(open_)).sum()
                likely -= 0.5 * (np.log(length / USUAL_LENGTH) / LENGTH_SPREAD) ** 2
                likely -= 0.5 * np.log(times) ** 2 + 0.5 * np.log(noisy) ** 2
                if best is None or likely > best[0]:
                    best = likely, Kriged(runs, inverse @ values, inverse, length, variance**0.5, known * noisy)
    return best[1]


@dataclass(frozen=True)
class Seen:
    """The runs, one row for each: shares (n, m), log objectives (n,), and by how much each breaks
    the objective's constraints, 0 where none.
    """

    names: tuple[str, ...]
    shares: np.ndarray
    levels: np.ndarray
    broken: np.ndarray


class Law:
    """The voice of a fitted law."""

    name = "law"

    def __init__(
        self, goal: Goal, fitted: dict, observed: Observations, seen: Seen, noise: float | None, left: LeftOut | None
    ):
        self.goal, self.fitted = goal, fitted
        columns = [fitted["loss_domains"].index(name) for name in goal.names]
        predicted = goal.combined(_end(goal, observed, predict_runs(fitted, observed))[:, columns])
        residuals = seen.levels - np.log(predicted)
        self.errors, self.left = _misfit(goal, fitted, observed, left)
        self.kriged = kriged(seen.shares, residuals, self.left, noise, observed.runs)

    def level(self, shares: np.ndarray) -> np.ndarray:
        """Log objectives (k,) expected at mixtures (k, m); one where the law has none is last."""
        level = np.log(self.goal.value(shares)) + self.kriged.mean(shares)
        return np.where(np.isfinite(level), level, np.inf)

    def mean(self, shares: np.ndarray) -> np.ndarray:
        """Likewise with what the constraints add that a mixture breaks: the least is proposed."""
        return self.level(shares) + _missed(self.goal, shares)

    def new(self, shares: np.ndarray) -> np.ndarray:
        """The deviation (k,) by what is not known of domains that no run trains on."""
        columns = [self.fitted["loss_domains"].index(name) for name in self.goal.names]
        return deviations(self.fitted, shares, self.goal.step)[:, columns] @ self.goal.weights

    def slope(self, shares: np.ndarray) -> np.ndarray | None:
        """The gradient (m,) of the mean; None of a law that is simulated or constrained."""
        if not self.goal.convex or self.goal.held:
            return None
        losses, slopes = self.goal.at(np.maximum(shares, FLOOR))
        rows = self.goal.rows[(self.goal.rows @ losses).argmax()] if self.goal.groups else self.goal.weights
        return (rows @ slopes) / (rows @ losses) + self.kriged.slope(shares)


def _missed(goal: Goal, shares: np.ndarray) -> np.ndarray:
    """What the constraints that mixtures (k, m) break, by the law, add to their log objectives:
    none of these is before one that holds them all.
    """
    excess = goal.excess(shares)
    return MISSED * (np.maximum(excess, 0.0).sum(axis=-1) + (excess > HELD).any(axis=-1))


class Shares:
    """The voice of the shares of the wanted domains; of the runs alone where there is none."""

    name = "shares"

    def __init__(self, goal: Goal, observed: Observations, seen: Seen):
        names = [observed.pairs.get(name, name) for name in goal.names]
        own = [observed.domains.index(name) if name in observed.domains else -1 for name in names]
        self.goal, weights = goal, goal.weights * (np.array(own) >= 0)
        self.weights = np.zeros(len(observed.domains))
        np.add.at(self.weights, own, weights / max(weights.sum(), 1e-300))
        near = np.exp(-squares(seen.shares, seen.shares) / (2 * SHARE_LENGTH**2))
        inverse = np.linalg.inv(near + SHARE_NUGGET * np.eye(len(near)))
        design = np.stack([np.ones(len(near)), self.rank(seen.shares)], axis=1)
        self.line = np.linalg.lstsq(design.T @ inverse @ design, design.T @ inverse @ seen.levels, rcond=1e-8)[0]
        if self.line[1] > 0:  # these runs say the reverse of a rule that everybody uses: it has no say
            self.line = np.array([seen.levels.mean(), 0.0])
        rest = seen.levels - design @ self.line
        left = (inverse @ rest) / np.diag(inverse)
        self.left = float(np.sqrt(np.mean(left**2)))
        self.kriged = Kriged(seen.shares, inverse @ rest, inverse, SHARE_LENGTH, self.left, 0.0)

    def rank(self, shares: np.ndarray) -> np.ndarray:
        """sum_i w_i log(r_i + 0.003) (k,) of mixtures (k, m): needs no run."""
        return np.log(shares + SHARE_FLOOR) @ self.weights

    def mean(self, shares: np.ndarray) -> np.ndarray:
        level = self.line[0] + self.line[1] * self.rank(shares) + self.kriged.mean(shares)
        return level + _missed(self.goal, shares)

    def slope(self, shares: np.ndarray) -> np.ndarray | None:
        """The gradient (m,) of the mean; None where a mixture is constrained."""
        if self.goal.held:
            return None
        return self.line[1] * self.weights / (shares + SHARE_FLOOR) + self.kriged.slope(shares)


class Posterior:
    """The posterior of any mixture after the runs.

    `goal` is of the law at the requested run, `fitted` the law as it was fitted to the
    runs. Bounds (m,); `noise` is of a run's log objective, None: not known; `left` are the law's
    errors on runs left out, which are found where not given.
    """

    def __init__(
        self,
        goal: Goal,
        fitted: dict,
        observed: Observations,
        lower: np.ndarray,
        upper: np.ndarray,
        noise: float | None = None,
        left: LeftOut | None = None,
    ):
        self.goal, self.observed, self.lower, self.upper, self.noise = goal, observed, lower, upper, noise
        self.seen = seen_of(goal, observed, fitted)
        self.law = Law(goal, fitted, observed, self.seen, noise, left)

    @cached_property
    def second(self) -> Shares | None:
        """The second voice; None where no trained domain is wanted, as with benchmarks."""
        voice = Shares(self.goal, self.observed, self.seen)
        return voice if voice.weights.any() else None

    def posterior(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation (k,) of log objectives at mixtures (k, m): the law and what the runs
        themselves say, so that a lucky run is shrunk.
        """
        return self.law.level(shares), np.hypot(self.law.kriged.spread(shares), self.law.new(shares))

    @cached_property
    def missed(self) -> np.ndarray:
        """By how much runs (n,) miss the constraints, as measured, and the upper bounds; 0: not."""
        return self.seen.broken + np.maximum(self.seen.shares - self.upper - ROUNDED, 0.0).sum(axis=1)

    @cached_property
    def best(self) -> int:
        """The row of the best measured run by its posterior, of those that hold the constraints and
        the upper bounds, which epochs are among, where any does. Lower ones may be a search's own.
        Of a mixture's runs, which have one posterior, the largest model's.
        """
        holds = self.missed <= self.missed.min() + 1e-9
        mean = np.where(holds, self.posterior(self.seen.shares)[0], np.inf)
        sizes = self.observed.parameters
        return int(np.argmin(mean) if sizes is None else np.lexsort([-sizes, mean.round(12)])[0])

    def gain(self, reference: np.ndarray, shares: np.ndarray) -> tuple[float, float]:
        """By how much of the reference's objective a mixture (m,) is below it; the deviation, with the
        law taken as known.
        """
        mean = self.posterior(np.stack([reference, shares]))[0]
        new = np.linalg.norm(self.law.new(np.stack([reference, shares])))
        return float(-np.expm1(mean[1] - mean[0])), float(np.hypot(self.law.kriged.difference(reference, shares), new))

    @cached_property
    def _without(self) -> list[Law]:
        """The law at the requested run and its kriging, without each left-out run or group."""
        found, errors, run = [], self.law.errors, self.goal.fitted
        for refit, names in zip(errors.refitted, errors.without, strict=True) if errors else ():
            rows = np.flatnonzero(~np.isin(self.observed.mixtures, names))
            own = {
                name: values | {key: one for key, one in run["coefficients"][name].items() if key == "run"}
                for name, values in refit["coefficients"].items()
            }
            goal = Goal(run | {"coefficients": own}, self.goal.step, self.goal.objective)
            seen = replace(self.seen, shares=self.seen.shares[rows], levels=self.seen.levels[rows])
            found.append(Law(goal, refit, self.observed.take(rows), seen, self.noise, errors))
        return found

    def refitted_gain(self, reference: np.ndarray, shares: np.ndarray) -> tuple[float, float]:
        """The `gain`, and its deviation with the jackknife over the runs, by law and kriging, since
        kriging takes the law as known; without it with fewer runs than can be left out.
        """
        gain, deviation = self.gain(reference, shares)
        means = np.array([one.level(np.stack([reference, shares])) for one in self._without])
        if not len(means):
            return gain, deviation
        moved = -np.expm1(means[:, 1] - means[:, 0])
        return gain, float(np.hypot(deviation, np.sqrt((len(moved) - 1) * np.var(moved))))

    def expected_gain(self, shares: np.ndarray) -> np.ndarray:
        """E[max(best - y, 0)] (k,) of log objectives y at mixtures (k, m), normal by the posterior;
        the constraints count that the law says they break, and that the best run was seen to.
        """
        mean, spread = self.law.mean(shares), self.posterior(shares)[1]
        best = self.posterior(self.seen.shares[[self.best]])[0][0]
        best += MISSED * (self.seen.broken[self.best] + (self.seen.broken[self.best] > HELD))
        spread = np.maximum(spread, 1e-12)
        z = (best - mean) / spread
        return (best - mean) * ndtr(z) + spread * np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)


def seen_of(goal: Goal, observed: Observations, fitted: dict) -> Seen:
    """The runs' log objectives, and what they break, as measured: without the law's error in the
    limits. Errors: a run lacks a loss that counts.
    """
    losses = ends(goal, observed)
    missing = ~np.isfinite(losses).all(axis=1)
    if missing.any():
        name = observed.mixtures[int(np.flatnonzero(missing)[0])]
        raise InputError(
            f"the run on {name!r} has no loss at step {goal.step} of a domain that counts: take it out, or name another step."
        )
    broken = np.zeros(len(observed.mixtures))
    if goal.held:
        limits = _references(goal, observed, fitted, losses) * goal.objective.allowed * (1 + HELD)
        broken = broken + np.maximum(losses / limits - 1, 0.0).sum(axis=1)
    return Seen(observed.mixtures, observed.proportions, np.log(goal.combined(losses)), broken)


def _references(goal: Goal, observed: Observations, fitted: dict, losses: np.ndarray) -> np.ndarray:
    """Losses (n, d) of the reference beside each run: as measured at its size and schedule, else the
    law's, times what the law misses of the reference at others.
    """
    expected = np.tile(goal.before, (len(losses), 1))
    if "rows" in fitted:
        references = replace(observed, proportions=np.tile(goal.reference, (len(losses), 1)))
        expected = ends(goal, replace(references, losses=predict_runs(fitted, references)))
    levels = [np.zeros(len(losses)) if one is None else one for one in (observed.parameters, observed.tokens)]
    levels = np.nan_to_num(np.stack(levels, axis=1))
    own = np.abs(observed.proportions - goal.reference).max(axis=1) <= NEAR
    misses, found = np.log(losses / expected), expected.copy()
    for here in ((levels == level).all(axis=1) for level in np.unique(levels, axis=0)):
        rows = own & here if (own & here).any() else own
        if rows.any():
            found[here] *= np.exp(misses[rows].mean(axis=0))
    return found


def once(observed: Observations) -> Observations:
    """The runs without those that are another again: two names of one mixture are one training."""
    keys = [
        (row.tobytes(), losses.tobytes()) for row, losses in zip(observed.proportions, observed.losses, strict=True)
    ]
    return observed.take([row for row, key in enumerate(keys) if keys.index(key) == row])


def whole(goal: Goal, observed: Observations) -> Observations:
    """The runs that have every loss that counts; all where none has."""
    rows = np.flatnonzero(np.isfinite(ends(goal, observed)).all(axis=1))
    return observed.take(rows) if len(rows) else observed


def ends(goal: Goal, observed: Observations) -> np.ndarray:
    """Measured losses (n, d) of the runs, of the domains that count."""
    return _end(goal, observed, observed.losses)[:, [observed.loss_domains.index(name) for name in goal.names]]


def _end(goal: Goal, observed: Observations, losses: np.ndarray) -> np.ndarray:
    """Losses (n, d) of (n, k, d) at the goal's step, if observed, or last; each run's last of a law
    over sizes or schedules.
    """
    if "rows" in goal.fitted:
        there = np.isfinite(observed.losses).any(axis=2)
        return losses[np.arange(len(losses)), losses.shape[1] - 1 - there[:, ::-1].argmax(axis=1)]
    at = np.flatnonzero(observed.steps == goal.step)
    return losses[:, int(at[0]) if len(at) else -1]


def _misfit(goal: Goal, fitted: dict, observed: Observations, left: LeftOut | None) -> tuple[LeftOut | None, float]:
    """The errors of a law on left-out runs, and the root mean square of log(measured / predicted)
    objectives; a tenth with fewer than three runs.
    """
    if left is None and len(set(observed.mixtures)) >= FEWEST:
        left = left_out(fitted, observed, goal.step)
    if left is None:
        return None, UNKNOWN
    columns = [fitted["loss_domains"].index(name) for name in goal.names]
    gaps = np.subtract(*(np.log(goal.combined(one[:, columns])) for one in (left.observed, left.predicted)))
    gaps = gaps[np.isfinite(gaps)]
    return left, float(np.sqrt(np.mean(gaps**2))) if len(gaps) else UNKNOWN
