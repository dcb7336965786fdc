"""Draw the laws side by side: their errors and rank correlation on the same rows, a dot for each domain, and their sizes.

comparison.csv (law, score, domain, value, runs, coefficients, note) -> svg
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl
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

    table = read_table(options.comparison).cast(COMPARISON)
    laws = table["law"].unique(maintain_order=True).to_list()
    colours = figures.styles(laws)
    shown = [score for score in PANELS if table.filter(pl.col("score") == score)["value"].count()]
    figure = Figure(figsize=(1.5 + 1.9 * len(shown) + 1.3, 0.5 * len(laws) + 1.3), layout="constrained")
    axes = figure.subplots(1, len(shown) + 1, squeeze=False, sharey=True)[0]
    for axis, score in zip(axes, shown, strict=False):
        title, label = PANELS[score]
        own = table.filter(pl.col("score") == score)
        percent = score.endswith("mre")
        drawn = []
        for row, law in enumerate(laws):
            values = own.filter(pl.col("law") == law)
            mean = values.filter(pl.col("domain").is_null())
            value = mean["value"][0] if mean.height else None
            if value is None:
                where = {"transform": axis.get_yaxis_transform(), "va": "center", "ha": "center"}
                axis.text(0.5, row, "not defined", fontsize=6.5, color="#888888", **where)
                continue
            dots = values.filter(pl.col("domain").is_not_null())["value"].drop_nulls().drop_nans().to_numpy()
            scale = (lambda numbers: np.maximum(100 * numbers, LEAST)) if percent else (lambda numbers: numbers)
            colour, marker = colours[law]
            hollow = "white" if mean["note"][0] else colour
            axis.plot(scale(dots), np.full(len(dots), row), ".", color=colour, alpha=0.35, markersize=5)
            axis.plot(scale(value), row, marker, color=colour, markerfacecolor=hollow, markersize=7)
            text = f"{value:.3f}"
            if percent:
                text = figures.plain(float(f"{100 * value:.3g}")) if 100 * value > LEAST else f"below {LEAST}"
            axis.annotate(text, (scale(value), row), (0, 6), textcoords="offset points", ha="center", fontsize=6.5)
            drawn += [*scale(dots), scale(value)]
        axis.set_title(title)
        axis.set_xlabel(label)
        if percent:
            figures.log_axis(axis, "x", np.array([min(drawn) / 1.4, *drawn, max(drawn) * 1.4]), most=4)
        else:
            axis.set_xlim(min(0.0, *drawn) - 0.2, 1.2)
    sizes = {law: table.filter(pl.col("law") == law)["coefficients"].drop_nulls().to_list()[:1] for law in laws}
    for row, law in enumerate(laws):
        for size in sizes[law]:
            axes[-1].barh(row, size, color=colours[law][0], height=0.5)
            axes[-1].text(size, row, f" {size:,}", va="center", fontsize=6.5)
    axes[-1].set_title("numbers fitted (log)")
    axes[-1].grid(visible=False)
    axes[-1].tick_params(labelbottom=False, length=0)
    axes[-1].spines["bottom"].set_visible(False)
    largest = max([size for law in laws for size in sizes[law]], default=1)
    axes[-1].set_xscale("log")
    axes[-1].set_xlim(1, max(largest, 10) ** 1.5)
    axes[-1].xaxis.set_minor_locator(NullLocator())
    notes = {law: table.filter((pl.col("law") == law) & pl.col("domain").is_null())["note"] for law in laws}
    names = []
    for law in laws:
        few = [note for note in notes[law].drop_nulls() if note.startswith("needs")]
        refused = table.filter((pl.col("law") == law) & (pl.col("score") == "refused")).height
        names.append(law + (f"\n({few[0]})" if few else "\n(refused these data)" if refused else ""))
    axes[0].set_yticks(range(len(laws)), names)
    axes[0].set_ylim(len(laws) - 0.5, -0.6)
    marks = [figures.swatch("mean over domains", "#555555", "o"), figures.swatch("a domain", "#999999", ".")]
    if any("(needs" in name for name in names):
        marks.append(figures.swatch("fewer runs than determine its numbers", "#555555", "o", hollow=True))
    figures.key(figure, [marks], f"The laws on the same rows, fitted to {table['runs'][0]} mixtures")
    with replacing(options.out) as temporary:
        figures.save(figure, temporary)


if __name__ == "__main__":
    sys.exit(run(main))
