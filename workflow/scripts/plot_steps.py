"""Draw loss against training steps, one panel per domain: points measured, lines the fitted law
(paper Fig. 1).

coefficients.json, losses, mixtures -> svg

Below each panel, how far the law misses: what it predicts against what was measured, in percent.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bimix.errors import run
from bimix.laws.document import checked_law
from bimix.laws.fitted import predict_defined
from bimix.laws.table import LAWS
from bimix.observations.observations import Observations
from bimix.results import figures

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
    figures.save(draw(law, figures.read_observed(options.losses, options.mixtures)), options.out)


def draw(law: dict, observed: Observations) -> Figure:
    """Two panels a domain: losses with the law's lines, and the law's misses in percent."""
    proportions = observed.proportions[:, [observed.domains.index(name) for name in law["domains"]]]
    over_steps = LAWS[law["law"]].over_steps and len(law["steps"]) > 1
    known = observed.steps if over_steps else np.intersect1d(observed.steps, law["steps"])
    smooth = np.geomspace(observed.steps[0], observed.steps[-1], POINTS) if over_steps else known
    shown = [domain for domain in law["loss_domains"] if domain in observed.loss_domains]
    seen = [name in law["mixtures"] for name in observed.mixtures]
    looks = list(zip(figures.looks(observed.mixtures).values(), seen, strict=True))
    figure, pairs = figures.paired_grid(len(shown), HEIGHTS)
    for (above, below), domain in zip(pairs, shown, strict=True):
        own = law["loss_domains"].index(domain)
        points = observed.losses[:, :, observed.loss_domains.index(domain)]
        draw_losses(above, looks, observed.steps, points, smooth, predict_defined(law, proportions, smooth)[:, :, own])
        misses = predict_defined(law, proportions, known)[:, :, own] / points[:, np.isin(observed.steps, known)] - 1
        draw_misses(below, looks, known, 100 * misses)
        figures.name_panel(above, domain)
        figures.log_axis(below, "x", observed.steps, most=3)
    figure.supxlabel("training steps (log)", fontsize=figures.LARGE)
    for above, below in pairs[:: figures.columns(len(shown))]:
        above.set_ylabel("loss (nats, log)")
        below.set_ylabel("miss (%)")
    figure.align_ylabels()
    named = zip(observed.mixtures, looks, strict=True)
    entries = [look.entry(name, line=True, hollow=not fitted) for name, (look, fitted) in named]
    held_out = "" if all(seen) else "; hollow: not fitted"
    figures.key(figure, [entries], f"{figures.missed(law, observed, known)}{held_out}.")
    return figure


def draw_losses(
    axis: Axes,
    looks: list[tuple[figures.Look, bool]],
    steps: np.ndarray,
    points: np.ndarray,
    smooth: np.ndarray,
    lines: np.ndarray,
) -> None:
    """Measured losses (k, n) of k mixtures at n steps, and the law's lines (k, p) through p steps;
    `looks`: how each mixture looks, and whether the law was fitted to it.
    """
    for (look, fitted), line, own in zip(looks, lines, points, strict=True):
        alone = {"linestyle": "none", "marker": "_"} if len(smooth) == 1 else {"linestyle": look.dash}
        axis.plot(smooth, line, color=look.colour, linewidth=0.8, **alone)
        axis.plot(steps, own, **look.mark(2.8, not fitted, markeredgewidth=0.7))
    figures.log_axis(axis, "y", np.concatenate([points.ravel(), lines.ravel()]), most=4)


def draw_misses(axis: Axes, looks: list[tuple[figures.Look, bool]], steps: np.ndarray, percents: np.ndarray) -> None:
    """The law above the measured losses, in percent (k, n), the mixtures of a step dodged."""
    closest = np.log(steps[1:] / steps[:-1]).min() if len(steps) > 1 else 0.5
    axis.axhline(0, color="#888888", linewidth=0.6)
    for rank, ((look, fitted), own) in enumerate(zip(looks, percents, strict=True)):
        places = steps * np.exp(figures.dodged(rank, len(looks), 0.35 * closest))
        axis.plot(places, own, **look.mark(2.4, not fitted, markeredgewidth=0.6))
    axis.locator_params(axis="y", nbins=3)


if __name__ == "__main__":
    sys.exit(run(main))
