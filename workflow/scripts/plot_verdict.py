"""Draw what each method's proposal gains against what its search cost, with intervals over seeds.

tables/verdict.csv -> svg
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from bimix.errors import run
from bimix.outputs import replacing
from bimix.results import figures
from bimix.tables import read_table

LINEAR = 1.0  # percent of a large run, below which the axis of the costs is linear: rules cost nothing
STEP = 0.09  # of a decade, between mixtures that cost the same
SPREAD = 0.36  # of a decade, from the first of them to the last
LINES = 3  # of a legend that leaves the axis its height; further ones make the figure taller
FAR_OUT = 3.0  # quartile ranges below the first quartile (Tukey): drawn at the edge, with its number


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verdict", type=Path, required=True, help="written by judge_methods.py")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)
    figure = draw(read_table(options.verdict))
    with replacing(options.out) as temporary:
        figures.save(figure, temporary)


def draw(table: pl.DataFrame) -> Figure:
    """Measured gains with their intervals, and the predicted ones, hollow, at the same cost."""
    methods = table["mixture"].to_list()
    height = 2.7 + 0.13 * max(0, -(-len(methods) // 3) - LINES)
    figure = Figure(figsize=(figures.WIDTH, height), layout="constrained")
    axis = figure.subplots()
    styles = figures.styles(methods)
    priced = table["search_percent"].null_count() < table.height  # of runs made elsewhere it may not be known
    costs = [cost or 0.0 for cost in table["search_percent"].to_list()]
    far = far_out(table["gain_percent"].to_numpy())
    near = table.filter(~far)["gain_percent"]
    edge = near.min() - 0.15 * (near.max() - near.min())
    for number, row in enumerate(table.iter_rows(named=True)):
        colour, marker = styles[row["mixture"]]
        at = beside(costs, number)
        mark = {"marker": marker, "color": colour, "markersize": figures.size(marker, 4.5), "linestyle": "none"}
        if far[number]:
            axis.plot(at, edge, **mark)
            where = {"xytext": (-4, 0), "textcoords": "offset points", "va": "center", "ha": "right", "color": colour}
            axis.annotate(f"{row['gain_percent']:.0f} %", (at, edge), **where, fontsize=figures.SMALL)
            continue
        if row["gain_low"] is not None:
            axis.plot([at] * 2, [row["gain_low"], row["gain_high"]], color=colour, linewidth=0.8)
        axis.plot(at, row["gain_percent"], **mark)
        if row["predicted_gain_percent"] is not None:
            axis.plot(at, row["predicted_gain_percent"], **mark | {"markerfacecolor": "white"})
    axis.axhline(0, color="#999999", linewidth=0.6)
    axis.set_xscale("symlog", linthresh=LINEAR, linscale=0.9)
    ticks = [tick for tick in (0, 1, 10, 100, 1000, 10000) if tick <= max(10, *costs)]
    axis.set_xticks(ticks, [figures.plain(tick) if tick else "0" for tick in ticks])
    axis.xaxis.set_minor_locator(NullLocator())
    last = max(beside(costs, number) for number in range(len(costs)))
    axis.set_xlim(-0.12, max(10, 3 * max(costs), 1.2 * last))
    price = "price of the search, % of the FLOPs of a large run (log); those of one price side by side"
    axis.set_xlabel(price if priced else "the prices of the searches are not known: side by side")
    axis.set_ylabel("gain over the reference, %")
    rows = [[figures.swatch(name, *styles[name]) for name in methods]]
    told = "with 95 % intervals"
    if not table["gain_low"].count():
        told = "one run of each" if table["runs"].max() == 1 else "no two by the same two seeds"
    note = f"Filled: measured, {told}; hollow: predicted by the method's own law."
    note += " Methods of one price stand side by side."
    note += " A number at the edge: its gain lies far below." if far.any() else ""
    figures.key(figure, rows, note)
    return figure


def far_out(gains: np.ndarray) -> np.ndarray:
    """Which gains (n,) lie so far below the others that these could not be told apart: they lose
    more than the best gains, so the reference, at 0, never does.
    """
    low, high = np.quantile(gains, [0.25, 0.75])
    return gains < min(low - FAR_OUT * (high - low), -max(gains.max(), 0.0))


def beside(costs: list[float], place: int) -> float:
    """Where a mixture stands on the axis of costs: those of one cost side by side, about it on the
    logarithmic part.
    """
    same = [n for n, cost in enumerate(costs) if abs(cost - costs[place]) < 1e-9]
    step = min(STEP, SPREAD / max(len(same) - 1, 1))
    if costs[place] < LINEAR:
        return costs[place] + same.index(place) * step
    return costs[place] * 10 ** ((same.index(place) - (len(same) - 1) / 2) * step)


if __name__ == "__main__":
    sys.exit(run(main))
