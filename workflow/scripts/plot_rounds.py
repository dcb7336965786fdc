"""Draw a search by rounds: what each round promised and measured, and the gain that was left.

rounds.csv (round, mixture, voice, promised, measured, ...) -> svg
"""

import argparse
import sys
from pathlib import Path

import polars as pl
from matplotlib.figure import Figure

from bimix.errors import run
from bimix.outputs import replacing
from bimix.results import figures
from bimix.tables import read_table

KINDS = {"measured": ("C0", "o"), "by hand": ("C1", "s"), "promised": ("0.35", "D")}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=Path, required=True, help="written by judge_search.py")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)
    figure = draw(read_table(options.rounds))
    with replacing(options.out) as temporary:
        figures.save(figure, temporary)


def draw(table: pl.DataFrame) -> Figure:
    """Left the objective of each run by its round, 0 the start, with what was promised; right the
    gain that was expected before each round beside the noise of a run.
    """
    figure, (left, right) = figures.grid(2)
    measured = table.filter(pl.col("measured").is_not_null())
    for kind, rows in {
        "measured": measured.filter(pl.col("voice") != "by hand"),
        "by hand": measured.filter(pl.col("voice") == "by hand"),
    }.items():
        colour, marker = KINDS[kind]
        left.plot(rows["round"], rows["measured"], marker, color=colour, markersize=figures.size(marker))
    promised = table.filter(pl.col("promised").is_not_null())
    colour, marker = KINDS["promised"]
    left.errorbar(
        promised["round"],
        promised["promised"],
        yerr=promised["promised"] * promised["deviation_percent"] / 100,
        fmt=marker,
        color=colour,
        markerfacecolor="none",
        markersize=figures.size(marker),
        linewidth=0.8,
    )
    best = measured.sort("round").with_columns(pl.col("measured").cum_min())
    steps = best.group_by("round", maintain_order=True).agg(pl.col("measured").min())
    left.step(steps["round"], steps["measured"], where="post", color="0.6", linewidth=0.8)
    gains = table.filter(pl.col("expected_gain_percent").is_not_null()).unique("round").sort("round")
    right.plot(gains["round"], gains["expected_gain_percent"], "o-", color="C0", markersize=figures.size("o"))
    right.plot(gains["round"], gains["noise_percent"], "--", color="0.4", linewidth=0.8)
    for axis, name, unit in ((left, "the objective", "loss, nats"), (right, "gain left", "per cent")):
        figures.name_panel(axis, name)
        axis.set_ylabel(unit)
        axis.set_xlabel("round")
        last = int(table["round"].max())
        axis.set_xticks(range(last + 1))
    stopped = table["stopped"].drop_nulls()
    note = f"It ended before round {gains['round'][-1]}: {stopped[0]}" if len(stopped) else "All rounds were run"
    swatches = [
        figures.swatch(kind, colour, marker, hollow=kind == "promised") for kind, (colour, marker) in KINDS.items()
    ]
    figures.key(figure, [[*swatches, figures.swatch("noise of a run", "0.4", line="--")]], note)
    return figure


if __name__ == "__main__":
    sys.exit(run(main))
