"""Draw bits per byte of the accepted answers and the share of questions answered right by training
steps and at the last one (paper Fig. 4), and by task (Figs. 7, 8).

tables/downstream.csv -> two svg
"""

import sys
from typing import NamedTuple

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bimix.downstream.accuracy import AVERAGE, BITS
from bimix.errors import run
from bimix.results import figures
from bimix.tables import read_table


class Measure(NamedTuple):
    """A metric of the table as it is drawn: times `scale`, on an axis of this `label`."""

    metric: str
    scale: float
    label: str
    lower_is_better: bool


RIGHT = Measure("normalised", 100, "answered right (%)", lower_is_better=False)
BYTES = Measure(BITS, 1, "bits per byte", lower_is_better=True)


def main(argv: list[str] | None = None) -> None:
    parser = figures.flags(__doc__, table="written by compare_answers.py", average="svg", tasks="svg")
    parser.add_argument("--level", type=float, required=True, help="of its intervals, to be named")
    options = parser.parse_args(argv)
    table = read_table(options.table)
    figures.save(draw_average(table, options.level), options.average)
    figures.save(draw_tasks(table, options.level), options.tasks)


def draw_average(table: pl.DataFrame, level: float) -> Figure:
    """Average over tasks by step, and at the last step in numbers; a row a measure."""
    measures = drawn(table)
    means = table.filter(pl.col("task") == AVERAGE)
    last = means["step"].max()
    figure, axes = figures.grid(2 * len(measures), wide=2)
    looks = finish(figure, table, level)
    for measure, curves, ends in zip(measures, axes[::2], axes[1::2], strict=True):
        own = means.filter(pl.col("metric") == measure.metric)
        draw_curves(curves, own, measure, looks)
        curves.set_title("average over tasks")
        draw_ends(ends, own.filter(pl.col("step") == last), measure, looks)
        ends.set_title(f"after step {last:,}")
    return figure


def draw_tasks(table: pl.DataFrame, level: float) -> Figure:
    """A panel for each measure and task, against training steps; few tasks have a row a measure."""
    tasks = names_of(table)
    panels = [(measure, task) for measure in drawn(table) for task in tasks]
    figure, axes = figures.grid(len(panels), wide=len(tasks) if len(tasks) <= 3 else 0)
    looks = finish(figure, table, level)
    for axis, (measure, task) in zip(axes, panels, strict=True):
        own = table.filter((pl.col("task") == task) & (pl.col("metric") == measure.metric))
        draw_curves(axis, own, measure, looks)
        figures.name_panel(axis, f"{task} ({own['items'][0]:,} items)")
    return figure


def drawn(table: pl.DataFrame) -> list[Measure]:
    """The measures that a figure has: where no model answered a single question a sentence says
    so.
    """
    right = table.filter(pl.col("metric") == RIGHT.metric)["value"].max()
    return [RIGHT, BYTES] if right else [BYTES]


def names_of(table: pl.DataFrame) -> list[str]:
    """The tasks, in order."""
    return [task for task in table["task"].unique(maintain_order=True) if task != AVERAGE]


def draw_curves(axis: Axes, table: pl.DataFrame, measure: Measure, looks: dict[str, figures.Look]) -> None:
    """A measure and its interval against steps, a line for each mixture."""
    for name, look in looks.items():
        curve = table.filter(pl.col("mixture") == name).sort("step")
        band = measure.scale * curve["low"].to_numpy(), measure.scale * curve["high"].to_numpy()
        axis.fill_between(curve["step"], *band, color=look.colour, alpha=0.12, linewidth=0)
        axis.plot(curve["step"], measure.scale * curve["value"], **look.line())
    if not measure.lower_is_better:
        axis.set_ylim(bottom=0, top=None if table["high"].max() > 0 else 1)
    axis.set_ylabel(measure.label)
    axis.set_xlabel("training steps (log)")
    figures.log_axis(axis, "x", table["step"].to_numpy(), most=4)


def draw_ends(axis: Axes, ends: pl.DataFrame, measure: Measure, looks: dict[str, figures.Look]) -> None:
    """The last values of a measure, the best first, with their intervals."""
    ends = ends.sort("value", descending=not measure.lower_is_better, maintain_order=True)
    for row, one in enumerate(ends.iter_rows(named=True)):
        look = looks[one["mixture"]]
        axis.plot([measure.scale * one["low"], measure.scale * one["high"]], [row] * 2, color=look.colour, lw=1.4)
        axis.plot(measure.scale * one["value"], row, **look.mark(4.5))
    if not ends["high"].max():
        axis.set_xlim(-0.05, 1)
    figures.name_rows(axis, ends["mixture"].to_list())
    axis.set_xlabel(measure.label)


def finish(figure: Figure, table: pl.DataFrame, level: float) -> dict[str, figures.Look]:
    """The legend: mixtures, bands, why accuracies are missing; the looks of mixtures."""
    looks = figures.looks(table["mixture"].unique(maintain_order=True).to_list())
    note = f"Bands and bars: {100 * level:g} % intervals."
    if RIGHT not in drawn(table):
        note = f"No model answered a single question of {', '.join(names_of(table))}. {note}"
    figures.key(figure, [[look.entry(name, line=True) for name, look in looks.items()]], note)
    return looks


if __name__ == "__main__":
    sys.exit(run(main))
