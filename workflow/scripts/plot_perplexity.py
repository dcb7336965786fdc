"""Draw the average log-perplexity of mixtures against training steps, and its distance to a reference (paper Fig. 5).

losses (mixture, step, domain, loss) -> svg
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.errors import run
from bimix.laws.observations import mean_over_seeds
from bimix.outputs import replacing
from bimix.results import figures
from bimix.results.comparison import average_losses
from bimix.tables import read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", type=Path, nargs="+", required=True, help="tidy losses, parquet or csv")
    parser.add_argument("--reference", required=True, help="the mixture to measure from, if it is among them")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)

    losses = [mean_over_seeds(read_table(path)) for path in options.losses]
    averages = average_losses(pl.concat(losses).unique(maintain_order=True))
    last = averages.group_by("mixture", maintain_order=True).last().sort("loss")
    colours = figures.styles(last["mixture"].to_list())
    reference = averages.filter(pl.col("mixture") == options.reference).select("step", pl.col("loss").alias("level"))
    figure, axes = figures.grid(2 if reference.height else 1, width=2.9, height=2.2)
    for name in reversed(last["mixture"].to_list()):  # the best on top
        curve = averages.filter(pl.col("mixture") == name)
        colour, marker = colours[name]
        look = {"marker": marker, "color": colour, "markersize": 6 if marker == "*" else 3.6}
        axes[0].plot(curve["step"], curve["loss"], **look)
        if reference.height:
            both = curve.join(reference, on="step", maintain_order="left")
            axes[1].plot(both["step"], 100 * (both["loss"] / both["level"] - 1), **look)
    axes[0].set_title("average over domains")
    axes[0].set_ylabel("log-perplexity (nats per token)")
    figures.log_axis(axes[0], "y", averages["loss"].to_numpy())
    if reference.height:
        axes[1].set_title(f"difference to {options.reference}")
        axes[1].set_ylabel("percent of the loss")
    for axis in axes:
        axis.set_xlabel("training steps")
        figures.log_axis(axis, "x", averages["step"].to_numpy())
    figures.key(
        figure,
        [
            [
                figures.swatch(f"{name}: {loss:.4f}", *colours[name], line="-")
                for name, loss in last.select("mixture", "loss").iter_rows()
            ]
        ],
        "Average log-perplexity of each mixture, the final value beside its name, best first",
    )
    with replacing(options.out) as temporary:
        figures.save(figure, temporary)


if __name__ == "__main__":
    sys.exit(run(main))
