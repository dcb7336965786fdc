"""A mix of laws: what it is made of, and when it says that a law misfits."""

import numpy as np
import pytest

from bimix.judge import law_scores
from bimix.judge.blend import beaten, blend, shown
from bimix.judge.errors import folds_of
from bimix.judge.evidence import left_out_error
from bimix.judge.law_scores import compare, laws_table
from bimix.judge.measured import Criterion
from bimix.observations.observations import Observations

TRUTH = np.exp(np.random.default_rng(0).normal(1.0, 0.1, (12, 2)))


def off(seed: int, by: float = 0.05, truth: np.ndarray = TRUTH) -> np.ndarray:
    return truth * np.exp(by * np.random.default_rng(seed).standard_normal(truth.shape))


def test_the_weights_of_a_mix_that_is_the_truth_are_found():
    one = off(1)
    other = np.exp((np.log(TRUTH) - 0.3 * np.log(one)) / 0.7)
    mixed, weights = blend(TRUTH, {"one": one, "other": other})
    assert weights == pytest.approx({"one": 0.3, "other": 0.7}, abs=1e-5)
    assert mixed == pytest.approx(TRUTH, rel=1e-5)
    assert beaten(TRUTH, one, mixed) and beaten(TRUTH, other, mixed)
    assert shown(weights | {"third": 0.01}) == "0.7 other, 0.3 one"


def test_a_fold_is_predicted_by_weights_from_the_others():
    laws, fold = {"one": off(1), "other": off(2)}, folds_of(len(TRUTH)) == 3
    changed = TRUTH.copy()
    changed[fold] *= 2
    there, again = blend(TRUTH, laws)[0], blend(changed, laws)[0]
    assert there[fold] == pytest.approx(again[fold]) and there[~fold] != pytest.approx(again[~fold])


def test_chance_beats_a_law_that_is_right_in_few_of_many_draws():
    found = 0
    for seed in range(100):
        truth = off(seed, 0.02)
        laws = {"right": TRUTH, "wrong": off(seed + 1_000), "worse": off(seed + 2_000, 0.1)}
        found += beaten(truth, TRUTH, blend(truth, laws)[0])
    assert found <= 5


def test_losses_that_are_missing_do_not_count_and_few_runs_say_nothing():
    truth, one, other = TRUTH.copy(), off(1), off(2)
    truth[0, 1] = truth[5, 0] = np.nan
    mixed, weights = blend(truth, {"one": one, "other": other})
    assert np.array_equal(np.isnan(mixed), np.isnan(truth)) and sum(weights.values()) == pytest.approx(1)
    truth[7] = np.nan  # stopped before the last step
    assert beaten(truth, 1.1 * truth, truth) and not beaten(truth[:7], 1.1 * truth[:7], truth[:7])
    assert not beaten(truth, 1.01 * truth, 1.0097 * truth), "a mix that saves less than a twentieth"


def test_laws_side_by_side_say_which_a_mix_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("bimix", "transfer", "exponential")
    other = np.exp((np.log(TRUTH) - 0.3 * np.log(off(1))) / 0.7)
    found = dict(zip(names, (other * np.nan, off(1), other), strict=True))
    monkeypatch.setattr(law_scores, "left_out_losses", lambda law, _: found[law])
    monkeypatch.setattr("bimix.laws.exponential.STARTS", 1)
    shares = np.random.default_rng(1).dirichlet([3, 3], 12)
    runs = Observations(tuple("abcdefghijkl"), ("a", "b"), np.array([5]), ("a", "b"), shares, TRUTH[:, None])
    table = compare(list(names), runs, None)
    rows = table.filter(score="blend_mre")
    assert rows.select("law", "domain").rows() == [(law, domain) for law in names[1:] for domain in ("a", "b", None)]
    assert rows["value"].to_list() == pytest.approx([0] * 6, abs=1e-4)
    assert rows["note"].to_list() == [None, None, "0.7 exponential, 0.3 transfer"] * 2
    assert laws_table(table)["note"].to_list() == [None] * 3, "a mix is no note on a law"
    assert left_out_error(table, "transfer", Criterion("x", {"a": 1.0}), "blend_mre") == pytest.approx(0, abs=1e-4)
    assert left_out_error(table, "bimix", Criterion("x"), "blend_mre") is None
    alone = compare(["transfer"], runs, None)
    assert not alone.filter(score="blend_mre").height
