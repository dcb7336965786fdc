"""Draw how a method weighs the domains while its model trains: the weights of each step and their
average so far.

path.parquet (step, domain, weight, average, excess or score) of each round, mixture.json of the
reference -> svg
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from bimix.errors import run
from bimix.mixtures.mixture import read_proportions
from bimix.results import figures
from bimix.tables import read_table
from bimix.training.artefacts import check

PALE_GREY = "#aaaaaa"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paths", type=Path, nargs="+", required=True, help="path.parquet of each round in turn")
    parser.add_argument("--method", required=True, help="name of the mixture, for its colour")
    parser.add_argument("--reference", required=True, help="name of the mixture to draw with it")
    parser.add_argument("--reference-mixture", type=Path, required=True, help="{domain: proportion}, JSON")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)

    rounds = [read_table(check(path)) for path in options.paths]
    figure = draw(rounds, options.method, options.reference, read_proportions(options.reference_mixture))
    figures.save(figure, options.out)


def draw(rounds: list[pl.DataFrame], method: str, reference: str, before: dict[str, float]) -> Figure:
    """A panel a domain, heaviest first: its weight by the steps of all rounds in turn."""
    rounds = [path.sort("step", "domain") for path in rounds]
    ends = rounds[-1].filter(pl.col("step") == pl.col("step").max()).sort("average", "domain", descending=[True, False])
    colour = figures.looks([method])[method].colour
    pale = to_hex(0.55 + 0.45 * np.array(to_rgb(colour)))
    figure, axes = figures.grid(ends.height, sharex=True)
    for axis, (domain, found) in zip(axes, ends.select("domain", "average").iter_rows(), strict=True):
        own = [path.filter(pl.col("domain") == domain) for path in rounds]
        draw_domain(axis, own, before.get(domain, 0.0), found, (colour, pale))
        figures.name_panel(axis, domain)
    figure.supxlabel("training steps of the proxy", fontsize=figures.LARGE)
    figure.supylabel("weight", fontsize=figures.LARGE)
    entries = [
        figures.swatch(f"average so far; its end, in numbers, is {method}", colour, line="-"),
        figures.swatch("weight of each step", pale, line="-"),
        figures.swatch(reference, figures.GREY, line="--"),
    ]
    if len(rounds) > 1:
        entries.append(figures.swatch("a new round", PALE_GREY, line=":"))
    moved = {domain: found - before.get(domain, 0.0) for domain, found in ends.select("domain", "average").iter_rows()}
    most = max(moved, key=lambda domain: abs(moved[domain]))
    said = f"{method} moves {most} most: from {before.get(most, 0.0):.3f} in {reference} to {moved[most] + before.get(most, 0.0):.3f}."
    figures.key(figure, [entries], said)
    return figure


def draw_domain(axis: Axes, rounds: list[pl.DataFrame], before: float, found: float, colours: tuple[str, str]) -> None:
    """One domain's weight by round, the reference's `before`, and `found` in numbers."""
    first = 0
    for number, own in enumerate(rounds):
        steps = own["step"] + first
        axis.plot(steps, own["weight"], color=colours[1], linewidth=0.7)
        axis.plot(steps, own["average"], color=colours[0], linewidth=1.6)
        first = steps.max()
        if number < len(rounds) - 1:
            axis.axvline(first, color=PALE_GREY, linewidth=0.8, linestyle=":")
    axis.axhline(before, linestyle="--", color=figures.GREY, linewidth=0.9)
    axis.set_xlim(0, first)
    axis.set_ylim(0, 1.35 * max(before, *(own["weight"].max() for own in rounds)))
    axis.locator_params(axis="y", nbins=3)
    axis.locator_params(axis="x", nbins=3, integer=True)
    where = {"transform": axis.transAxes, "ha": "right", "va": "top"}
    axis.text(0.98, 0.98, f"{found:.3f}", **where, fontsize=figures.SMALL)


if __name__ == "__main__":
    sys.exit(run(main))
