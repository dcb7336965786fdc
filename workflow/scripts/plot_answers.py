"""Compare how the runs of several mixtures answer questions: the share answered right and the bits
per byte by training steps and at the last one (paper Fig. 4), and by task (Figs. 7, 8).

downstream/{model}/{run}.csv of each run -> tables/downstream.csv, two svg
"""

import sys
from pathlib import Path

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bimix.downstream.accuracy import ACCURACY, AVERAGE, BITS, compared, measures, with_interval
from bimix.errors import run
from bimix.outputs import write_table
from bimix.results import figures
from bimix.tables import read_table

LABELS = {ACCURACY: "answered right (%)", BITS: "bits per byte"}


def main(argv: list[str] | None = None) -> None:
    parser = figures.flags(__doc__, table="csv", average="svg", tasks="svg")
    parser.add_argument("--answers", type=Path, nargs="+", required=True, help="of each run, csv")
    parser.add_argument("--names", nargs="+", required=True, help="the mixture of each run, in the same order")
    options = parser.parse_args(argv)
    table = compared([read_table(path) for path in options.answers], options.names)
    write_table(table, options.table)
    figures.save(draw_average(table), options.average)
    figures.save(draw_tasks(table), options.tasks)


def draw_average(table: pl.DataFrame) -> Figure:
    """Average over tasks by step, and at the last step with intervals; a row a measure."""
    means = prepared(table).filter(pl.col("task") == AVERAGE)
    shown = means["measure"].unique(maintain_order=True).to_list()
    figure, axes = figures.grid(2 * len(shown), wide=2)
    looks = finish(figure, table)
    for measure, curves, ends in zip(shown, axes[::2], axes[1::2], strict=True):
        own = means.filter(pl.col("measure") == measure)
        draw_curves(curves, own, measure, looks)
        curves.set_title("average over tasks")
        last = own.filter(pl.col("step") == own["step"].max())
        last = last.sort("value", descending=measure == ACCURACY, maintain_order=True)
        for row, one in enumerate(last.iter_rows(named=True)):
            figures.draw_span(ends, row, one["value"], [one["low"], one["high"]], looks[one["mixture"]])
        figures.name_rows(ends, last["mixture"].to_list())
        ends.set_xlabel(LABELS[measure])
        ends.set_title(f"after step {last['step'][0]:,}")
    return figure


def draw_tasks(table: pl.DataFrame) -> Figure:
    """A panel for each task and measure, against training steps; few tasks have a row a measure."""
    tasks = prepared(table).filter(pl.col("task") != AVERAGE)
    panels = tasks.select("measure", "task").unique(maintain_order=True).sort("measure", maintain_order=True).rows()
    most = max(sum(measure == one for measure, _ in panels) for one, _ in panels)
    figure, axes = figures.grid(len(panels), wide=most if most <= 3 else 0)
    looks = finish(figure, table)
    for axis, (measure, task) in zip(axes, panels, strict=True):
        own = tasks.filter(pl.col("task") == task, pl.col("measure") == measure)
        draw_curves(axis, own, measure, looks)
        figures.name_panel(axis, f"{task} ({own['n'][0]:,} items)" if own["n"][0] else task)
    return figure


def prepared(table: pl.DataFrame) -> pl.DataFrame:
    """The rows that are drawn: accuracies, in percent and only where a model has some, and bits."""
    found = with_interval(measures(table))
    right = pl.col("measure") == ACCURACY
    percent = pl.when(right).then(100).otherwise(1)
    if not found.filter(right)["value"].max() and found.filter(~right).height:
        found = found.filter(~right)
    return found.with_columns(pl.col("value", "low", "high") * percent)


def draw_curves(axis: Axes, table: pl.DataFrame, measure: str, looks: dict[str, figures.Look]) -> None:
    """A measure and its interval against steps, a line for each mixture."""
    for name, look in looks.items():
        own = table.filter(pl.col("mixture") == name).sort("step")
        figures.draw_curve(axis, own["step"], own["value"], look, own["low"], own["high"])
    if measure == ACCURACY:
        axis.set_ylim(bottom=0, top=None if table["high"].max() > 0 else 1)
    axis.set_ylabel(LABELS[measure])
    axis.set_xlabel("training steps (log)")
    figures.log_axis(axis, "x", table["step"].to_numpy(), most=4)


def finish(figure: Figure, table: pl.DataFrame) -> dict[str, figures.Look]:
    """The legend: mixtures, bands, why accuracies are missing; the looks of mixtures."""
    looks = figures.looks(table["mixture"].unique(maintain_order=True).to_list())
    note = "Bands and bars: 95 % intervals, of lm_eval's standard errors."
    found, shown = measures(table), prepared(table)
    if ACCURACY in found["measure"] and ACCURACY not in shown["measure"]:
        note = f"No model answered a single question right. {note}"
    figures.key(figure, [look.entry(name, line=True) for name, look in looks.items()], note)
    return looks


if __name__ == "__main__":
    sys.exit(run(main))
