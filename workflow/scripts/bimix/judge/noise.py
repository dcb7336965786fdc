"""The difference of final losses at which two mixtures differ significantly.

Runs of one seed start from the same weights and read each domain's rows in the same order, so that
a seed shifts all mixtures alike. The noise of a run is the residual of its log value after effects
of mixture and seed (least squares), with one variance for all mixtures. So a mixture may lack seeds
that others have: the effects of its seeds are estimated from the others, and its intervals are
wider.

Where no mixture has a further seed, the noise comes from elsewhere (`Known`): further seeds of the
proxy, or a law's errors on left-out runs, which include its misfit. Where that is not known either,
no difference is significant.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri, stdtrit
from scipy.stats import chi2, norm

from bimix.errors import InputError

LEVEL = 0.95
POWER = 0.8  # chance of a significant difference, if it is as large as measured
LEAST_NOISE = 1e-5  # of log values: less is that of copies, not of runs
MOST_SEEDS = 10  # of a mixture: more are not worth their price
ALIKE = 6  # decimals of log values in which the same run under two names agrees


@dataclass(frozen=True)
class Known:
    """The standard deviation of a run's log value around the effects of mixture and seed, its
    degrees of freedom, and where it comes from.
    """

    deviation: float
    freedom: int
    source: str


@dataclass(frozen=True)
class Noise(Known):
    """The noise of n compared mixtures, of which so many are distinct `mixtures`. `errors` (n, n)
    are the standard errors of differences between two of them, in units of `deviation`: sqrt(2 /
    seeds) where all have all seeds.
    """

    mixtures: int
    errors: np.ndarray

    def between(self, one: int, other: int) -> float:
        """Half the width of the interval of two mixtures chosen beforehand."""
        return float(stdtrit(self.freedom, (1 + LEVEL) / 2)) * self.error(one, other)

    def behind_best(self, one: int, best: int) -> float:
        """The largest distance from the lowest mixture at which another one may still be the best:
        the true best is within it with probability LEVEL, and two of them differ significantly beyond
        it. Approximate where seeds are missing: the quantile assumes that all mixtures have the same.
        """
        return lead_quantile(self.mixtures - 1, self.freedom) * self.error(one, best)

    def error(self, one: int, other: int) -> float:
        """The standard error of the difference of two mixtures."""
        return self.deviation * float(self.errors[one, other])


def levels(values: np.ndarray, known: Known | None = None) -> tuple[np.ndarray, Noise | None]:
    """Log values of mixtures (n,) adjusted to all seeds, and the noise of runs, from final values
    (n, seeds), NaN where there is no run. Without further seeds the noise is `known`; None where
    that is not given either. The same runs under two names count once.

    Errors: some mixtures share seeds, and one shares none with the others.
    """
    logs = np.log(values)
    rounded = np.nan_to_num(logs.round(ALIKE), nan=np.inf)
    _, first, alike = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
    logs, alike = logs[first], alike.ravel()
    mixtures, seeds = logs.shape
    own, of = np.nonzero(np.isfinite(logs))
    measured, paired = logs[own, of], shares_seeds(np.isfinite(logs))
    design = np.eye(mixtures)[own]
    if paired:
        # seed effects sum to 0, so that a mixture's effect is its mean over all seeds
        design = np.hstack([design, np.vstack([np.eye(seeds - 1), -np.ones(seeds - 1)])[of]])
    effects = np.linalg.lstsq(design, measured, rcond=None)[0]
    freedom = len(measured) - design.shape[1]
    spread = np.linalg.inv(design.T @ design)[:mixtures, :mixtures]
    errors = np.sqrt(np.maximum(spread.diagonal()[:, None] + spread.diagonal() - 2 * spread, 0))
    errors = errors[np.ix_(alike, alike)]
    levels_of = effects[:mixtures][alike]
    if freedom:
        deviation = float(np.sqrt(((measured - design @ effects) ** 2).sum() / freedom))
        how = "paired by seed" if paired else "no two of one seed"
        if deviation >= LEAST_NOISE:
            known = Known(deviation, freedom, f"from {len(measured)} runs, {how}")
    known = known or within(logs)
    return levels_of, known and Noise(known.deviation, known.freedom, known.source, mixtures, errors)


def within(logs: np.ndarray) -> Known | None:
    """Deviation of log values (n, seeds) within mixtures, with seed effects; None: one seed, or copies."""
    runs = np.isfinite(logs).sum(axis=1)
    logs, freedom = logs[runs > 1], int((runs[runs > 1] - 1).sum())
    if not freedom:
        return None
    squares = np.nansum((logs - np.nanmean(logs, axis=1, keepdims=True)) ** 2)
    if np.sqrt(squares / freedom) < LEAST_NOISE:
        return None
    source = f"from {runs[runs > 1].sum()} runs of {len(logs)} mixtures, which no other shares two seeds with"
    return Known(float(np.sqrt(squares / freedom)), freedom, source)


def shares_seeds(run: np.ndarray) -> bool:
    """Whether shared seeds connect all mixtures (n, seeds); False where no two mixtures share one,
    as when seeds number the runs. Errors: some mixtures are connected and others not.
    """
    if not (run.sum(axis=0) > 1).any():
        return False
    reached = np.arange(len(run)) == 0
    for _ in run:
        reached = run[:, run[reached].any(axis=0)].any(axis=1)
    if not reached.all():
        raise InputError(
            "some of the mixtures share seeds and others share none with them, so that the effects of mixtures and"
            " seeds cannot be separated: train one more of them with a seed of the others, or leave them out."
        )
    return True


@cache
def best_quantile(rivals: int, freedom: int) -> float:
    """The LEVEL quantile of the lead of the lowest of `rivals` equal mixtures over another, in
    standard errors of a difference: Dunnett's one-sided quantile, used in multiple comparisons with
    the best (Hsu, Annals of Statistics 12, 1984).

    P(max_m (z_m - z_0) <= q sqrt(2) s) over normal z and s^2 ~ chi2 / freedom.
    """
    points, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    shares = (np.arange(400) + 0.5) / 400
    scales = np.sqrt(chi2.ppf(shares, freedom) / freedom)

    def covered(quantile: float) -> float:
        below = norm.cdf(points[:, None] + 2**0.5 * quantile * scales) ** rivals
        return float((weights @ below).mean()) - LEVEL

    return float(brentq(covered, 0.0, 1000.0, xtol=1e-6)) if rivals else 0.0  # all are one run


def lead_quantile(rivals: int, freedom: int) -> float:
    """`best_quantile`, and no less than that of a difference of two, which `between` has: of one or
    two rivals the one-sided quantile is the smaller, and the best would win by no significant lead.
    """
    return max(best_quantile(rivals, freedom), float(stdtrit(freedom, (1 + LEVEL) / 2)) if rivals else 0.0)


def seeds_needed(lead: float, deviation: float, mixtures: int) -> int | None:
    """The number of seeds of each mixture at which a lead in log value is significant with
    probability POWER, given the deviation of runs around seed effects; None beyond MOST_SEEDS.
    """
    for seeds in range(2, MOST_SEEDS + 1) if mixtures > 1 and lead > 0 else ():
        quantile = lead_quantile(mixtures - 1, (mixtures - 1) * (seeds - 1))
        if lead >= deviation * np.sqrt(2 / seeds) * (quantile + ndtri(POWER)):
            return seeds
    return None


def seeds_to_add(there: Sequence[int], needed: int) -> list[int]:
    """The list under `seeds` for `needed` in all: `there` without the first, then free ones."""
    seeds, free = list(there[1:]), 1
    while len(seeds) < needed - 1:
        if free not in (there[0], *seeds):
            seeds.append(free)
        free += 1
    return seeds
