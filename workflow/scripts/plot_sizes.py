"""Draw the error and rank correlation on runs of a large model against how many of them a law over
sizes was fitted to.

sizes.csv (runs, large_runs, draw, error, spearman) -> svg
"""

import argparse
import sys
from pathlib import Path

import polars as pl
from matplotlib.figure import Figure

from bimix.errors import InputError, run
from bimix.judge.law_scores import SIZES
from bimix.outputs import replacing
from bimix.results import figures
from bimix.tables import read_table

BESIDE = 0.16  # of the distance between two numbers of runs, to which sets of runs stand beside each other
PANELS = {
    "error": ("error, mean over domains", "percent of the loss (log)"),
    "spearman": ("order of the mixtures", "Spearman's correlation"),
}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=Path, required=True, help="written by score_sizes.py")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)

    table = read_table(options.sizes)
    lacking = [name for name in SIZES if name not in table.columns]
    if lacking:
        raise InputError(f"{options.sizes} has no column {lacking[0]!r}: it needs {', '.join(SIZES)}.")
    figure = draw(table.cast(SIZES))
    with replacing(options.out) as temporary:
        figures.save(figure, temporary)


def draw(table: pl.DataFrame) -> Figure:
    """Two panels, the error and the order; of each set of runs the mean over the draws as a line
    and their range as a bar, one set beside the other.
    """
    names = table["runs"].unique(maintain_order=True).to_list()
    looks = looks_of(names)
    figure, axes = figures.grid(2)
    counts = sorted(set(table["large_runs"]))
    for axis, (column, (title, label)) in zip(axes, PANELS.items(), strict=True):
        of = pl.col(column)
        known = table.filter(of.is_not_null())
        for rank, name in enumerate(names):
            curve = known.filter(pl.col("runs") == name).group_by("large_runs")
            curve = curve.agg(of.mean(), low=of.min(), high=of.max()).sort("large_runs")
            # Places, not numbers: none has no logarithm.
            beside = figures.dodged(rank, len(names), BESIDE)
            places = [counts.index(count) + beside for count in curve["large_runs"]]
            colour, marker, dash = looks[name]
            axis.vlines(places, curve["low"], curve["high"], color=colour, linewidth=0.8)
            axis.plot(
                places, curve[column], color=colour, marker=marker, linestyle=dash, markersize=figures.size(marker)
            )
        axis.set_title(title)
        axis.set_ylabel(label)
        axis.set_xlabel("large runs fitted")
        axis.set_xticks(range(len(counts)), [str(count) for count in counts])
    figures.log_axis(axes[0], "y", table["error"].drop_nulls().to_numpy())
    figures.key(
        figure,
        [[figures.swatch(name, *looks[name]) for name in names]],
        f"Large runs that were not fitted: mean and range of {table['draw'].n_unique()} draws",
    )
    return figure


def looks_of(names: list[str]) -> dict[str, tuple[str, str, str | tuple]]:
    """{set of runs: colour, marker, kind of line}: those of laws where all are, else any that
    differ.
    """
    if not set(names) <= set(figures.STYLES):
        return figures.domain_styles(names)
    colours, dashes = figures.styles(names), figures.dashes(names)
    return {name: (*colours[name], dashes[name]) for name in names}


if __name__ == "__main__":
    sys.exit(run(main))
