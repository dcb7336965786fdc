"""Draw the laws side by side: their errors and rank correlation on the same rows, a dot for each domain, and their sizes.

comparison.csv (law, score, domain, value, runs, coefficients, note) -> svg
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from bimix.errors import run
from bimix.outputs import replacing
from bimix.results import figures
from bimix.scores.laws import COMPARISON
from bimix.tables import read_table

PANELS = {
    "extrapolation_mre": ("last step of a run", "error (%)"),
    "generalization_mre": ("mixtures held out", "error (%)"),
    "left_out_mre": ("mixtures left out of the fit", "error (%)"),
    "left_out_spearman": ("order of those left out", "Spearman's correlation"),
}
LEAST = 1e-3  # percent: a smaller error is drawn here


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparison", type=Path, required=True, help="written by compare_laws.py")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)

    figure = draw(read_table(options.comparison).cast(COMPARISON))
    with replacing(options.out) as temporary:
        figures.save(figure, temporary)


def draw(table: pl.DataFrame) -> Figure:
    """A panel for each score that some law has, a row for each law, and how many numbers each law has."""
    laws = table["law"].unique(maintain_order=True).to_list()
    colours = figures.styles(laws)
    shown = [score for score in PANELS if table.filter(pl.col("score") == score)["value"].count()]
    figure = Figure(figsize=(1.5 + 1.9 * len(shown) + 1.3, 0.5 * len(laws) + 1.3), layout="constrained")
    axes = figure.subplots(1, len(shown) + 1, squeeze=False, sharey=True)[0]
    for axis, score in zip(axes, shown, strict=False):
        draw_score(axis, table.filter(pl.col("score") == score), score, colours)
    draw_sizes(axes[-1], table, colours)
    names = [describe(table.filter(pl.col("law") == law), law) for law in laws]
    axes[0].set_yticks(range(len(laws)), names)
    axes[0].set_ylim(len(laws) - 0.5, -0.6)
    marks = [figures.swatch("mean over domains", "#555555", "o"), figures.swatch("a domain", "#999999", ".")]
    if any("(needs" in name for name in names):
        marks.append(figures.swatch("fewer runs than determine its numbers", "#555555", "o", hollow=True))
    figures.key(figure, [marks], f"The laws on the same rows, fitted to {table['runs'][0]} mixtures")
    return figure


def draw_score(axis: Axes, table: pl.DataFrame, score: str, colours: dict[str, tuple[str, str]]) -> None:
    """One score of all laws, from the top down: the mean over domains, and a dot for each of these."""
    title, label = PANELS[score]
    percent = score.endswith("mre")
    drawn = []
    for row, (law, (colour, marker)) in enumerate(colours.items()):
        values = table.filter(pl.col("law") == law)
        mean = values.filter(pl.col("domain").is_null())
        value = mean["value"][0] if mean.height else None
        if value is None:
            where = {"transform": axis.get_yaxis_transform(), "va": "center", "ha": "center"}
            axis.text(0.5, row, "not defined", fontsize=6.5, color="#888888", **where)
            continue
        dots = scaled(
            values.filter(pl.col("domain").is_not_null())["value"].drop_nulls().drop_nans().to_numpy(), percent
        )
        place = scaled(value, percent)
        hollow = "white" if mean["note"][0] else colour
        axis.plot(dots, np.full(len(dots), row), ".", color=colour, alpha=0.35, markersize=5)
        axis.plot(place, row, marker, color=colour, markerfacecolor=hollow, markersize=7)
        text = f"{value:.3f}"
        if percent:
            text = figures.plain(float(f"{100 * value:.3g}")) if 100 * value > LEAST else f"below {LEAST}"
        axis.annotate(text, (place, row), (0, 6), textcoords="offset points", ha="center", fontsize=6.5)
        drawn += [*dots, place]
    axis.set_title(title)
    axis.set_xlabel(label)
    if percent:
        figures.log_axis(axis, "x", np.array([min(drawn) / 1.4, *drawn, max(drawn) * 1.4]), most=4)
    else:
        axis.set_xlim(min(0.0, *drawn) - 0.2, 1.2)


def scaled(values: np.ndarray | float, percent: bool) -> np.ndarray | float:
    """Errors in percent, LEAST at least; correlations as they are."""
    return np.maximum(100 * values, LEAST) if percent else values


def draw_sizes(axis: Axes, table: pl.DataFrame, colours: dict[str, tuple[str, str]]) -> None:
    """How many numbers of each law are fitted, as bars."""
    sizes = {law: table.filter(pl.col("law") == law)["coefficients"].drop_nulls().to_list()[:1] for law in colours}
    for row, law in enumerate(colours):
        for size in sizes[law]:
            axis.barh(row, size, color=colours[law][0], height=0.5)
            axis.text(size, row, f" {size:,}", va="center", fontsize=6.5)
    axis.set_title("numbers fitted (log)")
    axis.grid(visible=False)
    axis.tick_params(labelbottom=False, length=0)
    axis.spines["bottom"].set_visible(False)
    largest = max([size for own in sizes.values() for size in own], default=1)
    axis.set_xscale("log")
    axis.set_xlim(1, max(largest, 10) ** 1.5)
    axis.xaxis.set_minor_locator(NullLocator())


def describe(table: pl.DataFrame, law: str) -> str:
    """A law's name, and below it why it has no score or a doubtful one."""
    notes = table.filter(pl.col("domain").is_null())["note"].drop_nulls()
    few = [note for note in notes if note.startswith("needs")]
    refused = table.filter(pl.col("score") == "refused").height
    return law + (f"\n({few[0]})" if few else "\n(refused these data)" if refused else "")


if __name__ == "__main__":
    sys.exit(run(main))
