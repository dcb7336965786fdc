"""Draw each law's error and rank correlation on mixtures it has not seen against the number of
mixtures it was fitted to.

learning.csv (law, runs, draw, mre, mre_worst, spearman, note) -> svg
"""

import argparse
import sys
from pathlib import Path

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bimix.errors import InputError, run
from bimix.judge.law_scores import LEARNING
from bimix.outputs import replacing
from bimix.results import figures
from bimix.tables import read_table

PANELS = {
    "mre": ("error, mean over domains", "percent of the loss (log)"),
    "spearman": ("order of the mixtures", "Spearman's correlation"),
}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learning", type=Path, required=True, help="written by trace_learning.py")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)

    table = read_table(options.learning).cast(LEARNING)
    if not table["mre"].count():
        raise InputError(f"{options.learning}: no law could be fitted: {table['note'][0]}")
    figure = draw(table)
    with replacing(options.out) as temporary:
        figures.save(figure, temporary)


def draw(table: pl.DataFrame) -> Figure:
    """Two panels, the error and the order; of each law the mean over the draws as a line and their
    range as a shade.
    """
    seen = table.with_columns(pl.col("mre") * 100).filter(pl.col("mre").is_not_null())
    laws = seen["law"].unique(maintain_order=True).to_list()
    figure, axes = figures.grid(2)
    for axis, column in zip(axes, PANELS, strict=True):
        draw_score(axis, seen.filter(pl.col(column).is_not_null()), column, laws)
        figures.log_axis(axis, "x", seen["runs"].to_numpy(), most=6)
        counts = sorted(set(seen["runs"]))
        if len(counts) <= 8:
            axis.set_xticks(counts, [str(count) for count in counts])
    figures.log_axis(axes[0], "y", seen["mre"].to_numpy())
    colours, dashes = figures.styles(laws), figures.dashes(laws)
    draws = table["draw"].n_unique()
    figures.key(
        figure,
        [[figures.swatch(law, *colours[law], line=dashes[law]) for law in laws]],
        f"Mixtures that were not fitted, last step: mean and range of {draws} draws of the fitted ones",
    )
    means = seen.filter(pl.col("spearman").is_not_null()).group_by("law", "runs").agg(pl.col("spearman").mean())
    ends = means.sort("runs").group_by("law").last()
    figures.label_ends(
        axes[1], {law: (end, colours[law][0]) for law, end in ends.select("law", "spearman").iter_rows()}
    )
    return figure


def draw_score(axis: Axes, seen: pl.DataFrame, column: str, laws: list[str]) -> None:
    """One score against the number of mixtures fitted."""
    colours, dashes = figures.styles(laws), figures.dashes(laws)
    of = pl.col(column)
    for law in laws:
        curve = seen.filter(pl.col("law") == law).group_by("runs").agg(of.mean(), low=of.min(), high=of.max())
        curve = curve.sort("runs")
        colour, marker = colours[law]
        axis.fill_between(curve["runs"], curve["low"], curve["high"], color=colour, alpha=0.13, linewidth=0)
        look = {"marker": marker, "color": colour, "linestyle": dashes[law], "markersize": figures.size(marker)}
        axis.plot(curve["runs"], curve[column], **look)
    title, label = PANELS[column]
    axis.set_title(title)
    axis.set_ylabel(label)
    axis.set_xlabel("mixtures fitted (log)")


if __name__ == "__main__":
    sys.exit(run(main))
