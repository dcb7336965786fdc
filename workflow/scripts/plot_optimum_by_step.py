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
from bimix.laws.document import checked_law
from bimix.laws.fitted import predict_defined
from bimix.mixtures.mixture import read_proportions
from bimix.optimum.objective import average, target_weights, weighed
from bimix.results import figures
from bimix.tables import read_numbers, read_table

Ends = dict[str, tuple[float, str]]  # of lines, with their colours, by name


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coefficients", type=Path, required=True, help="written by fit_law.py")
    parser.add_argument("--path", type=Path, required=True, help="written by trace_optimum.py")
    parser.add_argument("--baseline", required=True, help="name of the mixture to draw with it")
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
    figures.save(draw(law, path, options.baseline, before, options.step, weights), options.out)


def draw(
    law: dict,
    path: pl.DataFrame,
    baseline: str,
    before: dict[str, float],
    step: int,
    weights: dict[str, float] | None = None,
) -> Figure:
    """Left, losses of optimum and baseline; right, the proportions of all domains."""
    height = max(2.5, 0.13 * path["domain"].n_unique() + 0.9)
    figure = Figure(figsize=(figures.WIDTH, height), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.35])
    share = np.array([[before.get(domain, 0.0) for domain in law["domains"]]])
    steps = path["step"].unique().sort()
    level = average(predict_defined(law, share, steps.to_numpy())[0], target_weights(law, weights))
    ends = draw_losses(left, path, figures.looks([law["law"]])[law["law"]].colour, level, baseline)
    left.set_title("predicted weighted loss" if weighed(law, weights) else "predicted average loss")
    left.set_ylabel("loss (nats per token, log)")
    shares = draw_proportions(right, path)
    for axis in (left, right):
        figures.log_axis(axis, "x", steps.to_numpy(), most=4)
        axis.set_xlabel("training steps (log)")
        if step in steps:
            axis.axvline(step, color=figures.GREY, linewidth=0.8, linestyle=":")
    entries = (
        [figures.swatch(f"step {step:,}, which is optimised for", figures.GREY, line=":")] if step in steps else []
    )
    said = f"From {steps[0]:,} to {steps[-1]:,} steps, by the law {law['law']}, {finding(path)}"
    figures.key(figure, [entries] if entries else [], said)
    figures.label_ends(right, shares)
    figures.label_ends(left, ends)
    return figure


def finding(path: pl.DataFrame) -> str:
    """The domain whose proportion moves most from the first step to the last."""
    ends = path.sort("step").group_by("domain").agg(pl.col("proportion").first(), end=pl.col("proportion").last())
    moved = ends.with_columns(by=(pl.col("end") - pl.col("proportion")).abs()).sort("by", "domain", descending=True)
    domain, before, after, by = moved.row(0)
    if by < 5e-4:
        return "no proportion of the optimum moves."
    return f"{domain} moves most in the optimum, from {before:.3f} to {after:.3f}."


def draw_losses(axis: Axes, path: pl.DataFrame, colour: str, level: np.ndarray, baseline: str) -> Ends:
    """The predicted losses of the optimum and, at `level`, of the baseline."""
    averages = path.unique("step").sort("step")
    axis.plot(averages["step"], averages["average_loss"], color=colour)
    axis.plot(averages["step"], level, linestyle="--", color=figures.GREY)
    figures.log_axis(axis, "y", np.concatenate([level, averages["average_loss"].to_numpy()]), most=4)
    ends = {"optimum": (averages["average_loss"][-1], colour)}
    return ends | ({baseline: (float(level[-1]), figures.GREY)} if np.isfinite(level[-1]) else {})


def draw_proportions(axis: Axes, path: pl.DataFrame) -> Ends:
    """A line a domain, marked at its end."""
    ends = {}
    for domain, look in figures.domain_looks(path["domain"].unique().to_list()).items():
        own = path.filter(pl.col("domain") == domain).sort("step")
        axis.plot(own["step"], own["proportion"], **look.line(), markevery=[-1], clip_on=False)
        ends[domain] = (own["proportion"][-1], look.colour)
    axis.set_ylim(bottom=0, top=1.08 * path["proportion"].max())
    axis.set_title("proportions of the optimum")
    axis.set_ylabel("proportion")
    return ends


if __name__ == "__main__":
    sys.exit(run(main))
