"""Trace how the mixture with the least predicted loss moves with the training steps.

coefficients.json -> optimum_by_step.csv (law, step, domain, proportion, average_loss: by the weights)
"""

import argparse
import sys

import numpy as np
import polars as pl

from bimix.errors import InputError, run
from bimix.laws import predict_defined
from bimix.optimum.bounds import run_bounds
from bimix.optimum.flags import add_bounds
from bimix.optimum.optimum import average, optimum, target_weights
from bimix.outputs import write_table
from bimix.tables import read_json, read_numbers, read_tokens


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coefficients", required=True, help="written by fit_law.py")
    parser.add_argument("--step", required=True, type=int, help="the step that the mixture is optimised for")
    parser.add_argument("--steps", nargs="+", type=int, help="further steps; without it those of the fit")
    add_bounds(parser)
    parser.add_argument("--out", required=True, help="csv or parquet")
    args = parser.parse_args(argv)

    document = read_json(args.coefficients)
    weights, lower, upper = (text and read_numbers(text) for text in (args.weights, args.lower, args.upper))
    tokens = args.tokens and read_tokens(args.tokens)
    target = target_weights(document, weights)
    frames = []
    for step in sorted({*(args.steps or document["steps"]), args.step}):
        try:
            bounds = run_bounds(document, step, lower, upper, args.max_epochs, tokens, weights=weights)
        except InputError as refusal:
            if step <= args.step:
                raise
            print(f"step {step} is left out: {refusal}", file=sys.stderr)
            continue
        shares = optimum(document, step, weights, *bounds)
        losses = predict_defined(document, shares[None, :], np.array([step]))[0, 0]
        columns = {"law": document["law"], "step": step, "domain": document["domains"], "proportion": shares}
        frames.append(pl.DataFrame(columns).with_columns(average_loss=pl.lit(float(average(losses, target)))))
    write_table(pl.concat(frames), args.out)


if __name__ == "__main__":
    sys.exit(run(main))
