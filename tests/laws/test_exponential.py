"""The exponential law piece by piece: what its fit minimises and where it starts, which losses it
takes, its predictions, the function whose optimum is sought.
"""

import numpy as np
import pytest

from bimix.errors import InputError
from bimix.laws import exponential
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


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict]:
    """What SciPy was asked for, call by call."""
    calls, real = [], exponential.least_squares

    def spied(residuals, start, **settings):
        calls.append(settings | {"residuals": residuals, "start": start})
        return real(residuals, start, **settings)

    monkeypatch.setattr(exponential, "least_squares", spied)
    return calls


def test_a_fit_is_huber_of_weighted_misses_from_several_starts(asked: list[dict]) -> None:
    draw = np.random.default_rng(0)
    shares, weights = draw.dirichlet(np.ones(2), 6), np.array([1.0, 4, 1, 9, 1, 1])
    losses = 1 + np.exp(0.3 + shares @ [-1.0, 0.5]) + 0.01 * draw.standard_normal(6)
    exponential.fit_step(shares, losses, weights, "ab")
    assert len(asked) == exponential.STARTS
    z = np.array([0.4, 0.2, -0.5, 0.7])
    for call in asked:
        assert call["loss"] == "huber" and call["f_scale"] == exponential.HUBER == 0.05
        low, high = call["bounds"]
        assert low.tolist() == [0, -30, -20, -20] and high.tolist() == [losses.max(), 30, 20, 20]
        assert (call["start"] > low).all() and (call["start"] < high).all()
        by_hand = [1, 2, 1, 3, 1, 1] * (0.4 + np.exp(0.2 + shares @ [-0.5, 0.7]) - losses)
        assert np.allclose(call["residuals"](z), by_hand)
        for j in range(4):
            step = 1e-6 * np.eye(4)[j]
            slope = (call["residuals"](z + step) - call["residuals"](z - step)) / 2e-6
            assert np.allclose(call["jac"](z)[:, j], slope, atol=1e-7)
    shares_of_the_lowest = [call["start"][0] / losses.min() for call in asked]
    assert np.allclose(shares_of_the_lowest, np.linspace(0, 0.95, 8), atol=1e-6)
    for call in asked:
        # c and k begin at what the losses leave: the lowest less c, and their spread
        wanted = losses.min() - call["start"][0] + np.ptp(losses)
        assert np.exp(call["start"][1]) == pytest.approx(wanted, rel=1e-5)


def test_of_all_starts_the_best_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    class Found:
        def __init__(self, start: np.ndarray) -> None:
            self.x, self.cost = start, abs(start[0] - 0.5)

    monkeypatch.setattr(exponential, "least_squares", lambda residuals, start, **_: Found(start))
    shares, losses = np.full((3, 2), 0.5), np.array([1.0, 1.1, 1.2])
    c, k, t = exponential.fit_step(shares, losses, np.ones(3), "ab").values()
    starts = np.linspace(0, 0.95, 8)
    assert c == pytest.approx(starts[np.abs(starts - 0.5).argmin()], abs=1e-6)
    assert k == pytest.approx(1 - c + 0.2, rel=1e-5) and len(t) == 2


def test_a_refit_starts_from_the_earlier_numbers_alone(asked: list[dict]) -> None:
    draw = np.random.default_rng(1)
    shares = draw.dirichlet(np.ones(2), 6)
    losses = np.stack([1 + np.exp(0.3 + shares @ [-1.0, 0.5]), 2 + np.exp(0.1 + shares @ [0.5, -2.0])], axis=1)
    losses = np.stack([losses, losses + 0.5], axis=1)
    names = tuple("ab")
    observed = Observations(tuple("012345"), names, np.array([10, 20]), names, shares, losses)
    fitted = {"coefficients": LAW.fit(observed)[0]}
    assert len(asked) == 4 * exponential.STARTS
    asked.clear()
    again = list(LAW.refit([(observed, None), (observed, np.array([1.0, 1, 1, 1, 1, 0]))], fitted))
    assert len(asked) == 8 and len(again) == 2
    for call, (name, step) in zip(asked, 2 * [("a", "10"), ("a", "20"), ("b", "10"), ("b", "20")], strict=True):
        own = fitted["coefficients"][name]["steps"][step]
        assert np.allclose(call["start"], [own["c"], np.log(own["k"]), own["t"]["a"], own["t"]["b"]], atol=1e-6)
    assert [len(call["residuals"](np.zeros(4))) for call in asked] == [6] * 4 + [5] * 4


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
