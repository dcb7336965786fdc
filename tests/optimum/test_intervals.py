"""Intervals by hand: ends of refits, left-out errors, the jackknife, resamples drawn."""

from dataclasses import replace

import numpy as np
import pytest
from laws.known import of_schedules
from refusals import refused
from scipy import stats

from bimix.laws.fitted import fit, predict
from bimix.laws.table import LAWS
from bimix.observations.observations import Observations
from bimix.optimum import intervals as module
from bimix.optimum.intervals import BORROWED, LeftOut, intervals, left_out, picked, resampled
from bimix.optimum.objective import Objective
from bimix.optimum.optimum import Sought

NAMES = ("a", "b")
SHARES = np.array([[0.5, 0.5], [0.2, 0.8], [0.7, 0.3], [0.4, 0.6]])


def law(alpha: float, height: float = 3.0) -> dict:
    values = {"a": {"A": height, "alpha": alpha}, "b": {"A": 2.0, "alpha": 2 * alpha}}
    return {
        "law": "bimix",
        "domains": list(NAMES),
        "loss_domains": list(NAMES),
        "steps": [100],
        "mixtures": list("wxyz"),
        "coefficients": values,
    }


FITTED, REFITTED = law(0.2), [law(0.18), law(0.2, 3.1), law(0.23), law(0.21, 2.9)]


def losses(one: dict, shares: np.ndarray = SHARES) -> np.ndarray:
    return predict(one, np.atleast_2d(shares), np.array([100]))[:, 0]


def observed(noise: float = 0.01) -> Observations:
    seen = losses(FITTED) * np.exp(noise * np.random.default_rng(0).standard_normal((4, 2)))
    return Observations(tuple("wxyz"), NAMES, np.array([100]), NAMES, SHARES, seen[:, None])


def errors_of(values: np.ndarray) -> LeftOut:
    """Left-out errors `values` (4, 2) in logs."""
    guesses = losses(FITTED)
    return LeftOut(FITTED, REFITTED, 100, guesses * np.exp(values), guesses, SHARES)


def test_the_spread_of_a_domain_borrows_from_all() -> None:
    values = np.array([[0.01, 0.1], [-0.02, np.nan], [0.03, -0.2], [0.0, np.nan]])
    deviation, freedom = errors_of(values).spread()
    squares = np.array([0.01**2 + 0.02**2 + 0.03**2, 0.1**2 + 0.2**2])
    runs = np.array([4, 2])
    mean = (squares / runs).mean()
    assert np.allclose(deviation, np.sqrt((squares + BORROWED * mean) / (runs + BORROWED)))
    assert freedom.tolist() == [7, 5]
    values[:, 1] = np.nan  # no run at all: what the others say
    deviation, freedom = errors_of(values).spread()
    assert deviation == pytest.approx([np.sqrt(squares[0] / 4)] * 2) and freedom.tolist() == [7, 3]


def test_the_spread_of_an_average_is_of_runs_that_have_what_weighs() -> None:
    values = np.array([[0.01, 0.1], [-0.02, np.nan], [0.03, -0.2], [0.05, np.nan]])
    source = errors_of(values)
    deviation, freedom = source.spread_of_average(np.array([2.0, 0.0]))
    assert deviation == pytest.approx(np.sqrt(np.mean(np.square([0.01, 0.02, 0.03, 0.05])))) and freedom == 3
    deviation, freedom = source.spread_of_average(np.array([1.0, 3.0]))
    guesses = losses(FITTED)[[0, 2]]
    by_hand = np.log((guesses * np.exp(values[[0, 2]])) @ [0.25, 0.75] / (guesses @ [0.25, 0.75]))
    assert deviation == pytest.approx(np.sqrt(np.mean(by_hand**2))) and freedom == 1
    values[2, 1] = np.nan
    deviation, _ = errors_of(values).spread_of_average(np.array([1.0, 3.0]))
    assert np.isnan(deviation)


@pytest.mark.parametrize("target", [None, np.array([1.0, 3.0])])
def test_far_from_the_runs_an_interval_is_wider_by_the_jackknife(target: np.ndarray | None) -> None:
    values = 0.02 * np.random.default_rng(1).standard_normal((4, 2))
    source, far = errors_of(values), np.array([[0.01, 0.99], [0.45, 0.55]])

    def logs(shares: np.ndarray) -> np.ndarray:
        each = np.array([losses(one, shares) for one in REFITTED])
        return np.log(each if target is None else each @ target / target.sum())

    def jackknife(shares: np.ndarray) -> np.ndarray:
        each = logs(shares)
        return 3 / 4 * ((each - each.mean(axis=0)) ** 2).sum(axis=0)

    wanted = np.maximum(jackknife(far) - jackknife(SHARES).mean(axis=0), 0)
    assert np.allclose(source.excess(far, 100, target), wanted)
    assert (wanted[0] > 0).any() and (wanted == 0).any()
    deviation, freedom = source.spread() if target is None else source.spread_of_average(target)
    quantile = stats.t.ppf(0.95, freedom)
    if target is None:  # of losses it is half that of the left-out errors over their spreads
        of_runs = np.maximum(jackknife(SHARES) - jackknife(SHARES).mean(axis=0), 0)
        scores = np.abs(values) / np.sqrt(deviation**2 + of_runs)
        quantile = (quantile + np.quantile(scores, 0.9)) / 2
    half = quantile * np.sqrt(deviation**2 + wanted)
    guess = picked(losses(FITTED, far), target)
    low, high = source.ends(guess, far, 100, target, 0.9)
    assert np.allclose(low, guess * np.exp(-half)) and np.allclose(high, guess * np.exp(half))
    if target is not None:
        low, high = source.ends_of_gain(guess, far, 100, target, 0.9)
        nats = np.hypot(half[0] * guess[0], half[1] * guess[1])
        assert [low, high] == pytest.approx([guess[0] - guess[1] - nats, guess[0] - guess[1] + nats])


def test_residuals_that_are_drawn_are_whole_runs_of_those_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, samples = observed(0.05), []
    runs.losses[2, 0, 1] = np.nan
    curves = losses(FITTED)[:, None]
    own = np.log(runs.losses / curves) * np.sqrt(2)
    own[2, 0, 1] = 0.0  # what was not observed has no residual to give
    monkeypatch.setattr(module.LAWS["bimix"].code, "refit", lambda drawn, fitted: samples.extend(drawn) or [])
    resampled(FITTED, runs, 200, 1)
    ratios, drawn = [], set()
    for sample, weights in samples:
        assert weights is None and np.array_equal(np.isnan(sample.losses), np.isnan(runs.losses))
        moved = np.log(sample.losses / curves)
        for n in (0, 1, 3):
            factors = moved[n, 0] / own[[0, 1, 3], 0]
            alike = np.isclose(factors[:, 0], factors[:, 1])
            assert alike.any() or np.isclose(moved[n, 0, 1], 0)
            ratios += factors[alike, 0].tolist()
            drawn |= set(np.flatnonzero(alike).tolist())
    # equal numbers of runs change nothing but the weights; of a mean of four the residual counts as one of one
    plain = [sample.losses for sample, _ in samples]
    for counts in ([3, 3, 3, 3], [4, 1, 1, 1]):
        samples.clear()
        resampled(FITTED, replace(runs, runs=np.array(counts)), 200, 1)
        assert all(weights.tolist() == counts for _, weights in samples)
        same = [np.allclose(one.losses, other, equal_nan=True) for (one, _), other in zip(samples, plain, strict=True)]
        assert all(same) == (counts[0] == 3)
    both = [np.log(np.array(one) / curves)[:, :, 0, 0] for one in ([one.losses for one, _ in samples], plain)]
    own = both[0][:, 0] / both[1][:, 0]  # of the first run: its own residual as it was, those of others halved
    assert np.isclose(own, 1).any() and np.allclose(np.where(np.isclose(own, 1), 0.5, own), 0.5)
    assert drawn == {0, 1, 2}
    assert np.mean(ratios) == pytest.approx(0, abs=0.15) and np.std(ratios) == pytest.approx(1, abs=0.1)


def test_each_run_is_predicted_by_a_refit_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, asked = observed(0.05), []

    def refit(samples, fitted):
        """Coefficients that differ by the runs they were fitted to."""
        for _, weights in samples:
            asked.append(weights)
            yield law(0.1 + 0.01 * len(asked))["coefficients"]

    monkeypatch.setattr(module.LAWS["bimix"].code, "refit", refit)
    found = left_out(FITTED, replace(runs, runs=np.array([1, 2, 3, 4])), 100)
    assert np.array_equal(asked, np.array([1.0, 2, 3, 4]) * (1 - np.eye(4)))
    for n in range(4):
        assert np.allclose(found.predicted[n], losses(law(0.1 + 0.01 * (n + 1)))[n])
    assert found.step == 100 and np.array_equal(found.observed, runs.losses[:, 0])
    asked.clear()
    monkeypatch.setitem(module.LAWS, "bimix", replace(module.LAWS["bimix"], most_refits=2))
    found = left_out(FITTED, runs, 70)  # nothing was observed there: the last step
    assert len(asked) == 2 and found.step == 100 and np.array_equal(asked[0] + asked[1], np.ones(4))
    assert sorted(asked[0]) == [0, 0, 1, 1] and len(found.refitted) == 2
    assert len(left_out(FITTED, runs.take([0, 1, 2]), 100).predicted) == 3
    refused(
        "fitted to 2 mixtures: intervals, which draw among runs, need three or more",
        left_out,
        FITTED,
        runs.take([0, 1]),
        100,
    )
    refused("fitted to 2 mixtures", resampled, FITTED, runs.take([0, 1]), 3, 0)


def test_runs_over_schedules_are_compared_with_predictions_of_their_own_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = of_schedules(1)
    fitted = fit("transfer", runs)
    errors = left_out(fitted, runs, 2000)  # which some runs did not reach, and others went beyond
    assert np.array_equal(errors.observed, runs.last())
    assert np.abs(errors.predicted / errors.observed - 1).max() < 0.05
    samples: list = []
    monkeypatch.setattr(LAWS["transfer"].code, "refit", lambda drawn, fitted: samples.extend(drawn) or [])
    resampled(fitted, runs, 50, 1)
    moved = np.array([np.log(one.last()) for one, _ in samples]).std(axis=0)
    assert moved.min() > 0.001 and moved.max() < 0.02  # of each run, by what ends miss


def test_rows_of_every_quantity() -> None:
    left = errors_of(0.02 * np.random.default_rng(1).standard_normal((4, 2)))
    target = np.array([1.0, 0.0])
    sought = Sought(FITTED, 100, Objective(weights={"a": 1.0}), np.zeros(2), np.ones(2))
    mixtures = {"here": SHARES[0], "there": SHARES[1]}
    table = intervals(sought, 0.5, mixtures, "there", left, REFITTED)
    rows = {
        tuple(row[:4]): row[4:]
        for row in table.select("quantity", "mixture", "step", "domain", "estimate", "low", "high").rows()
    }
    alphas = np.array([one["coefficients"]["b"]["alpha"] for one in REFITTED])
    assert rows["alpha", None, None, "b"] == pytest.approx((0.4, *np.quantile(alphas, [0.25, 0.75])))
    heights = np.array([one["coefficients"]["a"]["A"] for one in REFITTED])
    assert rows["A", None, None, "a"] == pytest.approx((3.0, *np.quantile(heights, [0.25, 0.75])))
    # only a weighs: all of a
    assert rows["proportion", "bimix", 100, "a"] == pytest.approx((1, 1, 1))
    own, best = losses(FITTED, SHARES[1]), np.array([[1.0, 0.0]])
    each = np.array(left.ends(own, SHARES[1:2], 100, None, 0.5))[:, 0]
    assert rows["loss", "there", 100, "b"] == pytest.approx((own[0, 1], *each[:, 1]))
    plain = np.array(left.ends(own.mean(axis=1), SHARES[1:2], 100, np.ones(2), 0.5))[:, 0]
    assert rows["average_loss", "there", 100, None] == pytest.approx((own.mean(), *plain))
    ends = np.array(left.ends(np.array([3.0]), best, 100, target, 0.5))[:, 0]
    assert rows["optimum_average_loss", "bimix", 100, None] == pytest.approx((3.0, *ends))
    alone = np.array(left.ends(np.array([[3.0, np.nan]]), best, 100, None, 0.5))[:, 0]
    assert rows["optimum_loss", "bimix", 100, "a"] == pytest.approx((3.0, *alone[:, 0]))
    assert rows["optimum_loss", "bimix", 100, "b"] == (None, None, None)  # of share 0 the law defines no loss
    pair = np.array([own[0, 0], 3.0])
    gain = left.ends_of_gain(pair, np.concatenate([SHARES[1:2], best]), 100, target, 0.5)
    assert rows["gain", "there", 100, None] == pytest.approx((own[0, 0] - 3.0, *gain))
    assert set(table["level"]) == {0.5} and set(table["law"]) == {"bimix"}
    kinds = {kind: set(part["quantity"]) for (kind,), part in table.group_by("kind")}
    assert kinds["left_out"] == {"loss", "average_loss", "optimum_loss", "optimum_average_loss", "gain"}
    assert kinds["residuals"] == {"A", "alpha", "proportion"}
    bare = intervals(sought, 0.5, {}, None, left)
    assert bare["quantity"].to_list() == ["optimum_loss", "optimum_loss", "optimum_average_loss"]
