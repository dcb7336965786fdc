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
from bimix.laws.fitted import at_run, predict_defined
from bimix.optimum.best import best_shares
from bimix.optimum.bounds import run_bounds
from bimix.optimum.flags import (
    add_bounds,
    add_centre,
    add_pool_share,
    centre_of,
    run_tokens_of,
    shared_pools,
    simulating,
)
from bimix.optimum.optimum import average
from bimix.optimum.report import add_objective, asked_objective
from bimix.outputs import write_table
from bimix.tables import read_numbers


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coefficients", type=Path, required=True, help="written by fit_law.py")
    parser.add_argument("--step", required=True, type=int, help="the step that the mixture is optimised for")
    parser.add_argument("--steps", nargs="+", type=int, help="further steps; without it those of the fit")
    add_bounds(parser)
    add_pool_share(parser)
    add_objective(parser)
    add_centre(parser)
    parser.add_argument("--out", type=Path, required=True, help="csv or parquet")
    options = parser.parse_args(argv)

    fitted = simulating(checked_law(options.coefficients), options)
    lower, upper = (text and read_numbers(text) for text in (options.lower, options.upper))
    objective = asked_objective(options)
    tokens = shared_pools(options)
    centre = centre_of(options, tokens)
    target, weights = objective.target(fitted), objective.domain_weights()
    frames = []
    for step in sorted({*(options.steps or fitted["steps"]), options.step}):
        try:
            bounds = run_bounds(fitted, step, lower, upper, options.max_epochs, tokens, weights=weights)
        except InputError as refusal:
            if step <= options.step:
                raise
            print(f"step {step} is left out: {refusal}", file=sys.stderr)
            continue
        at_step = at_run(fitted, tokens=run_tokens_of(fitted, None, step), pools=tokens, step=step)
        shares = best_shares(at_step, step, objective, *bounds, centre)
        losses = predict_defined(at_step, shares[None, :], np.array([step]))[0, 0]
        columns = {"law": fitted["law"], "step": step, "domain": fitted["domains"], "proportion": shares}
        frames.append(pl.DataFrame(columns).with_columns(average_loss=pl.lit(float(average(losses, target)))))
    write_table(pl.concat(frames), options.out)


if __name__ == "__main__":
    sys.exit(run(main))
