"""Draw a law's optimum with its intervals beside the baseline, and the change of each loss as
predicted and as measured.

coefficients.json, intervals.csv, mixture.json of the baseline; losses and mixtures of the runs
compared -> svg

The mixture of a run counts as the optimum if none of its proportions is off by more than NEAR.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bimix.errors import InputError, run
from bimix.judge.evidence import NEAR
from bimix.laws import predict_defined
from bimix.laws.document import checked_law
from bimix.mixtures.mixture import farthest, read_proportions
from bimix.observations.observations import mean_over_seeds
from bimix.optimum.intervals import INTERVALS
from bimix.optimum.optimum import average, target_weights
from bimix.outputs import replacing
from bimix.results import figures
from bimix.tables import read_numbers, read_table

FITTED, BASELINE = "#dcdcdc", "#000000"


@dataclass(frozen=True)
class Runs:
    """Runs that were compared: which model, losses (mixture, step, domain, loss), mixtures
    (mixture, domain, proportion).
    """

    model: str
    losses: pl.DataFrame
    mixtures: pl.DataFrame


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coefficients", type=Path, required=True, help="written by fit_law.py")
    parser.add_argument("--intervals", type=Path, required=True, help="written by estimate_intervals.py")
    parser.add_argument("--baseline", required=True, help="name of the mixture that the gain is counted from")
    parser.add_argument("--baseline-mixture", type=Path, required=True, help="{domain: proportion}, JSON")
    parser.add_argument("--compared-losses", type=Path, help="tidy losses of the runs compared")
    parser.add_argument("--compared-mixtures", type=Path, help="tidy mixtures of the same")
    parser.add_argument("--compared-model", default="", help="what they trained, to be named")
    parser.add_argument("--weights", help="as for optimize_mixture.py")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)

    table = read_table(options.intervals).cast(INTERVALS)
    if not table.filter(pl.col("quantity") == "proportion").height:
        raise InputError(f"{options.intervals} has no proportions of an optimum: write it with estimate_intervals.py.")
    runs = None
    if options.compared_losses and options.compared_mixtures:
        losses = mean_over_seeds(read_table(options.compared_losses))
        runs = Runs(options.compared_model, losses, read_table(options.compared_mixtures))
    law, before = checked_law(options.coefficients), read_proportions(options.baseline_mixture)
    weights = read_numbers(options.weights) if options.weights else None
    figure = draw(law, table, options.baseline, before, runs, weights)
    with replacing(options.out) as temporary:
        figures.save(figure, temporary)


def draw(
    law: dict,
    table: pl.DataFrame,
    baseline: str,
    before: dict[str, float],
    runs: Runs | None = None,
    weights: dict[str, float] | None = None,
) -> Figure:
    """Left, the proportions with their intervals; right, the change of the loss in each domain,
    predicted and measured.
    """
    best = table.filter(pl.col("quantity") == "proportion").sort("estimate", descending=True)
    after = dict(best.select("domain", "estimate").iter_rows())
    target = target_weights(law, weights)
    told = predicted_changes(law, before, after, best["step"][0], target)
    found = measured_changes(law, baseline, after, runs, target) if runs else {}
    others = [domain for domain in law["loss_domains"] if domain not in after]
    rows = [*after, *others]
    figure = Figure(figsize=(figures.WIDTH, 0.17 * len(rows) + 1.35), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.15, 1], sharey=True)
    draw_proportions(left, law, best, before)
    draw_changes(right, table, baseline, told, found, rows)
    figures.name_rows(left, ["average", *rows])
    right.grid(visible=False, axis="y")
    right.tick_params(axis="y", length=0)
    colour, marker = figures.styles([law["law"]])[law["law"]]
    level, step = 100 * best["level"][0], best["step"][0]
    entries = [
        figures.swatch(baseline, BASELINE, "o", hollow=True),
        figures.swatch(f"optimum, {level:g} % interval", colour, marker, line="-"),
        figures.swatch("proportions fitted", FITTED, "s"),
    ]
    losses = [figures.swatch(f"predicted, step {step:,}", colour, marker, hollow=True)]
    if found:
        last, model = runs.losses["step"].max(), f", {figures.short(runs.model)}" if runs.model else ""
        losses.append(figures.swatch(f"measured{model}, step {last:,}", colour, marker))
    if gain_interval(table, baseline):
        losses.append(figures.swatch("interval of the average", colour, line=(0, (1, 1))))
    figures.key(figure, [entries, losses], say_average(table, baseline, told, found))
    return figure


def say_average(table: pl.DataFrame, baseline: str, told: dict[str, float], found: dict[str, float]) -> str:
    """The change of the average loss in numbers: as predicted, with its interval, and as
    measured.
    """
    if "" not in told:
        return ""
    low, high = gain_interval(table, baseline) or (None, None)
    between = "" if low is None else f" ({low:+.2f} to {high:+.2f} %)"
    measured = f", measured {found['']:+.2f} %" if found else ", not measured"
    return f"Average loss of {table['law'][0]} against {baseline}: predicted {told['']:+.2f} %{between}{measured}."


def predicted_changes(
    law: dict, before: dict[str, float], after: dict[str, float], step: int, target: np.ndarray
) -> dict[str, float]:
    """{domain: percent} by which the law has the loss change, and under "" their average by the
    weights.
    """
    shares = np.array([[mixture.get(domain, 0.0) for domain in law["domains"]] for mixture in (before, after)])
    losses = predict_defined(law, shares, np.array([step]))[:, 0]
    changes = 100 * (losses[1] / losses[0] - 1)
    means = average(losses, target)
    named = {**dict(zip(law["loss_domains"], changes, strict=True)), "": 100 * (means[1] / means[0] - 1)}
    return {name: float(value) for name, value in named.items() if np.isfinite(value)}


def measured_changes(
    law: dict, baseline: str, after: dict[str, float], runs: Runs, target: np.ndarray
) -> dict[str, float]:
    """As `predicted_changes`, of the runs on the baseline and the optimum at their last step; empty
    if one is missing.
    """
    optimum = same_mixture(runs.mixtures, after)
    if optimum is None:
        return {}
    last = runs.losses.filter(pl.col("step") == runs.losses["step"].max())
    losses = [
        dict(last.filter(pl.col("mixture") == name).select("domain", "loss").iter_rows())
        for name in (baseline, optimum)
    ]
    weighed = [domain for domain, weight in zip(law["loss_domains"], target, strict=True) if weight > 0]
    if not all(domain in one for one in losses for domain in weighed):
        return {}
    shared = [domain for domain in law["loss_domains"] if all(domain in one for one in losses)]
    changes = {domain: 100 * (losses[1][domain] / losses[0][domain] - 1) for domain in shared}
    arrays = np.array([[one.get(domain, np.nan) for domain in law["loss_domains"]] for one in losses])
    means = average(arrays, target)
    return {**changes, "": float(100 * (means[1] / means[0] - 1))}


def same_mixture(mixtures: pl.DataFrame, wanted: dict[str, float]) -> str | None:
    """The mixture whose proportions are those wanted; None if there is none."""
    for name in mixtures["mixture"].unique(maintain_order=True):
        own = dict(mixtures.filter(pl.col("mixture") == name).select("domain", "proportion").iter_rows())
        if farthest(own, wanted)[1] <= NEAR:
            return name
    return None


def draw_proportions(axis: Axes, law: dict, best: pl.DataFrame, before: dict[str, float]) -> None:
    """Rows from 1 on: the range that was fitted, the optimum with its interval, the baseline."""
    colour, marker = figures.styles([law["law"]])[law["law"]]
    for row, one in enumerate(best.iter_rows(named=True), 1):
        seen = law["proportions_seen"][one["domain"]]
        axis.plot([seen["min"], seen["max"]], [row, row], color=FITTED, linewidth=6.5, solid_capstyle="butt")
        axis.plot([one["low"], one["high"]], [row, row], color=colour, linewidth=1.2)
        axis.plot(one["estimate"], row, marker, color=colour, markersize=figures.size(marker, 4.2))
        hollow = {"color": BASELINE, "markerfacecolor": "none", "markersize": 4.4}
        axis.plot(before.get(one["domain"], 0.0), row, "o", **hollow)
    axis.axhline(0.5, color="#cccccc", linewidth=0.6)
    axis.set_xlim(left=min(0, axis.get_xlim()[0]))
    axis.locator_params(axis="x", nbins=5)
    axis.set_title("proportions")
    axis.set_xlabel("proportion")


def draw_changes(
    axis: Axes,
    table: pl.DataFrame,
    baseline: str,
    told: dict[str, float],
    found: dict[str, float],
    rows: list[str],
) -> None:
    """Row 0 is the average with the interval of its predicted change, the rows from 1 on are the
    domains.
    """
    law = table["law"][0]
    colour, marker = figures.styles([law])[law]
    places = {"": 0, **{domain: row for row, domain in enumerate(rows, 1)}}
    axis.axvline(0, color="#888888", linewidth=0.8)
    axis.axhline(0.5, color="#cccccc", linewidth=0.6)
    look = {"color": colour, "markersize": figures.size(marker, 4.2), "markeredgewidth": 0.8}
    for changes, face, shift in ((told, "white", -0.17), (found, colour, 0.17)):
        for name, change in changes.items():
            axis.plot(change, places[name] + (shift if found else 0), marker, **look, markerfacecolor=face)
    drawn = [*told.values(), *found.values(), 0.0]
    low, high = min(drawn), max(drawn)
    axis.set_xlim(low - 0.12 * (high - low) - 0.02, high + 0.12 * (high - low) + 0.02)
    axis.set_title(f"loss against {figures.short(baseline)}")
    axis.set_xlabel("change of the loss (%)")
    span = gain_interval(table, baseline)
    if span:
        axis.plot(span, [-0.17 if found else 0] * 2, color=colour, linewidth=0.9, linestyle=(0, (1, 1)))


def gain_interval(table: pl.DataFrame, baseline: str) -> list[float]:
    """The interval of the predicted change of the average loss, in percent of the baseline's; empty
    if there is none.
    """
    gains = table.filter((pl.col("quantity") == "gain") & (pl.col("mixture") == baseline) & pl.col("low").is_not_null())
    best = table.filter(pl.col("quantity") == "optimum_average_loss")["estimate"]
    if not gains.height or not len(best):
        return []
    one = gains.row(0, named=True)
    return [-100 * one[end] / (best[0] + one["estimate"]) for end in ("high", "low")]


if __name__ == "__main__":
    sys.exit(run(main))
