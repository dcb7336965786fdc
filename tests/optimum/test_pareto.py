"""The Pareto front: no mixture that is drawn beats a point in both losses."""

import numpy as np
from optimum.fitted_laws import KINDS, fitted_law
from refusals import refused

from bimix.laws.fitted import predict_defined
from bimix.optimum.objective import Objective
from bimix.optimum.optimum import Sought
from bimix.optimum.pareto import as_table, front


def free(fitted: dict) -> Sought:
    """What is sought without bounds."""
    m = len(fitted["domains"])
    return Sought(fitted, 100, Objective(), np.zeros(m), np.ones(m))


def test_no_drawn_mixture_dominates_a_point_of_the_front():
    for law in KINDS:
        fitted = fitted_law(law, 1, 4)
        one, other = {"d00": 1.0, "d01": 1.0}, {"d02": 1.0, "d03": 3.0}
        shares, values = front(free(fitted), one, other, 9)
        assert len(shares) == 9
        assert (np.diff(values[:, 0]) > 0).all() and (np.diff(values[:, 1]) < 0).all()
        draw = np.random.default_rng(0)
        near = np.abs(shares[:, None] + draw.normal(0, 0.01, (9, 500, 4))).reshape(-1, 4)
        drawn = np.vstack([draw.dirichlet(np.ones(4), 10_000), near / near.sum(axis=1, keepdims=True)])
        losses = predict_defined(fitted, drawn, np.array([100]))[:, 0]
        both = np.stack([losses[:, :2].mean(axis=1), losses[:, 2:] @ [0.25, 0.75]], axis=1)
        for value in values:
            assert not ((both < value - 1e-9).all(axis=1)).any()


def test_the_front_has_no_hole():
    """Neighbours are no farther apart than a third of the front in either loss."""
    fitted = fitted_law("transfer", 3, 5)
    _, values = front(free(fitted), {"d00": 1.0}, {"d04": 1.0}, 11)
    span = np.ptp(values, axis=0)
    assert (np.linalg.norm(np.diff(values, axis=0), axis=1) < np.linalg.norm(span) / 3).all()


def test_two_points_are_the_ends_and_fewer_are_refused():
    fitted = fitted_law("transfer", 3, 4)
    ends = (free(fitted), {"d00": 1.0}, {"d03": 1.0})
    shares, values = front(*ends, 2)
    whole, _ = front(*ends, 5)
    assert np.allclose(shares, whole[[0, -1]], atol=1e-6) and values.shape == (2, 2)
    refused("--points is 1: a front has two ends at least", front, *ends, 1)
    # the table has a row for each point
    shares, values = np.array([[0.25, 0.75], [0.5, 0.5]]), np.array([[1.0, 4.0], [2.0, 3.0]])
    table = as_table("transfer", 100, ("web", "the average"), ["web", "code"], shares, values)
    assert table.columns[:7] == ["law", "step", "point", "first", "first_loss", "second", "second_loss"]
    assert table.rows() == [
        ("transfer", 100, 1, "web", 1.0, "the average", 4.0, 0.25, 0.75),
        ("transfer", 100, 2, "web", 2.0, "the average", 3.0, 0.5, 0.5),
    ]
