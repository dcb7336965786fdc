"""Parts that figures share."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure

import plot_fit
import plot_learning
import plot_mixtures
import plot_perplexity
from bimix.results import figures

STEPS = [100, 200, 400, 800]


def texts(path) -> set[str]:
    return {text.strip() for element in ElementTree.parse(path).iter() for text in element.itertext() if text.strip()}


def test_a_line_moves_one_domain_and_keeps_the_ratio_of_the_others():
    path = plot_fit.path_through(1, np.array([0.1, 0.5]), np.array([0.2, 0.4, 0.4]))
    assert path.sum(axis=1) == pytest.approx(1)
    assert path[:, 1] == pytest.approx([0.1, 0.5])
    assert path[:, 2] / path[:, 0] == pytest.approx(2)


@pytest.mark.parametrize(("low", "high", "most"), [(0.01792, 0.2958, 3), (3.6, 4.8, 5), (30, 300, 4), (1e3, 9e8, 5)])
def test_an_axis_has_few_round_numbers(low: float, high: float, most: int) -> None:
    axis = Figure().subplots()
    figures.log_axis(axis, "x", np.array([low, high]), most)
    inside = [tick for tick in axis.get_xticks() if low / 1.2 <= tick <= high * 1.2]
    assert 2 <= len(inside) <= most + 2 and all(float(f"{tick:.3g}") == pytest.approx(tick) for tick in inside)


def test_a_name_keeps_its_colour_whatever_is_drawn_with_it():
    alone = figures.looks(["bimix", "mine"])
    others = figures.looks(["baseline", "mine", "ce", "published_ce", "bimix"])
    assert alone["bimix"] == others["bimix"] and alone["mine"] == others["mine"]
    many = figures.looks([f"random_{k}" for k in range(len(figures.MARKERS))])
    assert len({look.marker for look in many.values()}) == len(many), "no two markers alike"


def test_a_legend_shows_each_mixture_as_it_is_drawn():
    """Names whose hashes point to one style have others in a figure that has both."""
    names = [f"m{k:02d}" for k in range(1, 13)]
    assert len({figures.looks([name])[name] for name in names}) <= len({*figures.looks(names).values()})
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
    shares["found"] = shares["uniform"]
    for name in ("one.svg", "two.svg"):
        figures.save(plot_mixtures.draw(shares), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.svg", "two.svg"]
    shown = texts(tmp_path / "one.svg")
    assert {"US$ to A$_", "{web}", "uniform = found"} <= shown, "one mixture is one column"


def test_groups_of_whole_numbers_are_read_with_others() -> None:
    tables = [pl.DataFrame({"mixture": name, "proportion": [one]}) for name, one in (("whole", 1), ("half", 0.5))]
    assert figures.together([*tables, tables[0]])["proportion"].to_list() == [1, 0.5]


def test_a_title_without_errors_says_so():
    table = pl.DataFrame({"runs": ["a", "b"], "large_runs": [1, 2], "draw": [1, 1], "error": [2.0, 3.0]})
    assert "fitted: not known of both ends (1 draws)." in plot_learning.gained(table)
    assert "2 % with 1 large runs and 3 % with 2" in plot_learning.gained(table.with_columns(runs=pl.lit("a")))
