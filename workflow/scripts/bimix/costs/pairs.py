"""Runs of mixtures paired by seed: how far two mixtures must end apart to be told from chance.

Runs of one seed have the same weights at the start and read each domain's rows in the same order,
so that a seed moves all mixtures alike. What is left of the log losses once every mixture and every
seed has its own effect (least squares) is the noise of a run; its variance is taken to be the same
for all mixtures. So a mixture may lack seeds that others have: what its seeds did to the others is
taken off, and its intervals are the wider.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy.optimize import brentq
from scipy.stats import chi2, norm, t

from bimix.errors import InputError
from bimix.observed.averages import average_loss, check_weights

LEVEL = 0.95


@dataclass(frozen=True)
class Noise:
    """The standard deviation of a run's log loss without what its mixture and its seed do, from so
    many degrees of freedom; of `mixtures` that differ. `errors` (n, n) are the standard errors of
    differences between two of all n, in such deviations: sqrt(2 / seeds) where all have all seeds.
    """

    deviation: float
    freedom: int
    mixtures: int
    errors: np.ndarray

    def between(self, one: int, other: int) -> float:
        """Half the width of the interval of a difference between two mixtures that were named
        beforehand.
        """
        return float(t.ppf((1 + LEVEL) / 2, self.freedom)) * self.deviation * float(self.errors[one, other])

    def behind_best(self, one: int, best: int) -> float:
        """How far a mixture may end behind the lowest of all and still be the best: the one that is
        lies among those within it, with LEVEL. Where seeds are lacking it is approximate: the
        quantile is that of mixtures that all have the same.
        """
        quantile = best_quantile(self.mixtures - 1, self.freedom)
        return quantile * self.deviation * float(self.errors[one, best])


def ends(
    losses: pl.DataFrame, factors: dict[str, float] | None = None, weights: Mapping[str, float] | None = None
) -> tuple[list[str], np.ndarray]:
    """Mixtures (n), and what the run of each with each seed ended with (n, seeds), NaN without such
    a run: the average of its last losses over domains by `weights`, in nats per token; with
    `factors` {domain: bits per byte of a nat per token} in bits per byte.

    `losses`: mixture, seed, step, domain, loss, without seeds where each run was made once. Errors:
    mixtures that no seeds connect; a weight of a domain without losses.
    """
    check_weights(weights, losses)
    if "seed" not in losses.columns:
        losses = losses.with_columns(pl.lit(1).alias("seed"))
    last = losses.filter(pl.col("step") == pl.col("step").max().over("mixture"))
    if factors is not None:
        last = last.with_columns(
            pl.col("loss") * pl.col("domain").replace_strict(factors, default=None, return_dtype=pl.Float64)
        )
    averages = last.group_by("mixture", "seed", maintain_order=True).agg(average_loss(weights))
    wide = averages.pivot(on="seed", index="mixture", values="loss", maintain_order=True)
    names, values = wide["mixture"].to_list(), wide.drop("mixture").cast(pl.Float64).fill_null(np.nan).to_numpy()
    apart = _apart(np.isfinite(values))
    if apart is not None:
        raise InputError(f"{names[apart]!r} shares no seed with {names[0]!r}: methods are compared by pairs of runs.")
    return names, values


def _apart(run: np.ndarray) -> int | None:
    """The first mixture that no chain of shared seeds leads to from the first one."""
    reached = np.arange(len(run)) == 0
    for _ in run:
        reached = run[:, run[reached].any(axis=0)].any(axis=1)
    return None if reached.all() else int(np.argmin(reached))


def levels(values: np.ndarray) -> tuple[np.ndarray, Noise | None]:
    """Log losses of mixtures (n,) as if each had run with all seeds, and the noise of runs that
    ended with values (n, seeds); no noise where one seed or one mixture tells none. The same runs
    under two names, alike to a millionth, count once.
    """
    logs = np.log(values)
    known = np.nan_to_num(logs.round(6), nan=np.inf)
    _, first, alike = np.unique(known, axis=0, return_index=True, return_inverse=True)
    logs, alike = logs[first], alike.ravel()
    mixtures, seeds = logs.shape
    own, of = np.nonzero(np.isfinite(logs))
    # seeds' effects sum to nothing, so that a mixture's is its mean over all of them
    design = np.hstack([np.eye(mixtures)[own], np.vstack([np.eye(seeds - 1), -np.ones(seeds - 1)])[of]])
    told = logs[own, of]
    effects = np.linalg.lstsq(design, told, rcond=None)[0]
    freedom = len(told) - mixtures - seeds + 1
    if not freedom:
        return effects[alike], None
    deviation = float(np.sqrt(((told - design @ effects) ** 2).sum() / freedom))
    spread = np.linalg.inv(design.T @ design)[:mixtures, :mixtures]
    errors = np.sqrt(np.maximum(spread.diagonal()[:, None] + spread.diagonal() - 2 * spread, 0))
    return effects[alike], Noise(deviation, freedom, mixtures, errors[np.ix_(alike, alike)])


def best_quantile(rivals: int, freedom: int) -> float:
    """What the lowest of `rivals` equal mixtures leads another one by, at most with LEVEL, in
    standard errors of a difference: Dunnett's one-sided quantile, as multiple comparisons with the
    best have it (Hsu, Annals of Statistics 12, 1984).

    P(max_m (z_m - z_0) <= q sqrt(2) s) over normal z and s^2 ~ chi2 / freedom.
    """
    points, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    shares = (np.arange(400) + 0.5) / 400
    scales = np.sqrt(chi2.ppf(shares, freedom) / freedom)

    def covered(quantile: float) -> float:
        below = norm.cdf(points[:, None] + 2**0.5 * quantile * scales) ** rivals
        return float((weights @ below).mean()) - LEVEL

    return float(brentq(covered, 0.0, 1000.0, xtol=1e-6))
