"""Trace the mixtures at which no law's first average loss falls without its second rising.

coefficients.json of one law or several -> pareto.csv (law, step, point, first, first_loss, second,
second_loss, proportion of each domain), and its figure
"""

import argparse
import json
import sys
from pathlib import Path

import polars as pl

from bimix.errors import InputError, run
from bimix.laws.document import checked_law
from bimix.laws.fitted import far_ahead
from bimix.mixtures.mixture import read_proportions
from bimix.optimum.flags import add_flags
from bimix.optimum.objective import objective_block
from bimix.optimum.optimum import Sought
from bimix.optimum.pareto import as_table, front, name_of, weights_of
from bimix.outputs import write_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coefficients", type=Path, nargs="+", required=True, help="written by fit_law.py")
    parser.add_argument("--step", required=True, type=int, help="the step that the mixtures are optimised for")
    parser.add_argument(
        "--between",
        nargs=2,
        required=True,
        metavar=("FIRST", "SECOND"),
        help="the two objectives: each a family, a loss domain, or the JSON of {loss domain: weight}",
    )
    parser.add_argument("--families", default="{}", help="{family: [loss domain]}, JSON")
    parser.add_argument("--points", type=int, default=11, help="of each law's front, at most (default 11)")
    add_flags(parser, "limits", "centre", "pool-share")
    parser.add_argument("--reference", help="a mixture to show with the fronts: mixture.json, or the JSON itself")
    parser.add_argument("--out", type=Path, required=True, help="csv or parquet")
    parser.add_argument("--figure", type=Path, help="svg")
    options = parser.parse_args(argv)

    names = tuple(name_of(text) for text in options.between)
    if names[0] == names[1]:
        raise InputError(f"--between names {names[0]!r} twice: a front lies between two objectives.")
    families = objective_block(f'{{"families": {options.families}}}')["families"]
    laws, frames = [], []
    for path in options.coefficients:
        fitted = checked_law(path)
        if note := far_ahead(fitted, options.step):
            print(f"warning: {note}", file=sys.stderr)
        first, second = (weights_of(text, families, fitted) for text in options.between)
        both = json.dumps(dict.fromkeys((*first, *second), 1.0))
        # what weighs in either objective keeps its floor; the reference is only shown
        sought = Sought.of(
            argparse.Namespace(**vars(options) | {"weights": both, "reference": None}), fitted, options.step
        )
        shares, values = front(sought, first, second, options.points)
        laws.append((sought.fitted, first, second))
        frames.append(as_table(fitted["law"], options.step, names, fitted["domains"], shares, values))
    table = pl.concat(frames)
    write_table(table, options.out)
    if options.figure:
        from bimix.results import figures  # matplotlib: only what draws pays for it
        from bimix.results.pareto_figure import draw

        reference = read_proportions(options.reference) if options.reference else None
        figures.save(draw(table, laws, reference), options.figure)


if __name__ == "__main__":
    sys.exit(run(main))
