"""Noise of a run by its seeds; laws blended by their errors."""

import numpy as np
import pytest

from bimix.judge import law_scores
from bimix.judge.errors import folds_of
from bimix.judge.evidence import average_error, errors_of
from bimix.judge.law_scores import beaten, blended, compare, laws_table, shown
from bimix.judge.measured import Criterion
from bimix.judge.noise import Known, levels, seeds_needed, seeds_to_add, within
from bimix.observations.observations import Observations

NAN = float("nan")
KNOWN = Known(0.01, 11, "elsewhere")


def drawn(draw, mixtures: int, seeds: int, lead: float, noise: float = 0.003) -> np.ndarray:
    """Values of mixtures; the first leads by noise deviations, a seed moves all by three."""
    logs = 1 + 3 * noise * draw.standard_normal(seeds) + noise * draw.standard_normal((mixtures, seeds))
    logs[0] -= lead * noise
    return np.exp(logs)


def seen(mixtures: int, seeds: int, lead: float, draws: int) -> float:
    """How often the first is significantly below all others."""
    draw, found = np.random.default_rng([mixtures, seeds]), 0
    for _ in range(draws):
        logs, noise = levels(drawn(draw, mixtures, seeds, lead))
        behind = noise.behind_best(1, 0)  # all have all seeds: one width
        found += logs[0] == logs.min() and bool((logs[1:] - logs[0] > behind).all())
    return found / draws


def test_a_lead_of_four_deviations_is_seen_with_three_seeds_whatever_a_seed_does() -> None:
    assert seen(5, 3, lead=4, draws=300) >= 0.9
    assert seen(5, 3, lead=0, draws=300) <= 0.05


def test_the_noise_is_what_seeds_shared_or_not_say() -> None:
    # single runs take the noise that is known, and else none
    values = np.array([[3.0], [3.1]])
    assert levels(values)[1] is None
    _, noise = levels(values, KNOWN)
    assert (noise.deviation, noise.freedom, noise.source) == (0.01, 11, "elsewhere")
    assert noise.error(0, 1) == pytest.approx(0.01 * np.sqrt(2))
    assert levels(np.array([[3.0, 3.01], [3.1, 3.11]]), KNOWN)[1].source == "from 4 runs, paired by seed"
    # a mixture that alone has a further seed tells the noise with the seeds in it
    logs = np.array([[1.0, 1.02, 1.04], [1.5, NAN, NAN]])
    _, noise = levels(np.exp(logs))
    assert noise.deviation == pytest.approx(0.02) and noise.freedom == 2
    assert "3 runs of 1 mixtures" in noise.source
    # seeds that only number the runs pair nothing
    values = np.exp(np.array([[1.0, 1.02, NAN, NAN], [NAN, NAN, 1.3, 1.34]]))
    found, noise = levels(values)
    assert found == pytest.approx([1.01, 1.32]) and noise.freedom == 2
    assert noise.source == "from 4 runs, no two of one seed"
    assert noise.deviation == pytest.approx(np.sqrt((2 * 0.01**2 + 2 * 0.02**2) / 2))


def test_runs_that_are_all_alike_tie() -> None:
    adjusted, noise = levels(np.full((4, 1), 7.0), Known(0.01, 6, "of a law"))
    assert adjusted.tolist() == pytest.approx([np.log(7)] * 4) and noise.behind_best(0, 3) == 0


def test_the_seeds_that_are_said_to_be_needed_are_enough_four_times_in_five() -> None:
    lead, mixtures = 2.5, 4
    seeds = seeds_needed(lead * 0.003, 0.003, mixtures)
    assert 3 <= seeds <= 10
    draw, told = np.random.default_rng(0), 0
    for _ in range(300):  # the leader of two named ones is seen; the others lie far behind
        values = drawn(draw, mixtures, seeds, lead)
        logs, noise = levels(values)
        told += logs[1] - logs[0] > noise.behind_best(1, 0)
    assert 0.72 < told / 300 < 0.9
    assert seeds_needed(0.1 * 0.003, 0.003, mixtures) is None and seeds_needed(0.0, 0.003, 2) is None
    assert seeds_needed(100 * 0.003, 0.003, mixtures) == 2
    # the seeds to add are a list for the config that keeps those there
    assert seeds_to_add([1], 3) == [2, 3]
    assert seeds_to_add([7, 2], 4) == [2, 1, 3]
    assert seeds_to_add([1, 2, 3], 3) == [2, 3]


TRUTH = np.exp(np.random.default_rng(0).normal(1.0, 0.1, (12, 2)))


def off(seed: int, by: float = 0.05, truth: np.ndarray = TRUTH) -> np.ndarray:
    return truth * np.exp(by * np.random.default_rng(seed).standard_normal(truth.shape))


def test_the_weights_of_a_mix_that_is_the_truth_are_found_and_folds_predicted_by_the_others():
    one = off(1)
    other = np.exp((np.log(TRUTH) - 0.3 * np.log(one)) / 0.7)
    mixed, weights = blended(TRUTH, {"one": one, "other": other})
    assert weights == pytest.approx({"one": 0.3, "other": 0.7}, abs=1e-5)
    assert mixed == pytest.approx(TRUTH, rel=1e-5)
    assert beaten(TRUTH, one, mixed) and beaten(TRUTH, other, mixed)
    assert shown(weights | {"third": 0.01}) == "0.7 other, 0.3 one"
    # a fold is predicted by weights from the others
    laws, fold = {"one": off(1), "other": off(2)}, folds_of(len(TRUTH)) == 3
    changed = TRUTH.copy()
    changed[fold] *= 2
    there, again = blended(TRUTH, laws)[0], blended(changed, laws)[0]
    assert there[fold] == pytest.approx(again[fold]) and there[~fold] != pytest.approx(again[~fold])


def test_chance_beats_a_law_seldom_right_and_losses_that_are_missing_do_not_count():
    found = 0
    for seed in range(100):
        truth = off(seed, 0.02)
        laws = {"right": TRUTH, "wrong": off(seed + 1_000), "worse": off(seed + 2_000, 0.1)}
        found += beaten(truth, TRUTH, blended(truth, laws)[0])
    assert found <= 5
    # losses that are missing do not count and few runs say nothing
    truth, one, other = TRUTH.copy(), off(1), off(2)
    truth[0, 1] = truth[5, 0] = np.nan
    mixed, weights = blended(truth, {"one": one, "other": other})
    assert np.array_equal(np.isnan(mixed), np.isnan(truth)) and sum(weights.values()) == pytest.approx(1)
    truth[7] = np.nan  # stopped before the last step
    assert beaten(truth, 1.1 * truth, truth) and not beaten(truth[:7], 1.1 * truth[:7], truth[:7])
    assert not beaten(truth, 1.01 * truth, 1.0097 * truth), "a mix that saves less than a twentieth"


def test_copies_of_runs_are_no_noise() -> None:
    values = np.exp(np.array([[1.0, 1.0], [1.1, 1.1], [1.2, 1.2]]))
    known = Known(0.01, 5, "elsewhere")
    assert levels(values)[1] is None and within(np.log(values)) is None
    assert levels(values, known)[1].deviation == 0.01


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
    errors = errors_of(table)
    assert average_error(errors["transfer"]["blend_mre"], Criterion("x", weights={"a": 1.0})) == pytest.approx(
        0, abs=1e-4
    )
    assert "bimix" not in errors and average_error({}, Criterion("x")) is None
    alone = compare(["transfer"], runs, None)
    assert not alone.filter(score="blend_mre").height
