"""Parts that figures share; the page of sizes."""

import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import polars as pl
import pytest

import plot_fit
import plot_learning
import plot_mixtures
import plot_perplexity
import summarize_results
from bimix.optimum.intervals import INTERVALS
from bimix.results import figures
from bimix.results.sections import size_sentence as asked

STEPS = [100, 200, 400, 800]


def texts(path) -> set[str]:
    return {text.strip() for element in ElementTree.parse(path).iter() for text in element.itertext() if text.strip()}


def test_a_line_moves_one_domain_and_keeps_the_ratio_of_the_others():
    path = plot_fit.path_through(1, np.array([0.1, 0.5]), np.array([0.2, 0.4, 0.4]))
    assert path.sum(axis=1) == pytest.approx(1)
    assert path[:, 1] == pytest.approx([0.1, 0.5])
    assert path[:, 2] / path[:, 0] == pytest.approx(2)
    # an axis has round numbers where two fit
    assert figures.nice_ticks(0.01792, 0.2958, 3).tolist() == pytest.approx([0.03, 0.1])


def test_a_name_keeps_its_colour_whatever_is_drawn_with_it():
    alone = figures.looks(["bimix", "mine"])
    others = figures.looks(["baseline", "mine", "ce", "published_ce", "bimix"])
    assert alone["bimix"] == others["bimix"] and alone["mine"] == others["mine"]
    many = figures.looks([f"random_{k}" for k in range(20)])
    assert len({(look.colour, look.marker) for look in many.values()}) == 20
    # as many names as there are colours have each its own
    names = [f"m{k:02d}" for k in range(len(figures.OTHERS))]
    assert len({look.colour for look in figures.looks(names).values()}) == len(names)


def test_a_legend_shows_each_mixture_as_it_is_drawn():
    """Names whose hashes point to one style have others in a figure that has both."""
    names = [f"m{k:02d}" for k in range(1, 13)]
    assert len({figures.looks([name])[name].colour for name in names}) < len({*figures.looks(names).values()})
    rows = [(name, step, "web", 3 + k / 100 + 9 / step) for k, name in enumerate(names) for step in STEPS]
    losses = pl.DataFrame(rows, schema=["mixture", "step", "domain", "loss"], orient="row")
    figure = plot_perplexity.draw([losses], "none")
    legend = {line.get_label().partition(":")[0]: line for line in figure.legends[0].legend_handles}
    drawn = {line.get_ydata()[0]: line for line in figure.axes[0].lines}
    for k, name in enumerate(names):
        line = drawn[3 + k / 100 + 9 / STEPS[0]]
        own = legend[name]
        assert (line.get_color(), line.get_marker()) == (own.get_color(), own.get_marker())


def test_names_of_domains_are_drawn_as_they_are_and_bytes_are_the_same(tmp_path):
    """Two dollars are no formula, and braces no field: observed domains are called by others."""
    shares = {"baseline": {"US$ to A$_": 0.3, "{web}": 0.2, "c": 0.5}, "uniform": {"US$ to A$_": 0.2, "{web}": 0.8}}
    for name in ("one.svg", "two.svg"):
        figures.save(plot_mixtures.draw(shares), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.svg", "two.svg"]
    shown = texts(tmp_path / "one.svg")
    assert {"US$ to A$_", "{web}", "{web} moves most: from 20.0 % in baseline to 80.0 % in uniform."} <= shown


def test_mixtures_of_whole_numbers_are_drawn_with_others(tmp_path):
    for name, share in (("whole", 1), ("half", 0.5)):
        rows = f"mixture,domain,proportion\n{name},a,{share}\n{name},b,{1 - share}\n"
        (tmp_path / f"{name}.csv").write_text(rows, encoding="utf-8")
    tables = [str(tmp_path / name) for name in ("whole.csv", "half.csv")]
    plot_mixtures.main(["--mixtures", *tables, "--out", str(tmp_path / "mixtures.svg")])
    assert {"whole", "half"} <= texts(tmp_path / "mixtures.svg")


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
