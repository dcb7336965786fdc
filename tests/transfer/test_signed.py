"""The signed term of the law `transfer`: its gradient, what it recovers, that losses stay convex,
when it is off, and the laws that it holds as special cases.
"""

import json

import numpy as np
import pytest
from laws.known import STEPS, bivariate, mixtures, observe, of_sizes
from optimum.fitted_laws import optimum
from scipy.optimize import minimize

from bimix.laws import fitted as laws
from bimix.laws import transfer
from bimix.optimum.solve import solve, without_parts
from bimix.transfer import choice, factor, mixing
from bimix.transfer.factor import read
from bimix.transfer.signed import signed


def hurting(seed, m=4, height=0.6):
    """The law of m domains and one more loss, each hurt by a share: truth and t (m + 1, m)."""
    draw = np.random.default_rng(3000 + seed)
    k = np.exp(draw.normal(-3, 0.5, (m + 1, m)))
    k[np.arange(m), np.arange(m)] = 1.0
    a = draw.uniform(0.05, 0.2, m + 1)
    t = np.zeros((m + 1, m))
    t[np.arange(m + 1), (np.arange(m + 1) + 1) % m] = height
    truth = lambda r, s: (  # noqa: E731
        ((np.sqrt(r) @ k.T) ** -a * np.exp(r @ t.T))[:, None, :] * (20 / np.asarray(s)[:, None] ** 0.4 + 2)
    )
    return truth, t


def with_t(fitted, t):
    """A fitted law whose loss domains have the rows of t (d, m)."""
    rows = [dict(zip(fitted["domains"], row.tolist(), strict=True)) for row in t]
    values = zip(fitted["coefficients"].items(), rows, strict=True)
    return fitted | {"coefficients": {name: one | {"t": row} for (name, one), row in values}}


def test_taking_t_out_is_the_joint_least_squares():
    """The squares that are left, t itself, and a domain whose term is off."""
    draw = np.random.default_rng(0)
    shares, w = mixtures(0, 9, 4), draw.uniform(0, 2, (3, 9))
    w[1, 4] = 0
    ridge, left = np.array([0.3, 1e-3, np.inf]), draw.normal(size=(3, 9))
    term = signed(shares, w, ridge)
    t = term.numbers(left)
    for i in range(2):
        design = np.concatenate([np.sqrt(w[i])[:, None] * shares, np.sqrt(ridge[i]) * np.eye(4)])
        goal = np.concatenate([np.sqrt(w[i]) * left[i], np.zeros(4)])
        wanted, squares, *_ = np.linalg.lstsq(design, goal, rcond=None)
        assert np.allclose(t[i], wanted)
        assert (term.without((np.sqrt(w) * left)[:, None])[i] ** 2).sum() == pytest.approx(squares[0])
    assert not t[2].any()
    assert np.allclose(term.without((np.sqrt(w) * left)[:, None])[2, 0], np.sqrt(w[2]) * left[2])


def test_the_fit_is_a_minimum_over_all_numbers_together():
    """The cost with t written out has no slope at the fit, in any number and in t."""
    m, n, ridge, harm = 3, 14, 1e-3, 10.0
    shares, own = mixtures(1, n, m), np.array([0, 1, 2, -1])
    y = np.log(hurting(1, m)[0](shares, [1000]))[:, 0] + 0.01 * np.random.default_rng(1).standard_normal((n, m + 1))
    fit = mixing.fit(shares, y, own, ridge, harm=harm, rounds=500, tolerance=1e-13)
    problem = mixing.problem_of(shares, y, own, ridge)
    p = fit.x.shape[2]

    def cost(z):
        z = z.reshape(m + 1, p + m)
        predicted = factor.levels(z[:, :p], 1, own, problem.gaps, problem.log_shares) + z[:, p:] @ shares.T
        return float(problem.cost(z[:, :p], fit.means, predicted, m + 1)[0] + harm * ridge * (z[:, p:] ** 2).sum())

    at = np.concatenate([fit.x[0], fit.t[0]], axis=1).ravel()
    steps = 1e-4 * np.eye(len(at))
    slopes = np.array([(cost(at + step) - cost(at - step)) / 2e-4 for step in steps])
    free = np.array([(cost(at + step) + cost(at - step) - 2 * cost(at)) / 1e-8 for step in steps])
    assert np.abs(slopes / np.maximum(free, ridge)).max() < 2e-3  # steps to the minimum
    assert np.abs(fit.t).max() > 0.1


def test_harm_that_is_known_is_recovered():
    shares, new = mixtures(2, 80), mixtures(3, 50)
    truth, t = hurting(2, 7)
    fitted = laws.fit("transfer", observe(truth, shares, STEPS[-1:], 0.001))
    found = read(fitted["coefficients"], fitted["domains"]).t
    assert all(fitted["choice"]["harms"])
    # what a constant in t does the height does too
    centred = found - found.mean(axis=1, keepdims=True)
    assert np.corrcoef(centred.ravel(), (t - t.mean(axis=1, keepdims=True)).ravel())[0, 1] > 0.7
    assert (centred.argmax(axis=1) == t.argmax(axis=1)).mean() > 0.7
    plain = fitted["choice"]["cross_validated"]
    assert fitted["choice"]["error"] < 0.9 * min(one["error"] for one in plain if "harms" not in one)
    errors = np.abs(laws.predict(fitted, new, STEPS[-1:]) / truth(new, STEPS[-1:]) - 1)
    assert errors.mean() < 2e-3


def test_a_term_must_earn_its_place_the_more_the_fewer_the_runs():
    plain, with_term = np.array([[1.0, 1.0], [0.9, 2.0]]), np.array([[1.0, 0.99], [0.86, 2.0]])
    ridges, hurt = choice.picked(plain, with_term, 1000)
    assert ridges.tolist() == [1, 0] and hurt.tolist() == [True, True]
    assert choice.picked(plain, with_term, 50)[1].tolist() == [False, False]
    # off with few runs
    for runs in (5, 11):
        fitted = laws.fit("transfer", observe(hurting(4)[0], mixtures(4, runs, 4), STEPS[-1:], 0.003))
        assert "harms" not in fitted["choice"] and not any("t" in one for one in fitted["coefficients"].values())
    # settings of a law fitted before there were any
    made = choice.settings({"terms": 1, "ridge": 1e-4})
    assert made["ridge"].tolist() == [1e-4] and made["harm"].tolist() == [np.inf]


def test_metrics_of_different_noise_have_ridges_of_their_own():
    draw = np.random.default_rng(0)
    shares, truth = mixtures(5, 60), hurting(5, 7)[0]
    logs = np.log(truth(shares, [1000])[:, 0]) + np.where(np.arange(8) % 2, 0.2, 0.001) * draw.standard_normal((60, 8))
    observed = observe(lambda r, s: np.exp(logs)[:, None], shares, STEPS[-1:])
    ridges = np.array(laws.fit("transfer", observed)["choice"]["ridges"])
    assert np.median(ridges[1::2]) >= 100 * np.median(ridges[::2])


def test_bimix_and_an_exponential_law_are_special_cases():
    """Without help and harm the law is `bimix`; without the power of a sum it is exp(t.r)."""
    truth, new = bivariate(0, 3), mixtures(7, 20, 3)
    one = laws.fit("bimix", observe(truth, mixtures(6, 8, 3), STEPS))
    none = dict.fromkeys(one["domains"], 0.0)
    of_powers = {
        name: {
            "terms": [{"A": 1.0, "alpha": values["alpha"], "transfer": none | {name: 1.0}}],
            "gamma": 1.0,
            "t": none,
            **{key: values[key] for key in ("B", "beta", "C")},
        }
        for name, values in one["coefficients"].items()
    }
    height = np.array([[values.get("A", 1.0) for values in one["coefficients"].values()]])
    law = one | {"law": "transfer", "coefficients": of_powers}
    assert np.allclose(laws.predict(law, new, STEPS[-1:])[:, 0] * height, laws.predict(one, new, STEPS[-1:])[:, 0])
    t = np.random.default_rng(0).normal(size=(3, 3))
    shares = mixtures(8, 90, 3)
    grown = observe(lambda r, s: 2 * np.exp(r @ t.T)[:, None], shares, STEPS[-1:])
    fitted = laws.fit("transfer", grown)
    assert np.abs(laws.predict(fitted, new, STEPS[-1:])[:, 0] / (2 * np.exp(new @ t.T)) - 1).mean() < 5e-3
    flat = {
        name: one | {"terms": [{**one["terms"][0], "A": 2.0, "alpha": 0.0}]}
        for name, one in fitted["coefficients"].items()
    }
    exact = with_t(fitted | {"coefficients": flat}, t)
    assert np.allclose(laws.predict(exact, new, STEPS[-1:])[:, 0], 2 * np.exp(new @ t.T))


@pytest.mark.parametrize("sign", [-1, 1])
def test_log_losses_are_convex_and_the_optimum_is_that_of_scipy(sign):
    """Along segments, with t of one sign; KKT holds and no restart is better."""
    truth, _ = hurting(6)
    observed = observe(truth, mixtures(6, 10, 4), STEPS)
    fitted = with_t(laws.fit("transfer", observed), sign * np.random.default_rng(6).uniform(0.2, 3, (5, 4)))
    draw = np.random.default_rng(1)
    for _ in range(20):
        ends = draw.dirichlet(np.full(4, 0.5), 2)
        line = np.linspace(0, 1, 41)[:, None]
        logs = np.log(laws.predict(fitted, line * ends[0] + (1 - line) * ends[1], STEPS[-1:])[:, 0])
        assert (np.diff(logs, 2, axis=0) > -1e-10).all()
    step, lower, upper = int(STEPS[-1]), np.full(4, 0.01), np.full(4, 0.7)
    best = optimum(fitted, step, None, lower, upper)
    at = transfer.objective(fitted, step, np.ones(5))
    value, gradient = at(best)
    assert value == pytest.approx(laws.predict(fitted, best[None], [step]).sum())
    free = (best > lower + 1e-6) & (best < upper - 1e-6)
    level = gradient[free].mean()
    assert np.abs(gradient[free] - level).max() < 1e-6 * abs(level)
    assert (gradient[best <= lower + 1e-6] > level).all() and (gradient[best >= upper - 1e-6] < level).all()
    for start in np.clip(draw.dirichlet(np.ones(4), 5), 0.02, 0.6):
        other = minimize(
            lambda r: at(r)[0],
            start / start.sum(),
            jac=lambda r: at(r)[1],
            bounds=list(zip(lower, upper, strict=True)),
            constraints={"type": "eq", "fun": lambda r: r.sum() - 1},
        )
        assert value <= other.fun + 1e-7 * value


def test_the_gradient_of_a_run_that_repeats_text():
    """With an exponent and pools: t acts on shares, the sum on those that count."""
    fitted = with_t(
        laws.fit("transfer", observe(hurting(7)[0], mixtures(7, 10, 4), STEPS)),
        np.random.default_rng(7).normal(0, 1, (5, 4)),
    )
    fitted = laws.at_run(fitted, tokens=1e9, pools={"d00": 1e8, "d02": 2e8})
    at = transfer.objective(fitted, int(STEPS[-1]), np.arange(1.0, 6))
    r = np.array([0.4, 0.1, 0.35, 0.15])
    value, gradient = at(r)
    assert value == pytest.approx(laws.predict(fitted, r[None], STEPS[-1:])[0, 0] @ np.arange(1.0, 6))
    step = 1e-5 * np.eye(4)
    assert np.allclose(gradient, [(at(r + one)[0] - at(r - one)[0]) / 2e-5 for one in step], rtol=1e-5)
    for other in mixtures(8, 20, 4):
        assert (gradient - at(other)[1]) @ (r - other) > 0
    found = solve(without_parts(at), np.zeros(4), np.ones(4))
    assert found.gap < 1e-6 * found.value < 1e-6 * value


def test_t_passes_through_the_json_and_a_file_without_it_has_none():
    observed = observe(hurting(8)[0], mixtures(8, 60, 4), STEPS, 0.001)
    fitted = json.loads(json.dumps(laws.fit("transfer", observed)))
    hurt = fitted["coefficients"]["d00"]
    assert set(hurt["t"]) == {"d00", "d01", "d02", "d03"}
    assert (
        laws.LAWS["transfer"].code.count({"d00": hurt}) == 3 + 1 + 1 + 3 + 3 + len(STEPS) - 1
    )  # k but one, alpha, gamma, t but one, curve
    again = next(transfer.refit([(observed, None)], fitted))
    both = [
        laws.predict(fitted | {"coefficients": one}, mixtures(9, 20, 4), [400_000])
        for one in (again, fitted["coefficients"])
    ]
    assert np.allclose(*both, rtol=1e-3)
    old = {
        name: {key: one for key, one in values.items() if key != "t"} for name, values in fitted["coefficients"].items()
    }
    assert not read(old, fitted["domains"]).t.any()
    zero = with_t(fitted | {"coefficients": old}, np.zeros((5, 4)))
    even = np.full((1, 4), 0.25)
    assert np.array_equal(laws.predict(fitted | {"coefficients": old}, even, [1e5]), laws.predict(zero, even, [1e5]))


def test_at_a_size_the_term_is_part_of_the_mixing_factor():
    """Runs of two sizes of a law in which a share hurts every loss."""
    truth, shares = of_sizes(0), mixtures(10, 60, 4)
    sizes = np.where(np.arange(60) % 2, 1e8, 4e8)
    losses = np.array(
        [truth(one[None], size, 5e9)[0] * np.exp(0.6 * one[1]) for one, size in zip(shares, sizes, strict=True)]
    )
    observed = observe(lambda r, s: losses[:, None], shares, [100], 0.001)
    observed = type(observed)(**{**vars(observed), "parameters": sizes})
    fitted = laws.fit("transfer", observed)
    assert any("t" in one for one in fitted["coefficients"].values())
    new = mixtures(11, 20, 4)
    guess = laws.predict(laws.at_run(fitted, parameters=4e8), new, [100])[:, 0]
    right = truth(new, 4e8, 5e9) * np.exp(0.6 * new[:, [1]])
    assert np.abs(guess / right - 1).mean() < 0.01


def test_a_share_of_0_is_not_guessed_wildly_after_each_loss_domain_has_chosen():
    """Few runs with a share of 0: a fit that came from smaller ridges ended where gamma is 0."""
    truth, draw = hurting(11, 7), np.random.default_rng(11)
    shares = mixtures(14, 32)
    shares[:3, 4] = 0
    shares /= shares.sum(axis=1, keepdims=True)
    fitted = laws.fit("transfer", observe(truth[0], shares, STEPS[-1:], 0.005))
    new = draw.dirichlet(np.ones(7), 50)
    new[:, 4] = 0
    new /= new.sum(axis=1, keepdims=True)
    assert "ridges" in fitted["choice"]
    assert np.abs(laws.predict(fitted, new, STEPS[-1:]) / truth[0](new, STEPS[-1:]) - 1).max() < 0.3
