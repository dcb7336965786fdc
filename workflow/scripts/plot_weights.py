"""Draw how a method weighs the domains while its model trains: the weights of each step and their average so far.

path.parquet (step, domain, weight, average, excess or score) of each round, mixture.json of the reference -> svg
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.colors import to_hex, to_rgb

from bimix.errors import run
from bimix.outputs import replacing
from bimix.results import figures
from bimix.runs.artefacts import check
from bimix.tables import read_numbers, read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paths", type=Path, nargs="+", required=True, help="path.parquet of each round in turn")
    parser.add_argument("--method", required=True, help="name of the mixture, for its colour")
    parser.add_argument("--reference", required=True, help="name of the mixture to draw beside it")
    parser.add_argument("--reference-mixture", type=Path, required=True, help="{domain: proportion}, JSON")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)

    before = read_numbers(options.reference_mixture)
    rounds = [read_table(check(path)).sort("step", "domain") for path in options.paths]
    ends = rounds[-1].filter(pl.col("step") == pl.col("step").max()).sort("average", "domain", descending=[True, False])
    colour, grey = figures.styles([options.method])[options.method][0], "#555555"
    pale = to_hex(0.55 + 0.45 * np.array(to_rgb(colour)))
    figure, axes = figures.grid(ends.height, sharex=True)
    for axis, domain in zip(axes, ends["domain"], strict=True):
        first = 0
        for path in rounds:
            own = path.filter(pl.col("domain") == domain)
            steps = own["step"] + first
            axis.plot(steps, own["weight"], color=pale, linewidth=0.7)
            axis.plot(steps, own["average"], color=colour, linewidth=1.6)
            first = steps.max()
            if path is not rounds[-1]:
                axis.axvline(first, color="#aaaaaa", linewidth=0.8, linestyle=":")
        axis.axhline(before.get(domain, 0.0), linestyle="--", color=grey, linewidth=0.9)
        figures.name_panel(axis, domain)
        axis.set_xlim(0, first)
        highest = max(
            before.get(domain, 0.0), *(path.filter(pl.col("domain") == domain)["weight"].max() for path in rounds)
        )
        axis.set_ylim(0, 1.25 * highest)
        found = f"{ends.filter(pl.col('domain') == domain)['average'][0]:.3f}"
        axis.text(0.98, 0.98, found, transform=axis.transAxes, ha="right", va="top", fontsize=7, color=colour)
    figure.supxlabel("training steps of the proxy", fontsize=8.5)
    figure.supylabel("weight", fontsize=8.5)
    entries = [
        figures.swatch("average so far; its end, in numbers, is the mixture", colour, line="-"),
        figures.swatch("weight of each step", pale, line="-"),
        figures.swatch(options.reference, grey, line="--"),
    ]
    if len(rounds) > 1:
        entries.append(figures.swatch("a new round", "#aaaaaa", line=":"))
    figures.key(figure, [entries], f"How {options.method} weighs the domains")
    with replacing(options.out) as temporary:
        figures.save(figure, temporary)


if __name__ == "__main__":
    sys.exit(run(main))
