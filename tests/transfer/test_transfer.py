"""`transfer`: its Jacobian, few runs next to `bimix`, zeros, foreign losses, RegMix."""

from pathlib import Path

import numpy as np
import pytest
from laws.known import STEPS, mixtures, observe, with_transfer
from refusals import refused
from scipy.optimize import least_squares

from bimix.laws import fitted as laws
from bimix.laws import transfer
from bimix.observations.observations import Observations, read_observations
from bimix.optimum.intervals import resampled
from bimix.transfer import factor, mixing


def test_jacobian_equals_differences():
    draw, terms = np.random.default_rng(0), 2
    own = np.array([0, 2, -1])
    x = draw.normal(-0.5, 0.5, (3, (4 + 2) * terms + 2))
    shares = draw.dirichlet(np.ones(4), 6)
    shares[0, 1] = 0
    shares[0] /= shares[0].sum()
    log_shares, gaps = factor.logs_of(shares), draw.normal(size=(3, 4))
    _, jacobian = factor.jacobian_of(x, terms, own, gaps, log_shares, np.ones((3, 6)))
    for number in range(x.shape[1]):
        step = np.zeros_like(x)
        step[:, number] = 1e-6
        up, down = (factor.levels(x + sign * step, terms, own, gaps, log_shares) for sign in (1, -1))
        # A loss domain's own k is fixed to 1: its delta is held at 0 by the fit, its derivative is
        # still that of delta.
        assert np.allclose(jacobian[:, number], (up - down) / 2e-6, atol=1e-7)


@pytest.mark.parametrize("runs", [5, 30])
def test_a_fit_in_parts_is_the_whole_one(runs, monkeypatch):
    """With a signed term, of fewer runs than numbers and of more."""
    shares = mixtures(0, runs, 4)
    y = np.log(with_transfer(0, 4)(shares, [1000]))[:, 0] + 0.003 * np.random.default_rng(0).standard_normal((runs, 4))
    weights = np.random.default_rng(1).multinomial(runs, np.full(runs, 1 / runs), 3).astype(float)
    found = []
    for block in (factor.BLOCK, 1.0):
        monkeypatch.setattr(factor, "BLOCK", block)
        fit = mixing.fit(shares, y, np.arange(4), 1e-3, 1, weights, harm=[10, 10, np.inf, 10], tolerance=1e-10)
        found.append([mixing.predict(fit, shares, number) for number in range(3)])
    assert np.allclose(*found, rtol=0, atol=1e-9)


def test_a_walk_down_the_ridges_takes_few_steps(monkeypatch):
    """On real runs: without the second derivatives of logs these are 111 steps, now 50."""
    folder = Path(__file__).parents[2] / "resources/observations/proof"
    runs = read_observations(folder / "tiny_first.csv", folder / "tiny_mixtures.csv").take(np.arange(24))
    steps, real, fit = [], mixing._descend, None
    monkeypatch.setattr(mixing, "_descend", lambda *given: steps.append(1) or real(*given))
    for ridge in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6):
        fit = mixing.fit(
            runs.proportions, transfer.run_levels(runs), transfer.own_domains(runs), ridge, start=fit, harm=100.0
        )
    assert len(steps) < 75


def test_the_cost_is_that_of_the_docstring():
    """Squares of the misfit, and in units of the ridge those of delta and shared means."""
    draw, terms = np.random.default_rng(0), 2
    d, n, m, s = 3, 5, 4, terms + 2
    own = np.array([0, 2, 1])
    problem = mixing.Problem(
        log_shares=np.log(draw.dirichlet(np.ones(m), n)),
        target=draw.normal(size=(d, n)),
        w=draw.uniform(size=(d, n)),
        own=own,
        terms=terms,
        strength=draw.uniform(size=(d, (m + 2) * terms + 2)),
        pull=draw.uniform(size=(d, s)),
        anchor=draw.normal(size=(1, s)),
        hold=draw.uniform(size=(1, s)),
        gaps=draw.normal(size=(d, m)),
    )
    x, means = draw.normal(size=(d, (m + 2) * terms + 2)), draw.normal(size=(1, s))
    predicted = factor.levels(x, terms, own, problem.gaps, problem.log_shares)
    by_hand = sum(problem.hold[0, q] * (means[0, q] - problem.anchor[0, q]) ** 2 for q in range(s))
    for i in range(d):
        by_hand += sum(problem.w[i] * (predicted[i] - problem.target[i]) ** 2) + sum(problem.strength[i] * x[i] ** 2)
        by_hand += sum(problem.pull[i, q] * (x[i, terms + q] - means[0, q]) ** 2 for q in range(s))
    assert problem.cost(x, means, predicted, d) == pytest.approx(by_hand)


def test_a_run_that_a_resample_has_not_drawn_does_not_bend_the_curve():
    """The undrawn run's curve is bent about its mean: B, beta and C stay."""
    observed = observe(with_transfer(1, 3), mixtures(1, 6, 3), STEPS, 0.003)
    fitted = laws.fit("transfer", observed)
    bend = np.linspace(-0.2, 0.2, len(STEPS))[:, None]
    bent = Observations(**{**vars(observed), "losses": observed.losses.copy()})
    bent.losses[5] *= np.exp(bend)
    weights = np.array([2.0, 1, 1, 1, 1, 0])
    new, steps = mixtures(2, 20, 3), [10_000, 100_000, 400_000]
    one, other = (
        laws.predict(fitted | {"coefficients": next(transfer.refit([(runs, weights)], fitted))}, new, steps)
        for runs in (observed, bent)
    )
    assert np.allclose(one, other, rtol=1e-3)
    drawn = laws.predict(fitted | {"coefficients": next(transfer.refit([(bent, None)], fitted))}, new, steps)
    assert np.abs(drawn / one - 1).max() > 0.02


def test_trust_region_reflective_ends_at_the_same_minimum():
    """The objective of `mixing`'s docstring, one term, written again for SciPy."""
    m, n, ridge = 3, 7, 1e-3
    shares = mixtures(4, n, m)
    y = np.log(with_transfer(4, m)(shares, [1000]))[:, 0] + 0.003 * np.random.default_rng(4).standard_normal((n, m))
    anchor = np.array([np.log(0.15), 1.0, -4.0])
    held = np.sqrt(ridge * np.array([10.0, 30.0, 10.0]))
    hold = np.sqrt(ridge * np.array([1000.0, 10.0, 10.0]))

    def predicted(z, r):
        c, log_a, logit_g, u = z[:, :4].T
        columns = []
        for i in range(m):
            k = np.insert(np.exp(u[i] + z[i, 4:]), i, 1.0)
            columns.append(c[i] - np.exp(log_a[i]) * np.log(r ** (1 / (1 + np.exp(-logit_g[i]))) @ k))
        return np.stack(columns, axis=1)

    def residuals(numbers):
        means, z = numbers[:3], numbers[3:].reshape(m, -1)
        pulls = (z[:, 1:4] - means) * held
        parts = [predicted(z, shares) - y, pulls, np.sqrt(ridge) * z[:, 4:], hold * (means - anchor)]
        return np.concatenate([part.ravel() for part in parts])

    draw = np.random.default_rng(0)
    starts = [np.concatenate([anchor, np.tile([1.0, *anchor, *[0.0] * (m - 1)], m)]) for _ in range(4)]
    fits = [least_squares(residuals, start + 0.3 * draw.standard_normal(len(start)), xtol=1e-12) for start in starts]
    best = min(fits, key=lambda fitted: fitted.cost)
    ours = mixing.fit(shares, y, np.arange(m), ridge, tolerance=1e-12, rounds=1000)
    new = mixtures(9, 50, m)
    assert np.allclose(mixing.predict(ours, new), predicted(best.x[3:].reshape(m, -1), new), atol=1e-4)


def test_a_known_law_is_recovered_and_a_zero_never_refused():
    truth, new = with_transfer(3, 4), mixtures(8, 40, 4)
    fitted = laws.fit("transfer", observe(truth, mixtures(7, 40, 4), STEPS))
    errors = np.abs(laws.predict(fitted, new, [5_000, 400_000]) / truth(new, [5_000, 400_000]) - 1)
    assert errors.mean() < 2e-4 and errors.max() < 3e-3
    assert fitted["choice"]["terms"] == 1
    # losses of `bimix`, which a fit without any transfer would copy
    for runs in (3, 12):
        truth = with_transfer(0, 4, mean_log_k=None)
        fitted = laws.fit("transfer", observe(truth, mixtures(0, runs, 4), STEPS, 0.001))
        zeros = np.array([[0, 0.2, 0.3, 0.5], [1.0, 0, 0, 0]])
        predicted = laws.predict(fitted, zeros, STEPS[-1:])[:, 0]
        level = laws.predict(fitted, np.full((1, 4), 0.25), STEPS[-1:])[0, 0]
        assert np.isfinite(predicted).all()
        assert (predicted[0, 0] > level[0]) and (predicted[1, 1:] > level[1:]).all()


GROWTH = np.array([0.5, 0.75, 0.9, 1.0])


def growing(seed, n, noise):
    """Runs of a known law whose effects on log losses grow by step; noise is shared along a run,
    and as large at each step apart. The truth, too.
    """
    truth, steps = with_transfer(seed), np.array([500, 1000, 1500, 2000])
    centre = np.log(truth(np.full((1, 7), 1 / 7), steps))
    grown = lambda shares, _: np.exp(centre + GROWTH[:, None] * (np.log(truth(shares, steps)) - centre))  # noqa: E731
    observed = observe(grown, mixtures(seed, n), steps, noise, seed)
    observed.losses[:] *= np.exp(noise * np.random.default_rng(seed + 900).standard_normal(observed.losses.shape))
    return observed, grown


def test_effects_by_step_are_those_of_the_law_with_runs_that_stopped_too():
    observed, _ = growing(0, 12, 0.0)
    assert np.allclose(transfer.effects_by_step(observed), GROWTH, atol=1e-6)
    levels = transfer.run_levels(observed)
    last = np.log(observed.losses[:, -1])
    assert np.allclose(levels - levels.mean(axis=0), last - last.mean(axis=0), atol=1e-6)
    observed.losses[4:9, 2:] = np.nan
    observed.losses[9:, 1, 3] = np.nan
    levels = transfer.run_levels(observed)
    assert np.allclose(transfer.effects_by_step(observed), GROWTH, atol=1e-6)
    assert np.allclose(levels - levels.mean(axis=0), last - last.mean(axis=0), atol=1e-4)
    observed.losses[1:, -1] = np.nan  # one run at the last step tells nothing: in units of the one before
    assert np.allclose(transfer.effects_by_step(observed), np.append(GROWTH[:3] / GROWTH[2], 1), atol=1e-6)
    assert np.allclose(transfer.effects_by_step(observed.take([0])), 1)
    # they do not change where each run is the mean of as many seeds
    observed, _ = growing(0, 8, 0.05)
    assert np.allclose(transfer.effects_by_step(observed, np.full(8, 3.0)), transfer.effects_by_step(observed))
    # of noise alone they stay near 1
    for seed in range(10):
        observed = observe(lambda shares, steps: np.ones((8, 4, 7)), mixtures(seed, 8), STEPS[:4])
        observed.losses[:] = np.exp(0.01 * np.random.default_rng(seed).standard_normal(observed.losses.shape))
        assert np.abs(transfer.effects_by_step(observed) - 1).max() < 0.5
    # levels at one step are its log losses
    observed = observe(with_transfer(0), mixtures(0, 5), STEPS[:1], 0.003)
    observed.losses[2, 0, 1] = np.nan
    assert np.array_equal(transfer.run_levels(observed), np.log(observed.losses[:, 0]), equal_nan=True)


def test_effects_by_step_hold_at_fitted_steps_between_and_beyond_and_in_the_optimum():
    observed, truth = growing(3, 40, 0.0)
    fitted = laws.fit("transfer", observed)
    new = mixtures(503, 30)
    assert np.abs(laws.predict(fitted, new, observed.steps) / truth(new, None) - 1).max() < 0.02
    steps = [100, 500, 700, 1000, 2000, 4000]
    spread = np.log(laws.predict(fitted, new, steps)).std(axis=0)
    between = 0.5 + 0.25 * np.log(1.4) / np.log(2)
    assert np.allclose(spread, np.array([0.5, 0.5, between, 0.75, 1, 1])[:, None] * spread[-1], rtol=1e-4)
    target, step = np.full(7, 1 / 7), 700
    at = transfer.objective(fitted, step, target)
    for shares in new[:4]:
        value, gradient = at(shares)
        assert value == pytest.approx(laws.predict(fitted, shares[None], [step])[0, 0] @ target)
        moves = 1e-6 * np.eye(7)
        assert np.allclose([(at(shares + one)[0] - at(shares - one)[0]) / 2e-6 for one in moves], gradient, rtol=1e-5)
        for other in new[4:]:
            assert (gradient - at(other)[1]) @ (shares - other) > 0
    without = {name: {k: v for k, v in one.items() if k != "effects"} for name, one in fitted["coefficients"].items()}
    old = np.log(laws.predict(fitted | {"coefficients": without}, new, steps)).std(axis=0)
    assert np.allclose(old, spread[-1])  # a file of before: the same at each step
    back = {
        name: one | {"effects": dict(reversed(one["effects"].items()))} for name, one in fitted["coefficients"].items()
    }
    turned = laws.predict(fitted | {"coefficients": back}, new, steps)
    assert np.array_equal(turned, laws.predict(fitted, new, steps)), "in whichever order a file has the steps"


def test_resampled_residuals_of_growing_effects_are_the_noise_alone():
    """A law that holds effects to be the same at each step takes their growth for noise."""
    observed, _ = growing(1, 20, 0.002)
    fitted, new = laws.fit("transfer", observed), mixtures(501, 50)
    drawn = resampled(fitted, observed, 10, 0)
    assert np.log([laws.predict(one, new, observed.steps) for one in drawn]).std(axis=0).mean() < 0.004


@pytest.mark.parametrize("seed", range(2))
def test_on_losses_of_bimix_it_predicts_as_bimix_does(seed):
    draw = np.random.default_rng(seed)
    a, b, beta, c = (
        draw.uniform(0.02, 0.4, 7),
        draw.uniform(5, 80, 7),
        draw.uniform(0.2, 0.9, 7),
        draw.uniform(0.5, 3, 7),
    )
    truth = lambda r, s: r[:, None, :] ** -a * (b / np.asarray(s)[:, None] ** beta + c)  # noqa: E731
    observed, new = observe(truth, mixtures(seed, 24), STEPS, 0.001, seed), mixtures(seed + 50, 100)
    error = {
        law: np.abs(laws.predict(laws.fit(law, observed), new, STEPS[-1:]) / truth(new, STEPS[-1:]) - 1).mean()
        for law in ("bimix", "transfer")
    }
    assert error["transfer"] < error["bimix"] + 0.001  # the noise


def test_never_worse_than_bimix_by_more_than_the_noise_and_better_on_average():
    """Known laws, 7 domains, 0.3 % noise along a run."""
    for runs in (4, 8):
        noise, errors = 0.003, []
        for seed in range(20):
            truth, new = with_transfer(seed), mixtures(seed + 500, 200)
            observed = observe(truth, mixtures(seed, runs), STEPS[-1:], noise, seed)
            right = truth(new, STEPS[-1:])
            errors.append(
                [
                    np.abs(laws.predict(laws.fit(law, observed), new, STEPS[-1:]) / right - 1).mean()
                    for law in ("bimix", "transfer")
                ]
            )
        bimix, transferred = np.array(errors).T
        assert (transferred <= bimix + noise).all()
        assert transferred.mean() < {4: 0.85, 8: 0.5}[runs] * bimix.mean()


def test_the_json_has_its_coefficients_and_that_of_an_earlier_version_is_not_refitted():
    observed = observe(with_transfer(0, 3), mixtures(0, 4, 3), STEPS[-1:])
    fitted = laws.fit("transfer", observed)
    old = fitted | {"choice": {"terms": 1, "ridge": 1e-4, "prior": False, "apart": True}}
    refused("earlier version of this project: fit it again", next, transfer.refit([(observed, None)], old))
    member = dict.fromkeys(fitted["domains"], 0.1)  # the linear one of a metric
    old = {name: values | {"roots": member} for name, values in fitted["coefficients"].items()}
    refused("earlier version of this project", laws.predict, fitted | {"coefficients": old}, mixtures(1, 2, 3), [8000])
    # the json of coefficients and their number
    observed = observe(with_transfer(2, 3), mixtures(2, 10, 3), STEPS, 0.003)
    fitted = laws.fit("transfer", observed)
    values = fitted["coefficients"]["d01"]
    assert values["terms"][0]["transfer"]["d01"] == 1 and set(values["terms"][0]["transfer"]) == {"d00", "d01", "d02"}
    assert set(values) == {"terms", "gamma", "B", "beta", "C", "effects"}
    effects = len(observed.steps) - 1
    assert fitted["coefficients_fitted"] == 3 * (3 + 4) + effects  # m - 1 transfers, alpha, gamma, B, beta, C
    assert {"ridge", "terms", "cross_validated"} <= set(fitted["choice"])


def test_zero_proportions_and_foreign_loss_domains():
    draw = np.random.default_rng(5)
    k = np.exp(draw.normal(-2, 1, (4, 3)))
    k[np.arange(3), np.arange(3)] = 1
    a = draw.uniform(0.05, 0.3, 4)
    truth = lambda r, s: ((r @ k.T) ** -a)[:, None, :] * (20 / np.asarray(s)[:, None] ** 0.4 + 2)  # noqa: E731
    shares = draw.dirichlet(np.ones(3), 40)
    shares[:15, 0] = 0
    shares /= shares.sum(axis=1, keepdims=True)
    observed = observe(truth, shares, STEPS)
    fitted = laws.fit("transfer", observed)
    assert fitted["loss_domains"][-1] == "foreign0"
    errors = np.abs(laws.predict(fitted, shares, STEPS) / observed.losses - 1)
    assert errors.mean() < 1e-3
