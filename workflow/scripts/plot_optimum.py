"""Draw a law's optimum with its intervals next to the baseline, and the change of each loss as
predicted and as measured.

coefficients.json, intervals.csv, mixture.json of the baseline; losses and mixtures of the runs
compared -> svg

The mixture of a run counts as the optimum if none of its proportions is off by more than NEAR.
"""

import sys
from typing import NamedTuple

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bimix.errors import InputError, run
from bimix.judge.evidence import NEAR
from bimix.laws.document import checked_law
from bimix.laws.fitted import predict_defined
from bimix.mixtures.mixture import farthest, read_proportions
from bimix.observations.observations import mean_over_seeds
from bimix.observations.tables import by_mixture
from bimix.optimum.intervals import INTERVALS
from bimix.optimum.objective import average, target_weights
from bimix.results import figures
from bimix.tables import read_numbers, read_table

FITTED = "#dcdcdc"


class Runs(NamedTuple):
    """Runs that were compared: their model, losses (mixture, step, domain, loss), and mixtures."""

    model: str
    losses: pl.DataFrame
    mixtures: dict[str, dict[str, float]]


def main(argv: list[str] | None = None) -> None:
    parser = figures.flags(
        __doc__,
        coefficients="written by fit_law.py",
        intervals="written by estimate_intervals.py",
        baseline_mixture="{domain: proportion}, JSON",
        compared_losses="tidy losses of the runs compared",
        compared_mixtures="tidy mixtures of the same",
        out="svg",
    )
    parser.add_argument("--baseline", required=True, help="name of the mixture that the gain is counted from")
    parser.add_argument("--compared-model", default="", help="what they trained, to be named")
    parser.add_argument("--weights", help="as for optimize_mixture.py")
    options = parser.parse_args(argv)
    table = read_table(options.intervals).cast(INTERVALS)
    if not table.filter(pl.col("quantity") == "proportion").height:
        raise InputError(f"{options.intervals} has no proportions of an optimum: write it with estimate_intervals.py.")
    losses = mean_over_seeds(read_table(options.compared_losses))
    runs = Runs(options.compared_model, losses, by_mixture(read_table(options.compared_mixtures)))
    law, before = checked_law(options.coefficients), read_proportions(options.baseline_mixture)
    weights = read_numbers(options.weights) if options.weights else None
    figures.save(draw(law, table, options.baseline, before, runs, weights), options.out)


def draw(
    law: dict,
    table: pl.DataFrame,
    baseline: str,
    before: dict[str, float],
    runs: Runs,
    weights: dict[str, float] | None = None,
) -> Figure:
    """Left, the proportions with their intervals; right, the change of the loss in each domain,
    predicted and measured; their average, the first row, with the interval of the prediction.
    """
    best = table.filter(pl.col("quantity") == "proportion").sort("estimate", descending=True)
    after, step = dict(best.select("domain", "estimate").iter_rows()), best["step"][0]
    target = target_weights(law, weights)
    shares = np.array([[mixture.get(domain, 0.0) for domain in law["domains"]] for mixture in (before, after)])
    predicted = changes(law, predict_defined(law, shares, np.array([step]))[:, 0], target)
    measured = measured_changes(law, baseline, after, runs, target)
    span = gain_interval(table, baseline)
    rows = ["", *after, *(domain for domain in law["loss_domains"] if domain not in after)]
    look = figures.looks([law["law"]])[law["law"]]
    figure, (left, right) = figures.row_panels(["average", *rows[1:]], [1.15, 1], 0.17, 1.2)
    draw_proportions(left, law, best, before, look)
    draw_changes(right, {"predicted": predicted, "measured": measured}, span, rows, look)
    right.set_title(f"loss against {figures.short(baseline)}")
    entries = [
        figures.swatch(baseline, "black", "o", hollow=True),
        look.entry(f"optimum, {100 * best['level'][0]:g} % interval", line=True),
        figures.swatch("proportions fitted", FITTED, "s"),
    ]
    losses = [look.entry(f"predicted, step {step:,}", hollow=True)]
    if measured:
        last, model = runs.losses["step"].max(), f", {figures.short(runs.model)}" if runs.model else ""
        losses.append(look.entry(f"measured{model}, step {last:,}"))
    if span:
        losses.append(figures.swatch("interval of the average", look.colour, line=(0, (1, 1))))
    between = f" ({span[0]:+.2f} to {span[1]:+.2f} %)" if span else ""
    found = f"measured {measured['']:+.2f} %" if measured else "not measured"
    note = f"Average loss of {law['law']} against {baseline}: predicted {predicted.get('', 0):+.2f} %{between}"
    figures.key(figure, [entries, losses], f"{note}, {found}." if "" in predicted else "")
    return figure


def changes(law: dict, losses: np.ndarray, target: np.ndarray) -> dict[str, float]:
    """{domain: percent} from the first to the second of losses (2, d), under "" that of their
    average by the weights; NaN is left out.
    """
    means = average(losses, target)
    found = np.append(100 * (losses[1] / losses[0] - 1), 100 * (means[1] / means[0] - 1))
    named = zip([*law["loss_domains"], ""], found.tolist(), strict=True)
    return {name: value for name, value in named if np.isfinite(value)}


def measured_changes(
    law: dict, baseline: str, after: dict[str, float], runs: Runs, target: np.ndarray
) -> dict[str, float]:
    """`changes` of the runs on baseline and optimum at their last step, if both are there."""
    same = [name for name, own in runs.mixtures.items() if farthest(own, after)[1] <= NEAR]
    last = runs.losses.filter(pl.col("step") == runs.losses["step"].max())
    found = {(name, domain): loss for name, domain, loss in last.select("mixture", "domain", "loss").iter_rows()}
    names = (baseline, *same[:1])
    losses = np.array([[found.get((name, domain), np.nan) for domain in law["loss_domains"]] for name in names])
    if len(names) < 2 or np.isnan(losses[:, target > 0]).any():
        return {}
    return changes(law, losses, target)


def draw_proportions(axis: Axes, law: dict, best: pl.DataFrame, before: dict[str, float], look: figures.Look) -> None:
    """Rows from 1 on: the range that was fitted, the optimum with its interval, the baseline."""
    for row, one in enumerate(best.iter_rows(named=True), 1):
        seen = law["proportions_seen"][one["domain"]]
        axis.plot([seen["min"], seen["max"]], [row, row], color=FITTED, linewidth=6.5, solid_capstyle="butt")
        axis.plot([one["low"], one["high"]], [row, row], color=look.colour, linewidth=1.2)
        axis.plot(one["estimate"], row, **look.mark(4.2))
        axis.plot(before.get(one["domain"], 0.0), row, "o", color="black", markerfacecolor="none", markersize=4.4)
    axis.axhline(0.5, color="#cccccc", linewidth=0.6)
    axis.set_xlim(left=min(0, axis.get_xlim()[0]))
    axis.locator_params(axis="x", nbins=5)
    axis.set_title("proportions")
    axis.set_xlabel("proportion")


def draw_changes(
    axis: Axes, found: dict[str, dict[str, float]], span: list[float], rows: list[str], look: figures.Look
) -> None:
    """The changes of each loss, the predicted ones hollow and, where there are both, higher."""
    shift = 0.17 if found["measured"] else 0.0
    axis.axvline(0, color="#888888", linewidth=0.8)
    axis.axhline(0.5, color="#cccccc", linewidth=0.6)
    for kind, place in (("predicted", -shift), ("measured", shift)):
        for name, change in found[kind].items():
            axis.plot(change, rows.index(name) + place, **look.mark(4.2, kind == "predicted", markeredgewidth=0.8))
    drawn = [0.0, *(change for own in found.values() for change in own.values())]
    margin = 0.12 * (max(drawn) - min(drawn)) + 0.02
    axis.set_xlim(min(drawn) - margin, max(drawn) + margin)
    axis.set_xlabel("change of the loss (%)")
    if span:
        axis.plot(span, [-shift] * 2, color=look.colour, linewidth=0.9, linestyle=(0, (1, 1)))


def gain_interval(table: pl.DataFrame, baseline: str) -> list[float]:
    """The interval of the predicted gain, in percent of the baseline; empty if none."""
    gains = table.filter((pl.col("quantity") == "gain") & (pl.col("mixture") == baseline) & pl.col("low").is_not_null())
    best = table.filter(pl.col("quantity") == "optimum_average_loss")["estimate"]
    if not gains.height or not len(best):
        return []
    one = gains.row(0, named=True)
    return [-100 * one[end] / (best[0] + one["estimate"]) for end in ("high", "low")]


if __name__ == "__main__":
    sys.exit(run(main))
