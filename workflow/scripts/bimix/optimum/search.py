"""Minimum of a smooth function of a mixture that need not be convex: descents from many starts."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

DRAWN, DESCENTS = 2000, 8
NEAR = 30.0  # strength of the Dirichlet draws around the centre; half of them lie around it


def searched(objective: Callable, centre: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """The best mixture (m,) found within the bounds; `objective` of (m,) gives value and gradient
    (m,).

    SLSQP descends from `centre` and from the best of 2,000 draws. Nothing certifies that no better
    mixture is left.
    """
    draw = np.random.default_rng(0)
    m = len(lower)
    drawn = np.concatenate(
        [draw.dirichlet(np.ones(m), DRAWN // 2), draw.dirichlet(NEAR * np.maximum(centre, 1e-3), DRAWN // 2)]
    )
    starts = np.array([within(one, lower, upper) for one in (centre, *drawn)])
    order = np.argsort([objective(one)[0] for one in starts[1:]], kind="stable")[: DESCENTS - 1]
    ends = [descent(objective, start, lower, upper) for start in (starts[0], *starts[1:][order])]
    return min(ends, key=lambda r: objective(r)[0])


def descent(objective: Callable, start: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Where SLSQP ends from a start, put back within the bounds; the start where that is better."""
    level = max(abs(objective(start)[0]), 1e-300)

    def scaled(r):
        value, gradient = objective(r)
        return value / level, gradient / level

    found = minimize(
        scaled,
        start,
        jac=True,
        method="SLSQP",
        bounds=list(zip(lower, upper, strict=True)),
        constraints={"type": "eq", "fun": lambda r: r.sum() - 1, "jac": np.ones_like},
        options={"maxiter": 500, "ftol": 1e-12},
    )
    end = within(found.x, lower, upper) if np.isfinite(found.x).all() else start
    return end if objective(end)[0] <= objective(start)[0] else start


def within(r: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Shares within the bounds that sum to 1, those of r above its lower bounds scaled alike."""
    above = np.maximum(r - lower, 0.0) + 1e-15
    room, rest = upper - lower, 1 - lower.sum()
    taken = np.zeros_like(above)
    full = np.zeros(len(above), dtype=bool)
    while not full.all():
        left = rest - taken[full].sum()
        scaled = above[~full] * left / above[~full].sum()
        over = scaled > room[~full]
        if not over.any():
            taken[~full] = scaled
            break
        put = np.flatnonzero(~full)[over]
        taken[put], full[put] = room[put], True
    return lower + taken
