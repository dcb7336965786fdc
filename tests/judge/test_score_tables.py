"""Tables of scores by hand: which rows are fitted, which predicted, what is averaged."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from refusals import refused

from bimix.errors import InputError
from bimix.judge import errors as scores
from bimix.judge import law_scores as learning
from bimix.judge import law_scores as side_by_side
from bimix.judge.errors import (
    FOLDS,
    at_last_step,
    extrapolation,
    extrapolation_table,
    generalization,
    generalization_table,
    left_out_losses,
    one_size,
)
from bimix.judge.law_scores import compare, complexity, laws_table, learning_curve
from bimix.laws import fitted as laws
from bimix.observations.observations import Observations

STEPS = np.array([1000, 2000, 4000, 8000, 16000])


def observed(n: int = 4, names: tuple[str, ...] = ("a", "b"), noise: float = 0.0) -> Observations:
    """Runs of the law bimix of two domains, r^-alpha (B / s^0.4 + C)."""
    draw = np.random.default_rng(n)
    shares = draw.dirichlet(np.full(2, 3.0), n)
    curve = np.array([20, 40]) / STEPS[:, None] ** 0.4 + np.array([1.0, 2.0])
    losses = shares[:, None] ** -np.array([0.1, 0.3]) * curve
    losses = losses * np.exp(noise * draw.standard_normal((n, 1, 2)))
    return Observations(tuple(f"run{i}" for i in range(n)), ("a", "b"), STEPS, names, shares, losses)


def test_the_last_step_that_was_observed_is_predicted_from_those_before() -> None:
    runs = observed(2)
    runs.losses[0, -1, 0] *= 1.25
    runs.losses[1, 3:, 0] = np.nan  # three left: no curve
    runs.losses[1, 4, 1] = np.nan  # four left
    runs.losses[1, 3, 1] *= 0.8
    table = extrapolation("transfer", runs)
    assert table.select("law", "mixture", "domain", "step").rows() == [
        ("transfer", "run0", "a", 16000),
        ("transfer", "run0", "b", 16000),
        ("transfer", "run1", "b", 8000),
    ]
    assert table["observed"].to_list() == [runs.losses[0, 4, 0], runs.losses[0, 4, 1], runs.losses[1, 3, 1]]
    assert table["relative_error"].to_list() == pytest.approx([0.2, 0, 0.25], abs=1e-5)
    assert np.allclose(table["predicted"], table["observed"].to_numpy() * [0.8, 1, 1.25], rtol=1e-5)
    assert not extrapolation("exponential", runs).height


def fixed(law: str, domains: list[str], steps: np.ndarray, factor: float = 1.0) -> dict:
    """The truth of `observed`, off by a factor in b; exponential has these steps alone."""
    values = {}
    for name, alpha, height, floor in (("a", 0.1, 20, 1.0), ("b", 0.3, 40 * factor, 2.0 * factor)):
        values[name] = {"A": 1.0, "alpha": alpha, "B": height, "beta": 0.4, "C": floor}
        if law == "exponential":
            flat = dict.fromkeys(domains, 0.0)
            values[name] = {"steps": {str(s): {"c": height / s**0.4 + floor - 1.0, "k": 1.0, "t": flat} for s in steps}}
    return {
        "law": law,
        "domains": domains,
        "loss_domains": domains,
        "steps": steps.tolist(),
        "coefficients": {name: values[name] for name in domains},
    }


def test_new_mixtures_are_predicted_by_the_name_of_the_domain_where_they_were_observed() -> None:
    runs = observed(2, ("b", "x"))
    truth = observed(2)
    runs.losses[:, :, 0] = truth.losses[:, :, 1]
    runs.losses[0, 2, 0] = np.nan
    runs.losses[1, :, 0] = np.nan
    table = generalization(fixed("bimix", ["b", "a"], STEPS, 1.1), runs, runs.proportions[:, ::-1])
    assert table.select("law", "mixture", "domain").rows() == [("bimix", "run0", "b")]
    assert table["mre"][0] == pytest.approx(0.1)
    logs = np.log(truth.losses[0, [0, 1, 3, 4], 1])
    assert table["r2_log"][0] == pytest.approx(1 - 4 * np.log(1.1) ** 2 / np.sum((logs - logs.mean()) ** 2))


def test_a_law_of_single_steps_is_held_against_those_it_knows() -> None:
    runs = observed(2)
    runs.losses[:, :, 0] = 20 / STEPS**0.4 + 1
    runs.losses[:, 4] = 100.0  # a step that was not fitted
    table = generalization(fixed("exponential", ["a", "b"], STEPS[1:4]), runs, runs.proportions)
    assert table.filter(domain="a")["mre"].to_list() == pytest.approx([0, 0])
    assert not generalization(fixed("exponential", ["a", "b"], STEPS[:1] + 1), runs, runs.proportions).height
    # fitted to one step only, bimix is a law of that step
    one = generalization(fixed("bimix", ["a", "b"], STEPS[:1]), observed(2), runs.proportions)
    assert one["r2_log"].to_list() == [None] * 4 and one["mre"].to_list() == pytest.approx([0] * 4)


def test_tables_of_a_person_are_means_worst_and_best_over_domains() -> None:
    rows = pl.DataFrame(
        {
            "law": ["l"] * 4,
            "mixture": ["m", "m", "n", "n"],
            "domain": ["a", "b"] * 2,
            "relative_error": [0.01, 0.03, 0.5, 0.2],
            "r2_log": [0.9, 0.5, None, 0.7],
            "mre": [0.02, 0.04, 0.1, 0.3],
        }
    )
    both = pl.concat([rows, rows.with_columns(law=pl.lit("other"))])  # the same curves
    assert [tuple(map(round_, row)) for row in extrapolation_table(both).rows()] == [
        ("curve", "m", 2, 2.0, 3.0, 1.0),
        ("curve", "n", 2, 35.0, 50.0, 20.0),
    ]
    assert [tuple(map(round_, row)) for row in generalization_table(rows).rows()] == [
        ("l", "m", 2, 0.7, 0.5, 0.9, 3.0, 4.0),
        ("l", "n", 2, 0.7, 0.7, 0.7, 20.0, 30.0),
    ]


def round_(value: object) -> object:
    return round(value, 9) if isinstance(value, float) else value


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The mixtures of each fit; predictions are 1.1 times the truth of the others."""
    fits = []

    def fit(law: str, runs: Observations) -> dict:
        fits.append(runs.mixtures)
        return {"law": law, "mixtures": runs.mixtures, "steps": runs.steps}

    def predict(fitted: dict, runs: Observations, steps: np.ndarray) -> np.ndarray:
        assert not set(fitted["mixtures"]) & set(runs.mixtures)
        assert steps.tolist() == [STEPS[-1]] and fitted["steps"][-1] == STEPS[-1]
        return 1.1 * runs.losses[:, -1:]

    for module in (scores, learning):
        monkeypatch.setattr(module, "fit", fit)
        monkeypatch.setattr(module, "predict_runs", predict)
    return fits


@pytest.mark.parametrize("n", [3, 8, 19])
def test_each_mixture_is_predicted_by_a_fit_without_it(told: list, n: int) -> None:
    runs = observed(n, noise=0.1)
    mre, spearman = at_last_step(runs, left_out_losses("bimix", runs))
    assert mre == pytest.approx({"a": 0.1, "b": 0.1}) and spearman == pytest.approx({"a": 1, "b": 1})
    assert len(told) == min(n, FOLDS)
    left = [n - len(mixtures) for mixtures in told]
    assert sum(left) == n and max(left) - min(left) <= 1
    assert left_out_losses("bimix", observed(2)) is None and len(told) == min(n, FOLDS)


def test_scores_of_the_last_step_are_of_what_was_observed_there_and_of_one_size() -> None:
    runs = observed(4, ("a", "b"))
    runs.losses[0, -1, 1] = runs.losses[3, -1, 1] = np.nan
    guesses = runs.losses[:, -1].copy()
    guesses[:, 0] *= [1.1, 0.9, 1.3, 1]
    guesses[1:3, 1] *= 1.5
    mre, spearman = at_last_step(runs, guesses)
    assert mre == pytest.approx({"a": 0.125, "b": 0.5}) and set(spearman) == {"a"}
    runs.losses[:, -1, 1] = np.nan
    assert set(at_last_step(runs, guesses)[0]) == {"a"}
    # sizes are not mixed up
    one_size(observed(3))
    refused("models of several sizes", one_size, replace(observed(3), parameters=np.array([1.0, 1, 2])))
    for score in (lambda runs: compare(["bimix"], runs, None), lambda runs: curve_of(runs, [3], None)):
        refused("models of several sizes", score, replace(observed(3), parameters=np.array([1.0, 1, 2])))


def curve_of(runs: Observations, counts: list[int], held_out: Observations | None, draws: int = 2) -> pl.DataFrame:
    return learning_curve(["bimix", "exponential"], runs, held_out, counts, draws, 5)


def test_a_learning_curve_predicts_what_was_not_drawn(told: list) -> None:
    table = curve_of(observed(9, noise=0.1), [3, 6], None)
    assert table.select("law", "runs", "draw").rows() == [
        (law, runs, draw) for runs in (3, 6) for draw in (0, 1) for law in ("bimix", "exponential")
    ]
    assert table["mre"].to_list() == pytest.approx([0.1] * 8) == table["mre_worst"].to_list()
    assert table["spearman"].to_list() == pytest.approx([1] * 8)
    assert [len(mixtures) for mixtures in told] == [3] * 4 + [6] * 4
    assert told[0] == told[1] != told[2] == told[3], "every law gets the same draws, each draw other runs"
    assert told[4][:3] == told[0], "more runs are the same and others"
    refused("7 mixtures are to be fitted, but there are 9", curve_of, observed(9), [7], None)


def test_a_learning_curve_on_mixtures_of_their_own_may_fit_all(told: list, monkeypatch: pytest.MonkeyPatch) -> None:
    new = replace(observed(5, noise=0.1), mixtures=tuple("vwxyz"))
    monkeypatch.setattr(
        learning, "predict_runs", lambda fitted, runs, steps: runs.losses[:, -1:] * np.array([1.1, 0.7])
    )
    table = curve_of(observed(4), [4], new, 1)
    assert [len(mixtures) for mixtures in told] == [4, 4]
    assert table["mre"].to_list() == pytest.approx([0.2] * 2)
    assert table["mre_worst"].to_list() == pytest.approx([0.3] * 2)
    refused("5 mixtures are to be fitted", curve_of, observed(4), [5], new, 1)


def test_a_refusal_is_a_row_and_ranks_that_are_not_defined_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(law: str, runs: Observations) -> dict:
        if law == "bimix":
            raise InputError("no.")
        return {}

    monkeypatch.setattr(learning, "fit", fit)
    monkeypatch.setattr(learning, "predict_runs", lambda fitted, runs, steps: np.ones((len(runs.mixtures), 1, 2)))
    table = curve_of(observed(6), [3], None, 1)
    assert table.rows()[0] == ("bimix", 3, 0, None, None, None, "no.")
    assert table["spearman"].to_list() == [None, None] and table["note"].to_list() == ["no.", None]
    assert table["mre"][1] > 0


def test_laws_side_by_side_have_a_row_a_domain_and_their_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bimix.laws.exponential.STARTS", 1)
    runs, new = observed(5, noise=0.01), replace(observed(6, noise=0.01), mixtures=tuple("uvwxyz"))
    table = compare(["bimix", "exponential"], runs, new)
    fitted = laws.fit("bimix", runs)
    mre = scores.generalization(fitted, new, new.proportions)
    by_domain = {domain: mre.filter(domain=domain)["mre"].mean() for domain in "ab"}
    own = table.filter(law="bimix", score="generalization_mre")
    assert own["domain"].to_list() == ["a", "b", None]
    assert own["value"].to_list() == pytest.approx([*by_domain.values(), np.mean(list(by_domain.values()))])
    r2 = {domain: mre.filter(domain=domain)["r2_log"].mean() for domain in "ab"}
    own = table.filter(law="bimix", score="generalization_r2")
    assert own["value"].to_list() == pytest.approx([*r2.values(), np.mean(list(r2.values()))])
    left, _ = at_last_step(runs, left_out_losses("bimix", runs))
    own = table.filter(law="bimix", score="left_out_mre")
    assert own["value"].to_list()[:2] == pytest.approx(list(left.values()))
    assert set(table["runs"]) == {5} and set(table.filter(law="bimix")["coefficients"]) == {8}
    assert table.filter(law="bimix")["note"].null_count() == table.filter(law="bimix").height
    # four numbers from five runs: enough; it says nothing about other steps
    assert table.filter(law="exponential", score="extrapolation_mre").rows() == [
        ("exponential", "extrapolation_mre", None, None, 5, 40, "not defined")
    ]
    few = compare(["exponential"], runs.take(range(3)), None)
    assert few.select("law", "score", "value", "note").rows() == [("exponential", "refused", None, "needs 4 runs")]
    enough = compare(["exponential"], runs.take(range(4)), None)
    assert set(enough.filter(pl.col("domain").is_null())["note"]) == {None, "not defined"}


def test_the_table_of_laws_is_in_percent_with_their_sizes_in_letters_and_numbers() -> None:
    lines = [
        ("l", "extrapolation_mre", "a", 9.0, 7, 3, None),
        ("l", "extrapolation_mre", None, 0.01, 7, 3, "needs 9 runs"),
        ("l", "generalization_mre", None, 0.02, 7, 3, None),
        ("l", "generalization_r2", None, 0.99, 7, 3, None),
        ("l", "left_out_mre", None, 0.03, 7, 3, None),
        ("l", "left_out_spearman", None, 0.5, 7, 3, None),
        ("k", "extrapolation_mre", None, None, 7, 4, "not defined"),
        ("k", "left_out_mre", None, 0.0, 7, 4, None),
    ]
    table = laws_table(pl.DataFrame(lines, side_by_side.COMPARISON, orient="row"))
    assert table.rows() == [("l", 3, 7, 1.0, 2.0, 3.0, 0.5, "needs 9 runs"), ("k", 4, 7, None, None, 0.0, None, None)]
    # three training domains, six of losses, four steps
    for law, one, steps in (("bimix", 2, 24), ("transfer", 5, 45), ("exponential", 5, 120), ("regmix", None, None)):
        row = complexity([law], 3, 6, 4).row(0, named=True)
        assert row["law"] == law and row["one_domain_one_step_here"] == one
        assert row["all_domains_one_step_here"] == (one and 6 * one)
        assert row["all_domains_all_steps_here"] == steps
        assert row["least_runs"] == {"bimix": 2, "transfer": 2, "exponential": 5, "regmix": 10}[law]
        assert complexity([law], 3, 6, 1).row(0, named=True)["all_domains_all_steps_here"] == (one and 6 * one)
