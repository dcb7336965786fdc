"""Draw what each method's mixture is worth against what it cost to find.

tables/methods.csv -> svg
"""

import argparse
import sys
from pathlib import Path

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bimix.errors import run
from bimix.judge.measured import NATS
from bimix.results import figures
from bimix.tables import read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", type=Path, required=True, help="written by price_methods.py")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)
    figures.save(draw(read_table(options.methods)), options.out)


def draw(table: pl.DataFrame) -> Figure:
    """Rows of mixtures, best first: average loss, worst domain, price of the search."""
    table = table.sort("average_loss")
    names = table["mixture"].to_list()
    looks = list(figures.looks(names).values())
    figure, axes = figures.row_panels(names, [1, 1, 1], 0.19, 0.95)
    draw_losses(axes[0], table, "average_loss", looks)
    axes[0].set_title("average loss")
    axes[0].set_xlabel(table["unit"][0])
    draw_losses(axes[1], table.with_columns(deviation_percent=None), "worst_loss", looks)
    axes[1].set_title("loss of the worst domain")
    axes[1].set_xlabel(NATS)
    draw_prices(axes[2], table, looks)
    bars = [[figures.swatch("standard deviation between seeds", figures.GREY, "o", line="-")]]
    figures.key(figure, bars if table["deviation_percent"].count() else [], finding(table))
    return figure


def finding(table: pl.DataFrame) -> str:
    """The lowest mixture, the price of its search, and the lowest of those without a search."""
    best, free = table.row(0, named=True), table.filter(pl.col("search_runs") == 0)["mixture"].to_list()
    price = (
        f"after a search for {best['search_percent']:.3g} % of a large run"
        if best["search_runs"]
        else "without a search"
    )
    rest = f"; the lowest without one is {free[0]}" if best["search_runs"] and free else ""
    return f"{best['mixture']} ends lowest, {price}{rest}."


def draw_losses(axis: Axes, table: pl.DataFrame, column: str, looks: list[figures.Look]) -> None:
    """How the large run on each mixture ended."""
    for place, (loss, deviation) in enumerate(table.select(column, "deviation_percent").iter_rows()):
        axis.errorbar(loss, place, xerr=deviation and loss * deviation / 100, **looks[place].mark(4.5))
    axis.locator_params(axis="x", nbins=3)
    axis.margins(x=0.12)


def draw_prices(axis: Axes, table: pl.DataFrame, looks: list[figures.Look]) -> None:
    """Costs of the search of each mixture, in percent of one large run, and its number of runs."""
    most = table["search_percent"].max()
    for place, (price, runs) in enumerate(table.select("search_percent", "search_runs").iter_rows()):
        axis.plot([0, price], [place] * 2, color=looks[place].colour, linewidth=0.8)
        axis.plot(price, place, **looks[place].mark(4.5))
        offset = {"xytext": (5, 0), "textcoords": "offset points", "va": "center"}
        axis.annotate(f"{runs:.0f} run{'' if runs == 1 else 's'}", (price, place), **offset, fontsize=figures.SMALL)
    axis.set_title("price of the search")
    axis.set_xscale("symlog", linthresh=1.0, linscale=0.4)
    figures.cost_axis(axis, most)
    axis.set_xlim(-0.3, max(10, 40 * most))
    axis.set_xlabel("% of a large run (log)")


if __name__ == "__main__":
    sys.exit(run(main))
