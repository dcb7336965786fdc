"""The start of refits from a fitted mixing factor.

Log k is stored as one number, where the optimizer has u + delta; both, and the shared means, are
recovered as the minimum of the penalties.
"""

import numpy as np

from bimix.transfer import mixing
from bimix.transfer.factor import Factor, levels, logs_of

# The least k, which acts as 0 but has a finite logarithm.
SMALLEST = 1e-30


def resumed(factor: Factor, shares, y, own, gaps=None, straight=None, spread=None) -> mixing.Mixing:
    """The fit that gave a factor, for the mixtures (n, m) and levels y (n, d) of that fit.

    Heights are computed from the levels, since the JSON of a law over steps lacks them.
    """
    d, terms, m = factor.k.shape
    gaps = np.zeros((d, m)) if gaps is None else gaps
    trained = np.nonzero(own >= 0)[0]
    logs = np.log(np.maximum(factor.k, SMALLEST)) + gaps[:, None]
    logs[trained, 0, own[trained]] = 0.0
    shape = np.log(factor.g / (1 - factor.g))
    unspread = np.eye(m) if spread is None else np.linalg.inv(spread)
    precision, of_own = unspread @ unspread, own[trained]
    # The weight of each log k in the best u: sums over the inverse of L L' of the other domains.
    sums, diagonal = precision.sum(axis=0), np.diag(precision)
    held = sums - precision[of_own] * (sums / diagonal)[of_own, None]
    shrink, hold = mixing.SHRINK_U, mixing.HOLD_MEANS
    said, counts = (held * logs[trained, 0]).sum(axis=1), held.sum(axis=1) + shrink
    # Each u is shrunk to their mean, and that to its anchor: two linear equations.
    middle = shrink * (said / counts).sum() + hold * mixing.MEAN_U
    middle = float(middle / (shrink * len(trained) + hold - (shrink**2 / counts).sum()))
    u = np.zeros(d)
    u[trained] = (said + shrink * middle) / counts
    delta = logs.copy()
    delta[trained, 0] -= u[trained, None] * (np.arange(m) != of_own[:, None])
    # A domain's own delta is free: at its conditional mean given the others, z is least.
    said = np.einsum("ij,ij->i", delta[trained, 0], precision[of_own])
    delta[trained, 0, of_own] = -said / diagonal[of_own]
    delta = delta @ unspread
    means = [_mean(np.log(one), mixing.SHRINK_LOG_A, mixing.mean_log_a(m), mixing.HOLD_LOG_A) for one in factor.a.T]
    means += [_mean(shape, mixing.SHRINK_LOGIT_G, mixing.MEAN_LOGIT_G), middle]
    x = np.concatenate([factor.c, np.log(factor.a), shape[:, None], u[:, None], delta.reshape(d, -1)], axis=1)
    signed = (shares if straight is None else straight) @ factor.t.T
    gap = y - signed - levels(x, terms, own, gaps, logs_of(shares), spread).T
    x[:, :terms] += np.nan_to_num(np.nanmean(gap, axis=0))[:, None]
    return mixing.Mixing(x[None], np.array([means]), terms, own, gaps[None], factor.t[None], spread)


def _mean(values, shrink, anchor, hold=mixing.HOLD_MEANS) -> float:
    """A shared mean, which is itself shrunk to its anchor."""
    return float((shrink * values.sum() + hold * anchor) / (shrink * len(values) + hold))
