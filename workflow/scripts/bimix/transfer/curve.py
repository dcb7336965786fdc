"""The curve over steps of the law `transfer`: log(B / s^beta + C) of all loss domains at once.

Least squares in log loss by Levenberg-Marquardt with steps projected into bounds, batched over
domains. Runs differ here only by noise, so the points of a step are replaced by their weighted
mean. `laws/bimix` fits the same curve together with an exponent of the mixture, domain by domain.
"""

import numpy as np

BETA_RANGE = (1e-3, 5.0)
BETA_STARTS = np.geomspace(0.03, 3, 20)
STARTS = 2
FLOOR = 20.0  # log of C below the smallest log loss at which it is written as 0
MARGIN = 5.0  # by which C may be lower still, and above the largest log loss
STEEPEST = 20.0  # log of B / s^beta at the mean step above the largest log loss
ROUNDS, TOLERANCE = 500, 1e-13


def fit_curves(steps: np.ndarray, losses: np.ndarray, weights=None, start=None) -> tuple[np.ndarray, ...]:
    """B, beta, C (d,) of losses (n, k, d), NaN where not observed, at steps (k,); `weights` (n,) of
    the runs.

    A domain observed at one step has a constant curve, C. `start` (B, beta, C) of an earlier fit is
    the only start; otherwise fits start from the two best points of a grid over beta, at which B
    and C solve a linear problem. A domain without a loss has NaN.
    """
    n, _, d = losses.shape
    count = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    seen = np.isfinite(losses) & (count > 0)[:, None, None]
    there = seen.any(axis=(0, 1))
    losses, seen = np.where(there, losses, 1.0), seen | ~there  # a stand-in, as a fit needs numbers
    w = (count[:, None, None] * seen).sum(0).T  # (d, k)
    logs = np.log(np.where(seen, losses, 1.0))
    y = (count[:, None, None] * logs).sum(0).T / np.maximum(w, 1e-300)
    low = np.where(seen, logs, np.inf).min(axis=(0, 1))
    high = np.where(seen, logs, -np.inf).max(axis=(0, 1))
    times = np.log(np.asarray(steps, dtype=float))
    centre = (w @ times) / np.maximum(w.sum(1), 1e-300)
    t = times - centre[:, None]
    floor = low - FLOOR - MARGIN
    bounds = (
        np.stack([floor, np.full(d, BETA_RANGE[0]), floor], axis=1),
        np.stack([high + STEEPEST, np.full(d, BETA_RANGE[1]), high + MARGIN], axis=1),
    )
    if start is None:
        z = _starts(t, y, w)
    else:
        b, beta, c = start
        with np.errstate(divide="ignore"):
            z = np.stack([np.log(b) - beta * centre, beta, np.maximum(np.log(c), floor)], axis=1)[None]
    tried, costs = map(np.array, zip(*(_descend(np.clip(one, *bounds), bounds, t, y, w) for one in z), strict=True))
    z = tried[costs.argmin(axis=0), np.arange(d)]
    c = np.where(z[:, 2] < low - FLOOR, 0.0, np.exp(z[:, 2]))
    once = (w > 0).sum(1) == 1
    level = np.exp((w * y).sum(1) / np.maximum(w.sum(1), 1e-300))
    b = np.exp(z[:, 0] + z[:, 1] * centre)
    return tuple(np.where(there, np.where(once, [np.zeros(d), np.ones(d), level], [b, z[:, 1], c]), np.nan))


def _misfit(z, t, y):
    """Residuals (d, k), and the fraction of the falling part in the loss."""
    falling, constant = z[:, :1] - z[:, 1:2] * t, z[:, 2:]
    return np.logaddexp(falling, constant) - y, 1 / (1 + np.exp(np.clip(constant - falling, -700, 700)))


def _descend(z, bounds, t, y, w):
    """Parameters (d, 3) within bounds (d, 3) at a minimum, starting from z, and the costs (d,)."""
    lower, upper = bounds
    z = z.copy()
    misfit, share = _misfit(z, t, y)
    cost = (w * misfit**2).sum(1)
    damping = np.full(len(z), 1e-3)
    active = np.arange(len(z))
    for _ in range(ROUNDS):
        own, part = z[active], share[active]
        jacobian = np.stack([part, -part * t[active], 1 - part], axis=2)
        weighted = (jacobian * w[active, :, None]).transpose(0, 2, 1)
        gradient = (weighted @ misfit[active, :, None])[:, :, 0]
        # a parameter at its bound stays where the step leads outside
        held = ((own <= lower[active]) & (gradient > 0)) | ((own >= upper[active]) & (gradient < 0))
        system = np.where(held[:, :, None] | held[:, None], 0.0, weighted @ jacobian)
        diagonal = np.maximum(np.einsum("bii->bi", system), 1e-12)
        system[:, range(3), range(3)] = np.where(held, 1.0, diagonal * (1 + damping[active, None]) + 1e-15)
        step = np.linalg.solve(system, np.where(held, 0.0, -gradient)[:, :, None])[:, :, 0]
        new = np.clip(own + np.clip(step, -2, 2), lower[active], upper[active])
        new_misfit, new_share = _misfit(new, t[active], y[active])
        new_cost = (w[active] * new_misfit**2).sum(1)
        better = new_cost < cost[active]
        gain = np.where(better, (cost[active] - new_cost) / np.maximum(cost[active], 1e-300), 0.0)
        taken = active[better]
        z[taken], misfit[taken], share[taken] = new[better], new_misfit[better], new_share[better]
        cost[taken] = new_cost[better]
        damping[active] = np.where(better, damping[active] * 0.2, damping[active] * 5)
        # converged: no step helps, or a nearly undamped step gained almost nothing
        done = (damping[active] > 1e8) | (better & (gain < TOLERANCE)) | (cost[active] < 1e-28)
        active = active[~done]
        if not len(active):
            break
    return z, cost


def _starts(t, y, w) -> np.ndarray:
    """The best STARTS points (STARTS, d, 3) of a grid over beta; B and C by least squares."""
    level = np.exp(y)
    curve = np.exp(-BETA_STARTS[:, None, None] * t)  # (betas, d, k)
    weight = w / level**2
    a11, a12, a22 = (curve**2 * weight).sum(2), (curve * weight).sum(2), weight.sum(1)
    b1, b2 = (curve * weight * level).sum(2), (weight * level).sum(1)
    determinant = np.where(a11 * a22 - a12**2 > 0, a11 * a22 - a12**2, np.inf)
    b, c = (a22 * b1 - a12 * b2) / determinant, (a11 * b2 - a12 * b1) / determinant
    small = 1e-3 * level.min(axis=1)
    b, c = np.where(c <= 0, b1 / a11, np.maximum(b, small)), np.where(b <= 0, b2 / a22, np.maximum(c, small))
    cost = (w * (np.log(b[:, :, None] * curve + c[:, :, None]) - y) ** 2).sum(2)
    best = np.argsort(cost, axis=0)[:STARTS]  # (STARTS, d)
    at = np.arange(len(y))
    return np.stack([np.log(b[best, at]), BETA_STARTS[best], np.log(c[best, at])], axis=2)
