"""Draw predicted against measured loss of mixtures that the law has not seen (paper Fig. 3), and
its misses by domain.

coefficients.json, predictions (mixture, step, domain, loss), losses, optionally intervals -> svg
"""

import sys
from pathlib import Path

import polars as pl
from matplotlib.figure import Figure

from bimix.errors import InputError, run
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
    losses = figures.together([mean_over_seeds(read_table(path)).select(*KEYS, "loss") for path in options.losses])
    spans = read_table(options.intervals) if options.intervals else None
    pairs = pair(law, losses, read_table(options.predictions), spans)
    if not pairs.height:
        raise InputError(
            f"{options.predictions} predicts no loss of a mixture in {', '.join(map(str, options.losses))} that the law "
            "has not seen: name a group with other mixtures under held_out."
        )
    figures.save(draw(law, pairs), options.out)


def pair(law: dict, losses: pl.DataFrame, predictions: pl.DataFrame, spans: pl.DataFrame | None) -> pl.DataFrame:
    """Losses (mixture, step, domain, loss) with those predicted and their intervals low and high,
    of mixtures that the law was not fitted to. The average over domains comes first, as a domain.
    """
    predicted = predictions.select(*KEYS, pl.col("loss").alias("predicted"))
    unseen = ~pl.col("mixture").is_in(law["mixtures"]) & pl.col("predicted").is_not_null()
    pairs = losses.join(predicted, on=KEYS, maintain_order="left").filter(unseen)
    means = pairs.group_by("mixture", "step", maintain_order=True).agg(pl.col("loss", "predicted").mean())
    pairs = pl.concat([means.with_columns(pl.lit(AVERAGE).alias("domain")).select(pairs.columns), pairs])
    if spans is None:
        return pairs.with_columns(low=None, high=None)
    spans = spans.filter(pl.col("quantity").is_in(["loss", "average_loss"])).select(
        "mixture", "step", pl.col("domain").fill_null(AVERAGE), "low", "high"
    )
    return pairs.join(spans, on=KEYS, how="left", maintain_order="left")


def draw(law: dict, pairs: pl.DataFrame) -> Figure:
    """Left, the average over domains in training; right, the last misses by domain, a row each."""
    shown = [AVERAGE, *(domain for domain in law["loss_domains"] if domain in pairs["domain"])]
    looks = figures.looks(pairs["mixture"].unique(maintain_order=True).to_list())
    height = max(2.2, 0.1 * len(shown) * min(4, max(1.6, len(looks))) + 0.9)
    figure = Figure(figsize=(figures.WIDTH, height), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.15])
    average = pairs.filter(pl.col("domain") == AVERAGE).sort("step")
    both = average.select("loss", "predicted").to_numpy()
    left.plot([both.min() / 2, both.max() * 2], [both.min() / 2, both.max() * 2], color="#aaaaaa", linewidth=0.8)
    right.axvline(0, color="#888888", linewidth=0.8)
    for rank, (name, look) in enumerate(looks.items()):
        curve = average.filter(pl.col("mixture") == name)
        left.plot(curve["loss"], curve["predicted"], **look.mark(4.2, hollow=True))
        last = pairs.filter(pl.col("mixture") == name).sort("step").group_by("domain", maintain_order=True).last()
        for one in last.iter_rows(named=True):
            row = shown.index(one["domain"]) + figures.dodged(rank, len(looks), 0.38 if len(looks) > 1 else 0)
            span = [100 * (one[end] / one["loss"] - 1) for end in ("low", "high") if one[end] is not None]
            figures.draw_span(right, row, 100 * (one["predicted"] / one["loss"] - 1), span, look)
    for which in "xy":
        figures.log_axis(left, which, both, most=4)
    left.set_xlim(left.get_ylim())
    left.set_aspect("equal")
    left.set_title(AVERAGE)
    left.set_xlabel("measured loss (nats per token, log)")
    left.set_ylabel("predicted loss (log); line: equal")
    figures.name_rows(right, ["average", *shown[1:]])
    right.set_title("miss at the last step")
    right.set_xlabel(
        "predicted above measured (%), intervals" if pairs["low"].count() else "predicted above measured (%)"
    )
    errors = pairs.filter(pl.col("domain") != AVERAGE).with_columns(
        error=100 * (pl.col("predicted") / pl.col("loss") - 1).abs()
    )
    means = dict(errors.group_by("mixture").agg(pl.col("error").mean()).iter_rows())
    entries = [look.entry(f"{name}: {means[name]:.2f} %") for name, look in looks.items()]
    said = f"The law {law['law']} misses mixtures that it has not seen by {errors['error'].mean():.2f} % on average."
    figures.key(figure, entries, said)
    return figure


if __name__ == "__main__":
    sys.exit(run(main))
