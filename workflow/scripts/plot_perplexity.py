"""Draw the average loss of mixtures against training steps, and its distance to a reference (paper
Fig. 5).

losses (mixture, step, domain, loss) -> svg
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bimix.errors import run
from bimix.judge.measured import one_size
from bimix.observations.averages import add_weights, average_loss, average_losses, of_losses
from bimix.observations.metrics import losses_only
from bimix.observations.observations import mean_over_seeds
from bimix.results import figures
from bimix.tables import read_table

FEW = 7  # lines that are named at their ends
WITHIN = 0.04  # of the axis of steps, to which the bars of seeds stand next to their step


def main(argv: list[str] | None = None) -> None:
    parser = figures.flags(__doc__, out="svg")
    parser.add_argument("--losses", type=Path, nargs="+", required=True, help="tidy losses, parquet or csv")
    parser.add_argument("--reference", required=True, help="the mixture to measure from, if it is among them")
    add_weights(parser)
    options = parser.parse_args(argv)

    tables = [one_size(read_table(path))[0] for path in options.losses]
    weights = of_losses(options.weights, pl.concat(tables, how="diagonal"))
    figures.save(draw([losses_only(table) for table in tables], options.reference, weights), options.out)


def draw(losses: list[pl.DataFrame], reference: str, weights: Mapping[str, float] | None = None) -> Figure:
    """The average loss of each mixture by `weights`, and next to it the difference to the
    reference's, where there is one.

    Mixtures with the very same losses share a line and its name. Where a mixture was trained on
    several seeds, an upright bar spans them next to those of the others.
    """
    together = pl.concat(map(mean_over_seeds, losses), how="diagonal").unique(maintain_order=True)
    averages = average_losses(together, weights)
    last = averages.group_by("mixture", maintain_order=True).last().sort("loss")
    order = last["mixture"].to_list()
    curves = {name: averages.filter(pl.col("mixture") == name) for name in order}
    shared = figures.twins({name: list(curve["loss"]) for name, curve in curves.items()})
    level = averages.filter(pl.col("mixture") == reference).select("step", pl.col("loss").alias("level"))
    spread = spreads(losses, weights)
    looks = figures.looks(order)
    figure, axes = figures.grid(2 if level.height else 1)
    steps = averages["step"].unique().sort().to_numpy()
    closest = np.log(steps[1:] / steps[:-1]).min(initial=np.inf)
    spaced = min(0.3 * closest, WITHIN * np.log(steps[-1] / steps[0])) if spread.height else 0.0
    for rank, name in enumerate(reversed(shared)):  # the best on top
        shift = np.exp(figures.dodged(rank, len(shared), spaced))
        own = spread.filter(pl.col("mixture") == name).drop("mixture")
        draw_curve(axes, curves[name].join(own, on="step", how="left").sort("step"), level, looks[name], shift)
    axes[0].set_title("weighted average over domains" if weights else "average over domains")
    axes[0].set_ylabel("validation loss (nats per token, log)")
    figures.log_axis(axes[0], "y", averages["loss"].to_numpy())
    if level.height:
        axes[1].set_title(f"against {figures.short(reference)}")
        axes[1].set_ylabel("difference of the loss (%)")
        draw_leaders(axes[1], averages.filter(pl.col("mixture").is_in(list(shared))), looks)
    for axis in axes:
        axis.set_xlabel("training steps (log)")
        figures.log_axis(axis, "x", steps)
    ends = dict(last.rows_by_key("mixture", unique=True))
    entries = [looks[name].entry(f"{' = '.join(shared[name])}: {ends[name][1]:.4f}", line=True) for name in shared]
    figures.key(figure, [entries], finding(last, reference))
    if level.height and len(shared) <= FEW:
        levels = dict(level.iter_rows())
        named = [(name, *ends[name]) for name in shared if ends[name][0] in levels]
        marks = {name: (100 * (loss / levels[step] - 1), looks[name].colour) for name, step, loss in named}
        figures.label_ends(axes[1], marks)
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
    seeded = [table.select("mixture", "seed", "step", "domain", "loss") for table in losses if "seed" in table.columns]
    if not seeded:
        return pl.DataFrame(schema={"mixture": pl.String, "step": pl.Int64, "low": pl.Float64, "high": pl.Float64})
    means = pl.concat(seeded).unique().group_by("mixture", "seed", "step").agg(average_loss(weights))
    ranges = means.group_by("mixture", "step").agg(
        low=pl.col("loss").min(), high=pl.col("loss").max(), seeds=pl.col("seed").n_unique()
    )
    return ranges.filter(pl.col("seeds") > 1).drop("seeds").sort("mixture", "step")


def draw_curve(axes: list[Axes], own: pl.DataFrame, level: pl.DataFrame, look: figures.Look, shift: float) -> None:
    """One mixture's line, in nats and as percent of the reference's loss `level`; in the last panel
    the bars of its seeds, at the steps times `shift`.
    """
    drawn = [(axes[0], own, pl.lit(1.0), 0.0)]
    if level.height:
        drawn.append((axes[1], own.join(level, on="step", maintain_order="left"), 100 / pl.col("level"), 100.0))
    for axis, rows, factor, less in drawn:
        last = axis is axes[-1]
        values = (pl.col(column) * factor - less for column in ("loss", "low", "high"))
        scaled = rows.select(pl.col("step") * (shift if last else 1.0), *values)
        axis.plot(scaled["step"], scaled["loss"], **look.line())
        seeded = scaled.drop_nulls() if last else scaled.clear()
        axis.vlines(seeded["step"], seeded["low"], seeded["high"], color=look.colour, linewidth=0.8)


def draw_leaders(axis: Axes, averages: pl.DataFrame, looks: dict[str, figures.Look]) -> None:
    """At the bottom of a panel, for each step the mark of the mixture with the least loss."""
    best = averages.sort("loss", maintain_order=True).group_by("step", maintain_order=True).first().sort("step")
    low, high = axis.get_ylim()
    axis.set_yticks([tick for tick in axis.get_yticks() if low <= tick <= high])
    axis.set_ylim(low - 0.16 * (high - low), high)
    axis.axhline(low - 0.02 * (high - low), color="#cccccc", linewidth=0.6)
    for step, mixture in best.select("step", "mixture").iter_rows():
        axis.plot(step, low - 0.09 * (high - low), **looks[mixture].mark())


if __name__ == "__main__":
    sys.exit(run(main))
