"""The next best mixtures after a best one, each a stated distance from the others.

Mixtures are apart where the share of one domain differs by the distance or more. What is left once
a mixture is taken is cut into boxes, in each of which a best mixture is looked for. The best of all
boxes comes next (E. L. Lawler, "A procedure for computing the K best solutions to discrete
optimization problems", Management Science 18, 1972). Where each box is solved exactly, so is this.
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count

import numpy as np

TOUCH = 1e-6  # of the distance: solvers end on a bound to within less
INSIDE = 1e-9  # of a whole: bounds that leave less room than this hold one mixture at most

# Of bounds the best mixture (m,) within them and its value; None where they hold none.
Solve = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, float] | None]


def next_best(
    first: np.ndarray, solve: Solve, lower: np.ndarray, upper: np.ndarray, more: int, distance: float
) -> list[np.ndarray]:
    """Up to `more` mixtures (m,) after `first`, the best before the others; fewer where the bounds
    hold no more.
    """
    taken, boxes, order = [first], [], count()

    def cut(around: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        for bounds in outside(around, low, high, distance):
            if (found := solve(*bounds)) is not None:
                heappush(boxes, (found[1], next(order), found[0], bounds))

    if more:
        cut(first, lower, upper)
    while boxes and len(taken) <= more:
        _, _, shares, bounds = heappop(boxes)
        near = next((one for one in taken if np.abs(shares - one).max() < distance * (1 - TOUCH)), None)
        if near is None:
            taken.append(shares)
        if len(taken) > more:
            break
        cut(shares if near is None else near, *bounds)
    return taken[1:]


def outside(
    around: np.ndarray, lower: np.ndarray, upper: np.ndarray, distance: float
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Boxes that hold what lies within the bounds and apart from a mixture: domain by domain the
    share is above or below, and those of the domains before are near.
    """
    low, high = lower.copy(), upper.copy()
    for j in range(len(around)):
        least, most = around[j] - distance, around[j] + distance
        for low_j, high_j in ((max(low[j], most), high[j]), (low[j], min(high[j], least))):
            low_box, high_box = low.copy(), high.copy()
            low_box[j], high_box[j] = low_j, high_j
            if low_j <= high_j and low_box.sum() < 1 - INSIDE and high_box.sum() > 1 + INSIDE:
                yield low_box, high_box
        low[j], high[j] = max(low[j], least), min(high[j], most)
        if low[j] > high[j]:
            return
