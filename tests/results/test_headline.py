"""The first lines of the summary: a win, a tie and a loss are told apart by the spread, and each
says what to do next.
"""

import numpy as np
import polars as pl
import pytest
from scipy.stats import t

from bimix.optimum.intervals import INTERVALS
from bimix.results import headline, verdict
from bimix.results.comparison import compare, scatter

STEPS = np.array([50, 100, 150, 200, 250, 300, 350, 400])
PLACES = {name: f"mixtures/{name}.json" for name in ("baseline", "uniform", "ce", "bimix", "transfer")}


def compared(finals: dict[str, list[float]], bend: float = 0.0) -> pl.DataFrame:
    """A comparison of runs that end at these losses, one for each seed; `bend` shakes every other
    evaluation.
    """
    rows = [
        (name, seed, int(step), domain, loss * (400 / step) ** 0.2 * (1 + bend * (-1) ** k * (step < 400)))
        for name, losses in finals.items()
        for seed, loss in enumerate(losses)
        for domain in ("a", "b")
        for k, step in enumerate(STEPS)
    ]
    losses = pl.DataFrame(rows, schema=["mixture", "seed", "step", "domain", "loss"], orient="row")
    return compare(losses, "baseline")


def first_lines(runs: pl.DataFrame, same=(), prediction=None, laws=("bimix",)) -> str:
    spread = verdict.spread(runs)
    judged = verdict.judge(runs, list(laws), spread)
    following = headline.next_steps("mine", judged, "larger", True, runs, spread)
    lines = [headline.title("mine", judged)]
    lines += headline.headline(judged, runs, spread, "baseline", "larger", prediction, PLACES, dict(same), following)
    assert max(map(len, lines)) <= 80
    return " ".join(" ".join(lines).split())


def test_a_clear_win_of_one_seed_says_where_its_spread_comes_from():
    said = first_lines(compared({"baseline": [4.0], "uniform": [3.9], "ce": [3.8], "bimix": [3.6]}, bend=0.001))
    assert said.startswith("mine: bimix wins Mixture bimix: mixtures/bimix.json Measured larger, 400 steps, one run:")
    assert "10.00 % below baseline (token shares), 7.69 % below uniform, 5.26 % below ce, the best fixed" in said
    assert "(one seed: from the scatter of the evaluations, rather too small)." in said
    assert "Steps The last loss of baseline at step" in said and "% fewer." in said
    assert "To add" not in said
    assert "Report snakemake --report results/mine/report.html" in said
    assert "Export snakemake --cores all results/mine/runs/larger/bimix/export" in said


def test_a_gain_below_twice_the_spread_is_a_tie():
    ends = {"baseline": [4.0, 4.04], "ce": [3.9, 3.94], "bimix": [3.88, 3.92]}
    said = first_lines(compared(ends))
    assert said.startswith("mine: a tie of bimix and ce Mixture bimix:")
    assert "mean of 2 seeds" in said and "(from 6 runs of 3 mixtures)" in said
    assert "bimix and ce are 0.51 % apart, less than twice that: a tie." in said
    # a run spreads by 0.72 %, and a difference of 0.51 % must be twice 0.72 % sqrt(2 / 16)
    assert "too large to tell the two apart; 16 seeds of each would, if they differ by as much." in said
    assert "To add add `uniform` to `compare`" in said
    near = first_lines(compared({"baseline": [4.0, 4.04], "ce": [3.9, 3.94], "bimix": [3.899, 3.94]}))
    assert "to tell the two apart." in near  # thousands of seeds are no advice
    assert "To tell `seeds: {larger: [2, 3]}` or more steps" in said
    # the same means, told by less scatter
    assert first_lines(
        compared({name: [np.mean(of) - 1e-4, np.mean(of) + 1e-4] for name, of in ends.items()})
    ).startswith("mine: bimix wins")


def test_a_loss_names_the_better_mixture_and_its_file():
    said = first_lines(compared({"baseline": [4.0], "uniform": [3.5], "bimix": [3.9]}, bend=0.001))
    assert said.startswith("mine: uniform is better than bimix Mixture uniform: mixtures/uniform.json")
    assert "12.50 % below baseline (token shares), 10.26 % below bimix." in said
    assert "runs/larger/uniform/export" in said


def test_the_reference_may_be_the_best():
    said = first_lines(compared({"baseline": [3.5], "uniform": [3.7], "bimix": [3.9]}, bend=0.001))
    assert said.startswith("mine: baseline is better than bimix Mixture baseline:")
    assert "5.41 % below uniform, 10.26 % below bimix." in said and "Steps" not in said


def test_a_mixture_that_was_found_is_not_called_fixed():
    ends = {"baseline": [4.0], "uniform": [3.9], "doremi": [3.7], "bimix": [3.6]}
    said = first_lines(compared(ends, bend=0.001))
    assert "7.69 % below uniform, 2.70 % below doremi, the best of the others." in said
    optimised = compared({"baseline": [4.0], "transfer": [3.7], "bimix": [3.6]}, bend=0.001).filter(
        pl.col("mixture") != "baseline"
    )
    judged = verdict.judge(optimised, ["bimix", "transfer"], verdict.spread(optimised))
    assert (judged.outcome, judged.own, judged.rival) == ("wins", "bimix", "transfer")


def test_an_optimum_that_was_not_trained_on_is_no_winner():
    said = first_lines(compared({"baseline": [4.0], "uniform": [3.9]}))
    assert said.startswith("mine: the optimum of the law bimix was not trained on Mixture bimix: mixtures/bimix.json")
    assert "Measured" not in said and "To test add bimix to `compare`" in said


def test_curves_too_short_to_scatter_leave_the_spread_unknown():
    few = compared({"baseline": [4.0], "bimix": [3.9]}).with_columns(scatter_percent=pl.lit(None, pl.Float64))
    assert verdict.spread(few).percent is None
    said = first_lines(few)
    assert said.startswith("mine: bimix wins") and "How far two runs of one mixture differ is not known here." in said


def test_the_spread_over_seeds_is_pooled_by_degrees_of_freedom():
    runs = compared({"baseline": [4.0, 4.1, 4.3], "ce": [3.0, 3.1], "bimix": [2.0]}, bend=0.05)
    ends = [[4.0, 4.1, 4.3], [3.0, 3.1]]
    squares = [(len(of) - 1) * (100 * np.std(of, ddof=1) / np.mean(of)) ** 2 for of in ends]
    found = verdict.spread(runs)
    assert found.percent == pytest.approx(np.sqrt(sum(squares) / 3), rel=1e-3)
    rows = {row["mixture"]: row for row in runs.iter_rows(named=True)}
    assert found.of_difference(rows["baseline"], rows["bimix"]) == pytest.approx(found.percent * np.sqrt(1 / 3 + 1))


def test_one_seed_takes_the_laws_errors_on_runs_left_out_where_they_are_larger():
    row = {"quantity": "optimum_average_loss", "step": 400, "level": 0.9, "kind": "left_out", "estimate": 4.0}
    ends = {"bimix": (0.05, 4), "transfer": (0.02, 8), "regmix": (None, 4)}  # half a width in log loss, runs fitted
    rows = [
        row | {"law": law, "high": None if width is None else 4 * np.exp(width * t.ppf(0.95, n - 1))}
        for law, (width, n) in ends.items()
    ]
    spans = pl.DataFrame([*rows, rows[1] | {"kind": "residuals", "high": 4.0001}], schema=INTERVALS)
    found = verdict.left_out_percent(spans, {law: n for law, (_, n) in ends.items()})
    assert found == pytest.approx(2.0)
    assert verdict.left_out_percent(spans.filter(pl.col("kind") == "residuals"), {}) is None
    runs = compared({"baseline": [4.0], "bimix": [3.9]}, bend=0.001)
    assert verdict.judge(runs, ["bimix"], verdict.spread(runs)).outcome == "wins"
    told = verdict.spread(runs, found)
    assert (told.percent, told.source) == (found, "one seed: from the law's errors on runs left out")
    assert verdict.judge(runs, ["bimix"], told).outcome == "ties"
    assert "scatter" in verdict.spread(runs, 1e-6).source
    seeds = compared({"baseline": [4.0, 4.001], "bimix": [3.9, 3.901]})
    assert verdict.spread(seeds, found).percent < 0.1


def test_the_scatter_of_a_curve_is_that_about_its_line():
    noise = 0.01 * np.random.default_rng(0).standard_normal(2000)
    steps = np.arange(1000, 3000)
    assert scatter(steps, 5 * steps**-0.3 * np.exp(noise)) == pytest.approx(1, rel=0.1)
    assert scatter(STEPS, 5.0 * STEPS**-0.3) == pytest.approx(0, abs=1e-9)
    assert scatter(STEPS[:6], 5.0 * STEPS[:6] ** -0.3) is None


def test_laws_that_find_one_mixture_are_said_once():
    found = {"bimix": {"a": 0.3, "b": 0.7}, "transfer": {"a": 0.30004, "b": 0.69996}, "regmix": {"a": 0.31, "b": 0.69}}
    assert verdict.found_twice(found) == {"transfer": "bimix"}
    runs = compared({"baseline": [4.0], "bimix": [3.6], "transfer": [3.6]}, bend=0.001)
    said = first_lines(runs, verdict.found_twice(found), laws=("bimix", "transfer"))
    assert "Same transfer found the mixture of bimix to four digits" in said


@pytest.mark.parametrize(("loss", "word"), [(3.6, "inside"), (3.9, "OUTSIDE")])
def test_what_was_predicted_stands_beside_what_was_measured(loss, word):
    row = {"law": "bimix", "mixture": "baseline", "step": 400, "level": 0.9, "kind": "left_out"}
    spans = pl.DataFrame(
        [
            row | {"quantity": "gain", "estimate": 0.4, "low": -0.1, "high": 0.9},
            row | {"quantity": "optimum_average_loss", "mixture": "bimix", "estimate": 3.6, "low": 3.5, "high": 3.7},
        ],
        schema=INTERVALS,
    )
    runs = compared({"baseline": [4.0], "bimix": [loss]}, bend=0.001)
    said = first_lines(runs, prediction=headline.predicted(spans, "baseline", "tiny", same_runs=True))
    assert f"bimix at 3.6000 (90 % interval 3.5000 to 3.7000), measured {loss:.4f}, {word};" in said
    assert f"gain over baseline +10.00 % (90 % interval -2.50 to +22.50), measured {100 - 25 * loss:+.2f} %." in said
    other = first_lines(runs, prediction=headline.predicted(spans, "baseline", "tiny", same_runs=False))
    assert f"measured {loss:.4f}" not in other and "% on the larger runs." in other
