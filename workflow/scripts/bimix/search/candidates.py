"""Mixtures that could be run: random ones within bounds, from near single domains to near the
centre, and the corners.
"""

import numpy as np

from bimix.errors import InputError
from bimix.mixtures.by_hand import within

CANDIDATES = 2000
# Of the Dirichlet draws, in units of the number of domains: from single domains to the centre.
STRENGTHS = np.geomspace(0.3, 10, 8)
LEAST_ROOM = 1e-6


def candidates(centre: np.ndarray, lower: np.ndarray, upper: np.ndarray, seed: int) -> np.ndarray:
    """Mixtures (n, m) within bounds (m,) around a centre (m,): for each domain those with the most
    and the least of it, then 2,000 draws.

    What a draw has above a bound goes to the other domains in proportion to what they have.
    Errors: the bounds leave one mixture only.
    """
    m, draw = len(centre), np.random.default_rng(seed)
    room = upper - lower
    if min(1 - lower.sum(), upper.sum() - 1, np.sort(room)[-2]) < LEAST_ROOM:
        raise InputError(
            f"the bounds leave one mixture only (the lower ones sum to {lower.sum():.6g}, the upper ones to "
            f"{upper.sum():.6g}): widen them, so that proportions can vary."
        )
    middle = np.maximum(centre, 1e-3) / np.maximum(centre, 1e-3).sum()
    around = 0.5 * (middle + 1 / m)
    eye = np.eye(m)
    most, none = 1e6 * eye + middle, middle * (1 - eye)
    drawn = [draw.dirichlet(m * strength * around, CANDIDATES // len(STRENGTHS)) for strength in STRENGTHS]
    return within(np.concatenate([most, none, *drawn]), lower, upper)
