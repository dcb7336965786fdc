"""Draw the average loss of mixtures against training steps, and its distance to a reference (paper
Fig. 5).

losses (mixture, step, domain, loss) -> svg
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import polars as pl
from matplotlib.figure import Figure

from bimix.errors import run
from bimix.judge.measured import one_size
from bimix.observations.averages import average_loss, of_losses, over_seeds
from bimix.observations.metrics import losses_only
from bimix.results import figures
from bimix.tables import read_table


def main(argv: list[str] | None = None) -> None:
    parser = figures.flags(__doc__, out="svg")
    parser.add_argument("--losses", type=Path, nargs="+", required=True, help="tidy losses, parquet or csv")
    parser.add_argument("--reference", required=True, help="the mixture to measure from, if it is among them")
    parser.add_argument(
        "--weights", type=json.loads, default={}, help="{loss domain: weight}, JSON; without: all the same"
    )
    options = parser.parse_args(argv)
    tables = [one_size(read_table(path))[0] for path in options.losses]
    weights = of_losses(options.weights, pl.concat(tables, how="diagonal"))
    figures.save(draw([losses_only(table) for table in tables], options.reference, weights), options.out)


def draw(losses: list[pl.DataFrame], reference: str, weights: Mapping[str, float] | None = None) -> Figure:
    """The average loss of each mixture by `weights`, its range over seeds as a shade, and next to
    it the difference to the reference's, where there is one. Mixtures with the very same losses
    share a line and its name.
    """
    averages = figures.together([over_seeds(table, weights) for table in losses])
    ranges = spreads(losses, weights)
    last = averages.group_by("mixture", maintain_order=True).last().sort("loss")
    order = last["mixture"].to_list()
    curves = {name: averages.filter(pl.col("mixture") == name) for name in order}
    shared = figures.twins({name: list(curve["loss"]) for name, curve in curves.items()})
    level = averages.filter(pl.col("mixture") == reference).select("step", pl.col("loss").alias("level"))
    looks = figures.looks(order)
    figure, axes = figures.grid(2 if level.height else 1)
    for name in reversed(shared):  # the best on top
        own = (
            curves[name]
            .join(ranges, on=["mixture", "step"], how="left", maintain_order="left")
            .join(level, on="step", how="left")
        )
        own = own.with_columns(pl.col("low", "high").fill_null(pl.col("loss"))).sort("step")
        figures.draw_curve(axes[0], *own.select("step", "loss"), looks[name], *own.select("low", "high"))
        if level.height:
            own = own.with_columns((pl.col("loss", "low", "high") / pl.col("level") - 1) * 100).drop_nulls("level")
            figures.draw_curve(axes[1], *own.select("step", "loss"), looks[name], *own.select("low", "high"))
    axes[0].set_title("weighted average over domains" if weights else "average over domains")
    axes[0].set_ylabel("validation loss (nats per token, log)")
    figures.log_axis(axes[0], "y", averages["loss"].to_numpy())
    for axis in axes:
        axis.set_xlabel("training steps (log)")
        figures.log_axis(axis, "x", averages["step"].to_numpy())
    ends = dict(last.rows_by_key("mixture", unique=True))
    entries = [looks[name].entry(f"{' = '.join(shared[name])}: {ends[name][1]:.4f}", line=True) for name in shared]
    figures.key(figure, entries, finding(last, reference))
    if level.height:
        axes[1].set_title(f"against {figures.short(reference)}")
        axes[1].set_ylabel("difference of the loss (%)")
    return figure


def finding(last: pl.DataFrame, reference: str) -> str:
    """The lowest mixture, and the next; `last`: last losses, lowest first."""
    ends = {name: loss for name, _, loss in last.iter_rows()}
    (best, lowest), *others = ends.items()
    named = dict.fromkeys([*(name for name, _ in others[:1]), *({reference} & {name for name, _ in others})])
    below = (f"{100 * (1 - lowest / ends[name]):.2f} % below {name}" for name in named)
    return ", ".join((f"{best} ends lowest, at {lowest:.4f}", " and ".join(below))).removesuffix(", ") + "."


def spreads(losses: list[pl.DataFrame], weights: Mapping[str, float] | None = None) -> pl.DataFrame:
    """mixture, step, low, high of the average loss over domains, by seeds."""
    columns = ["mixture", "seed", "step", "domain", "loss"]
    seeded = [table.select(columns) for table in losses if "seed" in table.columns]
    if not seeded:
        return pl.DataFrame(schema={"mixture": pl.String, "step": pl.Int64, "low": pl.Float64, "high": pl.Float64})
    means = figures.together(seeded).group_by("mixture", "seed", "step").agg(average_loss(weights))
    return means.group_by("mixture", "step").agg(*figures.ends("loss"))


if __name__ == "__main__":
    sys.exit(run(main))
