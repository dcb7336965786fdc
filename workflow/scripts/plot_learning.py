"""Draw error and rank correlation on runs that a law has not seen against how many runs it was
fitted to: of each law against mixtures, or of a law over sizes against runs of the large model.

learning.csv (law, runs, draw, mre, mre_worst, spearman, note) or sizes.csv (runs, large_runs, draw,
error, spearman) -> svg
"""

import argparse
import sys
from pathlib import Path

import polars as pl
from matplotlib.figure import Figure

from bimix.errors import InputError, run
from bimix.judge.law_scores import LEARNING, SIZES
from bimix.results import figures
from bimix.tables import read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    table = parser.add_mutually_exclusive_group(required=True)
    table.add_argument("--learning", type=Path, help="written by trace_learning.py")
    table.add_argument("--sizes", type=Path, help="written by score_sizes.py")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)
    path, schema, draw = options.learning, LEARNING, draw_learning
    if options.sizes:
        path, schema, draw = options.sizes, SIZES, draw_sizes
    found = read_table(path)
    if lacking := [name for name in schema if name not in found.columns]:
        raise InputError(f"{path} has no column {lacking[0]!r}: it needs {', '.join(schema)}.")
    found = found.cast(schema)
    if options.learning and not found["mre"].count():
        raise InputError(f"{path}: no law could be fitted: {found['note'][0]}")
    figures.save(draw(found), options.out)


def draw_learning(table: pl.DataFrame) -> Figure:
    """The error and the order by law."""
    seen = table.filter(pl.col("mre").is_not_null()).with_columns(error=pl.col("mre") * 100, of="law", place="runs")
    return drawn(seen, "mixtures fitted (log)", least(seen))


def draw_sizes(table: pl.DataFrame) -> Figure:
    """The error and the order by set of runs, at places: no large run has no logarithm."""
    counts = sorted(set(table["large_runs"]))
    placed = pl.col("large_runs").replace_strict(counts, range(len(counts)))
    return drawn(table.with_columns(of="runs", place=placed), "large runs fitted", gained(table), counts)


def drawn(table: pl.DataFrame, label: str, note: str, counts: list[int] | None = None) -> Figure:
    """Two panels, of error and order against `place`: means over draws as a line for each `of`,
    their range as a shade. `counts` name places 0, 1, ...; without them the axis is logarithmic.
    """
    names = table["of"].unique(maintain_order=True).to_list()
    of_sets = counts is not None and not set(names) <= set(figures.STYLES)  # of runs; else of laws
    looks = (figures.domain_looks if of_sets else figures.looks)(names)
    figure, (left, right) = figures.grid(2)
    for axis, column, unit in ((left, "error", "percent of the loss (log)"), (right, "spearman", "Spearman's rho")):
        means = table.drop_nulls(column).group_by("of", "place").agg(pl.col(column).mean(), *figures.ends(column))
        for rank, name in enumerate(names):
            own = means.filter(pl.col("of") == name).sort("place")
            place = own["place"] + (figures.dodged(rank, len(names), 0.08) if counts else 0)
            figures.draw_curve(axis, place, own[column], looks[name], own["low"], own["high"])
        if counts is None:
            figures.log_axis(axis, "x", table["place"].to_numpy(), most=6)
        places = sorted(set(table["place"]))
        if counts or len(places) <= 8:
            axis.set_xticks(places, [str(count) for count in counts or places])
        axis.set_ylabel(unit)
        axis.set_xlabel(label)
    left.set_title("error, mean over domains")
    right.set_title("order of the mixtures")
    figures.log_axis(left, "y", table["error"].drop_nulls().to_numpy())
    figures.key(figure, [looks[name].entry(name, line=True) for name in names], note)
    return figure


def least(seen: pl.DataFrame) -> str:
    """Which law errs least, at the fewest mixtures of several laws and at the most."""
    means = seen.group_by("law", "runs").agg(pl.col("error").mean())
    rivals = means.group_by("runs").agg(pl.len()).filter(pl.col("len") > 1)["runs"]
    parts = []
    for runs in dict.fromkeys((rivals.min(), rivals.max()) if len(rivals) else (means["runs"].max(),)):
        law, error = means.filter(pl.col("runs") == runs).sort("error").select("law", "error").row(0)
        parts.append(f"{law} at {runs} ({error:.2g} %)")
    draws = seen["draw"].n_unique()
    return f"Least error on new mixtures: {', '.join(parts)}. Last step, mean and range of {draws} draws."


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
