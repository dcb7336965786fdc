"""Draw what each method's mixture is worth against what it cost to find.

tables/methods.csv -> svg
"""

import argparse
import sys
from pathlib import Path

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from bimix.errors import run
from bimix.judge.measured import NATS
from bimix.outputs import replacing
from bimix.results import figures
from bimix.tables import read_table

LINEAR = 1.0  # percent of a large run, below which the axis of the costs is linear: some mixtures cost nothing


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", type=Path, required=True, help="written by price_methods.py")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)

    figure = draw(read_table(options.methods))
    with replacing(options.out) as temporary:
        figures.save(figure, temporary)


def draw(table: pl.DataFrame) -> Figure:
    """Rows of mixtures, the best first: the average loss, the worst domain's, and the price of the
    search.
    """
    table = table.sort("average_loss")
    names = table["mixture"].to_list()
    figure = Figure(figsize=(figures.WIDTH, 0.19 * len(names) + 0.95), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    draw_losses(axes[0], table, "average_loss", "average loss", "deviation_percent", table["unit"][0])
    draw_losses(axes[1], table, "worst_loss", "loss of the worst domain", None, NATS)
    draw_prices(axes[2], table)
    figures.name_rows(axes[0], names)
    for axis in axes[1:]:
        axis.grid(visible=False, axis="y")
        axis.tick_params(axis="y", length=0)
    if table["deviation_percent"].count():
        figures.key(figure, [[figures.swatch("standard deviation between seeds", "#555555", "o", line="-")]])
    return figure


def draw_losses(axis: Axes, table: pl.DataFrame, column: str, title: str, deviation: str | None, unit: str) -> None:
    """How the large run on each mixture ended."""
    for place, row in enumerate(table.iter_rows(named=True)):
        colour, marker = figures.styles([row["mixture"]])[row["mixture"]]
        spread = row[deviation] and row[column] * row[deviation] / 100 if deviation else None
        axis.errorbar(row[column], place, xerr=spread, fmt=marker, color=colour, markersize=figures.size(marker, 4.5))
    axis.set_title(title)
    axis.set_xlabel(unit)
    axis.locator_params(axis="x", nbins=3)
    axis.margins(x=0.12)


def draw_prices(axis: Axes, table: pl.DataFrame) -> None:
    """What the search of each mixture cost, in percent of one large run, and its number of runs."""
    most = table["search_percent"].max()
    for place, row in enumerate(table.iter_rows(named=True)):
        colour, marker = figures.styles([row["mixture"]])[row["mixture"]]
        price, runs = row["search_percent"], int(row["search_runs"])
        axis.plot([0, price], [place] * 2, color=colour, linewidth=0.8)
        axis.plot(price, place, marker, color=colour, markersize=figures.size(marker, 4.5))
        offset = {"xytext": (5, 0), "textcoords": "offset points", "va": "center"}
        axis.annotate(f"{runs} run{'' if runs == 1 else 's'}", (price, place), **offset, fontsize=figures.SMALL)
    axis.set_title("price of the search")
    axis.set_xscale("symlog", linthresh=LINEAR, linscale=0.4)
    ticks = [tick for tick in (0, 1, 10, 100, 1000, 10000) if tick <= max(10, most)]
    axis.set_xticks(ticks, [figures.plain(tick) if tick else "0" for tick in ticks])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlim(-0.3, max(10, 40 * most))
    axis.set_xlabel("% of a large run (log)")


if __name__ == "__main__":
    sys.exit(run(main))
