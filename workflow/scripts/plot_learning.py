"""Draw each law's error and rank correlation on mixtures it has not seen against the number of mixtures it was fitted to.

learning.csv (law, runs, draw, mre, mre_worst, spearman, note) -> svg
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.errors import InputError, run
from bimix.outputs import replacing
from bimix.results import figures
from bimix.scores.learning import LEARNING
from bimix.tables import read_table

PANELS = {"mre": ("error, mean over domains", "percent of the loss"), "spearman": ("order of the mixtures", "Spearman")}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learning", type=Path, required=True, help="written by trace_learning.py")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)

    table = read_table(options.learning).cast(LEARNING).with_columns(pl.col("mre") * 100)
    seen = table.filter(pl.col("mre").is_not_null())
    if not seen.height:
        raise InputError(f"{options.learning}: no law could be fitted: {table['note'][0]}")
    laws = seen["law"].unique(maintain_order=True).to_list()
    colours = figures.styles(laws)
    figure, axes = figures.grid(2, width=2.6, height=2.1)
    for axis, (column, (title, label)) in zip(axes, PANELS.items(), strict=True):
        known = seen.filter(pl.col(column).is_not_null())
        for law in laws:
            of = pl.col(column)
            curve = known.filter(pl.col("law") == law).group_by("runs").agg(of.mean(), low=of.min(), high=of.max())
            curve = curve.sort("runs")
            colour, marker = colours[law]
            axis.fill_between(curve["runs"], curve["low"], curve["high"], color=colour, alpha=0.13, linewidth=0)
            axis.plot(curve["runs"], curve[column], marker=marker, color=colour)
        axis.set_title(title)
        axis.set_ylabel(label)
        axis.set_xlabel("mixtures fitted")
        figures.log_axis(axis, "x", seen["runs"].to_numpy(), most=6)
        counts = sorted(set(seen["runs"]))
        if len(counts) <= 10:
            axis.set_xticks(counts, [str(count) for count in counts])
    figures.log_axis(axes[0], "y", seen["mre"].to_numpy())
    draws = table["draw"].n_unique()
    figures.key(
        figure,
        [[figures.swatch(law, *colours[law], line="-") for law in laws]],
        f"Mixtures that were not fitted, last step: mean and range of {draws} draws of the fitted ones",
    )
    with replacing(options.out) as temporary:
        figures.save(figure, temporary)


if __name__ == "__main__":
    sys.exit(run(main))
