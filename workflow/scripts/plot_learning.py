"""Draw error and rank correlation on runs that a law has not seen against how many runs it was
fitted to: of each law against mixtures, or of a law over sizes against runs of the large model.

learning.csv (law, runs, draw, mre, mre_worst, spearman, note) or sizes.csv (runs, large_runs, draw,
error, spearman) -> svg
"""

import argparse
import sys
from pathlib import Path

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bimix.errors import InputError, run
from bimix.judge.law_scores import LEARNING, SIZES
from bimix.results import figures
from bimix.tables import read_table

BESIDE = 0.16  # of the distance between two numbers of runs, to which sets of runs stand side by side


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    table = parser.add_mutually_exclusive_group(required=True)
    table.add_argument("--learning", type=Path, help="written by trace_learning.py")
    table.add_argument("--sizes", type=Path, help="written by score_sizes.py")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)
    path, schema, draw = (
        (options.learning, LEARNING, draw_learning) if options.learning else (options.sizes, SIZES, draw_sizes)
    )
    found = read_table(path)
    if lacking := [name for name in schema if name not in found.columns]:
        raise InputError(f"{path} has no column {lacking[0]!r}: it needs {', '.join(schema)}.")
    found = found.cast(schema)
    if options.learning and not found["mre"].count():
        raise InputError(f"{path}: no law could be fitted: {found['note'][0]}")
    figures.save(draw(found), options.out)


def panels(errors: pl.Series, label: str) -> tuple[Figure, list[tuple[Axes, str]]]:
    """Two panels, of error and order, each with its column; `label` says what was fitted."""
    figure, axes = figures.grid(2)
    titles = {
        errors.name: ("error, mean over domains", "percent of the loss (log)"),
        "spearman": ("order of the mixtures", "Spearman's correlation"),
    }
    for axis, (title, unit) in zip(axes, titles.values(), strict=True):
        axis.set_title(title)
        axis.set_ylabel(unit)
        axis.set_xlabel(label)
    return figure, list(zip(axes, titles, strict=True))


def draw_learning(table: pl.DataFrame) -> Figure:
    """The error and the order by law: mean over draws as a line, range as a shade."""
    seen = table.with_columns(pl.col("mre") * 100).filter(pl.col("mre").is_not_null())
    looks = figures.looks(seen["law"].unique(maintain_order=True).to_list())
    figure, axes = panels(seen["mre"], "mixtures fitted (log)")
    counts = sorted(set(seen["runs"]))
    for axis, column in axes:
        for law, look in looks.items():
            figures.draw_range(axis, seen.filter(pl.col("law") == law), "runs", column, look)
        figures.log_axis(axis, "x", seen["runs"].to_numpy(), most=6)
        if len(counts) <= 8:
            axis.set_xticks(counts, [str(count) for count in counts])
    figures.log_axis(axes[0][0], "y", seen["mre"].to_numpy())
    figures.key(figure, [[look.entry(law, line=True) for law, look in looks.items()]], least(seen))
    means = seen.filter(pl.col("spearman").is_not_null()).group_by("law", "runs").agg(pl.col("spearman").mean())
    ends = means.sort("runs").group_by("law").last().select("law", "spearman").iter_rows()
    figures.label_ends(axes[1][0], {law: (end, looks[law].colour) for law, end in ends})
    return figure


def least(seen: pl.DataFrame) -> str:
    """Which law errs least, at the fewest mixtures of several laws and at the most."""
    means = seen.group_by("law", "runs").agg(pl.col("mre").mean())
    rivals = means.group_by("runs").agg(pl.len()).filter(pl.col("len") > 1)["runs"]
    parts = []
    for runs in dict.fromkeys((rivals.min(), rivals.max()) if len(rivals) else (means["runs"].max(),)):
        law, error = means.filter(pl.col("runs") == runs).sort("mre").select("law", "mre").row(0)
        parts.append(f"{law} at {runs} ({error:.2g} %)")
    draws = seen["draw"].n_unique()
    return f"Least error on new mixtures: {', '.join(parts)}. Last step, mean and range of {draws} draws."


def draw_sizes(table: pl.DataFrame) -> Figure:
    """The error and the order by set of runs: mean over draws as a line, range as a bar, one set
    next to the other.
    """
    names = table["runs"].unique(maintain_order=True).to_list()
    looks = (figures.looks if set(names) <= set(figures.STYLES) else figures.domain_looks)(names)
    figure, axes = panels(table["error"], "large runs fitted")
    counts = sorted(set(table["large_runs"]))
    # Places, not numbers: none has no logarithm.
    placed = table.with_columns(place=pl.col("large_runs").replace_strict(counts, range(len(counts))))
    for axis, column in axes:
        for rank, (name, look) in enumerate(looks.items()):
            own = placed.filter(pl.col("runs") == name)
            figures.draw_range(axis, own, "place", column, look, figures.dodged(rank, len(names), BESIDE))
        axis.set_xticks(range(len(counts)), [str(count) for count in counts])
    figures.log_axis(axes[0][0], "y", table["error"].drop_nulls().to_numpy())
    figures.key(figure, [[looks[name].entry(name, line=True) for name in names]], gained(table))
    return figure


def gained(table: pl.DataFrame) -> str:
    """What large runs gain in the mean error of the sets that have both ends."""
    few, many = table["large_runs"].min(), table["large_runs"].max()
    known = table.drop_nulls("error").filter(pl.col("large_runs").is_in([few, many]))
    ends = known.filter(pl.col("large_runs").n_unique().over("runs") == len({few, many}))
    rows = ends.group_by("large_runs").agg(pl.col("error").mean()).sort("large_runs").iter_rows()
    said = " and ".join(f"{error:.2g} % with {count} large runs" for count, error in rows)
    return f"Mean error of large runs that were not fitted: {said or 'not known of both ends'} ({table['draw'].n_unique()} draws)."


if __name__ == "__main__":
    sys.exit(run(main))
