"""Draw a search by rounds: what each round promised and measured, and the gain that was left.

rounds.csv (round, mixture, voice, promised, measured, ...) -> svg
"""

import sys

import polars as pl
from matplotlib.figure import Figure

from bimix.errors import run
from bimix.results import figures
from bimix.tables import read_table

LOOKS = {
    "measured": figures.Look("#0072B2", "o"),
    "by hand": figures.Look("#E69F00", "s"),
    "promised": figures.Look(figures.GREY, "D"),
}


def main(argv: list[str] | None = None) -> None:
    options = figures.flags(__doc__, rounds="written by judge_search.py", out="svg").parse_args(argv)
    figures.save(draw(read_table(options.rounds)), options.out)


def draw(table: pl.DataFrame) -> Figure:
    """Left the objective of each run by its round, 0 the start, with what was promised; right the
    gain that was expected before each round and the noise of a run.
    """
    figure, (left, right) = figures.grid(2)
    measured = table.filter(pl.col("measured").is_not_null()).sort("round")
    by_hand = pl.col("voice").eq_missing("by hand")
    for kind, rows in (("measured", measured.filter(~by_hand)), ("by hand", measured.filter(by_hand))):
        left.plot(rows["round"], rows["measured"], **LOOKS[kind].mark())
    promised = table.filter(pl.col("promised").is_not_null())
    deviation = promised["promised"] * promised["deviation_percent"] / 100
    look = LOOKS["promised"].mark(hollow=True, linewidth=0.8)
    left.errorbar(promised["round"], promised["promised"], yerr=deviation, **look)
    best = measured.group_by("round", maintain_order=True).agg(pl.col("measured").min())
    left.step(best["round"], best["measured"].cum_min(), where="post", color="0.6", linewidth=0.8)
    gains = table.filter(pl.col("expected_gain_percent").is_not_null()).unique("round").sort("round")
    right.plot(gains["round"], gains["expected_gain_percent"], **LOOKS["measured"].mark(linestyle="-"))
    right.plot(gains["round"], gains["noise_percent"], "--", color="0.4", linewidth=0.8)
    for axis, name, unit in (
        (left, "objective of each run", "lower is better"),
        (right, "expected gain left", "percent"),
    ):
        figures.name_panel(axis, name)
        axis.set_ylabel(unit)
        axis.set_xlabel("round")
        axis.set_xticks(range(int(table["round"].max()) + 1))
    entries = [look.entry(kind, hollow=kind == "promised") for kind, look in LOOKS.items()]
    figures.key(figure, [*entries, figures.swatch("noise of a run", "0.4", line="--")], finding(table, measured))
    return figure


def finding(table: pl.DataFrame, measured: pl.DataFrame) -> str:
    """The run with the lowest objective as measured, how far it is below the start, and why the search ended."""
    if not measured.height:
        return ""
    best = measured.sort("measured", maintain_order=True).row(0, named=True)
    start = measured.filter(pl.col("round") == 0)["measured"].min()
    text = f"{best['mixture']} is the lowest of {measured.height} runs, {best['measured']:.4f}"
    if best["round"] and start is not None:
        text += f": {100 * (1 - best['measured'] / start):.2f} % below the best of the start"
    elif start is not None:
        text += ": no round found a lower one"
    stopped = table.filter(pl.col("stopped").is_not_null())
    if not stopped.height:
        return f"{text}. All rounds were run."
    return f"{text}. It ended before round {table['round'].max()}: {stopped['stopped'][0]}"


if __name__ == "__main__":
    sys.exit(run(main))
