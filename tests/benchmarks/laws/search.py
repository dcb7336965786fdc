"""The best mixture of a law that is not convex: descents from many starts, without a certificate."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from bimix.laws.table import LAWS
from bimix.mixtures.by_hand import fit_into_bounds
from bimix.optimum.objective import target_weights
from bimix.optimum.optimum import mean_seen

DRAWN, DESCENTS = 2000, 8
NEAR = 30.0  # strength of the Dirichlet draws around the centre; half of them lie around it


def optimum(
    fitted: dict, step: int, weights: dict[str, float] | None, lower: np.ndarray, upper: np.ndarray
) -> np.ndarray:
    """The best mixture (m,) found for the average of losses by weights; None: the plain mean."""
    objective = LAWS[fitted["law"]].code.objective(fitted, step, target_weights(fitted, weights))
    return searched(objective, mean_seen(fitted), lower, upper)


def searched(objective: Callable, centre: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """The best mixture (m,) found within the bounds; `objective` of (m,) gives value and gradient
    (m,).

    SLSQP descends from `centre` and from the best of 2,000 draws. There is no certificate of global
    optimality.
    """
    draw = np.random.default_rng(0)
    m = len(lower)
    drawn = np.concatenate(
        [draw.dirichlet(np.ones(m), DRAWN // 2), draw.dirichlet(NEAR * np.maximum(centre, 1e-3), DRAWN // 2)]
    )
    starts = fit_into_bounds(np.maximum([centre, *drawn] - lower, 0.0), lower, upper)
    order = np.argsort([objective(one)[0] for one in starts[1:]], kind="stable")[: DESCENTS - 1]
    ends = [descent(objective, start, lower, upper) for start in (starts[0], *starts[1:][order])]
    return min(ends, key=lambda r: objective(r)[0])


def descent(objective: Callable, start: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """The end of SLSQP from a start, projected into the bounds; the start where that is better."""
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
    end = (
        fit_into_bounds(np.maximum(found.x - lower, 0.0)[None], lower, upper)[0]
        if np.isfinite(found.x).all()
        else start
    )
    return end if objective(end)[0] <= objective(start)[0] else start
