"""The linear member of the law `transfer` of metrics: what it solves, what it gains, that losses
stay convex, and that a refit has it too.
"""

from dataclasses import replace

import numpy as np
import pytest
from laws.known import STEPS, mixtures, observe
from scipy.optimize import nnls

from bimix.laws import fitted as laws
from bimix.laws import transfer
from bimix.optimum.optimum import optimum
from bimix.search.sensitivity import fitted_numbers, slopes
from bimix.transfer import linear
from bimix.transfer.factor import numbers, read

M, D = 6, 5
# Metrics that are linear in the roots of the shares and in the shares, small beside their noise.
ROOTS, TURNS = (np.random.default_rng(number).exponential(0.012, (D, M)) for number in (1, 2))


def truth(shares, steps=STEPS[-1:]):
    return np.tile(np.exp(-0.5 - np.sqrt(shares) @ ROOTS.T + shares @ TURNS.T)[:, None], (1, len(steps), 1))


def runs(count, noise=0.02, steps=STEPS[-1:], metrics=True):
    """Runs of d00 to d05 with metrics alone."""
    shares = mixtures(3, count, M)
    observed = observe(lambda r, s: np.concatenate([np.ones((count, len(s), M)), truth(r, s)], axis=2), shares, steps)
    logs = noise * np.random.default_rng(4).standard_normal((count, 1, D))
    kept = replace(observed.of_domains(np.arange(M, M + D)), losses=truth(shares, steps) * np.exp(logs))
    return replace(kept, metrics=kept.loss_domains if metrics else ())


def test_the_member_is_the_least_squares_with_b_of_at_least_0():
    """Weights, runs without a metric, and two ridges, against non-negative least squares with t as
    the difference of two numbers.
    """
    draw = np.random.default_rng(0)
    shares, weights = mixtures(0, 20, 4), draw.uniform(0, 2, 20)
    y = draw.normal(size=(20, 3))
    y[5:8, 1] = np.nan
    y[:, 2] = np.nan
    ridges = np.array([1e-3, 0.5])
    heights, found = linear.Runs(shares, shares, y).fits(weights, ridges)
    for place, ridge in enumerate(ridges):
        for i in range(2):
            seen = np.isfinite(y[:, i])
            w, x = weights[seen], np.concatenate([-np.sqrt(shares), shares, -shares], axis=1)[seen]
            middle, mean = w @ x / w.sum(), w @ y[seen, i] / w.sum()
            design = np.concatenate([np.sqrt(w)[:, None] * (x - middle), np.sqrt(ridge) * np.eye(12)])
            wanted = nnls(design, np.concatenate([np.sqrt(w) * (y[seen, i] - mean), np.zeros(12)]))[0]
            assert found[place, i] == pytest.approx([*wanted[:4], *(wanted[4:8] - wanted[8:])], abs=1e-9)
            assert heights[place, i] == pytest.approx(mean - middle @ wanted)
    assert not found[:, 2].any()


def test_metrics_of_that_form_are_predicted_better_and_losses_are_not_touched():
    new = mixtures(9, 200, M)
    errors = []
    for metrics in (False, True):
        fitted = laws.fit("transfer", runs(40, metrics=metrics))
        assert any("roots" in one for one in fitted["coefficients"].values()) == metrics
        assert ("linear" in fitted["choice"]) == metrics
        errors.append(np.abs(np.log(laws.predict(fitted, new, STEPS[-1:]) / truth(new))).mean())
    assert errors[1] < 0.9 * errors[0]


def test_a_refit_to_the_same_runs_is_the_fit():
    for steps in (STEPS[-1:], STEPS[-4:]):
        observed, new = runs(24, steps=steps), mixtures(9, 10, M)
        fitted = laws.fit("transfer", observed)
        assert max(fitted["choice"]["linear"]["parts"]) > 0
        again = fitted | {"coefficients": next(transfer.refit([(observed, None)], fitted))}
        assert np.allclose(laws.predict(again, new, steps), laws.predict(fitted, new, steps), rtol=2e-4)
        without = next(transfer.refit([(observed, np.arange(24) > 0)], fitted))
        assert not np.allclose(read(without, fitted["domains"]).b, read(fitted["coefficients"], fitted["domains"]).b)


def test_few_runs_have_none():
    fitted = laws.fit("transfer", runs(11))
    assert "linear" not in fitted["choice"] and not any("roots" in one for one in fitted["coefficients"].values())


def with_roots(seed=0):
    """A law whose metrics have b and t, and repeat text."""
    fitted, draw = laws.fit("transfer", runs(24)), np.random.default_rng(seed)
    for values in fitted["coefficients"].values():
        for name, row in (("roots", draw.uniform(0, 1, M)), ("t", draw.normal(0, 1, M))):
            values[name] = dict(zip(fitted["domains"], row.tolist(), strict=True))
    return fitted


def test_gradient_hessian_and_optimum():
    fitted = laws.at_run(with_roots(), tokens=1e9, pools={"d00": 1e8, "d02": 2e8})
    at = transfer.objective(fitted, int(STEPS[-1]), np.arange(1.0, D + 1))
    r = np.array([0.35, 0.1, 0.25, 0.05, 0.1, 0.15])
    value, gradient, hessian = at(r)
    assert value == pytest.approx(laws.predict(fitted, r[None], STEPS[-1:])[0, 0] @ np.arange(1.0, D + 1))
    step = 1e-5 * np.eye(M)
    assert np.allclose(gradient, [(at(r + one)[0] - at(r - one)[0]) / 2e-5 for one in step], rtol=1e-5)
    assert np.allclose(hessian, [(at(r + one)[1] - at(r - one)[1]) / 2e-5 for one in step], rtol=1e-4, atol=1e-4)
    assert np.linalg.eigvalsh(hessian).min() > 0
    best = optimum(fitted, int(STEPS[-1]), None, np.zeros(M), np.ones(M))
    others = laws.predict(fitted, np.random.default_rng(1).dirichlet(np.full(M, 0.5), 2000), STEPS[-1:])[:, 0]
    assert laws.predict(fitted, best[None], STEPS[-1:])[0, 0].mean() < others.mean(axis=1).min()


def test_levels_of_the_design_are_those_of_the_law_and_b_above_0_is_counted():
    fitted, new = with_roots(), mixtures(9, 10, M)
    levels = slopes(fitted_numbers(fitted, np.full(D, -1)), new)[0]
    assert np.exp(levels) == pytest.approx(laws.predict(fitted, new, STEPS[-1:])[:, 0])
    values = fitted["coefficients"]["foreign0"]
    assert numbers(values) - numbers({name: one for name, one in values.items() if name != "roots"}) == M
