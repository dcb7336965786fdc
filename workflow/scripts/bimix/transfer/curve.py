"""The curve over steps, log(B / s^beta + C), of each loss domain: of the law `transfer`, and of
`laws/bimix` together with an exponent of the mixture. Trust Region Reflective on log losses (paper
Sec. 4).
"""

import numpy as np
from scipy.optimize import least_squares, nnls
from scipy.special import expit

ALPHA_RANGE, BETA_RANGE = (0.0, 5.0), (1e-3, 5.0)
BETA_STARTS = np.geomspace(0.03, 3, 20)
STARTS = 2
FLOOR = 20.0  # log of C below the smallest log loss at which it is written as 0
MARGIN = 5.0  # by which C may be lower still, and above the largest log loss
STEEPEST = 20.0  # log of B / s^beta at the mean step above the largest log loss


def fit_curves(steps: np.ndarray, losses: np.ndarray, weights=None, start=None) -> tuple[np.ndarray, ...]:
    """B, beta, C (d,) of losses (n, k, d), NaN where not observed, at steps (k,); `weights` (n,) of
    the runs. These differ by noise alone, so the points of a step are replaced by their weighted mean.

    A domain observed at one step has a constant curve, C; one without a loss has NaN. `start` (B,
    beta, C) of an earlier fit is the only start; otherwise fits start from the two best points of a
    grid over beta.
    """
    count = np.ones(len(losses)) if weights is None else np.asarray(weights, dtype=float)
    w = np.isfinite(losses) * count[:, None, None]
    y = (w * np.log(np.where(w > 0, losses, 1.0))).sum(axis=0) / np.maximum(w.sum(axis=0), 1e-300)
    times, found = np.log(np.asarray(steps, dtype=float)), np.full((3, losses.shape[2]), np.nan)
    for i, of_domain in enumerate(w.sum(axis=0).T):
        seen = of_domain > 0
        if seen.sum() == 1:
            found[:, i] = 0.0, 1.0, np.exp(y[seen, i][0])
        elif seen.any():
            begin = None if start is None else [*(numbers[i] for numbers in start), 0.0]
            found[:, i] = fit_points(times[seen], y[seen, i], of_domain[seen], begin)[:3]
    return tuple(found)


def fit_points(times, y, w, start=None, u=None) -> tuple[float, float, float, float]:
    """B, beta, C and alpha of y = log(B / s^beta + C) - alpha u, log losses (k,) with weights w at log
    steps (k,), from the best of two starts or from `start` (B, beta, C, alpha). Without u alpha is 0.

    The numbers fitted are the logs of B / s^beta and C at the mean step and u, beta and alpha, which
    are nearly uncorrelated.
    """
    centre, root = np.average(times, weights=w), np.sqrt(w)
    t, floor = times - centre, y.min() - FLOOR - MARGIN
    bounds = (floor, BETA_RANGE[0], floor), (y.max() + STEEPEST, BETA_RANGE[1], y.max() + MARGIN)
    middle, x = 0.0, np.zeros((0, len(y)))
    if u is not None:
        middle = np.average(u, weights=w)
        x, bounds = (u - middle)[None], tuple((*side, end) for side, end in zip(bounds, ALPHA_RANGE, strict=True))

    def residuals(z):
        return root * (np.logaddexp(z[0] - z[1] * t, z[2]) - y - z[3:] @ x)

    def jacobian(z):
        falling = expit(z[0] - z[1] * t - z[2])  # the fraction of the loss that falls
        return root[:, None] * np.stack([falling, -falling * t, 1 - falling, *-x], axis=1)

    starts = _starts(t, y, w) if start is None else []
    if start is not None:
        b, beta, c = np.maximum(start[:3], 1e-300)
        below = start[3] * middle
        starts = [(np.log(b) - beta * centre - below, beta, np.log(c) - below, start[3])[: 3 + len(x)]]
    low, high = map(np.array, bounds)
    inside = np.clip(starts, low + 1e-9 * np.maximum(1, abs(low)), high - 1e-9 * np.maximum(1, abs(high)))
    fits = [
        least_squares(residuals, z, jacobian, bounds, x_scale="jac", ftol=1e-13, xtol=1e-12, gtol=1e-13) for z in inside
    ]
    height, beta, log_c, *rest = min(fits, key=lambda one: one.cost).x
    alpha = rest[0] if rest and rest[0] >= 1e-9 else 0.0
    c = 0.0 if log_c < y.min() - FLOOR else np.exp(log_c + alpha * middle)
    return np.exp(height + beta * centre + alpha * middle), beta, c, alpha


def _starts(t, y, w) -> list[tuple[float, float, float]]:
    """The best STARTS points of a grid over beta; B and C by linear least squares."""
    level, found = np.exp(y), []
    for beta in BETA_STARTS:
        curve = np.exp(-beta * t)
        design = (np.sqrt(w) / level)[:, None] * np.stack([curve, np.ones(len(t))], axis=1)
        b, c = np.maximum(nnls(design, np.sqrt(w))[0], 1e-3 * level.min())
        found.append((float(w @ (np.log(b * curve + c) - y) ** 2), (np.log(b), beta, np.log(c))))
    return [z for _, z in sorted(found)[:STARTS]]
