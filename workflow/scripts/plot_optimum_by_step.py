"""Draw how the optimum moves with the training steps: its predicted average loss, and each domain's proportion.

optimum_by_step.csv (law, step, domain, proportion, average_loss), mixture.json of the baseline -> svg
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl

from bimix.errors import InputError, run
from bimix.laws import predict_defined
from bimix.optimum.optimum import average, target_weights, weighed
from bimix.outputs import replacing
from bimix.results import figures
from bimix.tables import read_json, read_numbers, read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coefficients", type=Path, required=True, help="written by fit_law.py")
    parser.add_argument("--path", type=Path, required=True, help="written by trace_optimum.py")
    parser.add_argument("--baseline", required=True, help="name of the mixture to draw beside it")
    parser.add_argument("--baseline-mixture", type=Path, required=True, help="{domain: proportion}, JSON")
    parser.add_argument("--step", type=int, required=True, help="the step that the mixture was optimised for")
    parser.add_argument("--weights", help="as for optimize_mixture.py")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)

    law, before = read_json(options.coefficients), read_numbers(options.baseline_mixture)
    path = read_table(options.path).sort("step")
    steps = path["step"].unique().sort().to_numpy()
    if len(steps) < 2:
        raise InputError(f"{options.path} has one step only: there is no path to draw.")
    ends = path.filter(pl.col("step") == options.step).sort("proportion", descending=True)
    domains = (ends if ends.height else path)["domain"].unique(maintain_order=True).to_list()
    colour, grey = figures.styles([law["law"]])[law["law"]][0], "#555555"
    share = np.array([[before.get(domain, 0.0) for domain in law["domains"]]])
    weights = options.weights and read_numbers(options.weights)
    level = average(predict_defined(law, share, steps)[0], target_weights(law, weights))
    figure, axes = figures.grid(1 + len(domains), sharex=True)
    averages = path.unique("step").sort("step")
    axes[0].plot(steps, level, "--", color=grey)
    axes[0].plot(averages["step"], averages["average_loss"], color=colour)
    only = weighed(law, weights)
    figures.name_panel(axes[0], f"predicted loss, {only}" if only else "predicted average loss")
    figures.log_axis(axes[0], "y", np.concatenate([level, averages["average_loss"].to_numpy()]))
    for axis, domain in zip(axes[1:], domains, strict=True):
        own = path.filter(pl.col("domain") == domain)
        axis.axhline(before.get(domain, 0.0), linestyle="--", color=grey)
        axis.plot(own["step"], own["proportion"], color=colour)
        figures.name_panel(axis, domain)
        axis.set_ylim(bottom=0, top=1.15 * max(own["proportion"].max(), before.get(domain, 0.0), 0.01))
    for axis in axes:
        figures.log_axis(axis, "x", steps)
        if ends.height:
            axis.axvline(options.step, color="#aaaaaa", linewidth=0.8, linestyle=":")
    figure.supxlabel("training steps", fontsize=8.5)
    figure.supylabel("proportion (first panel: loss)", fontsize=8.5)
    figures.key(
        figure,
        [
            [
                figures.swatch(f"optimum of {law['law']} for that many steps", colour, line="-"),
                figures.swatch(options.baseline, grey, line="--"),
                figures.swatch(f"step {options.step:,}, which is optimised for", "#aaaaaa", line=":"),
            ]
        ],
        "How the optimum moves with the training steps",
    )
    with replacing(options.out) as temporary:
        figures.save(figure, temporary)


if __name__ == "__main__":
    sys.exit(run(main))
