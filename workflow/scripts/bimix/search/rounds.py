"""The next mixture of a search by rounds: a law fitted to all runs, corrected by what the runs say.

A law errs most where its optimum lies. A run there, added to the fit, cures that. Two voices
propose, so that one that misfits does not decide alone:

law      log objective = that of the fitted law + m(r), m the kriged residuals of the runs
shares   log objective = a + b sum_i w_i log(r_i + 0.003) + m(r), w_i the weights of the losses:
         what has most of the wanted domains is best. Without a, b and m it ranks with no run.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr

from bimix.errors import InputError
from bimix.laws import predict_runs
from bimix.mixtures.by_hand import SHARE_FLOOR, within
from bimix.observations.observations import Observations
from bimix.optimum.goal import Goal
from bimix.optimum.intervals import left_out
from bimix.search.kriging import FLOOR, Kriged, kriged, squares, total_variation

DISTANCE = 0.05  # total variation of a new run from all others, at least
SHARE_LENGTH, SHARE_NUGGET = 0.2, 0.3  # of the kriging beside it
DRAWN, DESCENTS = 2000, 6
NEAR = (20.0, 100.0, 500.0)  # strengths of Dirichlet draws around the best runs and between them
STEPS = 60  # of a descent
MISSED = 10.0  # what a missed constraint adds to a log objective, for its size


@dataclass(frozen=True)
class Seen:
    """The runs, one row for each: shares (n, m), log objectives (n,), and by how much each breaks
    the objective's constraints, 0 where none.
    """

    names: tuple[str, ...]
    shares: np.ndarray
    levels: np.ndarray
    broken: np.ndarray


class Ended(InputError):
    """No mixture is left to run."""


class Law:
    """The voice of a fitted law."""

    name = "law"

    def __init__(self, goal: Goal, fitted: dict, observed: Observations, seen: Seen, noise: float | None):
        self.goal = goal
        residuals = seen.levels - np.log(_at_runs(goal, fitted, observed))
        self.left = _left_out(goal, fitted, observed)  # what it misses of a run it was not fitted to
        self.kriged = kriged(seen.shares, residuals, self.left, noise)

    def mean(self, shares: np.ndarray) -> np.ndarray:
        """Log objectives (k,) expected at mixtures (k, m); one where the law has none is last."""
        level = np.log(self.goal.value(shares)) + self.kriged.mean(shares)
        broken = np.maximum(self.goal.excess(shares), 0.0).sum(axis=-1)
        return np.where(np.isfinite(level), level, np.inf) + MISSED * broken

    def slope(self, shares: np.ndarray) -> np.ndarray | None:
        """The gradient (m,) of the mean; None of a law that is simulated or constrained."""
        if self.goal.losses is None or self.goal.constraints or self.goal.objective.kl_penalty:
            return None
        losses, slopes = self.goal.losses.at(np.maximum(shares, FLOOR))
        rows = self.goal.rows[(self.goal.rows @ losses).argmax()] if self.goal.groups else self.goal.weights
        return (rows @ slopes) / (rows @ losses) + self.kriged.slope(shares)


class Shares:
    """The voice of the shares of the wanted domains."""

    name = "shares"

    def __init__(self, goal: Goal, observed: Observations, seen: Seen):
        own = [observed.domains.index(name) if name in observed.domains else -1 for name in goal.names]
        weights = goal.weights * (np.array(own) >= 0)
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
        return self.line[0] + self.line[1] * self.rank(shares) + self.kriged.mean(shares)

    def slope(self, shares: np.ndarray) -> np.ndarray:
        return self.line[1] * self.weights / (shares + SHARE_FLOOR) + self.kriged.slope(shares)


VOICES = (Law, Shares)


@dataclass(frozen=True)
class Next:
    """A mixture to run: its shares (m,), who proposed it, and the law's expectations of it in logs
    of the objective.
    """

    shares: np.ndarray
    voice: str
    promised: float
    deviation: float
    gain: float  # that is expected of the run, over the best run
    candidate: int | None = None  # its row among the candidates


class Search:
    """What is known after the runs: posteriors of the runs, and what to run next.

    `goal` is of the law at the run that is asked for, `fitted` the law as it was fitted to the
    runs. Bounds (m,); `noise` is of a run's log objective, None: not known.
    """

    def __init__(
        self,
        goal: Goal,
        fitted: dict,
        observed: Observations,
        lower: np.ndarray,
        upper: np.ndarray,
        noise: float | None = None,
        distance: float = DISTANCE,
    ):
        self.goal, self.observed, self.lower, self.upper = goal, observed, lower, upper
        self.noise, self.distance = noise, distance
        self.seen = seen_of(goal, observed)
        self.law = Law(goal, fitted, observed, self.seen, noise)

    @cached_property
    def shares(self) -> Shares:
        return Shares(self.goal, self.observed, self.seen)

    def posterior(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation (k,) of log objectives at mixtures (k, m): the law and what the runs
        themselves say, so that a lucky run is shrunk.
        """
        return self.law.mean(shares), self.law.kriged.spread(shares)

    @cached_property
    def best(self) -> int:
        """The row of the best measured run by its posterior, of those that hold the constraints
        where any does.
        """
        holds = self.seen.broken <= self.seen.broken.min() + 1e-9
        return int(np.argmin(np.where(holds, self.posterior(self.seen.shares)[0], np.inf)))

    def shares_of(self, mixture: str) -> np.ndarray:
        """The shares (m,) of a run's mixture."""
        return self.seen.shares[self.seen.names.index(mixture)]

    def gain(self, reference: np.ndarray, shares: np.ndarray) -> tuple[float, float]:
        """By how much, of the reference's objective, a mixture (m,) is below it, and the
        deviation.
        """
        mean = self.posterior(np.stack([reference, shares]))[0]
        return float(-np.expm1(mean[1] - mean[0])), self.law.kriged.difference(reference, shares)

    def expected_gain(self, shares: np.ndarray) -> np.ndarray:
        """E[max(best - y, 0)] (k,) of log objectives y at mixtures (k, m), normal by the
        posterior.
        """
        mean, spread = self.posterior(shares)
        best = self.posterior(self.seen.shares[[self.best]])[0][0]
        spread = np.maximum(spread, 1e-12)
        z = (best - mean) / spread
        return (best - mean) * ndtr(z) + spread * np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)

    def next(self, turn: int, candidates: np.ndarray | None = None, others: np.ndarray | None = None) -> Next:
        """The mixture to run in a turn, from 0: the law proposes in the first, the shares in the
        second, and so on.

        Of `candidates` (N, m) one; else within the bounds at the distance from all runs, and from
        `others` (k, m) that are to be run as well. Errors: none is left.
        """
        voice = self.law if turn % len(VOICES) == 0 else self.shares
        taken = self.seen.shares if others is None else np.concatenate([self.seen.shares, others])
        if candidates is not None:
            row = self._picked(voice, candidates, taken)
            return self._next(candidates[row], voice.name, row)
        return self._next(self._found(voice, taken), voice.name, None)

    def _next(self, shares: np.ndarray, voice: str, row: int | None) -> Next:
        mean, spread = (float(one[0]) for one in self.posterior(shares[None]))
        return Next(shares, voice, mean, spread, float(self.expected_gain(shares[None])[0]), row)

    def _picked(self, voice, candidates, taken) -> int:
        fits = (candidates >= self.lower - 1e-9).all(axis=1) & (candidates <= self.upper + 1e-9).all(axis=1)
        left = fits & (total_variation(candidates, taken).min(axis=1) > 1e-6)
        if not left.any():
            raise Ended(
                f"none of the {len(candidates)} candidates is left that was not measured"
                + ("." if fits.all() else f"; {int((~fits).sum())} lie outside the bounds.")
            )
        return int(np.argmin(np.where(left, voice.mean(candidates), np.inf)))

    def _found(self, voice, taken) -> np.ndarray:
        """The least mean of a voice within the bounds, away from the runs: descents from the best
        draws, on which the result falls back.
        """
        drawn = self._drawn(voice)
        drawn = drawn[total_variation(drawn, taken).min(axis=1) >= self.distance]
        if not len(drawn):
            raise Ended(
                f"within the bounds every mixture is nearer than {self.distance:g} (total variation) to one that was run:"
                " the search has ended; widen the bounds to go on."
            )
        order = np.argsort(voice.mean(drawn), kind="stable")
        starts = _apart(drawn[order], self.distance, DESCENTS)
        ends = [self._descent(voice, start, taken) for start in starts]
        found = np.concatenate([np.array([one for one in ends if one is not None]).reshape(-1, drawn.shape[1]), starts])
        return found[int(np.argmin(voice.mean(found)))]

    def _drawn(self, voice) -> np.ndarray:
        """Draws (n, m) within the bounds: around the best runs and the law's pick, between the best
        runs, and anywhere.
        """
        draw, m = np.random.default_rng(len(self.seen.names)), len(self.lower)
        order = np.argsort(voice.mean(self.seen.shares), kind="stable")
        best = self.seen.shares[order[:5]]
        parts = draw.dirichlet(np.ones(len(best)), DRAWN // 4) @ best
        steps = draw.dirichlet(np.ones(m), DRAWN // 4)
        some = best[draw.integers(len(best), size=DRAWN // 4)]
        length = draw.uniform(self.distance, 0.6, (len(some), 1))
        around = [
            draw.dirichlet(strength * m * (0.9 * one + 0.1 / m), DRAWN // (4 * len(best) * len(NEAR)) + 1)
            for one in best
            for strength in NEAR
        ]
        anywhere = draw.dirichlet(np.full(m, 0.5), DRAWN // 4)
        drawn = np.concatenate([parts, (1 - length) * some + length * steps, *around, anywhere])
        return within(drawn, self.lower, self.upper)

    def _descent(self, voice, start, taken) -> np.ndarray | None:
        """Where SLSQP ends from a start, outside the balls around the runs; None where it ends
        inside of one or no better.
        """
        if voice.slope(start) is None:
            return None
        near = taken[total_variation(start[None], taken)[0] < 0.5]

        def apart(r):
            return total_variation(r[None], near)[0] - self.distance

        constraints = [{"type": "eq", "fun": lambda r: r.sum() - 1, "jac": np.ones_like}]
        if len(near):
            constraints.append({"type": "ineq", "fun": apart, "jac": lambda r: 0.5 * np.sign(r - near)})
        found = minimize(
            lambda r: (float(voice.mean(np.maximum(r, 0.0)[None])[0]), voice.slope(np.maximum(r, 0.0))),
            start,
            jac=True,
            method="SLSQP",
            bounds=list(zip(self.lower, self.upper, strict=True)),
            constraints=constraints,
            options={"maxiter": STEPS, "ftol": 1e-9},
        )
        if not np.isfinite(found.x).all():
            return None
        end = within(np.clip(found.x, self.lower, self.upper)[None] - self.lower, self.lower, self.upper)[0]
        better = voice.mean(end[None])[0] <= voice.mean(start[None])[0]
        return end if better and total_variation(end[None], taken).min() >= self.distance - 1e-6 else None


def seen_of(goal: Goal, observed: Observations) -> Seen:
    """The runs' log objectives, as measured. Errors: a run lacks a loss that counts."""
    losses = _measured(goal, observed)
    missing = ~np.isfinite(losses).all(axis=1)
    if missing.any():
        name = observed.mixtures[int(np.flatnonzero(missing)[0])]
        raise InputError(
            f"the run on {name!r} has no loss at step {goal.step} of a domain that counts: take it out, or name another step."
        )
    levels = goal.combined(losses) + goal.penalty(observed.proportions)
    rows = goal.rows[goal.epigraph[: len(goal.rows)] == 0]
    broken = np.maximum(losses @ rows.T - 1, 0.0).sum(axis=1)
    return Seen(observed.mixtures, observed.proportions, np.log(levels), broken)


def _measured(goal: Goal, observed: Observations) -> np.ndarray:
    """Losses (n, d) of the domains that count at the goal's step, or where none was observed at it
    the last.
    """
    columns = [observed.loss_domains.index(name) for name in goal.names]
    return _end(goal, observed, observed.losses)[:, columns]


def _end(goal: Goal, observed: Observations, losses: np.ndarray) -> np.ndarray:
    if observed.parameters is not None:
        there = np.isfinite(observed.losses).any(axis=2)
        return losses[np.arange(len(losses)), losses.shape[1] - 1 - there[:, ::-1].argmax(axis=1)]
    at = np.flatnonzero(observed.steps == goal.step)
    return losses[:, int(at[0]) if len(at) else -1]


def _at_runs(goal: Goal, fitted: dict, observed: Observations) -> np.ndarray:
    """The law's objective (n,) of each run, at its own size and pools."""
    columns = [fitted["loss_domains"].index(name) for name in goal.names]
    losses = _end(goal, observed, predict_runs(fitted, observed))[:, columns]
    return goal.combined(losses) + goal.penalty(observed.proportions)


def _left_out(goal: Goal, fitted: dict, observed: Observations) -> float:
    """Root mean square of log(measured / predicted) objectives of runs left out; with fewer than
    three runs a tenth.
    """
    if len(set(observed.mixtures)) < 3:
        return 0.1
    errors = left_out(fitted, observed, goal.step)
    columns = [fitted["loss_domains"].index(name) for name in goal.names]
    both = (np.log(goal.combined(one[:, columns])) for one in (errors.observed, errors.predicted))
    gaps = np.subtract(*both)
    gaps = gaps[np.isfinite(gaps)]
    return float(np.sqrt(np.mean(gaps**2))) if len(gaps) else 0.1


def _apart(ranked: np.ndarray, distance: float, count: int) -> np.ndarray:
    """The first mixtures of those ranked (n, m) that lie twice the distance from each other."""
    kept = [ranked[0]]
    for one in ranked[1:]:
        if len(kept) == count:
            break
        if total_variation(one[None], np.array(kept)).min() >= 2 * distance:
            kept.append(one)
    return np.array(kept)
