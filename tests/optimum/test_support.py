"""Distances of a mixture from the runs: by hand, and by the vertices of a small hull."""

import numpy as np
import pytest

from bimix.optimum.report import hull_distance, support

RUNS = np.array([[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.2, 0.3, 0.5]])


def test_a_mixture_inside_of_the_runs_and_one_outside():
    # a mean of the runs lies inside and says nothing
    inside = support(np.array([0.3, 0.4, 0.3]), RUNS, ["a", "b", "c"], ["x", "y", "z"])
    assert inside.hull_distance < 1e-9 and inside.outside == {} and inside.sentence() == ""
    assert inside.nearest_distance == pytest.approx(0.2)
    # Of (0.8, 0.1, 0.1) 0.3 must be moved to b and c to be the run x; no mean is nearer.
    found = support(np.array([0.8, 0.1, 0.1]), RUNS, ["a", "b", "c"], ["x", "y", "z"])
    assert found.nearest == "x" and found.nearest_distance == pytest.approx(0.3)
    assert found.hull_distance == pytest.approx(0.3)
    assert found.outside == pytest.approx({"a": 0.3, "b": -0.2, "c": -0.1})
    assert "0.3000 of it would have to be moved" in found.sentence() and "a +0.3000" in found.sentence()


def test_the_hull_is_no_farther_than_any_mean_of_runs():
    for seed in range(5):
        draw = np.random.default_rng(seed)
        runs, mixture = draw.dirichlet(np.ones(5), 4), draw.dirichlet(np.ones(5) * 0.3)
        means = np.vstack([draw.dirichlet(np.ones(4) * s, 20_000) for s in (0.2, 1)]) @ runs
        sampled = 0.5 * np.abs(means - mixture).sum(axis=1).min()
        exact = hull_distance(mixture, runs)
        assert exact <= sampled + 1e-9 and sampled - exact < 0.02
