"""RegMix's optimum (Liu et al.): simulate many mixtures as a swarm is drawn, average those
predicted best.

Trees are constant between their splits, so there is nothing to descend; the average also blurs
their steps. The released notebook draws otherwise: 100,000 of one Dirichlet(token shares), without
strengths, temperature or rejections. On RegMix's own 512 runs the optimum has Pile-CC at 0.904
here, its released mixture at 0.870.
"""

from collections.abc import Callable, Sequence

import numpy as np

from bimix.errors import InputError
from bimix.mixtures import draws

SIMULATED, AVERAGED = 100_000, 128
ROUNDS = 20  # of as many draws each, where bounds or the largest proportions throw many away


def best_simulated(
    value: Callable[[np.ndarray], np.ndarray],
    token_shares: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    between: Sequence[float] = draws.STRENGTHS,
) -> np.ndarray:
    """Mean (m,) of the 128 of 100,000 mixtures with the least value; `value` of proportions (n, m)
    is (n,).

    `token_shares` (m,) are the centre of the draws, whose strengths lie `between` two. Bounds are
    kept by throwing draws away: what lies within bounds, its mean does too. Errors: of 2,000,000
    draws fewer than 128 are left.
    """
    drawn = simulate(token_shares, lower, upper, between)
    best = np.argsort(value(drawn), kind="stable")[:AVERAGED]
    return drawn[best].mean(axis=0)


def simulate(
    token_shares: np.ndarray, lower: np.ndarray, upper: np.ndarray, between: Sequence[float] = draws.STRENGTHS
) -> np.ndarray:
    """Mixtures (n, m) as `draws.mixture` draws them, within bounds; n is 100,000, or less where the
    bounds leave few.
    """
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
