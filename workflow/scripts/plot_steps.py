"""Draw loss against training steps, one panel per domain: points observed, dotted lines the fitted law (paper Fig. 1).

coefficients.json, losses, mixtures -> svg
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl

from bimix.errors import run
from bimix.laws import LAWS, predict_defined
from bimix.laws.observations import mean_over_seeds, observations, proportions_of
from bimix.outputs import replacing
from bimix.results import figures
from bimix.tables import read_json, read_table

POINTS = 80  # of a smooth curve


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coefficients", type=Path, required=True, help="written by fit_law.py")
    parser.add_argument("--losses", type=Path, nargs="+", required=True, help="tidy losses, fitted and held out")
    parser.add_argument("--mixtures", type=Path, nargs="+", required=True, help="tidy mixtures of the same")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)

    law = read_json(options.coefficients)
    losses = pl.concat(mean_over_seeds(read_table(path)) for path in options.losses)
    mixtures = pl.concat(read_table(path).select("mixture", "domain", "proportion") for path in options.mixtures)
    mixtures = mixtures.unique(maintain_order=True)  # a mixture may be in several groups
    observed = observations(losses.unique(maintain_order=True), mixtures)
    names, proportions = proportions_of(mixtures, tuple(law["domains"]))
    proportions = proportions[[names.index(name) for name in observed.mixtures]]

    over_steps = LAWS[law["law"]].plan.over_steps and len(law["steps"]) > 1
    steps = np.geomspace(observed.steps[0], observed.steps[-1], POINTS) if over_steps else np.array(law["steps"])
    curves = predict_defined(law, proportions, steps)
    shown = [domain for domain in law["loss_domains"] if domain in observed.loss_domains]
    colours = figures.styles(list(observed.mixtures))
    figure, axes = figures.grid(len(shown), sharex=True)
    for axis, domain in zip(axes, shown, strict=True):
        points = observed.losses[:, :, observed.loss_domains.index(domain)]
        lines = curves[:, :, law["loss_domains"].index(domain)]
        for n, mixture in enumerate(observed.mixtures):
            colour, marker = colours[mixture]
            fill = colour if mixture in law["mixtures"] else "white"
            axis.plot(observed.steps, points[n], marker, color=colour, markerfacecolor=fill, markeredgewidth=0.8)
            axis.plot(steps, lines[n], ":" if over_steps else "_", color=colour)
        figures.name_panel(axis, domain)
        figures.log_axis(axis, "x", observed.steps)
        figures.log_axis(axis, "y", np.concatenate([points.ravel(), lines.ravel()]))
    figure.supxlabel("training steps", fontsize=8.5)
    figure.supylabel("validation loss (nats per token)", fontsize=8.5)
    held_out = " (hollow: not fitted)" if set(observed.mixtures) - set(law["mixtures"]) else ""
    figures.key(
        figure,
        [
            [
                figures.swatch(name, *colours[name], line=":", hollow=name not in law["mixtures"])
                for name in observed.mixtures
            ]
        ],
        f"Loss against training steps: points observed{held_out}, dotted lines the law {law['law']}",
    )
    with replacing(options.out) as temporary:
        figures.save(figure, temporary)


if __name__ == "__main__":
    sys.exit(run(main))
