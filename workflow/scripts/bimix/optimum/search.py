"""The optimum of RegMix, by simulation and without a certificate.

RegMix (Liu et al.) draws many mixtures like a swarm and averages those with the best predictions:
trees are piecewise constant and have no gradient, and the average smooths their steps. The released
notebook draws 100,000 from one Dirichlet(token shares), without concentrations, temperature or
rejections. On RegMix's own 512 runs the optimum has Pile-CC at 0.904 here, its released mixture at
0.870.
"""

from collections.abc import Sequence

import numpy as np

from bimix.errors import InputError
from bimix.mixtures import draws

SIMULATED, AVERAGED = 100_000, 128
ROUNDS = 20  # of as many draws each, where bounds or the largest proportions throw many away


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
