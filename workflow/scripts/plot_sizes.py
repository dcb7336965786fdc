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
from bimix.results import figures
from bimix.tables import read_table

BESIDE = 0.16  # of the distance between two numbers of runs, to which sets of runs stand side by side
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
    figures.save(draw(table.cast(SIZES)), options.out)


def draw(table: pl.DataFrame) -> Figure:
    """Two panels, the error and the order; of each set of runs the mean over the draws as a line
    and their range as a bar, one set next to the other.
    """
    names = table["runs"].unique(maintain_order=True).to_list()
    of_laws = set(names) <= set(figures.STYLES)
    looks = figures.looks(names) if of_laws else figures.domain_looks(names)
    figure, axes = figures.grid(2)
    counts = sorted(set(table["large_runs"]))
    # Places, not numbers: none has no logarithm.
    placed = table.with_columns(place=pl.col("large_runs").replace_strict(counts, range(len(counts))))
    for axis, (column, (title, label)) in zip(axes, PANELS.items(), strict=True):
        for rank, (name, look) in enumerate(looks.items()):
            own = placed.filter(pl.col("runs") == name)
            figures.draw_range(axis, own, "place", column, look, figures.dodged(rank, len(names), BESIDE))
        axis.set_title(title)
        axis.set_ylabel(label)
        axis.set_xlabel("large runs fitted")
        axis.set_xticks(range(len(counts)), [str(count) for count in counts])
    figures.log_axis(axes[0], "y", table["error"].drop_nulls().to_numpy())
    figures.key(
        figure,
        [[looks[name].entry(name, line=True) for name in names]],
        finding(table),
    )
    return figure


def finding(table: pl.DataFrame) -> str:
    """What large runs gain in the mean error of the sets that have both ends."""
    few, many = table["large_runs"].min(), table["large_runs"].max()
    known = table.drop_nulls("error").filter(pl.col("large_runs").is_in([few, many]))
    ends = known.filter(pl.col("large_runs").n_unique().over("runs") == len({few, many}))
    rows = ends.group_by("large_runs").agg(pl.col("error").mean()).sort("large_runs").iter_rows()
    said = " and ".join(f"{error:.2g} % with {count} large runs" for count, error in rows)
    return f"Mean error of large runs that were not fitted: {said or 'not known of both ends'} ({table['draw'].n_unique()} draws)."


if __name__ == "__main__":
    sys.exit(run(main))
