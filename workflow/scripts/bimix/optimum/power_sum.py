"""The least weighted sum of negative powers of proportions, within bounds: exact, by a root find in
one number.
"""

import numpy as np


def power_sum_optimum(gains: np.ndarray, exponents: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """argmin of sum_i K_i r_i^-a_i over lower <= r <= upper, sum r = 1; all arrays (m,), K_i >= 0,
    a_i >= 0.

    Convex; stationary at r_i = (a_i K_i / mu)^(1/(1 + a_i)), clipped to its bounds (water-filling).
    sum r(mu) falls with mu, so mu is the root of sum r(mu) = 1, found in log mu by Newton steps
    kept inside a bracket. Domains with a_i K_i = 0 gain nothing: they stay at their lower bound
    unless the others are full, and then share the rest in proportion to their room.
    """
    lower, upper = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
    slope = gains * exponents
    useful = (slope > 0) & (upper > 0)
    if not useful.any() or upper[useful].sum() + lower[~useful].sum() <= 1:
        filled = np.where(useful, upper, lower)
        room = upper - filled
        rest = 1 - filled.sum()
        return filled + (room * (rest / room.sum()) if rest > 0 and room.sum() > 0 else 0.0)
    target = 1 - lower[~useful].sum()
    low, high = lower[useful], upper[useful]
    room = target - low.sum()
    if room <= 1e-15:
        return lower
    power = 1 / (1 + exponents[useful])
    shift = np.log(slope[useful]) * power
    with np.errstate(divide="ignore"):
        low_log, high_log = np.log(low), np.log(high)
    # At `left` all are at their upper bound or the sum is above the target; at `right` the other
    # way round.
    left = np.min((shift - np.minimum(high_log, 0)) / power)
    right = np.max((shift - np.log(low + room / (2 * len(low)))) / power)
    mu = 0.5 * (left + right)
    for _ in range(200):
        raw = shift - power * mu
        shares = np.exp(np.clip(raw, low_log, high_log))
        excess = shares.sum() - target
        if excess > 0:
            left = mu
        else:
            right = mu
        if abs(excess) <= 1e-15 * len(shares) or right - left <= 1e-15 * max(1.0, abs(mu)):
            break
        free = (raw > low_log) & (raw < high_log)
        descent = (shares * power)[free].sum()
        # Newton on log(sum of the free shares), which is nearly a line in log mu.
        moving = shares[free].sum()
        wanted = moving - excess
        step = np.log(moving / wanted) * moving / descent if descent > 0 and wanted > 0 else np.inf
        mu = mu + step if left < mu + step < right else 0.5 * (left + right)
    shares = np.exp(np.clip(shift - power * mu, low_log, high_log))
    result = lower.copy()
    result[useful] = shares
    return closed(result, lower, upper)


def closed(shares: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Put the last rounding of the sum on the shares that are free to take it."""
    gap = 1 - shares.sum()
    free = (shares > lower) & (shares < upper)
    if free.any():
        moved = shares + np.where(free, shares, 0.0) * (gap / shares[free].sum())
        shares = np.clip(moved, lower, upper)
    return shares
