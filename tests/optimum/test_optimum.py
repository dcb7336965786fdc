"""The optimum of the bivariate law: KKT, known answers, bounds."""

import numpy as np
import pytest
from optimum.fitted_laws import optimum
from refusals import refused

from bimix.laws.fitted import fit, predict, predict_defined
from bimix.observations.observations import Observations
from bimix.optimum.bounds import feasible_bounds, run_bounds, unanswered
from bimix.optimum.objective import average, weighed
from bimix.optimum.solve import power_sum_optimum


def problem(seed, m):
    draw = np.random.default_rng(seed)
    return draw.uniform(1, 6, m) * draw.choice([0.2, 1, 3], m), draw.uniform(0.02, 0.4, m), draw


def kkt_residual(gains, exponents, shares, lower, upper):
    """Largest relative violation: free shares have one marginal gain, at bounds less or more."""
    marginal = gains * exponents * shares ** (-exponents - 1)
    at_low, at_high = shares <= lower + 1e-13, shares >= upper - 1e-13
    free = ~at_low & ~at_high
    mu = marginal[free].mean()
    worst = np.abs(marginal[free] / mu - 1).max()
    worst = max([worst, *(marginal[at_low & ~at_high] / mu - 1), *(1 - marginal[at_high & ~at_low] / mu)])
    return max(worst, abs(shares.sum() - 1))


def test_the_optimum_of_a_power_sum_meets_kkt():
    for m in (2, 7, 22, 1000):
        gains, exponents, _ = problem(m, m)
        lower, upper = np.zeros(m), np.ones(m)
        shares = power_sum_optimum(gains, exponents, lower, upper)
        assert kkt_residual(gains, exponents, shares, lower, upper) < 1e-9
    # with bounds that bite
    for seed in range(20):
        gains, exponents, draw = problem(seed, 22)
        free = power_sum_optimum(gains, exponents, np.zeros(22), np.ones(22))
        lower = np.where(draw.random(22) < 0.3, free * 1.3, 0.0)
        upper = np.where(draw.random(22) < 0.3, np.maximum(free * 0.7, lower), 1.0)
        shares = power_sum_optimum(gains, exponents, lower, upper)
        assert (shares >= lower).all() and (shares <= upper).all()
        assert kkt_residual(gains, exponents, shares, lower, upper) < 1e-9


def test_infeasible_bounds_are_refused_and_every_domain_of_transfer_answers():
    for arguments, words in (
        ({"lower": {"c": 0.1}}, "'c'"),
        ({"lower": {"a": 0.6, "b": 0.6}}, "sum to 1.2"),
        ({"upper": {"a": 0.3, "b": 0.6}}, "sum to 0.9"),
        ({"lower": {"a": 0.5}, "upper": {"a": 0.4}}, "lower bound of a is 0.5 and its upper bound 0.4"),
        ({"max_epochs": 2, "tokens": {"a": 10, "b": 20}, "run_tokens": 100}, "sum to 0.6 (with max_epochs 2"),
    ):
        refused(words, feasible_bounds, ["a", "b"], **arguments)
    # its alpha is an exponential: above 0, also of a domain whose loss is level
    shares = np.random.default_rng(0).dirichlet(np.full(3, 2.0), 8)
    losses = np.stack([shares[:, 0] ** -0.2, shares[:, 1] ** -0.1, np.ones(8)], axis=1)[:, None]
    observed = Observations(tuple("12345678"), tuple("abc"), np.array([30]), tuple("abc"), shares, losses)
    fitted = fit("transfer", observed)
    assert unanswered(fitted) == [] and unanswered(fit("bimix", observed)) == ["c"]
    assert run_bounds(fitted, 30)[0].tolist() == [0, 0, 0]


@pytest.fixture
def fitted():
    """A law of three domains, of which c did not answer to its share."""
    values = {"A": 1.0, "alpha": 0.1, "B": 20.0, "beta": 0.4, "C": 2.0}
    return {
        "law": "bimix",
        "domains": ["a", "b", "c"],
        "loss_domains": ["a", "b", "c"],
        "steps": [10, 20, 30],
        "coefficients": {"a": values, "b": values, "c": values | {"alpha": 0.0}},
        "proportions_seen": {domain: {"min": 0.2, "max": 0.5} for domain in "abc"},
        "tokens_per_step": None,
    }


def test_a_domain_that_did_not_answer_keeps_the_least_proportion_seen(fitted):
    shares = optimum(fitted, 30, None, *run_bounds(fitted, 30))
    assert np.allclose(shares, [0.4, 0.4, 0.2])
    shares = optimum(fitted, 30, None, *run_bounds(fitted, 30, lower={"c": 0.0}))
    assert np.allclose(shares, [0.5, 0.5, 0.0])
    assert np.isfinite(predict(fitted, shares[None, :], np.array([30]))).all()
    shares = optimum(fitted, 30, None, *run_bounds(fitted, 30, upper={"c": 0.1}))
    assert np.allclose(shares, [0.45, 0.45, 0.1])


def test_a_domain_that_did_not_answer_and_weighs_0_need_not_stay(fitted):
    weights = {"a": 3, "b": 1}
    shares = optimum(fitted, 30, weights, *run_bounds(fitted, 30, weights=weights))
    assert shares[2] == 0 and shares[0] / shares[1] == pytest.approx(3 ** (1 / 1.1))
    shares = optimum(fitted, 30, {"c": 1}, *run_bounds(fitted, 30, weights={"c": 1}))
    assert shares[2] >= 0.2
    assert weighed(fitted, weights) == "a 3, b 1" and weighed(fitted, None) == weighed(fitted, {}) == ""
    losses = predict_defined(fitted, np.array([[1.0, 0, 0]]), [30])[0, 0]
    assert np.isnan(losses[1]) and np.isfinite(losses[[0, 2]]).all()
    assert average(losses, np.array([1.0, 0, 1])) == pytest.approx(losses[[0, 2]].mean())
    assert np.isnan(average(losses, np.ones(3)))
    refused("proportion 0 of b: the bimix law is not defined there", predict, fitted, np.array([[1.0, 0, 0]]), [30])


def test_known_answers():
    # equal domains share equally
    assert np.allclose(power_sum_optimum(np.ones(5), np.full(5, 0.3), np.zeros(5), np.ones(5)), 0.2, atol=1e-15)
    # With one exponent a, r_i is proportional to K_i^(1/(1+a)).
    gains = np.array([1.0, 2.0, 4.0])
    expected = gains ** (1 / 1.5) / (gains ** (1 / 1.5)).sum()
    assert np.allclose(power_sum_optimum(gains, np.full(3, 0.5), np.zeros(3), np.ones(3)), expected, atol=1e-15)
    # domains that gain nothing
    gains, exponents = np.array([1.0, 1.0, 5.0]), np.array([0.2, 0.2, 0.0])
    assert np.allclose(power_sum_optimum(gains, exponents, np.array([0, 0, 0.1]), np.ones(3)), [0.45, 0.45, 0.1])
    assert np.allclose(power_sum_optimum(gains, exponents, np.zeros(3), np.array([0.2, 0.3, 1])), [0.2, 0.3, 0.5])
    assert np.allclose(power_sum_optimum(gains, np.zeros(3), np.zeros(3), np.ones(3)), 1 / 3)
    # bounds that leave one point
    gains, exponents, _ = problem(1, 4)
    lower = np.array([0.1, 0.2, 0.3, 0.4])
    assert np.allclose(power_sum_optimum(gains, exponents, lower, np.ones(4)), lower)
    assert np.allclose(power_sum_optimum(gains, exponents, np.zeros(4), lower), lower)
    assert np.allclose(power_sum_optimum(gains, exponents, lower, lower), lower)
