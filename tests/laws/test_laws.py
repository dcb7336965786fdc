"""Laws recover the losses they made, refuse what has no answer, and survive their JSON."""

import numpy as np
import pytest
from laws.known import STEPS, bivariate, mixtures, observe
from refusals import refused
from scipy.optimize import least_squares, minimize_scalar

from bimix.errors import InputError
from bimix.judge.errors import at_last_step, left_out_losses
from bimix.laws import fitted as laws
from bimix.laws.bimix import fit_curve, fit_domain, fit_fixed_step
from bimix.laws.table import LAWS
from bimix.observations.observations import Observations


def test_bimix_recovers_the_law_that_made_the_losses_and_weights_are_repetitions():
    for seed in range(2):
        truth, shares, new = bivariate(seed, 7), mixtures(seed, 4, 7), mixtures(seed + 100, 50, 7)
        fitted = laws.fit("bimix", observe(truth, shares, STEPS))
        steps = [5_000, 200_000, 400_000]
        assert np.abs(laws.predict(fitted, new, steps) / truth(new, steps) - 1).max() < 1e-6
        assert fitted["coefficients_fitted"] == 28
    # weights are repetitions
    observed = observe(bivariate(2, 2), mixtures(2, 5, 2), STEPS, noise=0.01)
    repeated = laws.fit("bimix", observed.take([0, 0, 2, 3, 3, 3]))
    weighted = laws.fit("bimix", observed, np.array([2, 0, 1, 3, 0]))
    new = mixtures(3, 10, 2)
    assert np.allclose(laws.predict(repeated, new, STEPS), laws.predict(weighted, new, STEPS), rtol=1e-6)
    # the fixed step form
    shares = mixtures(3, 6, 4)
    truth = lambda shares, steps: np.array([2.0, 3, 1, 4]) * shares[:, None, :] ** -np.array([0.1, 0.2, 0.05, 0.3])  # noqa: E731
    fitted = laws.fit("bimix", observe(truth, shares, [1000]))
    new = mixtures(4, 9, 4)
    assert np.allclose(laws.predict(fitted, new, [1000]), truth(new, [1000]), rtol=1e-12)
    assert set(fitted["coefficients"]["d00"]) == {"A", "alpha"} and fitted["coefficients_fitted"] == 8
    refused("fitted at step 1000 alone", laws.predict, fitted, new, [2000])


def test_unobserved_points_are_left_out():
    truth, shares = bivariate(1, 3), mixtures(1, 5, 3)
    observed = observe(truth, shares, STEPS)
    observed.losses[0, 5:] = np.nan
    observed.losses[2, ::2, 1] = np.nan
    new = mixtures(2, 10, 3)
    assert np.abs(laws.predict(laws.fit("bimix", observed), new, STEPS) / truth(new, STEPS) - 1).max() < 1e-6
    # losses that are missing or weigh nothing decide nothing
    u, losses = np.log([0.1, 0.2, 0.4, 0.7]), np.array([3.0, 2.5, 2.2, 1.0])
    without = fit_fixed_step(u[:3], losses[:3])
    assert fit_fixed_step(u, np.append(losses[:3], np.nan)) == pytest.approx(without)
    assert fit_fixed_step(u, losses, np.array([1, 1, 1, 0])) == pytest.approx(without)
    alike = fit_fixed_step(u[[0, 0, 0, 3]], losses, np.array([1, 1, 1, 0]))
    assert alike == pytest.approx({"A": np.exp(losses[:3].mean()), "alpha": 0})


def cost(coefficients, u, losses):
    fitted = -coefficients["alpha"] * u[:, None] + np.log(
        coefficients["B"] / STEPS ** coefficients["beta"] + coefficients["C"]
    )
    return np.sum((fitted - np.log(losses)) ** 2)


@pytest.mark.parametrize("seed", range(2))
def test_no_random_start_and_no_other_route_finds_a_better_fit(seed):
    """Least squares from 20 random starts, and a search over beta (variable projection)."""
    observed = observe(bivariate(seed, 2), mixtures(seed, 4, 2), STEPS, noise=0.005, seed=seed)
    u, losses = np.log(observed.proportions[:, 0]), observed.losses[:, :, 0]
    reached = cost(fit_domain(u, STEPS, losses), u, losses)

    def residuals(z):
        return (
            -z[0] * u[:, None] + np.log(np.exp(z[1]) / (STEPS / 4e4) ** z[2] + np.exp(z[3])) - np.log(losses)
        ).ravel()

    draw = np.random.default_rng(seed)
    low, high = [0, -12, 1e-3, -12], [5, 6, 5, 6]
    starts = draw.uniform([0, -3, 0.05, -3], [0.5, 3, 1.5, 3], (20, 4))
    random = min(2 * least_squares(residuals, start, bounds=(low, high), x_scale="jac").cost for start in starts)

    def at_beta(beta):
        fitted = least_squares(
            lambda z: residuals([z[0], z[1], beta, z[2]]), [0.1, 0, 0], bounds=([0, -12, -12], [5, 6, 6])
        )
        return 2 * fitted.cost

    projected = minimize_scalar(at_beta, bounds=(0.02, 3), method="bounded", options={"xatol": 1e-6}).fun
    assert reached <= min(random, projected) * (1 + 1e-6)


def test_what_cannot_be_identified_is_refused():
    truth, shares = bivariate(0, 3), mixtures(0, 4, 3)
    refused(r"two steps \(1000 and 2000\)", laws.fit, "bimix", observe(truth, shares, [1000, 2000]))
    refused("only one mixture", laws.fit, "bimix", observe(truth, shares[:1], STEPS))
    refused("only one mixture", laws.fit, "bimix", observe(truth, shares, STEPS), np.array([0, 3, 0, 0]))
    observed = observe(truth, shares, STEPS)
    with pytest.raises(InputError, match="losses of 'elsewhere'"):
        laws.fit("bimix", Observations(**{**vars(observed), "loss_domains": ("d00", "d01", "elsewhere")}))


def test_a_run_with_proportion_0_is_left_out_of_bimix_and_named():
    truth, shares = bivariate(0, 3), mixtures(0, 5, 3)
    zero = shares.copy()
    zero[1] = [0, 0.5, 0.5]
    seen = observe(truth, shares, STEPS)
    with_zero = Observations(**{**vars(seen), "proportions": zero})
    found, rest = laws.fit("bimix", with_zero, np.arange(1.0, 6)), seen.take([0, 2, 3, 4])
    assert found["coefficients"] == laws.fit("bimix", rest, np.array([1.0, 3, 4, 5]))["coefficients"]
    assert found["mixtures"] == list(rest.mixtures) == list(laws.defined("bimix", with_zero).mixtures)
    assert found["proportions_seen"]["d00"]["min"] > 0 and "run1" in found["warnings"][-1]
    assert laws.defined("transfer", with_zero) is not None and len(laws.defined("transfer", with_zero).mixtures) == 5
    predicted = left_out_losses("bimix", with_zero)
    assert np.isnan(predicted[1, 0]) and np.isfinite(predicted[[0, 2, 3, 4]]).all()
    assert at_last_step(with_zero, predicted)[0].keys() == {"d00", "d01", "d02"}


def test_a_proportion_that_varies_by_rounding_has_no_slope():
    """0.1 + 0.2 for 0.3: log r differs by 2e-16, and a slope through that is noise."""
    for steps in ([1000], STEPS):
        draw = np.random.default_rng(0)
        others = draw.uniform(0.1, 0.6, 4)
        shares = np.column_stack([[0.3, 0.1 + 0.2, 0.3, 0.1 + 0.2], others, 0.7 - others])
        assert 0 < np.ptp(shares[:, 0]) < 1e-15
        observed = observe(bivariate(0, 3), shares, steps, noise=0.01)
        fitted = laws.fit("bimix", observed)
        assert fitted["coefficients"]["d00"]["alpha"] == 0
        new = mixtures(5, 50, 3)
        predicted = laws.predict(fitted, new, steps[-1:])[:, 0, 0]
        assert np.allclose(predicted, np.exp(np.log(observed.losses[:, -1, 0]).mean()), rtol=0.05)


def test_a_start_beyond_a_bound_ends_at_the_same_fit_and_one_mixture_gives_no_exponent():
    for change in ({"alpha": 6.0}, {"C": 0.0}):
        u, steps = np.log([0.1, 0.2, 0.4, 0.7]), np.array([1000, 2000, 4000, 9000])
        law = {"alpha": 0.2, "B": 30.0, "beta": 0.4, "C": 1.2}
        losses = np.exp(-law["alpha"] * u)[:, None] * (law["B"] / steps ** law["beta"] + law["C"])
        found = fit_domain(u, steps, losses, None, law | change)
        assert {name: found[name] for name in law} == pytest.approx(law, rel=1e-4)
    # one mixture gives a curve and no exponent
    losses = 30 / STEPS**0.4 + 2
    curve = fit_curve(STEPS[:-1], losses[:-1])
    assert curve["alpha"] == 0
    assert abs(curve["B"] / STEPS[-1] ** curve["beta"] + curve["C"] - losses[-1]) < 1e-6
    # a proportion that hardly varies is warned of
    shares = mixtures(0, 4, 3)
    shares = np.column_stack([np.full(4, 0.3), 0.7 * shares[:, 1:] / shares[:, 1:].sum(axis=1, keepdims=True)])
    fitted = laws.fit("bimix", observe(bivariate(0, 3), shares, STEPS))
    assert "the proportion of d00 varied only from 0.3 to 0.3" in fitted["warnings"][0]


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
    value, gradient = at(r)
    assert value == pytest.approx(2 * 3 * np.exp(-0.3 + 0.35) + 0.5 * 0.2 * np.exp(0.6 + 0.7))
    for j in range(2):
        step = 1e-5 * np.eye(2)[j]
        assert gradient[j] == pytest.approx((at(r + step)[0] - at(r - step)[0]) / 2e-5, rel=1e-6)


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
