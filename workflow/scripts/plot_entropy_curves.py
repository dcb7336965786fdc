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
from bimix.results import figures
from bimix.tables import read_table

MEASURES = ["SE", "JE", "CE"]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curves", type=Path, required=True, help="entropies by tokens, csv")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)
    figures.save(draw(read_table(options.curves)), options.out)


def draw(curves: pl.DataFrame) -> Figure:
    """A panel for each measure with a line for each domain, and one for how much a last doubling of
    the tokens adds.
    """
    domains = curves["domain"].unique().sort().to_list()
    looks, of_measures = figures.domain_looks(domains), figures.looks([name.lower() for name in MEASURES])
    equal = curves.filter(pl.col("equal"))["tokens"].first()
    height = max(1.55, 0.15 * len(domains) + 0.5)
    figure = Figure(figsize=(figures.WIDTH, 2 * height + 0.3), layout="constrained")
    axes = figure.subplots(2, 2).ravel()
    for axis, measure in zip(axes, MEASURES, strict=False):
        for domain, look in looks.items():
            own = curves.filter(pl.col("measure") == measure, pl.col("domain") == domain).sort("tokens")
            axis.plot(own["tokens"], own["nats"], markevery=max(1, own.height // 6), **look.line(2.6))
        axis.axvline(equal, color="#888888", linestyle="--", linewidth=0.8)
        axis.set_title(measure.lower())
        axis.set_xlabel("tokens seen (log)")
        axis.set_ylabel("plug-in entropy (nats)")
        figures.log_axis(axis, "x", curves["tokens"].to_numpy(), most=4)
    most = draw_rises(axes[3], curves, domains, of_measures)
    entries = [
        figures.swatch("a domain", figures.GREY, "o", line="-"),
        figures.swatch(f"{equal:,} tokens, which every domain has", "#888888", line="--"),
        *(look.entry(name) for name, look in of_measures.items()),
    ]
    figures.key(
        figure, [entries], f"The last doubling of the tokens still raised {most[2]} of {most[1]} by {most[0]:.2f} nats."
    )
    for axis, measure in zip(axes, MEASURES, strict=False):
        ends = curves.filter(pl.col("measure") == measure).sort("tokens").group_by("domain").last()
        figures.label_ends(
            axis, {name: (nats, looks[name].colour) for name, nats in ends.select("domain", "nats").rows()}
        )
    return figure


def draw_rises(
    axis: Axes, curves: pl.DataFrame, domains: list[str], looks: dict[str, figures.Look]
) -> tuple[float, str, str]:
    """For each domain, how much the last doubling of its tokens raised each measure; the most, with
    its domain and measure.
    """
    rises = []
    for rank, measure in enumerate(MEASURES):
        for row, domain in enumerate(domains):
            own = curves.filter(pl.col("domain") == domain, pl.col("measure") == measure).sort("tokens")
            tokens = np.log(own["tokens"].to_numpy())
            half = np.interp(tokens[-1] - math.log(2), tokens, own["nats"].to_numpy())
            place = row + figures.dodged(rank, len(MEASURES), 0.36)
            rises.append((own["nats"][-1] - half, domain, measure.lower()))
            axis.plot(rises[-1][0], place, **looks[measure.lower()].mark(3.6))
    axis.axvline(0, color="#888888", linewidth=0.8)
    figures.name_rows(axis, domains)
    axis.set_title("still rising by")
    axis.set_xlabel("nats for the last doubling of the tokens")
    axis.locator_params(axis="x", nbins=5)
    return max(rises)


if __name__ == "__main__":
    sys.exit(run(main))
