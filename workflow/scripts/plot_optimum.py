"""Draw the proportions of a law's optimum with their bootstrap intervals, beside the mixture it is measured against.

coefficients.json, intervals.csv, mixture.json of the baseline -> svg
"""

import argparse
import sys
from pathlib import Path

import polars as pl
from matplotlib.figure import Figure

from bimix.errors import InputError, run
from bimix.optimum.intervals import INTERVALS
from bimix.outputs import replacing
from bimix.results import figures
from bimix.tables import read_json, read_numbers, read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coefficients", type=Path, required=True, help="written by fit_law.py")
    parser.add_argument("--intervals", type=Path, required=True, help="written by estimate_intervals.py")
    parser.add_argument("--baseline", required=True, help="name of the mixture that the gain is counted from")
    parser.add_argument("--baseline-mixture", type=Path, required=True, help="{domain: proportion}, JSON")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)

    law, before = read_json(options.coefficients), read_numbers(options.baseline_mixture)
    table = read_table(options.intervals).cast(INTERVALS)
    best = table.filter(pl.col("quantity") == "proportion").sort("estimate", descending=True)
    if not best.height:
        raise InputError(f"{options.intervals} has no proportions of an optimum: write it with estimate_intervals.py.")
    names = figures.styles([options.baseline, law["law"]])
    colour, marker = names[law["law"]]
    figure = Figure(figsize=(5.2, 0.24 * best.height + 1.5), layout="constrained")
    axis = figure.subplots()
    for row, one in enumerate(best.iter_rows(named=True)):
        seen = law["proportions_seen"][one["domain"]]
        axis.plot([seen["min"], seen["max"]], [row, row], color="#dddddd", linewidth=5, solid_capstyle="butt")
        axis.plot([one["low"], one["high"]], [row, row], color=colour, linewidth=1.6)
        axis.plot(one["estimate"], row, marker, color=colour, markersize=7 if marker == "*" else 5)
        axis.plot(
            before.get(one["domain"], 0.0), row, names[options.baseline][1], color="#000000", markerfacecolor="none"
        )
    axis.set_yticks(range(best.height), best["domain"])
    axis.set_ylim(best.height - 0.5, -0.5)
    axis.set_xlim(left=min(0, axis.get_xlim()[0]))
    axis.set_xlabel("proportion")
    level, step = best["level"][0], best["step"][0]
    loss = table.filter(pl.col("quantity") == "optimum_average_loss").row(0, named=True)
    title = f"Optimum of {law['law']} for step {step:,}: average loss {loss['estimate']:.4f}"
    gains = table.filter(
        (pl.col("quantity") == "gain") & (pl.col("mixture") == options.baseline) & pl.col("low").is_not_null()
    )
    for one in gains.iter_rows(named=True):
        title += (
            f"\npredicted gain over {options.baseline} {one['estimate']:.4f} ({one['low']:.4f} to {one['high']:.4f})"
        )
    figures.key(
        figure,
        [
            [
                figures.swatch(
                    f"{law['law']}, {100 * level:g} % interval ({best['kind'][0]})", colour, marker, line="-"
                ),
                figures.swatch(options.baseline, "#000000", names[options.baseline][1], hollow=True),
                figures.swatch("proportions fitted", "#dddddd", line="-"),
            ]
        ],
        title,
    )
    with replacing(options.out) as temporary:
        figures.save(figure, temporary)


if __name__ == "__main__":
    sys.exit(run(main))
