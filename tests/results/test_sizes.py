"""What the summary says of a law over sizes."""

import json

import polars as pl

import plot_learning
import summarize_results
from bimix.optimum.intervals import INTERVALS
from bimix.results.sections import size_sentence as asked


def law(parameters: float, tokens: float, runs: tuple[int, int] = (4, 4)) -> dict:
    sizes = [{"parameters": 1e6, "tokens": 2e7, "runs": runs[0]}, {"parameters": 6e7, "tokens": 1.2e9, "runs": runs[1]}]
    values = {"size": {"sizes": sizes}, "run": {"parameters": parameters, "tokens": tokens}}
    return {"rows": "last", "coefficients": {"web": values, "code": values}}


def test_of_one_size_nothing_is_said_and_a_size_far_beyond_is_a_guess():
    one = law(6e7, 1e9)
    for values in one["coefficients"].values():
        values["size"]["sizes"] = [{"parameters": 1.0, "tokens": tokens, "runs": 3} for tokens in (1e8, 1e9)]
    assert asked(one, "tiny", "large") == asked({"coefficients": {}}, "tiny", "large") == ""
    said = asked(law(1.2e9, 2.5e10), "tiny+small", "large")
    assert "20 times the largest size fitted" in said
    assert "8 runs are of models at least 20 times smaller than 1.2e+09 parameters" in said


def test_the_page_is_made_without_the_tables_of_one_size(tmp_path, monkeypatch):
    """The prediction for a model stands next to its measured loss."""
    monkeypatch.chdir(tmp_path)
    fitted = law(1.2e8, 6e9) | {"law": "transfer", "mixtures": ["se", "se", "ce", "ce"], "steps": [40], "warnings": []}
    fitted |= {"domains": ["web", "code"], "loss_domains": ["web", "code"], "proportions_seen": {}}
    for name, content in (("law", fitted), ("transfer", {"web": 0.4, "code": 0.6}), ("se", {"web": 0.5, "code": 0.5})):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    rows = [
        (name, step, domain, end + (step == 60))
        for name, end in (("se", 3.0), ("transfer", 2.9))
        for step in (60, 90, 120)
        for domain in ("web", "code")
    ]
    losses = pl.DataFrame(rows, schema=["mixture", "step", "domain", "loss"], orient="row")
    losses.write_csv("compare.csv")
    pl.DataFrame({"mixture": ["se"] * 2, "domain": ["web", "code"], "proportion": [0.5, 0.5]}).write_csv("mixtures.csv")
    span = {"law": "transfer", "step": 120, "level": 0.9, "kind": "left_out"}
    spans = [
        span | {"quantity": "gain", "mixture": "se", "estimate": 0.1, "low": 0.05, "high": 0.15},
        span | {"quantity": "optimum_average_loss", "mixture": "transfer", "estimate": 2.95, "low": 2.9, "high": 3.0},
    ]
    pl.DataFrame(spans, schema=INTERVALS).write_csv("intervals.csv")
    command = "--dataset mine --fitted-model tiny+small --asked-model large --compared-model large --step 120"
    command += " --coefficients law.json --optimised transfer.json --reference se --reference-mixture se.json"
    command += " --laws --compared compare.csv --mixtures mixtures.csv --intervals intervals.csv"
    command += " --tables sizes.csv --figures a.svg --out summary.txt --details details.txt --page summary.html"
    summarize_results.main(command.split())
    text, details = (" ".join((tmp_path / name).read_text().split()) for name in ("summary.txt", "details.txt"))
    assert (
        "Predicted By the law transfer, on large at step 120, transfer at 2.9500 (90 % interval 2.9000 to 3.0000), measured 2.9000"
        in text
    )
    assert "Sizes fitted on tiny+small of 1M (4 runs), 60M (4 runs) parameters, read at large of 120M" in text
    assert "for step 120 of large" in text and "for step 120 of large" in details
    assert "The laws on the same rows" not in text and "the law extrapolates" not in text + details
    assert "Fitted on se, ce (tiny+small)." in details and "figures sizes.csv a.svg" in details


def test_a_title_without_errors_says_so():
    table = pl.DataFrame({"runs": ["a", "b"], "large_runs": [1, 2], "draw": [1, 1], "error": [2.0, 3.0]})
    assert "fitted: not known of both ends (1 draws)." in plot_learning.gained(table)
    assert "2 % with 1 large runs and 3 % with 2" in plot_learning.gained(table.with_columns(runs=pl.lit("a")))
