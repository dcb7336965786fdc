"""Minimum of a smooth convex function of a mixture: proportions that sum to 1, within bounds
(primal-dual interior point).
"""

from collections.abc import Callable

import numpy as np

ROUNDS = 200
SHRINK = 0.1  # the barrier falls to this share of the present complementarity at every step
TO_BOUNDARY = 0.995  # a step goes at most this part of the way to a bound
CLOSE = 1e-13  # complementarity, over sum_j |gradient_j| r_j, at which the barrier has done its work
POLISH = 4


def minimum(objective: Callable, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """argmin of objective(r) over lower <= r <= upper (m,), sum r = 1; objective returns value,
    gradient (m,) and Hessian (m, m).

    Newton steps on the KKT conditions gradient - mu - y + z = 0, y (r - lower) = z (upper - r) =
    barrier -> 0, sum r = 1, shortened where their residual does not fall. The distances to the
    bounds are numbers of their own, so that they keep their digits. At the end the shares at bounds
    are put there, and plain Newton steps of the others remove what the barrier left.
    """
    fixed = upper - lower <= 1e-14
    if fixed.any():
        return _with_fixed(objective, lower, upper, fixed)
    m = len(lower)
    inside = (1 - lower.sum()) / (upper - lower).sum()
    if inside < 1e-12 or inside > 1 - 1e-12:
        return lower.copy() if inside < 0.5 else upper.copy()
    below, above = inside * (upper - lower), (1 - inside) * (upper - lower)
    r = lower + below
    _, gradient, hessian = objective(r)
    barrier = 0.1 * _size(gradient, r) / m
    y, z = barrier / below, barrier / above
    mu = float(np.mean(gradient))
    for _ in range(ROUNDS):
        size = _size(gradient, r)
        gap = (y @ below + z @ above) / (2 * m)
        if gap <= CLOSE * size and (r * np.abs(gradient - mu - y + z)).max() <= 1e-10 * size:
            break
        barrier = SHRINK * gap
        right = [*(mu - gradient + barrier / below - barrier / above), r.sum() - 1]
        step = np.linalg.solve(_bordered(hessian + np.diag(y / below + z / above)), right)
        dr, dmu = step[:m], step[m]
        dy, dz = (barrier - y * dr) / below - y, (barrier + z * dr) / above - z
        length = 1.0
        for value, change in ((below, dr), (above, -dr), (y, dy), (z, dz)):
            falling = change < 0
            if falling.any():
                length = min(length, TO_BOUNDARY * (-value[falling] / change[falling]).min())
        before = _residual(gradient, mu, y, z, below, above, barrier)
        for _ in range(20):
            new = mu + length * dmu, y + length * dy, z + length * dz, below + length * dr, above - length * dr
            _, gradient, hessian = objective(lower + new[3])
            if _residual(gradient, *new, barrier) <= (1 - 1e-4 * length) * before:
                break
            length /= 2
        mu, y, z, below, above = new
        r = lower + below
    return _polish(objective, r, lower, upper, (below > y / size) & (above > z / size), below < above)


def _size(gradient, r) -> float:
    return max(float(np.abs(gradient) @ r), 1e-300)


def _residual(gradient, mu, y, z, below, above, barrier) -> float:
    return float(np.linalg.norm([*(gradient - mu - y + z), *(y * below - barrier), *(z * above - barrier)]))


def _bordered(matrix) -> np.ndarray:
    """The matrix of a Newton step in which the steps sum to a given number."""
    m = len(matrix)
    bordered = np.zeros((m + 1, m + 1))
    bordered[:m, :m] = matrix
    bordered[:m, m] = bordered[m, :m] = -1
    return bordered


def _polish(objective, r, lower, upper, free, low) -> np.ndarray:
    """Shares that are not free on their bounds, the free ones by Newton steps; as it was where that
    leads out of the bounds.
    """
    if not free.any():
        free = np.arange(len(r)) == np.argmax(np.minimum(r - lower, upper - r))
    r = np.where(free, r, np.where(low, lower, upper))
    r[free] += (1 - r.sum()) * r[free] / r[free].sum()
    for _ in range(POLISH):
        _, gradient, hessian = objective(r)
        step = np.linalg.solve(_bordered(hessian[np.ix_(free, free)]), [*-gradient[free], r.sum() - 1])[:-1]
        new = r.copy()
        new[free] += step
        if (new < lower).any() or (new > upper).any() or np.abs(step).max() > 1e-3:
            break
        r = new
    return np.clip(r, lower, upper)


def _with_fixed(objective, lower, upper, fixed) -> np.ndarray:
    """Bounds that leave a share no room are put in, and the others are solved for as shares of what
    is left.
    """
    rest = 1 - lower[fixed].sum()
    if fixed.all() or rest <= 1e-14:
        return lower.copy()
    move = ~fixed

    def full(part):
        r = lower.copy()
        r[move] = rest * part
        return r

    def inner(part):
        value, gradient, hessian = objective(full(part))
        return value, rest * gradient[move], rest * rest * hessian[np.ix_(move, move)]

    return full(minimum(inner, lower[move] / rest, upper[move] / rest))
