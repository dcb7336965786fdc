"""Draw what each method's mixture is worth against what it cost to find.

tables/methods.csv -> svg
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.errors import run
from bimix.outputs import replacing
from bimix.results import figures
from bimix.tables import read_table

LINEAR = 1.0  # percent of a large run, below which the axis of the costs is linear: some mixtures cost nothing


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", type=Path, required=True, help="written by price_methods.py")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)

    table = read_table(options.methods).sort("average_loss")
    colours = figures.styles(table["mixture"].to_list())
    shown = {"average_loss": "average over domains", "worst_loss": "worst domain"}
    figure, axes = figures.grid(len(shown), width=2.9, height=2.2)
    for axis, (column, title) in zip(axes, shown.items(), strict=True):
        for row in table.iter_rows(named=True):
            colour, marker = colours[row["mixture"]]
            size = 7 if marker == "*" else 5
            spread = None
            if column == "average_loss" and row["deviation_percent"] is not None:
                spread = row["average_loss"] * row["deviation_percent"] / 100
            axis.errorbar(row["search_percent"], row[column], yerr=spread, fmt=marker, color=colour, markersize=size)
        axis.set_title(title)
        axis.set_xscale("symlog", linthresh=LINEAR, linscale=0.4)
        most = table["search_percent"].max()
        ticks = [tick for tick in (0, 1, 10, 100, 1000, 10000) if tick <= max(10, 3 * most)]
        axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axis.set_xlim(-0.3, max(10, 2 * most))
        axis.set_xlabel("FLOPs of the search, percent of one large run")
    axes[0].set_ylabel("log-perplexity of the large run (nats per token)")
    names = table.select("mixture", "average_loss", pl.col("search_runs").cast(pl.Int64)).iter_rows()
    key = [
        figures.swatch(f"{name}: {loss:.4f}, {runs} run{'' if runs == 1 else 's'}", *colours[name])
        for name, loss, runs in names
    ]
    figures.key(
        figure, [key], "What a mixture is worth and what it cost to find, best first; bars: deviation between seeds"
    )
    with replacing(options.out) as temporary:
        figures.save(figure, temporary)


if __name__ == "__main__":
    sys.exit(run(main))
