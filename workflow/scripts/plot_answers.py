"""Draw bits per byte of the accepted answers and the share of questions answered right by training
steps and at the last one (paper Fig. 4), and by task (Figs. 7, 8).

tables/downstream.csv -> two svg
"""

import sys

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bimix.downstream.accuracy import AVERAGE, BITS
from bimix.errors import run
from bimix.results import figures
from bimix.tables import read_table

RIGHT = "normalised"
LABELS = {RIGHT: "answered right (%)", BITS: "bits per byte"}


def main(argv: list[str] | None = None) -> None:
    parser = figures.flags(__doc__, table="written by compare_answers.py", average="svg", tasks="svg")
    parser.add_argument("--level", type=float, required=True, help="of its intervals, to be named")
    options = parser.parse_args(argv)
    table = read_table(options.table)
    figures.save(draw_average(table, options.level), options.average)
    figures.save(draw_tasks(table, options.level), options.tasks)


def draw_average(table: pl.DataFrame, level: float) -> Figure:
    """Average over tasks by step, and at the last step with intervals; a row a measure."""
    table, measures, _ = prepared(table)
    means = table.filter(pl.col("task") == AVERAGE)
    figure, axes = figures.grid(2 * len(measures), wide=2)
    looks = finish(figure, table, level)
    for measure, curves, ends in zip(measures, axes[::2], axes[1::2], strict=True):
        own = means.filter(pl.col("metric") == measure)
        draw_curves(curves, own, measure, looks)
        curves.set_title("average over tasks")
        last = own.filter(pl.col("step") == own["step"].max())
        last = last.sort("value", descending=measure == RIGHT, maintain_order=True)
        for row, one in enumerate(last.iter_rows(named=True)):
            figures.draw_span(ends, row, one["value"], [one["low"], one["high"]], looks[one["mixture"]])
        figures.name_rows(ends, last["mixture"].to_list())
        ends.set_xlabel(LABELS[measure])
        ends.set_title(f"after step {last['step'][0]:,}")
    return figure


def draw_tasks(table: pl.DataFrame, level: float) -> Figure:
    """A panel for each measure and task, against training steps; few tasks have a row a measure."""
    table, measures, tasks = prepared(table)
    panels = [(measure, task) for measure in measures for task in tasks]
    figure, axes = figures.grid(len(panels), wide=len(tasks) if len(tasks) <= 3 else 0)
    looks = finish(figure, table, level)
    for axis, (measure, task) in zip(axes, panels, strict=True):
        own = table.filter((pl.col("task") == task) & (pl.col("metric") == measure))
        draw_curves(axis, own, measure, looks)
        figures.name_panel(axis, f"{task} ({own['items'][0]:,} items)")
    return figure


def prepared(table: pl.DataFrame) -> tuple[pl.DataFrame, list[str], list[str]]:
    """The table in percent, its measures (answers only where a model has some), and its tasks."""
    right = pl.col("metric") == RIGHT
    scale = pl.when(right).then(100).otherwise(1)
    tasks = [task for task in table["task"].unique(maintain_order=True) if task != AVERAGE]
    measures = [RIGHT, BITS] if table.filter(right)["value"].max() else [BITS]
    return table.with_columns(pl.col("value", "low", "high") * scale), measures, tasks


def draw_curves(axis: Axes, table: pl.DataFrame, measure: str, looks: dict[str, figures.Look]) -> None:
    """A measure and its interval against steps, a line for each mixture."""
    for name, look in looks.items():
        own = table.filter(pl.col("mixture") == name).sort("step")
        figures.draw_curve(axis, own["step"], own["value"], look, own["low"], own["high"])
    if measure == RIGHT:
        axis.set_ylim(bottom=0, top=None if table["high"].max() > 0 else 1)
    axis.set_ylabel(LABELS[measure])
    axis.set_xlabel("training steps (log)")
    figures.log_axis(axis, "x", table["step"].to_numpy(), most=4)


def finish(figure: Figure, table: pl.DataFrame, level: float) -> dict[str, figures.Look]:
    """The legend: mixtures, bands, why accuracies are missing; the looks of mixtures."""
    looks = figures.looks(table["mixture"].unique(maintain_order=True).to_list())
    note = f"Bands and bars: {100 * level:g} % intervals."
    _, measures, tasks = prepared(table)
    if RIGHT not in measures:
        note = f"No model answered a single question of {', '.join(tasks)}. {note}"
    figures.key(figure, [[look.entry(name, line=True) for name, look in looks.items()]], note)
    return looks


if __name__ == "__main__":
    sys.exit(run(main))
