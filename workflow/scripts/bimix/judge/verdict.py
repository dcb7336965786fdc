"""The recommended mixture, and the reason.

It is the lowest of the mixtures measured at the target, or the cheapest of those that tie with it.
Where no searched mixture was trained there, the posterior of the best law and all runs decides
(`search.weighing`).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scipy.special import stdtrit

from bimix.judge.comparison import Comparison, said_broken
from bimix.judge.noise import seeds_needed
from bimix.mixtures.names import GIVEN, SEARCHED

OBSERVED = "observed"  # the model of losses that were measured elsewhere
FEW_RUNS = 16  # below it the predicted gain of an optimum is too large
SHRUNK = 0.85  # what was measured of it, on public runs of 8 to 16 mixtures


@dataclass(frozen=True)
class Promise:
    """A law's prediction for its optimum at the optimum's size and step: the value that is
    minimised, with the two-sided interval of `level`, whose ends are None where runs are too few.

    `left_out`: the law's error on left-out runs, as a fraction of the loss; None: not known.
    `runs`: the number fitted.
    `gain` over `reference` in the unit of the value, with its interval.
    """

    mixture: str
    law: str
    model: str
    step: int
    value: float
    low: float | None
    high: float | None
    level: float
    runs: int
    left_out: float | None = None
    reference: str | None = None
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the log value, from the t-interval; None without an interval."""
        if self.high is None or self.runs < 2:
            return None
        return math.log(self.high / self.value) / float(stdtrit(self.runs - 1, (1 + self.level) / 2))

    @property
    def percent(self) -> tuple[float, float | None, float | None] | None:
        """Gain and interval in percent of the reference; None without a gain."""
        if self.gain is None:
            return None
        before = self.value + self.gain
        ends = (end if end is None else 100 * end / before for end in (self.gain_low, self.gain_high))
        return 100 * self.gain / before, *ends

    @property
    def shrunk(self) -> float | None:
        """The gain in percent, shrunk for the optimism of few runs; None: no correction."""
        percent = self.percent
        return SHRUNK * percent[0] if percent and percent[0] > 0 and self.runs < FEW_RUNS else None


@dataclass(frozen=True)
class Gain:
    """By how many percent of another's loss a mixture is below it by the law and all runs together,
    with the interval of `level`.
    """

    mixture: str
    over: str
    percent: float
    low: float
    high: float
    level: float

    def __str__(self) -> str:
        ends = sorted((self.low, self.high) if self.percent >= 0 else (-self.low, -self.high))
        span = f"{ends[0]:.2f} to {ends[1]:.2f}, {100 * self.level:.0f} %"
        return f"{abs(self.percent):.2f} % ({span}) {'below' if self.percent >= 0 else 'above'} {self.over}"


@dataclass(frozen=True)
class Verdict:
    """The mixture to take, `best`, and `why` in one line.

    `outcome`: wins, ties, lower (the noise is not known), alone (no other was measured), promised
    (not trained, predicted to be the best), rule (needs no search, and the law's optimum is not surely
    below it) or broken (every mixture violates the objective). `rival`: the mixture that it was
    compared with; `promise`: that of the best predicting law; `seeds`: the number that would make the
    difference to the rival significant, None: not worth it; `gain`: the prediction that decided, if
    one did.
    """

    outcome: str
    best: str
    why: str
    rival: str | None = None
    promise: Promise | None = None
    seeds: int | None = None
    measured: Comparison | None = None  # what decided, of the target or of the proxies
    gain: Gain | None = None

    @property
    def tested(self) -> bool:
        """Whether a run on the mixture to take is among those that decided."""
        return self.measured is not None and self.best in self.measured.mixtures


def trusted(promises: Iterable[Promise]) -> Promise | None:
    """The promise of the law with the least error on left-out runs; without errors the first."""
    return min(promises, key=lambda one: math.inf if one.left_out is None else one.left_out, default=None)


def decide(
    target: Comparison | None,
    proxies: Comparison | None,
    promises: Iterable[Promise],
    ranks: Mapping[str, int],
) -> Verdict:
    """The verdict of runs alone, and a promise only where there are none. `target`: runs of the target model
    and step; `proxies`: all runs of the model and step that laws predict, which may be the same; `ranks`
    {mixture: rank by the cost of finding it}, GIVEN where not named.
    """
    promise = trusted(promises)
    searched = [name for name in (target.mixtures if target else ()) if ranks.get(name, GIVEN) >= SEARCHED]
    if target is not None and (searched or promise is None):
        return among(target, ranks, promise)
    if proxies is not None:
        return among(proxies, {}, promise)  # the lowest: proxies are no candidates of equal price
    if promise is None:
        raise ValueError("nothing was measured and nothing predicted")
    rival = target.ranked()[0] if target else None
    return Verdict(
        "promised", promise.mixture, f"nothing was measured at its step; by the law {promise.law}", rival, promise
    )


def among(measured: Comparison, ranks: Mapping[str, int], promise: Promise | None) -> Verdict:
    """The lowest of measured mixtures, or the cheapest of those that tie with it."""
    order = measured.ranked()
    lowest, others = order[0], [name for name in order[1:] if measured.holds(name)]
    rest = {"promise": promise, "measured": measured}
    if not measured.holds(lowest):
        by = measured.broken[measured.mixtures.index(lowest)]
        why = f"the lowest of them by {said_broken(by)}" if by else "all lie outside the bounds"
        return Verdict("broken", lowest, why, **rest)
    if len(order) == 1:
        return Verdict("alone", lowest, "no other mixture was measured", **rest)
    if not others:
        return Verdict("wins", lowest, "the only mixture that holds the objective", order[1], **rest)
    same = [name for name in others if measured.lead(lowest, name) == 0]  # the same runs, or their like
    others = [name for name in others if name not in same]
    best = min([lowest, *same], key=lambda name: ranks.get(name, GIVEN))
    if not others:
        return Verdict("ties", best, "all that was measured ends alike", next(n for n in order if n != best), **rest)
    if measured.noise is None:
        why = "it ends lowest; how far two runs of one mixture differ is not known, so nothing is significant"
        return Verdict("lower", best, why, others[0], **rest)
    tied = [name for name in others if measured.ties(name)]
    if not tied:
        whom = "" if all(map(measured.holds, order)) else " that hold the objective and the bounds"
        return Verdict("wins", best, f"significantly below all others{whom}", others[0], **rest)
    lowest = best
    best = min([lowest, *tied], key=lambda name: ranks.get(name, GIVEN))
    rival = tied[0] if best == lowest else lowest
    lead = abs(measured.lead(best, rival))
    seeds = seeds_needed(lead, measured.noise.deviation, measured.noise.mixtures)
    if best == lowest:
        cheaper = [name for name in tied if ranks.get(name, GIVEN) == ranks.get(best, GIVEN)]
        why = "it ends lowest; " + (
            "none that ties with it is cheaper to find" if cheaper else "those that tie cost more"
        )
    else:
        why = f"it ties with {lowest}, which ends {-100 * math.expm1(-lead):.2f} % lower, and is cheaper to find"
    return Verdict("ties", best, why, rival, seeds=seeds, **rest)
