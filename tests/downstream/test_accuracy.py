"""Shares of right answers and their intervals: known answers, pairing, figures and lines."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from refusals import refused
from scipy.stats import binom

import compare_answers
import plot_answers
from bimix.downstream.accuracy import compare_accuracy, resampled_means
from bimix.errors import InputError
from bimix.results import layout
from bimix.results.sections import answers as summary_lines


def verdicts(mixture: str, step: int, task: str, right: np.ndarray, run: int = 0) -> pl.DataFrame:
    """Answers of one run to one task at a step."""
    items = len(right)
    columns = {"task": [task] * items, "step": [step] * items, "prompt_hash": [f"{task}{k}" for k in range(items)]}
    columns |= {"exact": right & (np.arange(items) % 2 == 0), "normalised": right}
    # a right answer is the likelier one, and answers differ in length
    columns["gold_bytes"] = 4 + np.arange(items) % 3
    columns["gold_bits"] = columns["gold_bytes"] * (3.0 - right + 0.01 * (np.arange(items) % 7))
    columns["bits_per_byte"] = columns["gold_bits"] / columns["gold_bytes"]
    return pl.DataFrame(columns).with_columns(number=pl.int_range(pl.len()), mixture=pl.lit(mixture), run=pl.lit(run))


@pytest.fixture
def answers() -> pl.DataFrame:
    draw = np.random.default_rng(0)
    parts = []
    for step, share in ((10, 0.2), (20, 0.5)):
        for task, items in (("long", 400), ("short", 60)):
            right = draw.random(items) < share
            parts.append(verdicts("baseline", step, task, right))
            parts.append(verdicts("bimix", step, task, right | (draw.random(items) < 0.2)))
    return pl.concat(parts)


def test_accuracies_are_the_plain_means_and_the_average_counts_tasks_alike(answers: pl.DataFrame) -> None:
    table = compare_accuracy(answers, "baseline", 200, 0.9, 0)
    for row in table.filter(pl.col("task") != "average").iter_rows(named=True):
        own = answers.filter(pl.col("mixture") == row["mixture"], step=row["step"], task=row["task"])
        assert row["value"] == pytest.approx(own[row["metric"]].mean())
        assert row["items"] == own.height and row["low"] <= row["value"] <= row["high"]
    last = table.filter(metric="normalised", mixture="bimix", step=20)
    shares = dict(last.select("task", "value").iter_rows())
    assert shares["average"] == pytest.approx((shares["long"] + shares["short"]) / 2)
    assert (
        table.filter(mixture="baseline").select("difference", "difference_low", "difference_high").to_numpy().any() == 0
    )
    assert compare_accuracy(answers, "baseline", 200, 0.9, 0).equals(table)


def test_intervals_are_those_of_the_binomial_and_differences_keep_the_pairing(answers: pl.DataFrame) -> None:
    table = compare_accuracy(answers, "baseline", 4000, 0.9, 0).filter(metric="normalised", task="long", step=20)
    own, other = table.row(0, named=True), table.row(1, named=True)
    expected = binom.ppf([0.05, 0.95], 400, own["value"]) / 400
    np.testing.assert_allclose([own["low"], own["high"]], expected, atol=0.006)
    # bimix is right wherever baseline is: paired, the difference is far narrower
    # than two intervals apart
    paired = other["difference_high"] - other["difference_low"]
    assert other["difference_low"] > 0 and paired < 0.8 * (own["high"] - own["low"])


def test_bits_per_byte_are_averaged_over_items_with_their_standard_error(answers: pl.DataFrame) -> None:
    table = compare_accuracy(answers, "baseline", 4000, 0.9, 0).filter(metric="bits_per_byte", step=20)
    ends = {(row["mixture"], row["task"]): row for row in table.iter_rows(named=True)}
    expected = {}
    for task in ("long", "short"):
        own = answers.filter(mixture="bimix", step=20, task=task)["bits_per_byte"]
        expected[task] = own.std() / np.sqrt(len(own))
        assert ends["bimix", task]["value"] == pytest.approx(own.mean())
        assert ends["bimix", task]["error"] == pytest.approx(expected[task])
    together = np.sqrt(expected["long"] ** 2 + expected["short"] ** 2) / 2
    average = ends["bimix", "average"]
    assert average["error"] == pytest.approx(together)
    assert (average["high"] - average["low"]) / 2 == pytest.approx(1.645 * together, rel=0.08)
    assert average["difference_high"] < 0  # bimix is right more often, so it needs fewer bits


def test_answers_without_the_bits_of_the_gold_are_refused(answers: pl.DataFrame, tmp_path: Path) -> None:
    answers.drop("gold_bits").write_parquet(tmp_path / "old.parquet")
    flags = ["--answers", str(tmp_path / "old.parquet"), "--names", "a", "--losses", "none.csv", "--reference", "a"]
    with pytest.raises(InputError, match=r"old\.parquet has no gold_bits: an earlier version .* score it again"):
        compare_answers.main([*flags, "--resamples", "5", "--level", "0.9", "--seed", "0", "--out", "out.csv"])


def test_all_cells_draw_the_same_items_and_runs_of_one_mixture_are_averaged_by_item() -> None:
    right = np.array([True, True, False, False])
    both = pl.concat([verdicts("a", 1, "t", right, 0), verdicts("a", 1, "t", ~right, 1)])
    row = compare_accuracy(both, "a", 50, 0.9, 0).filter(metric="normalised", task="t").row(0, named=True)
    assert (row["items"], row["value"], row["low"], row["high"]) == (4, 0.5, 0.5, 0.5)
    # all cells draw the same items
    right = np.random.default_rng(1).random((1, 300)) < 0.5
    drawn = resampled_means(np.concatenate([right, ~right]), 250, np.random.default_rng(0))
    assert drawn.shape == (250, 2)
    np.testing.assert_allclose(drawn.sum(axis=1), 1)


def test_runs_that_cannot_be_compared_are_refused(answers: pl.DataFrame) -> None:
    for spoil, sentence in (
        (lambda table: table.with_columns(prompt_hash=pl.col("mixture") + pl.col("prompt_hash")), "same questions"),
        (lambda table: table.filter((pl.col("mixture") == "baseline") | (pl.col("number") > 3)), "same questions"),
        (
            lambda table: table.filter((pl.col("mixture") != "baseline") | (pl.col("step") == 20)),
            "no answers at step 10",
        ),
        (lambda table: table.filter(pl.col("mixture") == "bimix"), "'baseline', which .* has no answers"),
    ):
        refused(sentence, compare_accuracy, spoil(answers), "baseline", 10, 0.9, 0)


@pytest.mark.parametrize("none_right", [False, True])
def test_table_figures_and_summary(answers: pl.DataFrame, tmp_path: Path, none_right: bool) -> None:
    if none_right:
        answers = answers.with_columns(exact=pl.lit(False), normalised=pl.lit(False))
    flags = ["--names", "baseline", "bimix", "--answers"]
    for name in ("baseline", "bimix"):
        answers.filter(mixture=name).write_parquet(tmp_path / f"{name}.parquet")
        flags.append(str(tmp_path / f"{name}.parquet"))
    rows = [(name, step, "web", 3.0 + step / 10) for name in ("baseline", "bimix") for step in (5, 10, 20)]
    pl.DataFrame(rows, ["mixture", "step", "domain", "loss"], orient="row").write_csv(tmp_path / "losses.csv")
    flags += ["--losses", str(tmp_path / "losses.csv"), "--reference", "baseline"]
    flags += ["--resamples", "50", "--level", "0.9"]
    compare_answers.main([*flags, "--seed", "0", "--out", str(tmp_path / "table.csv")])
    table = pl.read_csv(tmp_path / "table.csv")
    assert table.height == 2 * 2 * 3 * 3
    assert table.filter(step=20)["average_loss"].unique().to_list() == [5.0]
    places = {name: tmp_path / f"{name}.svg" for name in ("average", "tasks")}
    flags = [part for name, path in places.items() for part in (f"--{name}", str(path))]
    plot_answers.main(["--table", str(tmp_path / "table.csv"), "--level", "0.9", *flags])
    texts = {name: re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text()) for name, path in places.items()}
    if none_right:
        assert all("No model answered a single question" in " ".join(shown) for shown in texts.values())
    assert {"short (60 items)", "long (400 items)"} <= set(texts["tasks"])
    assert {"average over tasks", "after step 20", "bimix"} <= set(texts["average"])
    assert all("bits per byte" in shown for shown in texts.values())
    assert all(("answered right (%)" in shown) != none_right for shown in texts.values())
    lines = summary_lines(table, "baseline")
    assert max(map(len, lines)) <= layout.WIDTH
    if not none_right:  # bimix is right more often and needs fewer bits: it is first in both, and gains
        rows = [line.split() for line in lines if line.lstrip().startswith(("bimix", "baseline"))]
        assert [row[0] for row in rows] == ["bimix", "baseline"] * 2
        assert all(row[-1][0] == "+" for row in rows[::2]) and all(row[-1] == "-" for row in rows[1::2])
    assert any("too small" in line for line in lines) == none_right
