"""Draw predicted against observed loss of mixtures that the law has not seen, stars at their last step (paper Fig. 3).

coefficients.json, predictions (mixture, step, domain, loss), losses, optionally intervals -> svg
"""

import argparse
import sys
from pathlib import Path

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bimix.errors import InputError, run
from bimix.laws.observations import mean_over_seeds
from bimix.outputs import replacing
from bimix.results import figures
from bimix.scores.scores import relative_error
from bimix.tables import read_json, read_table

AVERAGE = "average over domains"
KEYS = ["mixture", "step", "domain"]
Spans = dict[tuple[str, int, str], list[float]]  # low and high of mixture, step and domain


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coefficients", type=Path, required=True, help="written by fit_law.py")
    parser.add_argument("--predictions", type=Path, required=True, help="written by predict_losses.py")
    parser.add_argument("--losses", type=Path, nargs="+", required=True, help="tidy losses of held-out mixtures")
    parser.add_argument("--intervals", type=Path, nargs="?", help="written by estimate_intervals.py")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)

    law = read_json(options.coefficients)
    losses = pl.concat(mean_over_seeds(read_table(path)).select(*KEYS, "loss") for path in options.losses)
    pairs = pair(law, losses.unique(maintain_order=True), read_table(options.predictions))
    if not pairs.height:
        raise InputError(
            f"{options.predictions} predicts no loss of a mixture in {', '.join(map(str, options.losses))} that the law "
            "has not seen: name a group with other mixtures under held_out."
        )
    figure = draw(law, pairs, figures.loss_intervals(options.intervals and read_table(options.intervals), AVERAGE))
    with replacing(options.out) as temporary:
        figures.save(figure, temporary)


def pair(law: dict, losses: pl.DataFrame, predictions: pl.DataFrame) -> pl.DataFrame:
    """Losses (mixture, step, domain, loss) with those predicted, of mixtures that the law was not fitted to.

    The average over domains comes first, as a domain of its own.
    """
    predicted = predictions.select(*KEYS, pl.col("loss").alias("predicted"))
    unseen = ~pl.col("mixture").is_in(law["mixtures"]) & pl.col("predicted").is_not_null()
    pairs = losses.join(predicted, on=KEYS, maintain_order="left").filter(unseen)
    means = pairs.group_by("mixture", "step", maintain_order=True).agg(pl.col("loss", "predicted").mean())
    return pl.concat([means.with_columns(pl.lit(AVERAGE).alias("domain")).select(pairs.columns), pairs])


def draw(law: dict, pairs: pl.DataFrame, spans: Spans) -> Figure:
    """A panel for the average and for each domain: predicted against observed loss, a colour for each mixture."""
    shown = [AVERAGE, *(domain for domain in law["loss_domains"] if domain in pairs["domain"])]
    colours = figures.styles(pairs["mixture"].unique(maintain_order=True).to_list())
    figure, axes = figures.grid(len(shown), width=2.3, height=2.2)
    for axis, domain in zip(axes, shown, strict=True):
        draw_domain(axis, domain, pairs.filter(pl.col("domain") == domain), spans, colours)
    figure.supxlabel("observed loss (nats per token)", fontsize=8.5)
    figure.supylabel("predicted loss (nats per token)", fontsize=8.5)
    figures.key(
        figure,
        [
            [figures.swatch(name, *look) for name, look in colours.items()],
            [figures.swatch("last step", "#666666", "*"), figures.swatch("predicted = observed", "#aaaaaa", line="-")],
        ],
        f"Predicted against observed loss of mixtures the law {law['law']} has not seen",
    )
    return figure


def draw_domain(axis: Axes, domain: str, rows: pl.DataFrame, spans: Spans, colours: dict[str, tuple[str, str]]) -> None:
    """The curves of all mixtures in one domain, their last steps with intervals, and the mean error."""
    both = rows.select("loss", "predicted").to_numpy()
    axis.plot([both.min() / 2, both.max() * 2], [both.min() / 2, both.max() * 2], color="#aaaaaa", linewidth=0.8)
    for name, (colour, marker) in colours.items():
        curve = rows.filter(pl.col("mixture") == name).sort("step")
        axis.plot(curve["loss"], curve["predicted"], marker, color=colour, markersize=3, alpha=0.75)
        star = {"markersize": 9, "markeredgecolor": "white", "markeredgewidth": 0.5}
        axis.plot(curve["loss"][-1], curve["predicted"][-1], "*", color=colour, **star)
        for end in curve.tail(1).iter_rows(named=True):
            if (name, end["step"], domain) in spans:
                axis.plot([end["loss"]] * 2, spans[name, end["step"], domain], color=colour, linewidth=0.9)
    error = relative_error(both[:, 0], both[:, 1]).mean()
    where = {"transform": axis.transAxes, "horizontalalignment": "right"}
    axis.text(0.97, 0.04, f"mean error {100 * error:.2g} %", fontsize=7, color="#444444", **where)
    figures.name_panel(axis, domain)
    figures.log_axis(axis, "x", both, most=4)
    figures.log_axis(axis, "y", both, most=4)
    axis.set_aspect("equal")


if __name__ == "__main__":
    sys.exit(run(main))
