"""The k best proposals of a law: apart from each other, in the law's order, and what a fine grid or
all draws have.
"""

import numpy as np
import pytest
from laws.known import mixtures, observe, with_transfer
from optimum.fitted_laws import KINDS, even, fitted_law

from bimix.errors import InputError
from bimix.laws import fit
from bimix.optimum.apart import next_best, outside
from bimix.optimum.best import APART, best, proposals
from bimix.optimum.goal import Goal
from bimix.optimum.objective import Objective
from bimix.optimum.optimum import token_shares

FREE = np.zeros(3), np.ones(3)
FINE = 100  # steps of a share on the grid


def grid(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """All mixtures of three domains whose shares are whole parts of FINE."""
    a, b = np.meshgrid(np.arange(FINE + 1), np.arange(FINE + 1))
    rows = np.stack([a.ravel(), b.ravel(), FINE - a.ravel() - b.ravel()], axis=1)
    rows = rows[rows[:, 2] >= 0] / FINE
    return rows[((rows >= lower - 1e-12) & (rows <= upper + 1e-12)).all(axis=1)]


def least_apart(rows: np.ndarray, values: np.ndarray, taken: list[np.ndarray]) -> float:
    """The least value of the rows that are apart from all that are taken."""
    far = np.min([np.abs(rows - one).max(axis=1) for one in taken], axis=0) >= APART * (1 - 1e-9)
    return float(values[far].min())


@pytest.mark.parametrize("law", KINDS)
@pytest.mark.parametrize("bounds", [FREE, (np.full(3, 0.02), np.array([0.45, 0.9, 0.5]))])
@pytest.mark.parametrize("seed", [0, 1])
def test_proposals_are_the_best_of_a_fine_grid_that_are_apart(law: str, bounds: tuple, seed: int) -> None:
    fitted = fitted_law(law, seed, 3)
    lower, upper = (np.maximum(bounds[0], 0.005), bounds[1]) if law == "bimix" else bounds
    found = proposals(fitted, 100, Objective(), lower, upper, None, 4)
    shares = [one.shares for one in found]
    assert np.array_equal(shares[0], best(fitted, 100, Objective(), lower, upper).shares)
    for n, one in enumerate(shares):
        assert one.sum() == pytest.approx(1, abs=1e-9) and (one >= lower - 1e-9).all() and (one <= upper + 1e-9).all()
        assert all(np.abs(one - other).max() >= APART * (1 - 1e-5) for other in shares[:n])
    values = [one.value for one in found]
    assert values == sorted(values) and found[1].gap is None
    goal, rows = Goal(fitted, 100, Objective()), grid(lower, upper)
    for n in range(1, 4):  # each after those that were found before it
        least = least_apart(rows, goal.value(rows), shares[:n])
        assert values[n] <= least + 1e-9
        assert least - values[n] < 0.05 * values[0]


TOKENS = {"d00": 3.0, "d01": 2.0, "d02": 1.0}


def test_a_penalty_of_the_law_orders_its_proposals() -> None:
    """Olmix minimises its losses and a KL divergence from token shares, in every box and among
    them.
    """
    fitted = fit("olmix", observe(with_transfer(0, 3), mixtures(0, 40, 3), np.array([1000])))
    found = proposals(fitted, 1000, Objective(), *FREE, TOKENS, 3)
    goal, centre = Goal(fitted, 1000, Objective()), token_shares(fitted, TOKENS)
    whole = lambda r: goal.value(r) + 0.05 * (r * np.log(np.maximum(r, 1e-12) / centre)).sum(axis=-1)  # noqa: E731
    rows = grid(*FREE)
    levels = whole(np.array([one.shares for one in found]))
    assert (np.diff(levels) > 0).all()
    for n in (1, 2):
        least = least_apart(rows, whole(rows), [one.shares for one in found[:n]])
        assert levels[n] <= least + 1e-9


def test_boxes_without_a_mixture_that_holds_the_constraints_are_passed_over() -> None:
    fitted = fitted_law("transfer", 3, 3)
    objective = Objective("no_worse_than", reference=even(fitted), margin=0.03)
    found = proposals(fitted, 100, objective, *FREE, None, 2)
    assert (Goal(fitted, 100, objective).excess(found[1].shares) <= 1e-5).all()


def test_bounds_that_hold_no_further_proposal_are_named() -> None:
    fitted = fitted_law("transfer", 0, 3)
    lower, upper = np.array([0.3, 0.3, 0.3]), np.array([0.36, 0.36, 0.36])
    with pytest.raises(InputError, match=r"the law transfer has no proposal 2: .* set `proposals` to 1"):
        proposals(fitted, 100, Objective(), lower, upper, None, 3)


def test_what_is_outside_is_covered_once() -> None:
    """A mixture apart from the centre lies in one box, one near it in none."""
    draw = np.random.default_rng(0)
    lower, upper = np.array([0.0, 0.1, 0.0, 0.0]), np.array([0.8, 0.9, 0.5, 1.0])
    around = np.array([0.3, 0.4, 0.2, 0.1])
    rows = draw.dirichlet(np.ones(4), 4000)
    rows = rows[((rows >= lower) & (rows <= upper)).all(axis=1)]
    held = sum(
        ((rows >= low) & (rows <= high)).all(axis=1).astype(int) for low, high in outside(around, lower, upper, 0.1)
    )
    assert np.array_equal(held, (np.abs(rows - around).max(axis=1) >= 0.1).astype(int)) and 0 < held.mean() < 1


def test_a_box_whose_best_is_near_one_taken_is_cut_and_not_lost() -> None:
    """The third lies beside the second, in a box of the first that the second has spoilt."""
    hollows = np.array([0.2, 0.65])

    def solve(low, high):
        shares = np.linspace(max(low[0], 1 - high[1]), min(high[0], 1 - low[1]), 2001)
        values = np.abs(shares[:, None] - hollows).min(axis=1)
        return np.array([shares[values.argmin()], 1 - shares[values.argmin()]]), float(values.min())

    found = next_best(np.array([0.2, 0.8]), solve, np.zeros(2), np.ones(2), 4, 0.1)
    shares = np.array([0.2, *(one[0] for one in found)])
    assert shares[1] == pytest.approx(0.65, abs=1e-3)
    assert np.abs(shares[2:, None] - hollows).min(axis=1) == pytest.approx([0.1] * 3, abs=1e-3)
    assert np.diff(np.sort(shares)).min() >= 0.1 * (1 - 1e-5)


def test_nothing_further_is_looked_for_than_asked() -> None:
    """Each box takes an optimum: after the last proposal none is cut, and with one none at all."""
    first, calls = np.array([0.5, 0.3, 0.2]), []

    def solve(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, float]:
        calls.append(low)
        free = np.clip(first, low, high)
        return free + (1 - free.sum()) * (high - free if free.sum() < 1 else free - low) / (
            (high - free).sum() if free.sum() < 1 else (free - low).sum()
        ), float(np.abs(free - first).sum())

    assert next_best(first, solve, *FREE, 0, APART) == [] and not calls
    assert len(next_best(first, solve, *FREE, 1, APART)) == 1 and len(calls) == 6
    fitted = fitted_law("transfer", 0, 3)
    alone = proposals(fitted, 100, Objective(), *FREE, None, 1)
    assert [one.value for one in alone] == [best(fitted, 100, Objective(), *FREE).value]
