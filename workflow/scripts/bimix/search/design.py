"""Which runs to make of those that could be made: candidates, and the best of them within a budget.

Bayesian optimal design of linear models: what is known of the numbers of each loss domain i is a
precision M_i, and a run adds f_i f_i' to it. Prior precision keeps M regular with any number of
runs. Runs are I-optimal: the least sum_i w_i^2 tr(M_i^-1 W_i), W_i the mean of f_i f_i' over the
mixtures that one would decide among, which is the mean variance of predicted losses (Goos, Jones
and Syafitri, 2016, on mixtures).

Runs are picked one after another, each by what it gains for its cost, and then exchanged one by one
for others at the same cost, until none gains.
"""

from dataclasses import dataclass

import numpy as np

from bimix.errors import InputError
from bimix.mixtures.by_hand import within

ROUNDS = 4  # of exchanges of all runs
CANDIDATES = 2000
# Of the Dirichlet draws, in units of the number of domains: from single domains to the centre.
STRENGTHS = np.geomspace(0.3, 10, 8)
LEAST_ROOM = 1e-6
GAINED = 1e-6  # of what the run removes of the variance, that an exchange has to gain


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


@dataclass(frozen=True)
class Offer:
    """N runs that could be made, d loss domains with p numbers each."""

    slopes: np.ndarray  # (N, d, p), in units of the standard deviation of a run
    mixture: np.ndarray  # (N,) index of the mixture
    size: np.ndarray  # (N,) index of the model
    cost: np.ndarray  # (N,) above 0


@dataclass(frozen=True)
class Aim:
    """What is known before, and what is to be predicted."""

    precision: np.ndarray  # (d, p, p) with the runs that are done
    wanted: np.ndarray  # (d, p, p) W
    weights: np.ndarray  # (d,) of the loss domains; one that weighs 0 counts not

    def information(self, precision: np.ndarray) -> float:
        """Minus the log of the mean variance."""
        inverse = np.linalg.inv(precision)
        return -float(np.log((self.weights**2 * np.einsum("dij,dji->d", inverse, self.wanted)).sum()))

    def gains(self, precision: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """The variance (n,) that each of the runs (n, d, p) removes."""
        solved = np.einsum("ndi,dij->ndj", slopes, np.linalg.inv(precision))
        spread = (solved * slopes).sum(axis=2)
        taken = (np.einsum("ndi,dij->ndj", solved, self.wanted) * solved).sum(axis=2) / (1 + spread)
        return taken @ self.weights**2


def outer(slopes: np.ndarray) -> np.ndarray:
    """sum f f' (d, p, p) of runs (n, d, p)."""
    return np.einsum("ndi,ndj->dij", slopes, slopes)


def wanted(slopes: np.ndarray) -> np.ndarray:
    """W (d, p, p): the mean of f f' over mixtures (n, d, p)."""
    return outer(slopes) / len(slopes)


def choose(
    offer: Offer,
    aim: Aim,
    budget: float,
    count: int | None = None,
    linked: frozenset[int] = frozenset(),
    exchange: bool = True,
) -> list[int]:
    """Rows of the offer, in the order they are picked: the best within the budget and the count.

    Each run is another one. Of several sizes the cheapest takes any mixture and a larger one those
    that another size has, for sizes are compared on the same mixtures: those picked before, or
    `linked`. Where only one size is offered, it takes any.
    """
    precision, left, chosen = aim.precision.copy(), budget, []
    free = offer.cost <= offer.cost.min()
    while count is None or len(chosen) < count:
        known = np.array(sorted({*offer.mixture[chosen].tolist(), *linked}), dtype=int)
        open_ = (offer.cost <= left * (1 + 1e-12)) & (free | np.isin(offer.mixture, known))
        open_[chosen] = False
        rows = np.nonzero(open_)[0]
        if not len(rows):
            break
        value = aim.gains(precision, offer.slopes[rows]) / offer.cost[rows]
        pick = int(rows[np.argmax(value)])
        chosen.append(pick)
        left -= offer.cost[pick]
        precision = precision + outer(offer.slopes[[pick]])
    return exchanged(offer, aim, chosen, linked) if exchange else chosen


def exchanged(offer: Offer, aim: Aim, chosen: list[int], linked: frozenset[int] = frozenset()) -> list[int]:
    """The runs after exchanges: each in turn for the one of its size that gains most in its place.

    A run whose mixture another run has, too, stays, and a larger one whose mixture is `linked`.
    """
    chosen, larger = list(chosen), offer.cost > offer.cost.min()
    precision = aim.precision + outer(offer.slopes[chosen])
    for _ in range(ROUNDS):
        better = False
        for place, old in enumerate(chosen):
            if (offer.mixture[chosen] == offer.mixture[old]).sum() > 1 or (
                larger[old] and offer.mixture[old] in linked
            ):
                continue
            without = precision - outer(offer.slopes[[old]])
            alike = (offer.size == offer.size[old]) & ~np.isin(offer.mixture, offer.mixture[chosen])
            rows = np.nonzero(alike)[0]
            if not len(rows):
                continue
            gains = aim.gains(without, offer.slopes[rows])
            kept = aim.gains(without, offer.slopes[[old]])[0]
            best = int(np.argmax(gains))
            if gains[best] > kept + GAINED * abs(kept):
                chosen[place] = int(rows[best])
                precision = without + outer(offer.slopes[[chosen[place]]])
                better = True
        if not better:
            break
    return chosen


def informations(offer: Offer, aim: Aim, chosen: list[int]) -> list[float]:
    """The information after each of the runs."""
    values, precision = [], aim.precision
    for row in chosen:
        precision = precision + outer(offer.slopes[[row]])
        values.append(aim.information(precision))
    return values


def repeated(offer: Offer, aim: Aim, chosen: list[int]) -> int:
    """The most informative of the cheapest runs again: another seed gives the noise of a run."""
    cheapest = [row for row in chosen if offer.cost[row] <= min(offer.cost[chosen])]
    gains = aim.gains(aim.precision + outer(offer.slopes[chosen]), offer.slopes[cheapest])
    return cheapest[int(np.argmax(gains))]
