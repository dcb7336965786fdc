"""How the losses of a run answer to the numbers of the law `transfer`: the information of a run.

Of a loss domain the law of a run's level is y = log sum_q exp(c_q) S_q^-a_q, S_q = sum_j k_qj
rho_j^g (`transfer/mixing`). Near some numbers x = (c, log a, logit g, log k) it is all but linear,
y(x) = y(x0) + f.(x - x0). The information of runs about x is the sum of f f' plus what was known
before. x0 is a law fitted earlier or, before any run, where the fit starts from: its shared means
and the gaps of a prior from text.
"""

from dataclasses import dataclass

import numpy as np

from bimix.observations.groups import spread_of
from bimix.transfer import factor
from bimix.transfer.mixing import (
    HOLD_LOG_A,
    HOLD_MEANS,
    MEAN_LOG_A,
    MEAN_LOGIT_G,
    MEAN_U,
    SHRINK_LOG_A,
    SHRINK_LOGIT_G,
    SHRINK_U,
)

# What is taken for the ridge before any law is fitted. It is for an error of the law of 0.01 in log
# loss, and for log k that are about 1 from what they are drawn to.
RIDGE = 1e-4


@dataclass(frozen=True)
class Numbers:
    """Numbers of the law of d loss domains with K terms, at which it is made linear."""

    c: np.ndarray  # (d, K)
    a: np.ndarray  # (d, K)
    g: np.ndarray  # (d,)
    k: np.ndarray  # (d, K, m)
    own: np.ndarray  # (d,) index of the training domain, -1 where the loss domain is not trained on
    ridge: float = RIDGE
    t: np.ndarray | float = 0.0  # (d, m) the signed term, which is taken as it was fitted, as is
    spread: np.ndarray | None = None  # (m, m) L of groups of domains; None: 1

    @property
    def size(self) -> int:
        """Numbers of one loss domain."""
        return 2 * self.c.shape[1] + 1 + self.c.shape[1] * self.k.shape[2]


def guessed(m: int, own: np.ndarray, gaps: np.ndarray | None = None, spread: np.ndarray | None = None) -> Numbers:
    """The numbers before any run of m domains; `gaps` (d, m) of a prior, `spread` (m, m)."""
    d = len(own)
    logs = np.zeros((d, m)) if gaps is None else -np.asarray(gaps, dtype=float)
    logs = logs + np.where(own >= 0, MEAN_U, 0.0)[:, None]
    trained = np.nonzero(own >= 0)[0]
    logs[trained, own[trained]] = 0.0
    a, g = np.full((d, 1), np.exp(MEAN_LOG_A)), np.full(d, 1 / (1 + np.exp(-MEAN_LOGIT_G)))
    return Numbers(np.zeros((d, 1)), a, g, np.exp(logs)[:, None], own, spread=spread)


def fitted_numbers(fitted: dict, own: np.ndarray) -> Numbers:
    """The numbers of a fitted law `transfer`, with the ridge that it was fitted at: of loss domains
    with ridges of their own the geometric mean.
    """
    read = factor.read(fitted["coefficients"], fitted["domains"])
    chosen = [fitted[name] for name in ("choice", "choice_of_metrics") if name in fitted]
    ridge = float(np.exp(np.log(np.concatenate([one.get("ridges", [one["ridge"]]) for one in chosen])).mean()))
    spread = spread_of(fitted.get("domain_groups", {}), fitted["domains"])
    return Numbers(read.c, read.a, read.g, read.k, own, ridge, read.t, spread)


def slopes(at: Numbers, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Levels (n, d) of mixtures (n, m) and f (n, d, p): their slopes by c, log a, logit g, log k.

    A domain's k of itself is 1, and its slope 0.
    """
    d, terms, m = at.k.shape
    with np.errstate(divide="ignore"):
        logs = np.log(shares)
    finite = np.where(np.isfinite(logs), logs, 0.0)
    parts = at.k * np.exp(at.g[:, None] * logs[:, None])[:, :, None]  # (n, d, K, m)
    sums = np.maximum(parts.sum(axis=3), 1e-300)
    each = at.c - at.a * np.log(sums)
    top = each.max(axis=2, keepdims=True)
    weight = np.exp(each - top)
    level = top[:, :, 0] + np.log(weight.sum(axis=2))
    level += (shares[:, None] * at.t).sum(axis=2)
    weight /= weight.sum(axis=2, keepdims=True)
    by_k = -(weight * at.a / sums)[:, :, :, None] * parts
    by_g = np.einsum("ndqj,nj->nd", by_k, finite) * at.g * (1 - at.g)
    trained = np.nonzero(at.own >= 0)[0]
    by_k[:, trained, 0, at.own[trained]] = 0.0
    by_a = -weight * at.a * np.log(sums)
    return level, np.concatenate([weight, by_a, by_g[:, :, None], by_k.reshape(len(shares), d, terms * m)], axis=2)


def known_before(at: Numbers) -> np.ndarray:
    """The precision (d, p, p) of the numbers before any run, in units of the variance of a run.

    That of the fit (`transfer/mixing`), whose shared means are averaged out; a level may lie
    anywhere within 1 in log loss.
    """
    d, terms, m = at.k.shape

    def about_mean(strength, hold=HOLD_MEANS):
        return 1 / (1 / strength + 1 / hold)

    diagonal = np.concatenate(
        [
            np.ones(terms),
            np.full(terms, about_mean(SHRINK_LOG_A, HOLD_LOG_A)),
            [about_mean(SHRINK_LOGIT_G)],
            np.ones(terms * m),
        ]
    )
    precision = np.tile(np.diag(diagonal), (d, 1, 1))
    covariance = np.eye(m) if at.spread is None else at.spread @ at.spread
    if at.spread is not None:
        for first in 2 * terms + 1 + m * np.arange(terms):
            precision[:, first : first + m, first : first + m] = np.linalg.inv(covariance)
    # log k of a domain's helpers share u.
    for i in np.nonzero(at.own >= 0)[0]:
        others = np.nonzero(np.arange(m) != at.own[i])[0]
        at_others, of_own = 2 * terms + 1 + others, 2 * terms + 1 + at.own[i]
        precision[i, of_own] = precision[i, :, of_own] = 0.0
        precision[i, of_own, of_own] = 1.0
        shared = covariance[np.ix_(others, others)] + 1 / about_mean(SHRINK_U)
        precision[np.ix_([i], at_others, at_others)] = np.linalg.inv(shared)
    return at.ridge * precision
