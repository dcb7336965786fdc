"""Draw the laws side by side: their errors and rank correlation on the same rows, a dot for each
domain.

comparison.csv (law, score, domain, value, runs, coefficients, note) -> svg
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bimix.errors import run
from bimix.judge.law_scores import COMPARISON
from bimix.results import figures
from bimix.tables import read_table

PANELS = {
    "extrapolation_mre": "last step of a run",
    "generalization_mre": "mixtures held out",
    "left_out_mre": "mixtures left out",
    "left_out_spearman": "order of these",
}
LEAST = 1e-3  # percent: a smaller error is drawn here


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparison", type=Path, required=True, help="written by compare_laws.py")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)
    figures.save(draw(read_table(options.comparison).cast(COMPARISON)), options.out)


def draw(table: pl.DataFrame) -> Figure:
    """A panel for each score that some law has, a row for each law. A law that was fitted to fewer
    runs than determine its numbers is named below and not drawn, unless that holds for all.
    """
    laws = table["law"].unique(maintain_order=True).to_list()
    few = {law: reason for law in laws if (reason := too_few(table.filter(pl.col("law") == law)))}
    if len(few) < len(laws):
        laws = [law for law in laws if law not in few]
    drawn = table.filter(pl.col("law").is_in(laws))
    shown = [score for score in PANELS if drawn.filter(pl.col("score") == score)["value"].count()]
    texts = [describe(table.filter(pl.col("law") == law), law) for law in laws]
    figure, axes = figures.row_panels(laws, [1] * max(1, len(shown)), 0.42, 1.05, texts)
    errors = drawn.filter(pl.col("score").is_in([score for score in shown if score.endswith("mre")]))
    for axis, score in zip(axes, shown, strict=False):
        draw_score(axis, drawn.filter(pl.col("score") == score), score, laws)
        if score.endswith("mre"):  # panels of errors have one range
            values = percents(errors["value"].drop_nulls().drop_nans().to_numpy())
            figures.log_axis(axis, "x", np.array([values.min() / 1.5, *values, values.max() * 1.5]), most=4)
    if not shown:
        axes[0].text(0.5, 0.5, "no law has a score", ha="center", va="center", transform=axes[0].transAxes)
        axes[0].set_xticks([])
    left_out = [f"{law} ({reason})" for law, reason in few.items() if law not in laws]
    note = f"{finding(drawn, shown)}Fitted to {table['runs'][0]} mixtures."
    note += f" Not drawn: {', '.join(left_out)}." if left_out else ""
    marks = [figures.swatch("mean over domains", figures.GREY, "o"), figures.swatch("a domain", "#999999", ".")]
    figures.key(figure, [marks], note)
    return figure


def finding(table: pl.DataFrame, shown: list[str]) -> str:
    """The law with the least error on mixtures that it did not see."""
    scores = [score for score in ("generalization_mre", "left_out_mre") if score in shown]
    means = table.filter(pl.col("score").is_in(scores[:1]), pl.col("domain").is_null()).drop_nulls("value")
    if not means.height:
        return ""
    best = means.sort("value", maintain_order=True).row(0, named=True)
    return f"On {PANELS[scores[0]]} {best['law']} errs least, by {100 * best['value']:.2f} %. "


def draw_score(axis: Axes, table: pl.DataFrame, score: str, laws: list[str]) -> None:
    """One score of all laws: the mean over domains in numbers, and a dot for each."""
    is_error, lowest = score.endswith("mre"), 0.0
    scaled = percents if is_error else np.asarray
    for row, (law, look) in enumerate(figures.looks(laws).items()):
        values = table.filter(pl.col("law") == law)
        mean = values.filter(pl.col("domain").is_null())
        value = mean["value"][0] if mean.height else None
        if value is None:
            where = {"transform": axis.get_yaxis_transform(), "va": "center", "ha": "center"}
            axis.text(0.5, row, "not defined", fontsize=figures.SMALL, color="#666666", **where)
            continue
        own = values.filter(pl.col("domain").is_not_null())["value"].drop_nulls().drop_nans().to_numpy()
        axis.plot(scaled(own), np.full(len(own), row), ".", color=look.colour, alpha=0.45, markersize=4)
        axis.plot(scaled(value), row, **look.mark(4.8))
        text = f"{value:.2f}"
        if is_error:
            text = f"{100 * value:.2f}" if 100 * value >= 0.1 else f"{100 * value:.3f}"
            text = text if 100 * value > LEAST else f"below {LEAST}"
        spot = {"xytext": (0, 5), "textcoords": "offset points", "ha": "center"}
        axis.annotate(text, (scaled(value), row), **spot, fontsize=figures.SMALL)
        lowest = min(lowest, value, *own)
    axis.set_title(PANELS[score])
    axis.set_xlabel("error (%, log)" if is_error else "Spearman's correlation")
    if not is_error:
        axis.set_xlim(lowest - 0.25 * (1 - lowest), 1 + 0.25 * (1 - lowest))
        axis.set_xticks([-1, 0, 1] if lowest < -0.5 else [0, 0.5, 1])


def percents(values: np.ndarray | float) -> np.ndarray:
    """Errors in percent, LEAST at least."""
    return np.maximum(100 * np.asarray(values), LEAST)


def too_few(table: pl.DataFrame) -> str:
    """A remark if a law needs more runs than it was fitted to; `table` has its rows."""
    notes = table.filter(pl.col("domain").is_null())["note"].drop_nulls()
    return next((note for note in notes if note.startswith("needs")), "")


def describe(table: pl.DataFrame, law: str) -> str:
    """A law's name, how many numbers it fits, or why its score is missing or doubtful."""
    if table.filter(pl.col("score") == "refused").height:
        return f"{law}\n(refused these data)"
    if too_few(table):
        return f"{law}\n({too_few(table)})"
    sizes = table["coefficients"].drop_nulls()
    return f"{law}\n{sizes[0]:,} numbers" if len(sizes) else law


if __name__ == "__main__":
    sys.exit(run(main))
