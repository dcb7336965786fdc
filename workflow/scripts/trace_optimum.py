"""Trace how the mixture with the least predicted loss moves with the training steps.

coefficients.json -> optimum_by_step.csv (law, step, domain, proportion, average_loss: by the
weights)
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl

from bimix.errors import InputError, run
from bimix.laws.document import checked_law
from bimix.laws.fitted import predict_defined
from bimix.optimum.flags import add_flags, asked_objective
from bimix.optimum.objective import average
from bimix.optimum.optimum import Sought
from bimix.outputs import write_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coefficients", type=Path, required=True, help="written by fit_law.py")
    parser.add_argument("--step", required=True, type=int, help="the step that the mixture is optimised for")
    parser.add_argument("--steps", nargs="+", type=int, help="further steps; without it those of the fit")
    add_flags(parser, "bounds", "pool-share", "objective", "centre")
    parser.add_argument("--out", type=Path, required=True, help="csv or parquet")
    options = parser.parse_args(argv)

    fitted = checked_law(options.coefficients)
    target = asked_objective(options).target(fitted)
    frames = []
    for step in sorted({*(options.steps or fitted["steps"]), options.step}):
        try:
            sought = Sought.of(options, fitted, step)
        except InputError as refusal:  # longer runs may have no mixture within max_epochs
            if step <= options.step:
                raise
            print(f"step {step} is left out: {refusal}", file=sys.stderr)
            continue
        shares = sought.shares()
        losses = predict_defined(sought.fitted, shares[None, :], np.array([step]))[0, 0]
        columns = {"law": fitted["law"], "step": step, "domain": fitted["domains"], "proportion": shares}
        frames.append(pl.DataFrame(columns).with_columns(average_loss=pl.lit(float(average(losses, target)))))
    write_table(pl.concat(frames), options.out)


if __name__ == "__main__":
    sys.exit(run(main))
