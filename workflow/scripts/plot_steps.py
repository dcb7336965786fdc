"""Draw loss against training steps, one panel per domain: points measured, lines the fitted law
(paper Fig. 1).

coefficients.json, losses, mixtures -> svg

Below each panel, how far the law misses: what it predicts against what was measured, in percent.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bimix.errors import run
from bimix.laws import LAWS, predict_defined
from bimix.laws.document import checked_law
from bimix.observations.observations import Observations, mean_over_seeds, observations, proportions_of
from bimix.outputs import replacing
from bimix.results import figures
from bimix.tables import read_table

POINTS = 80  # of a smooth curve
HEIGHTS = (1.0, 0.5)  # inches of a panel and of the misses below it


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coefficients", type=Path, required=True, help="written by fit_law.py")
    parser.add_argument("--losses", type=Path, nargs="+", required=True, help="tidy losses, fitted and held out")
    parser.add_argument("--mixtures", type=Path, nargs="+", required=True, help="tidy mixtures of the same")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)

    law = checked_law(options.coefficients)
    losses = pl.concat(mean_over_seeds(read_table(path)) for path in options.losses)
    mixtures = pl.concat(read_table(path).select("mixture", "domain", "proportion") for path in options.mixtures)
    mixtures = mixtures.unique(maintain_order=True)  # a mixture may be in several groups
    observed = observations(losses.unique(maintain_order=True), mixtures, allowed=None)
    figure = draw(law, observed, mixtures)
    with replacing(options.out) as temporary:
        figures.save(figure, temporary)


def draw(law: dict, observed: Observations, mixtures: pl.DataFrame) -> Figure:
    """A pair of panels for each domain: its losses with the law's lines, and the law's misses in
    percent.
    """
    names, proportions = proportions_of(mixtures, tuple(law["domains"]))
    proportions = proportions[[names.index(name) for name in observed.mixtures]]
    over_steps = LAWS[law["law"]].plan.over_steps and len(law["steps"]) > 1
    told = observed.steps if over_steps else np.intersect1d(observed.steps, law["steps"])
    smooth = np.geomspace(observed.steps[0], observed.steps[-1], POINTS) if over_steps else told
    shown = [domain for domain in law["loss_domains"] if domain in observed.loss_domains]
    figure, pairs = figures.paired_grid(len(shown), HEIGHTS)
    for (above, below), domain in zip(pairs, shown, strict=True):
        own = law["loss_domains"].index(domain)
        points = observed.losses[:, :, observed.loss_domains.index(domain)]
        draw_losses(above, law, observed, points, smooth, predict_defined(law, proportions, smooth)[:, :, own])
        at = np.isin(observed.steps, told)
        draw_misses(below, law, observed, points[:, at], told, predict_defined(law, proportions, told)[:, :, own])
        figures.name_panel(above, domain)
        figures.log_axis(below, "x", observed.steps, most=3)
    figure.supxlabel("training steps (log)", fontsize=figures.LARGE)
    for above, below in pairs[:: figures.columns(len(shown))]:
        above.set_ylabel("loss (nats, log)")
        below.set_ylabel("miss (%)")
    figure.align_ylabels()
    colours, dashes = figures.styles(list(observed.mixtures)), figures.dashes(observed.mixtures)
    held_out = "; hollow: not fitted, so the line is a prediction" if set(names) - set(law["mixtures"]) else ""
    entries = [
        figures.swatch(name, *colours[name], line=dashes[name], hollow=name not in law["mixtures"])
        for name in observed.mixtures
    ]
    note = f"Marks: measured; lines: the law {law['law']}{held_out}. Miss: the law above the mark."
    figures.key(figure, [entries], note)
    return figure


def draw_losses(
    axis: Axes, law: dict, observed: Observations, points: np.ndarray, smooth: np.ndarray, lines: np.ndarray
) -> None:
    """Measured losses (k, n) of k mixtures at n steps, and the law's lines (k, p) through p
    steps.
    """
    colours, dashes = figures.styles(list(observed.mixtures)), figures.dashes(observed.mixtures)
    for n, mixture in enumerate(observed.mixtures):
        colour, marker = colours[mixture]
        alone = {"linestyle": "none", "marker": "_"} if len(smooth) == 1 else {"linestyle": dashes[mixture]}
        axis.plot(smooth, lines[n], color=colour, linewidth=0.8, **alone)
        look = {"color": colour, "markerfacecolor": colour if mixture in law["mixtures"] else "white"}
        axis.plot(observed.steps, points[n], marker, **look, markeredgewidth=0.7, markersize=figures.size(marker, 2.8))
    figures.log_axis(axis, "y", np.concatenate([points.ravel(), lines.ravel()]), most=4)


def draw_misses(
    axis: Axes, law: dict, observed: Observations, points: np.ndarray, steps: np.ndarray, predicted: np.ndarray
) -> None:
    """What the law predicts over what was measured (both (k, n)) in percent, the mixtures of a step
    beside each other.
    """
    colours = figures.styles(list(observed.mixtures))
    apart = np.log(steps[1:] / steps[:-1]).min() if len(steps) > 1 else 0.5
    axis.axhline(0, color="#888888", linewidth=0.6)
    for n, mixture in enumerate(observed.mixtures):
        colour, marker = colours[mixture]
        fitted = mixture in law["mixtures"]
        places = steps * np.exp(figures.dodged(n, len(observed.mixtures), 0.35 * apart))
        look = {"color": colour, "markerfacecolor": colour if fitted else "white", "markeredgewidth": 0.6}
        axis.plot(places, 100 * (predicted[n] / points[n] - 1), marker, **look, markersize=figures.size(marker, 2.4))
    axis.locator_params(axis="y", nbins=3)


if __name__ == "__main__":
    sys.exit(run(main))
