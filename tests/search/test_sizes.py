"""What a run of another size tells, and what it costs."""

import numpy as np
import pytest
from laws.known import mixtures

from bimix.search import design
from bimix.search.sensitivity import guessed, known_before, slopes
from bimix.search.sizes import at_sizes, known_at_sizes, model, read_budget, read_large, slope_spread

OWN = np.arange(3)


def test_a_run_costs_six_flops_a_parameter_and_token() -> None:
    large = model("large", 1e9, 2e10)
    assert large.flops == 6 * 1e9 * 2e10 and model("other", 1e9, 2e10, 7.0).flops == 7
    assert read_budget("5%", large) == pytest.approx(0.05 * large.flops) and read_budget("2e18", None) == 2e18
    assert read_large("1e9,2e10", None) == large
    # slopes of sizes spread with the distance
    spread = slope_spread(np.array([1e6, 1e8, 1e9, 1e10]), 1e9)
    assert spread == pytest.approx([0.25, 0.25 / 9, 1e-3, 0.25 / 9])


def test_of_one_size_as_large_as_the_large_run_the_law_alone_is_told() -> None:
    """A level takes the place of the first c, and a slope of a size with none is held."""
    at, shares = guessed(3, OWN), mixtures(0, 20, 3)
    plain = np.linalg.inv(known_before(at) + design.outer(slopes(at, shares[:8])[1]))
    sized = at_sizes(at, shares[:8], np.zeros(8, dtype=int), 1)
    with_size = np.linalg.inv(known_at_sizes(at, np.ones(1), 1.0) + design.outer(sized))
    targets = slopes(at, shares)[1], at_sizes(at, shares, None, 1)
    first, second = (
        np.einsum("ndi,dij,ndj->nd", one, inverse, one)
        for one, inverse in zip(targets, (plain, with_size), strict=True)
    )
    assert second == pytest.approx(first, rel=2e-3)


def test_runs_of_a_small_model_leave_its_slope_open_and_large_ones_close_it() -> None:
    at, shares = guessed(3, OWN), mixtures(0, 200, 3)
    before = known_at_sizes(at, np.array([1e6, 1e9]), 1e9)
    targets = at_sizes(at, shares, None, 2)
    # differences to the uniform mixture, which no level moves
    targets = targets - at_sizes(at, np.full((1, 3), 1 / 3), None, 2)

    def variance(small: int, large: int) -> float:
        size = np.array([0] * small + [1] * large)
        precision = before + design.outer(at_sizes(at, shares[: small + large], size, 2))
        return float(np.einsum("ndi,dij,ndj->nd", targets, np.linalg.inv(precision), targets).mean())

    assert variance(190, 0) > 0.9 * variance(100, 0)  # more of them do not help
    assert variance(100, 10) < 0.3 * variance(110, 0)
