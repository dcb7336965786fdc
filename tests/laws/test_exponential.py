"""The exponential law piece by piece: what its fit minimises and where it starts, which losses it
takes, its predictions, the function whose optimum is sought.
"""

import numpy as np
import pytest

from bimix.errors import InputError
from bimix.laws.table import LAWS
from bimix.observations.observations import Observations

LAW = LAWS["exponential"].code
T = {"a": -1.0, "b": 0.5}
COEFFICIENTS = {
    "x": {"steps": {"10": {"c": 1.0, "k": 2.0, "t": T}, "20": {"c": 0.5, "k": 3.0, "t": T}}},
    "y": {"steps": {"20": {"c": 0.1, "k": 0.2, "t": {"a": 2.0, "b": 1.0}}}},
}


def test_losses_are_those_of_the_formula() -> None:
    shares = np.array([[0.25, 0.75], [1.0, 0.0]])
    found = LAW.predict({"x": COEFFICIENTS["x"]}, ["a", "b"], [10, 20], shares, np.array([20.0, 10]))
    grown = np.exp([-0.25 + 0.375, -1.0])
    assert np.allclose(found[:, :, 0], np.stack([0.5 + 3 * grown, 1 + 2 * grown], axis=1))
    other_way = LAW.predict({"x": COEFFICIENTS["x"]}, ["b", "a"], [10], np.array([[0.75, 0.25]]), np.array([10.0]))
    assert other_way[0, 0, 0] == pytest.approx(1 + 2 * grown[0])
    # y was not observed at a step that x was; at a step that nothing was, there is no loss
    assert np.isnan(LAW.predict(COEFFICIENTS, ["a", "b"], [10, 20], shares, np.array([10.0]))[:, 0, 1]).all()
    with pytest.raises(InputError, match="fitted to x at the steps 10, 20 one by one: it says nothing about step 30"):
        LAW.predict(COEFFICIENTS, ["a", "b"], [10, 20], shares, np.array([30.0]))
    assert LAW.count(COEFFICIENTS) == 3 * 4


def test_what_the_optimum_minimises_has_these_derivatives() -> None:
    fitted = {"domains": ["a", "b"], "coefficients": COEFFICIENTS}
    at = LAW.objective(fitted, 20, np.array([2.0, 0.5]))
    r = np.array([0.3, 0.7])
    value, gradient, hessian = at(r)
    assert value == pytest.approx(2 * 3 * np.exp(-0.3 + 0.35) + 0.5 * 0.2 * np.exp(0.6 + 0.7))
    for j in range(2):
        step = 1e-5 * np.eye(2)[j]
        assert gradient[j] == pytest.approx((at(r + step)[0] - at(r - step)[0]) / 2e-5, rel=1e-6)
        assert hessian[j] == pytest.approx((at(r + step)[1] - at(r - step)[1]) / 2e-5, rel=1e-6)


def test_losses_that_are_not_there_or_weigh_nothing_are_not_fitted() -> None:
    draw = np.random.default_rng(2)
    shares = draw.dirichlet(np.ones(2), 7)
    losses = (1 + np.exp(0.3 + shares @ [-1.0, 0.5]))[:, None, None] * np.ones((7, 3, 1))
    losses[0, 0], losses[1, 0] = 50.0, np.nan
    losses[1:, 1] = np.nan
    losses[:5, 2] = np.nan
    observed = Observations(tuple("0123456"), ("a", "b"), np.array([10, 20, 30]), ("x",), shares, losses)
    weights = np.array([0.0, 1, 1, 1, 1, 1, 1])
    found = LAW.fit(observed, weights)[0]["x"]["steps"]
    assert set(found) == {"10", "30"}  # of step 20 one run is left, and that weighs nothing
    guess = LAW.predict({"x": {"steps": found}}, ["a", "b"], [10], shares, np.array([10.0]))[:, 0, 0]
    assert np.allclose(guess[2:], losses[2:, 0, 0], rtol=1e-4)
