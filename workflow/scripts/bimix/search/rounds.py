"""The next mixture of a search by rounds: one far from all runs that is best by what they say.

One shot of a law suffers the winner's curse: its optimum is where it errs most. A run there, added
to the fit, cures that, round by round.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import minimize

from bimix.errors import InputError
from bimix.mixtures.by_hand import fit_into_bounds
from bimix.optimum.goal import HELD
from bimix.search.by_hand import Wanted
from bimix.search.first import separating
from bimix.search.posterior import MISSED, USUAL_NOISE, Posterior, squares, total_variation
from bimix.transfer.unseen import unseen

DISTANCE = 0.05  # total variation of a new run from all others, at least
DRAWN, DESCENTS = 2000, 6
NEAR = (20.0, 100.0, 500.0)  # strengths of Dirichlet draws around the best runs and between them
STEPS = 60  # of a descent
LEAST_RUNS = 2  # that read wanted domains as often as a rule by hand: with fewer it is run first
ALIKE = 0.01  # relative, of epochs
FRUITLESS, FAR = 2, 0.3  # rounds without a better run, and the Hellinger distance from the best of the next


class Ended(InputError):
    """No mixture is left to run."""


@dataclass(frozen=True)
class Next:
    """A mixture to run (m,), who proposed it, and the expectations of the law and all runs in logs."""

    shares: np.ndarray
    voice: str
    promised: float
    deviation: float
    gain: float  # that is expected of the run, over the best run
    candidate: int | None = None  # its row among the candidates


def stuck(best: str, rounds: Sequence[Collection[str]]) -> bool:
    """Whether the next round must look away from the `best` run: FRUITLESS rounds in turn found no
    better one, since that run or since the last round that looked away. `rounds` are the mixtures
    of each, in order.
    """
    since = 0
    for names in rounds:
        since = 0 if best in names else since + 1
    return since % (FRUITLESS + 1) == FRUITLESS


class Search(Posterior):
    """The next runs."""

    def __init__(self, *known, distance: float = DISTANCE, **more):
        super().__init__(*known, **more)
        self.distance = distance

    def next(
        self, turn: int, candidates: np.ndarray | None = None, others: np.ndarray | None = None, far: bool = False
    ) -> Next:
        """The mixture to run in a turn, from 0: the law proposes in the first, the shares in the
        second, and so on; where there is no second voice the law in all. If it must be `far`, the law
        proposes, away from the best run, where the objective may have a second, lower valley.

        Of `candidates` (N, m) one; else within the bounds at the distance from all runs, and from
        `others` (k, m) that are to be run as well. Errors: none is left.
        """
        taken = self.seen.shares if others is None else np.concatenate([self.seen.shares, others])
        voice = self.second if turn % 2 and not far else None
        name, level, slope = "law, away from the best" if far else "law", partial(self._level, far=far), None
        if voice is not None:
            name, level, slope = voice.name, voice.mean, voice.slope
        elif not far and not unseen(self.law.fitted):
            slope = self.law.slope
        if candidates is not None:
            row = self._picked(level, candidates, taken)
            return self._next(candidates[row], name, row)
        return self._next(self._found(level, slope, taken), name)

    def _level(self, shares: np.ndarray, far: bool = False) -> np.ndarray:
        """Log objectives (k,) by which the law ranks mixtures (k, m). Those that train on domains that no
        run does count at their lower end: a run there settles whether they are worth it.
        """
        near = np.sqrt(squares(shares, self.seen.shares[[self.best]]))[:, 0] < FAR
        return self.law.mean(shares) - self.law.new(shares) + MISSED * (near & far)

    def separating(self) -> Next | None:
        """The lowest mixture that separates domains for the losses that count, which the runs do not; None
        where they do, or the law takes no domain for another.
        """
        if self.law.fitted["law"] != "transfer":
            return None
        own = {self.observed.pairs.get(name, name) for name in np.array(self.goal.names)[self.goal.weights > 0]}
        counts = np.isin(self.observed.domains, list(own))
        found = separating(self.seen.shares, self._drawn(self._level), self.lower, self.upper, counts)
        if not len(found):
            return None
        return self._next(found[int(np.argmin(self._level(found)))], "law, to separate domains")

    def by_hand(
        self, rules: Wanted, epochs: Sequence[float], count: int, candidates: np.ndarray | None = None
    ) -> dict[str, Next]:
        """Rules by hand to run first, by name, `count` at most: those whose epochs of the wanted
        domains fewer than two runs have, these rules among them, away from all runs, if they hold
        the objective's constraints by the law. Of `candidates` (N, m) the nearest to each that
        reads the wanted domains so often.
        """
        found, taken = {}, self.seen.shares
        for name, shares in rules.mixtures(epochs).items():
            if len(found) == count:
                break
            often, row = (1 - ALIKE) * rules.read(shares[None]), None
            if candidates is not None:
                left = self._left(candidates, taken) & (rules.read(candidates) >= often)
                if not left.any():
                    continue
                row = int(np.argmin(np.where(left, total_variation(shares[None], candidates)[0], np.inf)))
                shares = candidates[row]
            near = row is None and total_variation(shares[None], taken).min() < self.distance
            known = near or name in self.seen.names or (rules.read(taken) >= often).sum() >= LEAST_RUNS
            if not known and self.goal.holds(shares):
                found[name] = self._next(shares, "rule by hand", row)
                taken = np.concatenate([taken, shares[None]])
        return found

    def _next(self, shares: np.ndarray, voice: str, row: int | None = None) -> Next:
        mean, spread = (float(one[0]) for one in self.posterior(shares[None]))
        return Next(shares, voice, mean, spread, float(self.expected_gain(shares[None])[0]), row)

    def _within(self, candidates: np.ndarray) -> np.ndarray:
        return (candidates >= self.lower - 1e-9).all(axis=1) & (candidates <= self.upper + 1e-9).all(axis=1)

    def _left(self, candidates: np.ndarray, taken: np.ndarray) -> np.ndarray:
        """The candidates (N,) within the bounds that are none of the runs."""
        return self._within(candidates) & (total_variation(candidates, taken).min(axis=1) > 1e-6)

    def _picked(self, level, candidates, taken) -> int:
        fits, left = self._within(candidates), self._left(candidates, taken)
        if not left.any():
            raise Ended(
                f"none of the {len(candidates)} candidates is left that was not measured"
                + ("." if fits.all() else f"; {int((~fits).sum())} lie outside the bounds.")
            )
        return int(np.argmin(np.where(left, level(candidates), np.inf)))

    def _found(self, level, slope, taken) -> np.ndarray:
        """The lowest mixture within the bounds, away from runs: of draws, and of descents from the best of
        them, where the level has a `slope`.
        """
        drawn = self._drawn(level)
        drawn = drawn[total_variation(drawn, taken).min(axis=1) >= self.distance]
        if not len(drawn):
            raise Ended(
                f"within the bounds every mixture is nearer than {self.distance:g} (total variation) to one that was run:"
                " the search has ended; widen the bounds to go on."
            )
        order = np.argsort(level(drawn), kind="stable")
        found = list(_apart(drawn[order], self.distance, DESCENTS))
        if slope is not None and slope(found[0]) is not None:
            ends = [self._descent(level, slope, start, taken) for start in found]
            found = [one for one in ends if one is not None] + found
        return found[int(np.argmin(level(np.array(found))))]

    def _drawn(self, level) -> np.ndarray:
        """Draws (n, m) within the bounds: around and between the best runs, and anywhere."""
        draw, m = np.random.default_rng(len(self.seen.names)), len(self.lower)
        order = np.argsort(level(self.seen.shares), kind="stable")
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
        return fit_into_bounds(drawn, self.lower, self.upper)

    def _descent(self, level, slope, start, taken) -> np.ndarray | None:
        """Where SLSQP ends from a start, outside the balls around the runs; None if no better."""
        near = taken[total_variation(start[None], taken)[0] < 0.5]

        def apart(r):
            return total_variation(r[None], near)[0] - self.distance

        constraints = [{"type": "eq", "fun": lambda r: r.sum() - 1, "jac": np.ones_like}]
        if len(near):
            constraints.append({"type": "ineq", "fun": apart, "jac": lambda r: 0.5 * np.sign(r - near)})
        found = minimize(
            lambda r: (float(level(np.maximum(r, 0.0)[None])[0]), slope(np.maximum(r, 0.0))),
            start,
            jac=True,
            method="SLSQP",
            bounds=list(zip(self.lower, self.upper, strict=True)),
            constraints=constraints,
            options={"maxiter": STEPS, "ftol": 1e-9},
        )
        if not np.isfinite(found.x).all():
            return None
        end = fit_into_bounds(np.clip(found.x, self.lower, self.upper)[None] - self.lower, self.lower, self.upper)[0]
        # A missed bound on losses is a penalty, and SLSQP may end beyond it: the last that holds.
        line = start + np.linspace(0, 1, 257)[:, None] * (end - start)
        held = np.flatnonzero((self.goal.excess(line) <= HELD).all(axis=-1))
        end = line[held[-1]] if len(held) else end
        better = level(end[None])[0] <= level(start[None])[0]
        return end if better and total_variation(end[None], taken).min() >= self.distance - 1e-6 else None


def _apart(ranked: np.ndarray, distance: float, count: int) -> np.ndarray:
    """The first mixtures of those ranked (n, m) that lie twice the distance from each other."""
    kept = [ranked[0]]
    for one in ranked[1:]:
        if len(kept) == count:
            break
        if total_variation(one[None], np.array(kept)).min() >= 2 * distance:
            kept.append(one)
    return np.array(kept)


def report_of(search: Search, named: Sequence[str], found: Sequence[Next]) -> dict:
    """Expectations for the mixtures that a round proposes, under their names."""
    best = search.best
    return {
        "best": search.seen.names[best],
        "best_measured": float(np.exp(search.seen.levels[best])),
        "best_posterior": float(np.exp(search.posterior(search.seen.shares[[best]])[0][0])),
        "best_missed": float(search.seen.broken[best]),
        "noise": search.noise,
        "left_out": search.law.left,
        "expected_gain": max((one.gain for one in found), default=0.0),
        "proposals": [
            {
                "mixture": name,
                "voice": one.voice,
                "promised": float(np.exp(one.promised)),
                "deviation": one.deviation,
                "expected_gain": one.gain,
                "missed": float(np.maximum(search.goal.excess(one.shares), 0.0).max(initial=0.0)),
            }
            for name, one in zip(named, found, strict=False)
        ],
    }


def report_lines(report: dict) -> list[str]:
    """A report as text."""
    noise, held = report["noise"], report["best_missed"] <= HELD
    said = [
        f"best of the runs: {report['best']}, {report['best_measured']:.4f} measured,"
        f" {report['best_posterior']:.4f} by the law and all runs together"
        + ("" if held else "; no run keeps all constraints, and it misses them least")
    ]
    for one in report["proposals"]:
        said.append(
            f"next: {one['mixture']}, proposed by the {one['voice']}: promised {one['promised']:.4f}"
            f" +- {100 * one['deviation']:.2g} %"
            + (f", expected gain {100 * one['expected_gain']:.2g} %" if held else "")
            + (f"; it misses constraints by {100 * one['missed']:.2g} % by the law" if one["missed"] > HELD else "")
        )
    beside = f"{100 * noise:.2g} %" if noise is not None else f"not known, {100 * USUAL_NOISE:.2g} % is taken"
    left = report["expected_gain"]
    verdict = "below it: stop after two such rounds" if left < (noise or USUAL_NOISE) else "above it: go on"
    if held:
        said.append(f"expected gain left {100 * left:.2g} %; noise of a run {beside}; {verdict}")
    return [*said, f"The search has ended: {report['stopped']}"] if report["stopped"] else said


def stopped(reports: Sequence[dict], ended: str | None) -> str | None:
    """Why the search has ended before the round of the last report; None: it has not."""
    *before, now = reports
    for one in before:
        if one["stopped"]:
            return one["stopped"]
    if ended:
        return ended
    noise = now["noise"] or USUAL_NOISE
    gains = [one["expected_gain"] for one in reports[-2:]]
    if before and max(gains) < noise:
        return (
            f"two rounds expected gains of {100 * gains[0]:.2g} and {100 * gains[1]:.2g} %, less than the noise of a run,"
            f" {100 * noise:.2g} %."
        )
    return None
