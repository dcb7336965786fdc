"""Draw predicted against measured loss of mixtures that the law has not seen (paper Fig. 3), and
its misses by domain.

coefficients.json, predictions (mixture, step, domain, loss), losses, optionally intervals -> svg
"""

import sys
from pathlib import Path

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bimix.errors import InputError, run
from bimix.judge.errors import relative_error
from bimix.laws.document import checked_law
from bimix.observations.observations import mean_over_seeds
from bimix.results import figures
from bimix.tables import read_table

AVERAGE = "average over domains"
KEYS = ["mixture", "step", "domain"]


def main(argv: list[str] | None = None) -> None:
    law, predicted = "written by fit_law.py", "written by predict_losses.py"
    parser = figures.flags(__doc__, coefficients=law, predictions=predicted, out="svg")
    parser.add_argument("--losses", type=Path, nargs="+", required=True, help="tidy losses of held-out mixtures")
    parser.add_argument("--intervals", type=Path, nargs="?", help="written by estimate_intervals.py")
    options = parser.parse_args(argv)

    law = checked_law(options.coefficients)
    losses = pl.concat(mean_over_seeds(read_table(path)).select(*KEYS, "loss") for path in options.losses)
    pairs = pair(law, losses.unique(maintain_order=True), read_table(options.predictions))
    if not pairs.height:
        raise InputError(
            f"{options.predictions} predicts no loss of a mixture in {', '.join(map(str, options.losses))} that the law "
            "has not seen: name a group with other mixtures under held_out."
        )
    spans = figures.loss_intervals(options.intervals and read_table(options.intervals), AVERAGE)
    figures.save(draw(law, pairs, spans), options.out)


def pair(law: dict, losses: pl.DataFrame, predictions: pl.DataFrame) -> pl.DataFrame:
    """Losses (mixture, step, domain, loss) with those predicted, of mixtures that the law was not
    fitted to. The average over domains comes first, as a domain of its own.
    """
    predicted = predictions.select(*KEYS, pl.col("loss").alias("predicted"))
    unseen = ~pl.col("mixture").is_in(law["mixtures"]) & pl.col("predicted").is_not_null()
    pairs = losses.join(predicted, on=KEYS, maintain_order="left").filter(unseen)
    means = pairs.group_by("mixture", "step", maintain_order=True).agg(pl.col("loss", "predicted").mean())
    return pl.concat([means.with_columns(pl.lit(AVERAGE).alias("domain")).select(pairs.columns), pairs])


def draw(law: dict, pairs: pl.DataFrame, spans: figures.Spans) -> Figure:
    """Left, the average over domains in training; right, the last misses by domain."""
    names = pairs["mixture"].unique(maintain_order=True).to_list()
    shown = [AVERAGE, *(domain for domain in law["loss_domains"] if domain in pairs["domain"])]
    height = max(2.2, 0.1 * len(shown) * min(4, max(1.6, len(names))) + 0.9)
    figure = Figure(figsize=(figures.WIDTH, height), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.25])
    looks = figures.looks(names)
    draw_average(left, pairs.filter(pl.col("domain") == AVERAGE), looks)
    draw_misses(right, pairs, spans, shown, looks)
    rows = [[look.entry(f"{name}: {mean_error(pairs, name):.2f} %") for name, look in looks.items()]]
    rows.append(
        [figures.swatch("earlier", figures.GREY, "o", hollow=True), figures.swatch("last step", figures.GREY, "o")]
    )
    rows[1] += [figures.swatch("interval", figures.GREY, line="-")] if spans else []
    figures.key(
        figure,
        rows,
        f"The law {law['law']} misses mixtures that it has not seen by {mean_error(pairs):.2f} % on average.",
    )
    return figure


def draw_average(axis: Axes, rows: pl.DataFrame, looks: dict[str, figures.Look]) -> None:
    """Predicted against measured average loss: training goes to the bottom left."""
    both = rows.select("loss", "predicted").to_numpy()
    axis.plot([both.min() / 2, both.max() * 2], [both.min() / 2, both.max() * 2], color="#aaaaaa", linewidth=0.8)
    for name, look in looks.items():
        curve = rows.filter(pl.col("mixture") == name).sort("step")
        axis.plot(curve["loss"][:-1], curve["predicted"][:-1], **look.mark(4.2, hollow=True))
        axis.plot(curve["loss"][-1], curve["predicted"][-1], **look.mark(4.2))
    figures.log_axis(axis, "x", both, most=4)
    figures.log_axis(axis, "y", both, most=4)
    axis.set_xlim(axis.get_ylim())
    axis.set_aspect("equal")
    axis.set_title(AVERAGE)
    axis.set_xlabel("measured loss (nats per token, log)")
    axis.set_ylabel("predicted loss (log)")
    axis.text(0.03, 0.97, "line: equal", transform=axis.transAxes, va="top", fontsize=figures.SMALL, color="#666666")


def draw_misses(
    axis: Axes, pairs: pl.DataFrame, spans: figures.Spans, shown: list[str], looks: dict[str, figures.Look]
) -> None:
    """Predicted over measured loss in percent, a row a domain, mixtures dodged."""
    axis.axvline(0, color="#888888", linewidth=0.8)
    for rank, (name, look) in enumerate(looks.items()):
        for row, domain in enumerate(shown):
            curve = pairs.filter(pl.col("mixture") == name, pl.col("domain") == domain).sort("step")
            if not curve.height:
                continue
            place = row + figures.dodged(rank, len(looks), 0.38 if len(looks) > 1 else 0)
            misses = 100 * (curve["predicted"] / curve["loss"] - 1)
            span = spans.get((name, curve["step"][-1], domain))
            if span:
                ends = [100 * (end / curve["loss"][-1] - 1) for end in span]
                axis.plot(ends, [place] * 2, color=look.colour, linewidth=0.9)
            faint = {"marker": "o", "markerfacecolor": "none", "markersize": 2.2, "markeredgewidth": 0.5}
            axis.plot(misses[:-1], [place] * (len(misses) - 1), **look.mark() | faint)
            axis.plot(misses[-1], place, **look.mark())
    figures.name_rows(axis, ["average", *shown[1:]])
    axis.set_title("miss in each domain")
    axis.set_xlabel("predicted above measured (%)")


def mean_error(pairs: pl.DataFrame, *names: str) -> float:
    """The mean relative error of mixtures' domains and steps, in percent; without names of all."""
    own = pairs.filter(pl.col("mixture").is_in(names or pairs["mixture"].to_list()), pl.col("domain") != AVERAGE)
    return 100 * float(relative_error(own["loss"].to_numpy(), own["predicted"].to_numpy()).mean())


if __name__ == "__main__":
    sys.exit(run(main))
