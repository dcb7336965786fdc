"""The tidy table of lm_eval's results, its averages over tasks and seeds, and what is drawn of it."""

import json
import re
from pathlib import Path

import polars as pl
import pytest

import plot_answers
import tabulate_answers
from bimix.downstream.accuracy import compared, measures, tidy
from bimix.results import layout
from bimix.results.sections import answers as summary_lines


def results(right: float, bits: float) -> dict:
    """What lm_eval writes of a task with answers, one with choices, one with bits, and a filter."""
    values = {
        "words": {"alias": "words", "exact_match,none": right / 2, "exact_match_stderr,none": 0.01},
        "choices": {
            "acc,none": right,
            "acc_stderr,none": 0.02,
            "acc_norm,none": right + 0.1,
            "acc_norm_stderr,none": 0.03,
        },
        "words_bits": {"bits_per_byte,none": bits, "bits_per_byte_stderr,none": 0.3},
        "text": {"bits_per_byte,none": bits / 2, "bits_per_byte_stderr,none": "N/A"},
        "maths": {"exact_match,strict": 0.0, "exact_match_stderr,strict": 0.0},
    }
    counts = {task: {"original": 100, "effective": 50} for task in values}
    return {"results": values, "n-shot": dict.fromkeys(values, 1), "n-samples": counts}


@pytest.fixture
def table() -> pl.DataFrame:
    runs = {"baseline": 0.2, "bimix": 0.4}
    tables = [tidy({10: results(right, 3 - right), 20: results(right + 0.1, 2 - right)}) for right in runs.values()]
    return compared(tables, list(runs))


def test_rows_are_lm_evals_values_with_their_errors_and_items() -> None:
    table = tidy({20: results(0.2, 3.0)})
    assert table.columns == ["task", "metric", "step", "value", "stderr", "n"]
    assert table.rows() == [
        ("words", "exact_match", 20, 0.1, 0.01, 50),
        ("choices", "acc", 20, 0.2, 0.02, 50),
        ("choices", "acc_norm", 20, pytest.approx(0.3), 0.03, 50),
        ("words_bits", "bits_per_byte", 20, 3.0, 0.3, 50),
        ("text", "bits_per_byte", 20, 1.5, None, 50),
        ("maths", "exact_match,strict", 20, 0.0, 0.0, 50),
    ]


def test_the_average_counts_each_task_once_by_its_first_measure(table: pl.DataFrame) -> None:
    last = table.filter(mixture="bimix", step=20, task="average")
    assert dict(last.select("metric", "value").iter_rows()) == {
        "accuracy": pytest.approx((0.25 + 0.6) / 2),
        "bits_per_byte": pytest.approx((1.6 + 0.8) / 2),
    }
    errors = dict(last.select("metric", "stderr").iter_rows())
    # the error of an average is not known where that of a task is not
    assert errors == {"accuracy": pytest.approx((0.01**2 + 0.03**2) ** 0.5 / 2), "bits_per_byte": None}
    assert set(measures(table).filter(pl.col("measure") == "accuracy")["metric"]) == {
        "exact_match",
        "acc_norm",
        "accuracy",
    }


def test_runs_of_one_mixture_are_averaged() -> None:
    table = compared([tidy({20: results(right, 2.0)}) for right in (0.2, 0.4)], ["a", "a"])
    assert table.filter(task="words")["value"].to_list() == [pytest.approx(0.15)]


@pytest.mark.parametrize("none_right", [False, True])
def test_table_figures_and_summary(tmp_path: Path, none_right: bool) -> None:
    paths = {}
    for mixture, right in (("baseline", 0.2), ("bimix", 0.4)):
        found = {step: results(right + step / 100, 3 - right - step / 50) for step in (10, 20)}
        for step, content in found.items():
            if none_right:
                content["results"] = {
                    "words_bits": content["results"]["words_bits"],
                    "words": {"exact_match,none": 0.0},
                }
            (tmp_path / f"{mixture}-{step}.json").write_text(json.dumps(content))
        paths[mixture] = tmp_path / f"{mixture}.csv"
        files = [str(tmp_path / f"{mixture}-{step}.json") for step in found]
        tabulate_answers.main(["--results", *files, "--steps", "10", "20", "--out", str(paths[mixture])])
    places = {name: tmp_path / f"{name}.svg" for name in ("average", "tasks")}
    named = [part for name, path in places.items() for part in (f"--{name}", str(path))]
    answers = ["--answers", *map(str, paths.values()), "--names", *paths]
    plot_answers.main([*answers, "--table", str(tmp_path / "table.csv"), *named])
    texts = {name: re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text()) for name, path in places.items()}
    assert {"average over tasks", "after step 20", "bimix"} <= set(texts["average"])
    assert "words_bits (50 items)" in " ".join(texts["tasks"]) or "words_bits" in texts["tasks"]
    assert all("bits per byte" in shown for shown in texts.values())
    assert all(("answered right (%)" in shown) != none_right for shown in texts.values())
    lines = summary_lines(pl.read_csv(tmp_path / "table.csv"), "baseline")
    assert max(map(len, lines)) <= layout.WIDTH
    rows = [line.split() for line in lines if line.lstrip().startswith(("bimix", "baseline"))]
    assert [row[0] for row in rows] == ["bimix", "baseline"] * (1 if none_right else 2)
    assert all(row[-1][0] == "+" for row in rows[::2]) and all(row[-1] == "-" for row in rows[1::2])
