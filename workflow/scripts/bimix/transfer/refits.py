"""Where refits of a mixing factor that was fitted start.

Log k is written as one number where the search has u + delta: the two, and the shared means, are
those that the penalties would choose.
"""

import numpy as np

from bimix.transfer import mixing
from bimix.transfer.factor import Factor, levels, logs_of

# A k below this is as good as 0; logs of it are finite.
SMALLEST = 1e-30


def resumed(factor: Factor, shares, y, own, gaps=None, straight=None, spread=None) -> mixing.Mixing:
    """The fit that gave a factor, for mixtures (n, m) and levels y (n, d) that it was fitted to.

    Heights are taken from the levels, since a law over steps is written without them.
    """
    d, terms, m = factor.k.shape
    gaps = np.zeros((d, m)) if gaps is None else gaps
    trained = np.nonzero(own >= 0)[0]
    logs = np.log(np.maximum(factor.k, SMALLEST)) + gaps[:, None]
    logs[trained, 0, own[trained]] = 0.0
    shape = np.log(factor.g / (1 - factor.g))
    unspread = np.eye(m) if spread is None else np.linalg.inv(spread)
    precision, of_own = unspread @ unspread, own[trained]
    # What each log k weighs in the best u: sums over the inverse of L L' among the other domains.
    sums, diagonal = precision.sum(axis=0), np.diag(precision)
    held = sums - precision[of_own] * (sums / diagonal)[of_own, None]
    shrink, hold = mixing.SHRINK_U, mixing.HOLD_MEANS
    said, counts = (held * logs[trained, 0]).sum(axis=1), held.sum(axis=1) + shrink
    # Each u is drawn to their mean, and that to its anchor: two linear equations.
    middle = shrink * (said / counts).sum() + hold * mixing.MEAN_U
    middle = float(middle / (shrink * len(trained) + hold - (shrink**2 / counts).sum()))
    u = np.zeros(d)
    u[trained] = (said + shrink * middle) / counts
    delta = logs.copy()
    delta[trained, 0] -= u[trained, None] * (np.arange(m) != of_own[:, None])
    # A domain's own is free: at what the others say of it, z is least.
    said = np.einsum("ij,ij->i", delta[trained, 0], precision[of_own])
    delta[trained, 0, of_own] = -said / diagonal[of_own]
    delta = delta @ unspread
    means = [_mean(np.log(one), mixing.SHRINK_LOG_A, mixing.MEAN_LOG_A, mixing.HOLD_LOG_A) for one in factor.a.T]
    means += [_mean(shape, mixing.SHRINK_LOGIT_G, mixing.MEAN_LOGIT_G), middle]
    x = np.concatenate([factor.c, np.log(factor.a), shape[:, None], u[:, None], delta.reshape(d, -1)], axis=1)
    signed = (shares if straight is None else straight) @ factor.t.T
    gap = y - signed - levels(x, terms, own, gaps, logs_of(shares), spread).T
    x[:, :terms] += np.nan_to_num(np.nanmean(gap, axis=0))[:, None]
    return mixing.Mixing(x[None], np.array([means]), terms, own, gaps[None], factor.t[None], spread)


def _mean(values, shrink, anchor, hold=mixing.HOLD_MEANS) -> float:
    """A shared mean, itself held at its anchor."""
    return float((shrink * values.sum() + hold * anchor) / (shrink * len(values) + hold))
