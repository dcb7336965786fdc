"""Optima of laws that are not convex, without certificates: descents from many starts, and RegMix's
simulation.

RegMix (Liu et al.) draws many mixtures like a swarm and averages those with the best predictions:
trees are piecewise constant and have no gradient, and the average smooths their steps. The released
notebook draws 100,000 from one Dirichlet(token shares), without concentrations, temperature or
rejections. On RegMix's own 512 runs the optimum has Pile-CC at 0.904 here, its released mixture at
0.870.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import minimize

from bimix.errors import InputError
from bimix.mixtures import draws
from bimix.mixtures.by_hand import within

DRAWN, DESCENTS = 2000, 8
NEAR = 30.0  # strength of the Dirichlet draws around the centre; half of them lie around it
SIMULATED, AVERAGED = 100_000, 128
ROUNDS = 20  # of as many draws each, where bounds or the largest proportions throw many away


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
    starts = within(np.maximum([centre, *drawn] - lower, 0.0), lower, upper)
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
    end = within(np.maximum(found.x - lower, 0.0)[None], lower, upper)[0] if np.isfinite(found.x).all() else start
    return end if objective(end)[0] <= objective(start)[0] else start


def simulate(
    token_shares: np.ndarray, lower: np.ndarray, upper: np.ndarray, between: Sequence[float] = draws.STRENGTHS
) -> np.ndarray:
    """Mixtures (n, m) of `draws.mixture` within bounds; n is 100,000, less rejected ones."""
    kept, found = [], 0
    for turn in range(ROUNDS):
        drawn = draws.simulated(token_shares, SIMULATED, turn, between)
        drawn = draws.trimmed(drawn[(drawn <= draws.most(token_shares)).all(axis=1)])
        drawn = drawn[((drawn >= lower) & (drawn <= upper)).all(axis=1)]
        kept.append(
            np.random.default_rng([turn, 1]).permutation(drawn)
        )  # strengths come in order: the last turn is cut
        found += len(drawn)
        if found >= SIMULATED:
            break
    if found < AVERAGED:
        raise InputError(
            f"of {ROUNDS * SIMULATED:,} simulated mixtures {found} lie within the bounds, and RegMix averages the best {AVERAGED}:"
            f" widen the bounds, or take the optimum of another law, which needs no simulation."
        )
    return np.concatenate(kept)[:SIMULATED]
