"""Draw each law's error and rank correlation on mixtures it has not seen against the number of
mixtures it was fitted to.

learning.csv (law, runs, draw, mre, mre_worst, spearman, note) -> svg
"""

import argparse
import sys
from pathlib import Path

import polars as pl
from matplotlib.figure import Figure

from bimix.errors import InputError, run
from bimix.judge.law_scores import LEARNING
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
    figures.save(draw(table), options.out)


def draw(table: pl.DataFrame) -> Figure:
    """Two panels, error and order: mean over draws as a line, range as a shade."""
    seen = table.with_columns(pl.col("mre") * 100).filter(pl.col("mre").is_not_null())
    looks = figures.looks(seen["law"].unique(maintain_order=True).to_list())
    figure, axes = figures.grid(2)
    counts = sorted(set(seen["runs"]))
    for axis, (column, (title, label)) in zip(axes, PANELS.items(), strict=True):
        for law, look in looks.items():
            figures.draw_range(axis, seen.filter(pl.col("law") == law), "runs", column, look)
        axis.set_title(title)
        axis.set_ylabel(label)
        axis.set_xlabel("mixtures fitted (log)")
        figures.log_axis(axis, "x", seen["runs"].to_numpy(), most=6)
        if len(counts) <= 8:
            axis.set_xticks(counts, [str(count) for count in counts])
    figures.log_axis(axes[0], "y", seen["mre"].to_numpy())
    figures.key(figure, [[look.entry(law, line=True) for law, look in looks.items()]], finding(seen))
    means = seen.filter(pl.col("spearman").is_not_null()).group_by("law", "runs").agg(pl.col("spearman").mean())
    ends = means.sort("runs").group_by("law").last()
    labels = {law: (end, looks[law].colour) for law, end in ends.select("law", "spearman").iter_rows()}
    figures.label_ends(axes[1], labels)
    return figure


def finding(seen: pl.DataFrame) -> str:
    """Which law errs least, at the fewest mixtures of several laws and at the most."""
    means = seen.group_by("law", "runs").agg(pl.col("mre").mean())
    rivals = means.group_by("runs").agg(pl.len()).filter(pl.col("len") > 1)["runs"]
    parts = []
    for runs in dict.fromkeys((rivals.min(), rivals.max()) if len(rivals) else (means["runs"].max(),)):
        law, error = means.filter(pl.col("runs") == runs).sort("mre").select("law", "mre").row(0)
        parts.append(f"{law} at {runs} ({error:.2g} %)")
    draws = seen["draw"].n_unique()
    return f"Least error on new mixtures: {', '.join(parts)}. Last step, mean and range of {draws} draws."


if __name__ == "__main__":
    sys.exit(run(main))
