"""Draw a law's optimum with its intervals next to the baseline, and the change of each loss as
predicted and as measured.

coefficients.json, intervals.csv (what the law predicts at the run that the optimum is for),
mixture.json of the baseline; losses and mixtures of the runs compared -> svg

The mixture of a run counts as the optimum if none of its proportions is off by more than NEAR.
"""

import sys

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from bimix.errors import InputError, run
from bimix.judge.comparison import compared, loss_changes
from bimix.judge.evidence import NEAR
from bimix.judge.measured import Criterion, evaluated, measured
from bimix.laws.document import checked_law
from bimix.mixtures.mixture import farthest, read_proportions
from bimix.observations.tables import by_mixture
from bimix.optimum.intervals import INTERVALS
from bimix.optimum.objective import average, target_weights
from bimix.results import figures
from bimix.tables import read_numbers, read_table

FITTED = "#dcdcdc"


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
    parser.add_argument("--model", default="", help="that the law is of: its runs are compared at the optimum's step")
    parser.add_argument("--weights", help="as for optimize_mixture.py")
    options = parser.parse_args(argv)
    table = read_table(options.intervals).cast(INTERVALS)
    best = table.filter(pl.col("quantity") == "proportion").sort("estimate", descending=True)
    law, before = checked_law(options.coefficients), read_proportions(options.baseline_mixture)
    pair = predicted_losses(law, table, options.baseline)
    if not best.height or pair is None:
        lacks = "proportions of an optimum" if not best.height else f"losses at the optimum and at {options.baseline}"
        how = "write it with estimate_intervals.py --resamples and --baseline"
        raise InputError(f"{options.intervals} has no {lacks}: {how}.")
    target = target_weights(law, read_numbers(options.weights) if options.weights else None)
    after, step = dict(best.select("domain", "estimate").iter_rows()), best["step"][0]
    found = {f"predicted, step {step:,}": changes(law, pair, target)}
    losses, runs = read_table(options.compared_losses), by_mixture(read_table(options.compared_mixtures))
    if options.compared_model == options.model and evaluated(losses, step):
        losses = losses.filter(pl.col("step") <= step)
    model = f", {figures.short(options.compared_model)}" if options.compared_model else ""
    found[f"measured{model}, step {losses['step'].max():,}"] = measured_changes(
        law,
        losses,
        (options.baseline, *(name for name, own in runs.items() if farthest(own, after)[1] <= NEAR)),
        target,
    )
    figures.save(draw(law, best, options.baseline, before, found, gain_interval(table, options.baseline)), options.out)


def draw(
    law: dict,
    best: pl.DataFrame,
    baseline: str,
    before: dict[str, float],
    found: dict[str, dict[str, float]],
    span: list[float],
) -> Figure:
    """Left, the proportions with their intervals; right, the changes of the losses, `found` as
    predicted (hollow) and measured, their average in the first row with the interval `span`.
    """
    rows = ["", *best["domain"], *(domain for domain in law["loss_domains"] if domain not in set(best["domain"]))]
    looks = figures.looks([law["law"], baseline])
    look, other = looks[law["law"]], looks[baseline]
    figure, (left, right) = figures.row_panels(["average", *rows[1:]], [1.15, 1], 0.17, 1.2)
    for row, one in enumerate(best.iter_rows(named=True), 1):
        seen = law["proportions_seen"][one["domain"]]
        left.plot([seen["min"], seen["max"]], [row, row], color=FITTED, linewidth=6.5, solid_capstyle="butt")
        figures.draw_span(left, row, one["estimate"], [one["low"], one["high"]], look)
        left.plot(before.get(one["domain"], 0.0), row, **other.mark(4.2))
    left.set_xlim(left=min(0, left.get_xlim()[0]))
    right.axvline(0, color="#888888", linewidth=0.8)
    shift = 0.17 if all(found.values()) else 0.0
    for kind, place, hollow in zip(found, (-shift, shift), (True, False), strict=True):
        for name, change in found[kind].items():
            ends = span if hollow and not name else []
            figures.draw_span(right, rows.index(name) + place, change, ends, look, hollow=hollow)
    for axis, heading, label in (
        (left, "proportions", "proportion"),
        (right, f"loss against {figures.short(baseline)}", "change of the loss (%)"),
    ):
        axis.axhline(0.5, color="#cccccc", linewidth=0.6)
        axis.locator_params(axis="x", nbins=5)
        axis.set_title(heading)
        axis.set_xlabel(label)
    entries = [
        other.entry(baseline),
        look.entry(f"optimum, {100 * best['level'][0]:g} % interval", line=True),
        figures.swatch("proportions fitted", FITTED, "s"),
    ]
    (told, predicted), (ran, measured) = found.items()
    losses = [look.entry(told, hollow=True), *([look.entry(ran)] if measured else [])]
    between = f" ({span[0]:+.2f} to {span[1]:+.2f} %)" if span else ""
    ended = f"measured {measured['']:+.2f} %" if measured else "not measured"
    note = f"Average loss of {law['law']} against {baseline}: predicted {predicted.get('', 0):+.2f} %{between}"
    figures.key(figure, [*entries, *losses], f"{note}, {ended}." if "" in predicted else "")
    return figure


def predicted_losses(law: dict, table: pl.DataFrame, baseline: str) -> np.ndarray | None:
    """Losses (2, d) of the baseline and of the optimum in a table of intervals, at the run that the
    optimum is for, NaN where the law defines none; None where the table has no such rows.
    """
    rows = [table.filter((pl.col("quantity") == "loss") & (pl.col("mixture") == baseline))]
    rows.append(table.filter(pl.col("quantity") == "optimum_loss"))
    of = [dict(own.select("domain", "estimate").iter_rows()) for own in rows]
    if not all(of):
        return None
    return np.array([[own[domain] for domain in law["loss_domains"]] for own in of], dtype=float)


def changes(law: dict, losses: np.ndarray, target: np.ndarray) -> dict[str, float]:
    """{domain: percent} from the first to the second of losses (2, d), "" their average."""
    means = average(losses, target)
    found = np.append(100 * (losses[1] / losses[0] - 1), 100 * (means[1] / means[0] - 1))
    named = zip([*law["loss_domains"], ""], found.tolist(), strict=True)
    return {name: value for name, value in named if np.isfinite(value)}


def measured_changes(law: dict, losses: pl.DataFrame, names: tuple[str, ...], target: np.ndarray) -> dict[str, float]:
    """Likewise of the last losses from the first to the second of names, as the summary has them; empty
    unless both were run, with every loss that counts.
    """
    weights = dict(zip(law["loss_domains"], target.tolist(), strict=True))
    ends = losses.filter((pl.col("step") == losses["step"].max()) & pl.col("domain").is_in(law["loss_domains"]))
    lacking = {name for name, one in weights.items() if one > 0} - set(ends["domain"])
    if len(names) < 2 or lacking or not set(names[:2]) <= set(ends["mixture"]):
        return {}
    runs = measured(ends)
    criterion = Criterion(names[0], weights={name: weights[name] for name in runs.names})
    found = loss_changes(compared(runs, criterion), names[1], names[0])
    return {name: found[name] for name in [*law["loss_domains"], ""] if name in found}


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
