"""Draw what each method's proposal gains against what its search cost, with intervals over seeds.

tables/verdict.csv -> svg
"""

import sys

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from bimix.errors import run
from bimix.results import figures
from bimix.tables import read_table

LINEAR = 1.0  # percent of a large run, below which the axis of the costs is linear: rules cost nothing
STEP = 0.09  # of a decade, between mixtures that cost the same
SPREAD = 0.36  # of a decade, from the first of them to the last
LINES = 3  # of a legend that leaves the axis its height; further ones make the figure taller
FAR_OUT = 3.0  # quartile ranges below the first quartile (Tukey): drawn at the edge, with its number


def main(argv: list[str] | None = None) -> None:
    options = figures.flags(__doc__, verdict="written by judge_methods.py", out="svg").parse_args(argv)
    figures.save(draw(read_table(options.verdict)), options.out)


def draw(table: pl.DataFrame) -> Figure:
    """Measured gains with their intervals, and the predicted ones, hollow, at the same cost."""
    methods = table["mixture"].to_list()
    height = 2.7 + 0.13 * max(0, -(-len(methods) // 3) - LINES)
    figure = Figure(figsize=(figures.WIDTH, height), layout="constrained")
    axis = figure.subplots()
    looks = figures.looks(methods)
    priced = table["search_percent"].null_count() < table.height  # of runs made elsewhere it may not be known
    costs = [cost or 0.0 for cost in table["search_percent"].to_list()]
    far = far_out(table["gain_percent"].to_numpy())
    near = table.filter(~far)["gain_percent"]
    edge = near.min() - 0.15 * (near.max() - near.min())
    for number, row in enumerate(table.iter_rows(named=True)):
        look, at = looks[row["mixture"]], on_axis(costs, number)
        if far[number]:
            axis.plot(at, edge, **look.mark(4.5))
            where = {"xytext": (-4, 0), "textcoords": "offset points", "va": "center", "ha": "right"}
            text = f"{row['gain_percent']:.0f} %"
            axis.annotate(text, (at, edge), **where, color=look.colour, fontsize=figures.SMALL)
            continue
        if row["gain_low"] is not None:
            axis.plot([at] * 2, [row["gain_low"], row["gain_high"]], color=look.colour, linewidth=0.8)
        axis.plot(at, row["gain_percent"], **look.mark(4.5))
        if row["predicted_gain_percent"] is not None:
            axis.plot(at, row["predicted_gain_percent"], **look.mark(4.5, hollow=True))
    axis.axhline(0, color="#999999", linewidth=0.6)
    axis.set_xscale("symlog", linthresh=LINEAR, linscale=0.9)
    ticks = [tick for tick in (0, 1, 10, 100, 1000, 10000) if tick <= max(10, *costs)]
    axis.set_xticks(ticks, [figures.plain(tick) if tick else "0" for tick in ticks])
    axis.xaxis.set_minor_locator(NullLocator())
    last = max(on_axis(costs, number) for number in range(len(costs)))
    axis.set_xlim(-0.12, max(10, 3 * max(costs), 1.2 * last))
    price = "price of the search, % of the FLOPs of a large run (log); equal ones side by side"
    axis.set_xlabel(price if priced else "the prices of the searches are not known: side by side")
    axis.set_ylabel("gain over the reference, %")
    how = ", 95 % interval"
    if not table["gain_low"].count():
        how = ", one run of each" if table["runs"].max() == 1 else ", no two by the same two seeds"
    marks = [figures.swatch(f"measured{how}", figures.GREY, "o")]
    if table["predicted_gain_percent"].count():
        marks.append(figures.swatch("predicted by its own law", figures.GREY, "o", hollow=True))
    marks += [figures.swatch("a number at the edge: its gain lies far below", "white")] if far.any() else []
    figures.key(figure, [[look.entry(name) for name, look in looks.items()], marks], finding(table))
    return figure


def finding(table: pl.DataFrame) -> str:
    """The largest gain and whether it is significant."""
    best = table.sort("gain_percent", descending=True, maintain_order=True).row(0, named=True)
    if best["gain_percent"] <= 0:
        return "No mixture gains over the reference."
    sure = {True: "significant", False: "not significant", None: "of unknown significance"}[best["significant"]]
    return f"{best['mixture']} gains most, {best['gain_percent']:.2f} %, {sure}."


def far_out(gains: np.ndarray) -> np.ndarray:
    """Which gains (n,) lie so far below the others that these could not be seen apart: they lose
    more than the best gains, so the reference, at 0, never does.
    """
    low, high = np.quantile(gains, [0.25, 0.75])
    return gains < min(low - FAR_OUT * (high - low), -max(gains.max(), 0.0))


def on_axis(costs: list[float], place: int) -> float:
    """Position of a mixture on the axis of costs: those of one cost stand side by side."""
    same = [n for n, cost in enumerate(costs) if abs(cost - costs[place]) < 1e-9]
    step = min(STEP, SPREAD / max(len(same) - 1, 1))
    if costs[place] < LINEAR:
        return costs[place] + same.index(place) * step
    return costs[place] * 10 ** ((same.index(place) - (len(same) - 1) / 2) * step)


if __name__ == "__main__":
    sys.exit(run(main))
