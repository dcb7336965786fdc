"""Pieces of `transfer` against their formulas: counted shares, harm, gaps, factor, start."""

import json
from pathlib import Path

import numpy as np
import pytest
from refusals import refused

from bimix.observations import prior
from bimix.transfer import curve, mixing, repetition


def test_shares_count_less_beyond_one_epoch_and_without_data_numbers_are_at_anchors() -> None:
    shares, per_share = np.array([0.1, 0.2, 0.5]), np.array([4.0, 5.0, 8.0])
    rho, slope = repetition.counted(shares, per_share, 15.0)
    # read 0.4, 1 and 4 times: 1 + 15 (1 - exp(-3 / 15)) pools of an eighth of the run
    assert rho == pytest.approx([0.1, 0.2, (1 + 15 * (1 - np.exp(-0.2))) / 8])
    assert slope == pytest.approx([1, 1, np.exp(-0.2)])
    # without data all numbers are at their anchors; that of a is smaller for many domains
    shares = np.random.default_rng(0).dirichlet(np.ones(mixing.MANY_DOMAINS), 4)
    assert np.allclose(mixing.fit(shares, np.full((4, 1), np.nan), [0], 1e-3).parts().a, 0.075)
    shares = np.random.default_rng(0).dirichlet(np.ones(3), 4)
    found = mixing.fit(shares, np.full((4, 3), np.nan), [0, 1, -1], 1e-3)
    assert found.means[0] == pytest.approx([mixing.MEAN_LOG_A, mixing.MEAN_LOGIT_G, mixing.MEAN_U], abs=1e-6)
    _, a, g, k, t = found.parts()
    assert not t.any()
    assert np.allclose(a, 0.15) and np.allclose(g, 1 / (1 + np.exp(-1)))
    assert np.allclose(k[:2, 0], np.where(np.eye(2, 3) > 0, 1, np.exp(mixing.MEAN_U)))


def test_harm_is_the_formula_and_there_beyond_one_epoch_alone() -> None:
    shares, per_share = np.array([0.1, 0.5]), np.array([4.0, 8.0])
    value, slope = repetition.harm(shares, per_share, np.array([0.3, 0.3]), 1.5)
    assert value == pytest.approx([0, 0.3 * 9 / 4 * 0.5**1.5])
    step = 1e-6
    up, down = (repetition.harm(shares + sign * step, per_share, np.full(2, 0.3), 1.5) for sign in (1, -1))
    assert slope == pytest.approx((up[0] - down[0]) / (2 * step), rel=1e-6)
    # of runs it goes by the size over the pool
    form = repetition.Repetition(R=10, P=0.2, mu=1.5, kappa=0.5)
    shares, pools = np.array([[0.5, 0.5], [0.25, 0.75]]), np.array([[100.0, 1e9], [400.0, 100.0]])
    per_share = 1000 / pools
    own = np.array([1, -1, 0])
    found = repetition.own_harm(form, shares, per_share, pools, np.array([900.0, 100.0]), own)
    first = 0.2 * 3 * 16 / 5 * 0.5**1.5  # read 5 times, M / U = 9
    other = 0.2 * 1 * 6.5**2 / 7.5 * 0.75**1.5  # 7.5 times, M / U = 1; 0.25 of 400 is read 0.6 times
    assert np.allclose(found, [[0, 0, first], [other, 0, 0]])
    one = repetition.own_harm(form, shares, per_share, pools, 900.0, own)
    assert np.allclose(one, [[0, 0, first], [3 * other, 0, 0]])
    # no run that repeats is no fit
    shares, pools = np.full((4, 2), 0.5), np.full((4, 2), 500.0)
    given = {"own": np.arange(2), "group": np.zeros(4, dtype=int), "scale": np.ones(4), "weights": np.ones(4)}
    assert repetition.fit(shares, np.ones((4, 2)), tokens=np.full(4, 1000.0), pools=pools, **given) is None


def test_gaps_are_less_their_mean_over_the_others_and_come_back_as_written(tmp_path: Path) -> None:
    entropies = np.array([[9.0, 3, 5], [4, 8, 6], [np.nan] * 3])
    found = prior.centred(entropies, [0, -1, -1])
    assert np.array_equal(found, [[0, -1, 1], [-2, 2, 0], [np.nan] * 3], equal_nan=True)
    assert prior.centred(np.array([[7.0]]), [0]).tolist() == [[0]]
    assert prior.offsets(found).tolist() == [[0, -1, 1], [-2, 2, 0], [0, 0, 0]]
    assert prior.offsets(None) is None and prior.offsets(found[2:]) is None and prior.offsets(np.zeros((1, 3))) is None
    # gaps come back as they were written
    gaps = np.array([[0, -1.0, 1], [np.nan] * 3, [2, -2, 0]])
    domains, loss_domains = ("a", "b", "c"), ("a", "x", "c")
    said = prior.written(gaps, domains, loss_domains)
    assert said == {"a": {"a": 0, "b": -1, "c": 1}, "c": {"a": 2, "b": -2, "c": 0}}
    fitted = json.loads(json.dumps({"prior": {"gaps": said}}))
    assert np.array_equal(prior.recorded(fitted, domains, loss_domains), gaps, equal_nan=True)
    assert prior.recorded({}, domains, loss_domains) is prior.recorded({"prior": None}, domains, loss_domains) is None
    for broken in ({"gaps": {"a": {"a": 0}}}, {"gaps": {"a": 3}}, {}):
        refused("the prior of this fitted law cannot be read", prior.recorded, {"prior": broken}, domains, loss_domains)
    # a prior may know more than is asked
    path = tmp_path / "p.csv"
    lines = [f"{i},{j},{number}" for number, (i, j) in enumerate((i, j) for i in "abz" for j in "abz")]
    path.write_text("\n".join(["domain,under,nats", *lines]))
    # a: under b 1, of two domains its only other; metric z: under a 6, under b 7
    gaps = prior.read_gaps(path, ("b", "a"), ("a", "z", "metric"))  # in their order; no row of the last
    assert np.allclose(gaps, [[0, 0], [0.5, -0.5], [np.nan] * 2], equal_nan=True)


def test_levels_of_a_mixture_are_those_of_the_formula() -> None:
    """Two terms, two domains: c (2), log a (2), logit g, u, delta (4); own domains 1 and none."""
    x = np.array(
        [
            [0.5, -0.3, np.log(0.2), np.log(0.6), 1.0, -2.0, 0.1, 0.7, 0.3, -0.4],
            [0.1, 0.2, np.log(0.3), np.log(0.5), 0.0, -1.0, 0.2, 0.4, -0.1, 0.6],
        ]
    )
    gaps, own = np.array([[0.25, 0.0], [-0.5, 0.5]]), np.array([1, -1])
    shares, t = np.array([[0.3, 0.7], [0.0, 1.0]]), np.array([[0.2, -0.1], [0.0, 0.4]])
    wanted = np.empty((2, 2))
    for n, r in enumerate(shares):
        for i in range(2):
            g = 1 / (1 + np.exp(-x[i, 4]))
            terms = 0
            for q in range(2):
                delta = x[i, 6 + 2 * q : 8 + 2 * q]
                lift = np.array([x[i, 5] if q == 0 and own[i] != j else 0.0 for j in range(2)])
                k = np.exp(lift + delta - gaps[i])
                if q == 0 and own[i] >= 0:
                    k[own[i]] = 1.0
                terms += np.exp(x[i, q]) * (k @ r**g) ** -np.exp(x[i, 2 + q])
            wanted[n, i] = np.log(terms) + r @ t[i]
    whole = mixing.Mixing(x[None], np.zeros((1, 4)), 2, own, gaps[None], t[None])
    assert np.allclose(mixing.predict(whole, shares), wanted)
    c, a, g, k, found = whole.parts()
    assert np.array_equal(found, t)
    assert np.allclose(c, x[:, :2]) and np.allclose(a, [[0.2, 0.6], [0.3, 0.5]]) and g[1] == 0.5
    assert k[0, 0, 1] == 1 and k[0, 0, 0] == pytest.approx(np.exp(-2 + 0.1 - 0.25))
    assert k[1, 0] == pytest.approx(np.exp([-1 + 0.2 + 0.5, -1 + 0.4 - 0.5])) and k[0, 1, 1] == pytest.approx(
        np.exp(-0.4)
    )
    taken = mixing.Mixing(
        np.stack([x, 2 * x]), np.zeros((2, 4)), 2, own, np.stack([gaps, gaps]), np.stack([t, 2 * t])
    ).take(np.array([1]))
    assert (
        taken.x.shape == (1, 2, 10) and np.array_equal(taken.x[0], 2 * x) and len(taken.means) == len(taken.gaps) == 1
    )


def test_weights_of_the_mixing_factor_count_runs() -> None:
    draw = np.random.default_rng(1)
    shares, counts = draw.dirichlet(np.ones(3), 5), np.array([2.0, 1, 0, 3, 1])
    y = draw.normal(0, 0.05, (5, 3)) - 0.1 * np.log(shares)
    repeated = np.repeat(np.arange(5), counts.astype(int))
    settings = {"tolerance": 1e-10, "rounds": 300}
    one = mixing.fit(shares, y, np.arange(3), 1e-2, weights=counts[None], **settings)
    other = mixing.fit(shares[repeated], y[repeated], np.arange(3), 1e-2, **settings)
    assert np.allclose(mixing.predict(one, shares), mixing.predict(other, shares), atol=1e-6)
    even = mixing.fit(shares, y, np.arange(3), 1e-2, **settings)
    assert np.abs(mixing.predict(one, shares) - mixing.predict(even, shares)).max() > 1e-3


def test_weights_of_curves_are_repetitions() -> None:
    draw = np.random.default_rng(2)
    steps = np.array([1000, 2000, 4000, 8000, 16000])
    losses = (20 / steps**0.4 + 1.5)[None, :, None] * np.exp(0.02 * draw.standard_normal((4, 5, 2)))
    counts = np.array([3, 1, 0, 2])
    found = curve.fit_curves(steps, losses, counts.astype(float))
    repeated = curve.fit_curves(steps, np.repeat(losses, counts, axis=0))
    even = curve.fit_curves(steps, losses)
    at = lambda one: one[0] / 8000 ** one[1] + one[2]  # noqa: E731
    assert np.allclose(found, repeated, rtol=1e-5)
    assert np.abs(at(found) - at(even)).max() > 1e-3
    with np.errstate(all="raise"):
        alone = curve.fit_curves(steps, np.where(np.arange(2) == 0, losses, np.nan))
    assert np.allclose([part[0] for part in alone], [part[0] for part in even], rtol=1e-6)
    assert np.isnan([part[1] for part in alone]).all()


def test_a_curve_stays_within_bounds_and_ends_at_the_minimum() -> None:
    # one that rises
    steps = np.array([1000, 2000, 4000, 8000])
    b, beta, c = curve.fit_curves(steps, np.log(steps)[None, :, None])
    assert beta[0] == pytest.approx(curve.BETA_RANGE[0]) or b[0] / 1000 ** beta[0] < 1e-3 * c[0]
    flat = curve.fit_curves(steps, np.full((1, 4, 1), 2.0))
    assert flat[0][0] / steps ** flat[1][0] + flat[2][0] == pytest.approx([2] * 4, rel=1e-6)
    # from a start that is far off
    steps, law = np.array([1000, 2000, 4000, 8000, 16000]), np.array([20.0, 0.4, 1.5])
    losses = law[0] / steps ** law[1] + law[2]
    for factors in ((50, 1, 1), (1, 1, 40), (0.02, 3, 0.1)):
        start = [np.array([number]) for number in law * factors]
        found = curve.fit_curves(steps, losses[None, :, None], start=start)
        assert found[0][0] / steps ** found[1][0] + found[2][0] == pytest.approx(losses, rel=1e-5)
