"""Draw accuracy against training steps: the average beside the log-perplexity (paper Fig. 4), and each task (Figs. 7, 8).

tables/downstream.csv -> two svg
"""

import argparse
import sys
from pathlib import Path

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bimix.downstream.accuracy import AVERAGE
from bimix.errors import run
from bimix.outputs import replacing
from bimix.results import figures
from bimix.tables import read_table

SHOWN = "normalised"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=Path, required=True, help="written by compare_answers.py")
    parser.add_argument("--level", type=float, required=True, help="of its intervals, to be named")
    parser.add_argument("--average", type=Path, required=True, help="svg")
    parser.add_argument("--tasks", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)

    table = read_table(options.table).filter(pl.col("metric") == SHOWN)
    tasks = [task for task in table["task"].unique(maintain_order=True) if task != AVERAGE]
    means = table.filter(pl.col("task") == AVERAGE)
    last = means.filter(pl.col("step") == means["step"].max()).sort("accuracy", descending=True, maintain_order=True)
    colours = figures.styles(last["mixture"].to_list())
    level = f"bands: {100 * options.level:g} % intervals"

    figure, axes = figures.grid(2, width=2.9, height=2.2)
    draw(axes[0], means, colours)
    axes[0].set_title("average over tasks" if len(tasks) > 1 else tasks[0])
    for mixture, curve in curves(means):
        axes[1].plot(curve["step"], curve["average_loss"], **look(*colours[mixture]))
    axes[1].set_title("average over domains")
    axes[1].set_ylabel("log-perplexity (nats per token)")
    figures.log_axis(axes[1], "y", means["average_loss"].to_numpy())
    finish(figure, axes, means, colours, last, f"Accuracy (after normalising; {level}) and log-perplexity")
    with replacing(options.average) as temporary:
        figures.save(figure, temporary)

    figure, axes = figures.grid(len(tasks), width=2.9, height=2.2)
    for axis, task in zip(axes, tasks, strict=True):
        own = table.filter(pl.col("task") == task)
        draw(axis, own, colours)
        figures.name_panel(axis, f"{task} ({own['items'][0]:,} items)")
    finish(figure, axes, means, colours, last, f"Accuracy of each task (after normalising; {level})")
    with replacing(options.tasks) as temporary:
        figures.save(figure, temporary)


def curves(table: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    return [(names[0], curve.sort("step")) for names, curve in table.group_by("mixture", maintain_order=True)]


def look(colour: str, marker: str) -> dict:
    return {"marker": marker, "color": colour, "markersize": 6 if marker == "*" else 3.6}


def draw(axis: Axes, table: pl.DataFrame, colours: dict[str, tuple[str, str]]) -> None:
    """Accuracy in percent and its interval against steps, a line for each mixture."""
    for mixture, curve in curves(table):
        colour, marker = colours[mixture]
        band = 100 * curve["low"].to_numpy(), 100 * curve["high"].to_numpy()
        axis.fill_between(curve["step"], *band, color=colour, alpha=0.12, linewidth=0)
        axis.plot(curve["step"], 100 * curve["accuracy"], **look(colour, marker))
    axis.set_ylabel("percent right")
    axis.set_ylim(bottom=0, top=None if table["high"].max() > 0 else 1)


def finish(
    figure: Figure,
    axes: list[Axes],
    means: pl.DataFrame,
    colours: dict[str, tuple[str, str]],
    last: pl.DataFrame,
    title: str,
) -> None:
    """Axes of steps, and the legend with the last average accuracy of each mixture, best first."""
    for axis in axes:
        axis.set_xlabel("training steps")
        figures.log_axis(axis, "x", means["step"].to_numpy())
    entries = [
        figures.swatch(f"{mixture}: {100 * accuracy:.1f} %", *colours[mixture], line="-")
        for mixture, accuracy in last.select("mixture", "accuracy").iter_rows()
    ]
    figures.key(figure, [entries], f"{title}; beside its name the last average of a mixture")


if __name__ == "__main__":
    sys.exit(run(main))
