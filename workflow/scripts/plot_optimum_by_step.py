"""Draw how the optimum moves with the training steps: its predicted average loss, and each domain's
proportion.

optimum_by_step.csv (law, step, domain, proportion, average_loss), mixture.json of the baseline ->
svg
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bimix.errors import InputError, run
from bimix.laws import predict_defined
from bimix.laws.document import checked_law
from bimix.mixtures.mixture import read_proportions
from bimix.optimum.optimum import average, target_weights, weighed
from bimix.outputs import replacing
from bimix.results import figures
from bimix.tables import read_numbers, read_table

GREY = "#555555"


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

    law, before = checked_law(options.coefficients), read_proportions(options.baseline_mixture)
    path = read_table(options.path).sort("step")
    if path["step"].n_unique() < 2:
        raise InputError(f"{options.path} has one step only: there is no path to draw.")
    weights = read_numbers(options.weights) if options.weights else None
    figure = draw(law, path, options.baseline, before, options.step, weights)
    with replacing(options.out) as temporary:
        figures.save(figure, temporary)


def draw(
    law: dict,
    path: pl.DataFrame,
    baseline: str,
    before: dict[str, float],
    step: int,
    weights: dict[str, float] | None = None,
) -> Figure:
    """Left, the loss of the optimum and of the baseline; right, the proportions of all domains in
    one panel.
    """
    domains = path["domain"].unique(maintain_order=True).to_list()
    height = max(2.5, 0.13 * len(domains) + 0.9)
    figure = Figure(figsize=(figures.WIDTH, height), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.35])
    ends = draw_losses(left, law, path, baseline, before, weights)
    shares = draw_proportions(right, path, before)
    for axis in (left, right):
        figures.log_axis(axis, "x", path["step"].to_numpy(), most=4)
        axis.set_xlabel("training steps (log)")
        if step in path["step"]:
            axis.axvline(step, color=GREY, linewidth=0.8, linestyle=":")
    entries = [figures.swatch(f"proportions of {baseline}", GREY, "o", hollow=True)]
    if step in path["step"]:
        entries.append(figures.swatch(f"step {step:,}, which is optimised for", GREY, line=":"))
    figures.key(figure, [entries], f"The mixture that the law {law['law']} finds best for a run of so many steps")
    figures.label_ends(right, shares)
    figures.label_ends(left, ends)
    return figure


def draw_losses(
    axis: Axes,
    law: dict,
    path: pl.DataFrame,
    baseline: str,
    before: dict[str, float],
    weights: dict[str, float] | None,
) -> dict[str, tuple[float, str]]:
    """The predicted losses of the optimum and of the baseline; the ends of the lines and their
    colours by name.
    """
    averages = path.unique("step").sort("step")
    share = np.array([[before.get(domain, 0.0) for domain in law["domains"]]])
    level = average(predict_defined(law, share, averages["step"].to_numpy())[0], target_weights(law, weights))
    colour = figures.styles([law["law"]])[law["law"]][0]
    axis.plot(averages["step"], averages["average_loss"], color=colour)
    axis.plot(averages["step"], level, linestyle="--", color=GREY)
    only = weighed(law, weights)
    axis.set_title("predicted loss" if only else "predicted average loss")
    axis.set_ylabel(f"loss of {only} (nats per token, log)" if only else "loss (nats per token, log)")
    figures.log_axis(axis, "y", np.concatenate([level, averages["average_loss"].to_numpy()]), most=4)
    ends = {"optimum": (averages["average_loss"][-1], colour)}
    return ends | ({baseline: (float(level[-1]), GREY)} if np.isfinite(level[-1]) else {})


def draw_proportions(axis: Axes, path: pl.DataFrame, before: dict[str, float]) -> dict[str, tuple[float, str]]:
    """A line for each domain with its mark at the end, and hollow at the left the baseline's
    proportion; the ends of the lines by name.
    """
    looks = figures.domain_styles(path["domain"].unique().to_list())
    first = path["step"].min()
    ends = {}
    for domain, (colour, marker, dash) in looks.items():
        own = path.filter(pl.col("domain") == domain).sort("step")
        look = {"marker": marker, "markevery": [-1], "markersize": figures.size(marker), "clip_on": False}
        axis.plot(own["step"], own["proportion"], color=colour, linestyle=dash, **look)
        hollow = {"color": colour, "markerfacecolor": "white", "markersize": figures.size(marker), "clip_on": False}
        axis.plot(first, before.get(domain, 0.0), marker, **hollow)
        ends[domain] = (own["proportion"][-1], colour)
    axis.set_ylim(bottom=0, top=1.08 * max(path["proportion"].max(), *before.values()))
    axis.set_title("proportions of the optimum")
    axis.set_ylabel("proportion")
    return ends


if __name__ == "__main__":
    sys.exit(run(main))
