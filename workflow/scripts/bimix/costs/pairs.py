"""Runs of mixtures paired by seed: how far two mixtures must end apart to be told from chance.

Runs of one seed have the same weights at the start and read each domain's rows in the same order,
so that a seed moves all mixtures alike. What is left of the log losses once every mixture and every
seed has its own mean is the noise of a run; its variance is taken to be the same for all mixtures.
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
    many degrees of freedom; of `mixtures` that differ, each with `seeds` runs.
    """

    deviation: float
    freedom: int
    mixtures: int
    seeds: int

    @property
    def between_two(self) -> float:
        """Half the width of the interval of a difference between two mixtures that were named
        beforehand.
        """
        return self._of_means(float(t.ppf((1 + LEVEL) / 2, self.freedom)))

    @property
    def behind_best(self) -> float:
        """How far a mixture may end behind the lowest of all and still be the best: the one that is
        lies among those within it, with LEVEL.
        """
        return self._of_means(best_quantile(self.mixtures - 1, self.freedom))

    def _of_means(self, quantile: float) -> float:
        return quantile * self.deviation * (2 / self.seeds) ** 0.5


def ends(
    losses: pl.DataFrame, factors: dict[str, float] | None = None, weights: Mapping[str, float] | None = None
) -> tuple[list[str], np.ndarray]:
    """Mixtures (n), and what the run of each with each seed ended with (n, seeds): the average of
    its last losses over domains by `weights`, in nats per token; with `factors` {domain: bits per
    byte of a nat per token} in bits per byte.

    `losses`: mixture, seed, step, domain, loss, without seeds where each run was made once. Errors:
    mixtures of which seeds differ; a weight of a domain without losses.
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
    lacking = wide.filter(pl.any_horizontal(pl.exclude("mixture").is_null()))
    if lacking.height:
        name = lacking["mixture"][0]
        raise InputError(f"{name!r} lacks a seed that others have: methods are compared by pairs of runs.")
    return wide["mixture"].to_list(), wide.drop("mixture").to_numpy()


def noise(values: np.ndarray) -> Noise | None:
    """The noise of runs that ended with values (n, seeds); None where one seed or one mixture tells
    none. The same runs under two names, alike to a millionth, count once.
    """
    logs = np.log(values)
    logs = logs[np.unique(logs.round(6), axis=0, return_index=True)[1]]
    mixtures, seeds = logs.shape
    freedom = (mixtures - 1) * (seeds - 1)
    if not freedom:
        return None
    rest = logs - logs.mean(axis=1, keepdims=True) - logs.mean(axis=0) + logs.mean()
    return Noise(float(np.sqrt((rest**2).sum() / freedom)), freedom, mixtures, seeds)


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
