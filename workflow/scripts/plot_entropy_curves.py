"""Draw the entropies of the domains against the tokens they are estimated from, and how much they
still rise.

entropy_curves.csv (domain, measure, tokens, nats, equal) -> svg
"""

import argparse
import math
import sys
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bimix.errors import run
from bimix.outputs import replacing
from bimix.results import figures
from bimix.tables import read_table

MEASURES = ["SE", "JE", "CE"]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curves", type=Path, required=True, help="entropies by tokens, csv")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)

    figure = draw(read_table(options.curves))
    with replacing(options.out) as temporary:
        figures.save(figure, temporary)


def draw(curves: pl.DataFrame) -> Figure:
    """A panel for each measure with a line for each domain, and one for how much a last doubling of
    the tokens adds.
    """
    domains = curves["domain"].unique().sort().to_list()
    looks = figures.domain_styles(domains)
    height = max(1.55, 0.15 * len(domains) + 0.5)
    figure = Figure(figsize=(figures.WIDTH, 2 * height + 0.3), layout="constrained")
    axes = figure.subplots(2, 2).ravel()
    for axis, measure in zip(axes, MEASURES, strict=False):
        draw_measure(axis, curves.filter(pl.col("measure") == measure), looks)
        axis.set_title(measure.lower())
    draw_rises(axes[3], curves, domains)
    equal = curves.filter(pl.col("equal"))["tokens"].first()
    entries = [
        figures.swatch("a domain", "#555555", "o", line="-"),
        figures.swatch(f"{equal:,} tokens, which every domain has", "#888888", line="--"),
    ]
    entries += [figures.swatch(name, *figures.styles([name])[name]) for name in map(str.lower, MEASURES)]
    figures.key(figure, [entries])
    for axis, measure in zip(axes, MEASURES, strict=False):
        ends = curves.filter(pl.col("measure") == measure).sort("tokens").group_by("domain").last()
        figures.label_ends(axis, {name: (nats, looks[name][0]) for name, nats in ends.select("domain", "nats").rows()})
    return figure


def draw_measure(axis: Axes, curves: pl.DataFrame, looks: dict[str, tuple]) -> None:
    """One measure: a line for each domain, and where all have as many tokens."""
    for domain, (colour, marker, dash) in looks.items():
        curve = curves.filter(pl.col("domain") == domain).sort("tokens")
        line = {"color": colour, "linestyle": dash, "marker": marker, "markersize": 2.6}
        axis.plot(curve["tokens"], curve["nats"], markevery=max(1, curve.height // 6), **line)
    axis.axvline(curves.filter(pl.col("equal"))["tokens"].first(), color="#888888", linestyle="--", linewidth=0.8)
    axis.set_xlabel("tokens seen (log)")
    axis.set_ylabel("plug-in entropy (nats)")
    figures.log_axis(axis, "x", curves["tokens"].to_numpy(), most=4)


def draw_rises(axis: Axes, curves: pl.DataFrame, domains: list[str]) -> None:
    """For each domain, how much the last doubling of its tokens raised each measure."""
    for rank, measure in enumerate(MEASURES):
        colour, marker = figures.styles([measure.lower()])[measure.lower()]
        rises, rows = [], []
        for row, domain in enumerate(domains):
            own = curves.filter(pl.col("domain") == domain, pl.col("measure") == measure).sort("tokens")
            tokens = np.log(own["tokens"].to_numpy())
            half = np.interp(tokens[-1] - math.log(2), tokens, own["nats"].to_numpy())
            rises.append(own["nats"][-1] - half)
            rows.append(row + figures.dodged(rank, len(MEASURES), 0.36))
        axis.plot(rises, rows, marker, color=colour, markersize=3.6)
    axis.axvline(0, color="#888888", linewidth=0.8)
    figures.name_rows(axis, domains)
    axis.set_title("still rising by")
    axis.set_xlabel("nats for the last doubling of the tokens")
    axis.locator_params(axis="x", nbins=5)


if __name__ == "__main__":
    sys.exit(run(main))
