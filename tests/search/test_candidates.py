"""Mixtures within bounds, however tight."""

import numpy as np
import pytest

from bimix.errors import InputError
from bimix.search.design import CANDIDATES, candidates


def test_candidates_keep_to_the_bounds_and_reach_them() -> None:
    for lower, upper in (
        (np.zeros(5), np.ones(5)),
        (np.full(5, 0.02), np.full(5, 0.6)),
        # pools so small that a random mixture hardly ever keeps to them
        (np.zeros(17), np.array([*[0.004] * 12, *[0.3] * 5])),
        (np.array([0.3, 0, 0]), np.array([0.3, 0.5, 0.5])),
        (np.zeros(4), np.array([1, 0, 1, 1.0])),
    ):
        m = len(lower)
        found = candidates(np.full(m, 1 / m), lower, upper, 0)
        assert len(found) == 2 * m + CANDIDATES
        assert found.sum(axis=1) == pytest.approx(np.ones(len(found)), abs=1e-12)
        assert (found >= lower - 1e-12).all() and (found <= upper + 1e-9).all()
        # the most that a domain may have leaves the others their least
        most = np.minimum(upper, 1 - lower.sum() + lower)
        assert found.max(axis=0) == pytest.approx(most, abs=1e-4)
        least = np.maximum(lower, 1 - (upper.sum() - upper))
        assert found.min(axis=0) == pytest.approx(least, abs=1e-4)


def test_bounds_that_leave_one_mixture_are_refused() -> None:
    for lower, upper in (([0.5, 0.5, 0], [1, 1, 1]), ([0, 0, 0], [0.5, 0.5, 0]), ([0.2, 0.3, 0], [0.2, 0.3, 1])):
        with pytest.raises(InputError, match="leave one mixture only"):
            candidates(np.full(3, 1 / 3), np.array(lower, dtype=float), np.array(upper, dtype=float), 0)


def test_candidates_are_many_near_the_middle_of_the_runs() -> None:
    """Half way between the centre and equal shares: the mean of those that are drawn."""
    centre, m = np.array([0.7, 0.2, 0.1]), 3
    drawn = candidates(centre, np.zeros(m), np.ones(m), 0)[2 * m :]
    assert drawn.mean(axis=0) == pytest.approx(0.5 * (centre + 1 / m), abs=0.02)
