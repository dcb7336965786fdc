"""Intervals of a fitted law by bootstrap over runs: coefficients, predictions, the optimum, its gain over a baseline.

coefficients.json and the tables it was fitted to -> intervals.csv (law, quantity, mixture, step, domain, estimate, low, high, level)
"""

import argparse
import sys

import polars as pl

from bimix.bounds import add_bounds, add_run_tokens
from bimix.errors import InputError, run
from bimix.observations import observations, proportions_of
from bimix.optimum import run_bounds
from bimix.outputs import write_table
from bimix.tables import read_json, read_numbers, read_table, read_tokens
from bimix.uncertainty import RESAMPLES, intervals, resampled


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coefficients", required=True, help="written by fit_law.py")
    parser.add_argument("--losses", required=True, help="the losses it was fitted to")
    parser.add_argument("--mixtures", required=True, help="the mixtures it was fitted to")
    parser.add_argument("--step", required=True, type=int, help="the step of the predictions and of the optimum")
    parser.add_argument("--resample", required=True, choices=RESAMPLES)
    parser.add_argument("--resamples", required=True, type=int)
    parser.add_argument(
        "--level", required=True, type=float, help="share of the refits within an interval, such as 0.9"
    )
    parser.add_argument("--seed", required=True, type=int)
    parser.add_argument("--predict", nargs="*", default=[], help="tidy mixtures whose losses get intervals too")
    parser.add_argument("--baseline", help="name of the mixture that the optimum's gain is counted from")
    parser.add_argument(
        "--baseline-mixture", help="{domain: proportion}, where the baseline is not among those predicted"
    )
    add_bounds(parser)
    add_run_tokens(parser)
    parser.add_argument("--out", required=True, help="intervals, csv or parquet")
    args = parser.parse_args(argv)

    document = read_json(args.coefficients)
    observed = observations(read_table(args.losses), read_table(args.mixtures), (args.losses, args.mixtures))
    if list(observed.mixtures) != document["mixtures"] or list(observed.loss_domains) != document["loss_domains"]:
        raise InputError(
            f"{args.coefficients} was not fitted to {args.losses}: mixtures or domains differ; fit it again."
        )
    mixtures = {}
    for path in [args.mixtures, *args.predict]:
        names, shares = proportions_of(read_table(path), tuple(document["domains"]), path)
        mixtures |= {name: share for name, share in zip(names, shares, strict=True) if name not in mixtures}
    if args.baseline is not None and args.baseline_mixture is not None and args.baseline not in mixtures:
        one = read_numbers(args.baseline_mixture)
        one = pl.DataFrame({"mixture": args.baseline, "domain": list(one), "proportion": list(one.values())})
        mixtures[args.baseline] = proportions_of(one, tuple(document["domains"]), args.baseline_mixture)[1][0]
    if args.baseline is not None and args.baseline not in mixtures:
        raise InputError(f"--baseline {args.baseline!r} is not among the mixtures predicted: {', '.join(mixtures)}.")
    lower, upper = run_bounds(
        document,
        args.step,
        args.lower and read_numbers(args.lower),
        args.upper and read_numbers(args.upper),
        args.max_epochs,
        args.tokens and read_tokens(args.tokens),
        args.run_tokens,
    )
    refitted = resampled(document, observed, args.resample, args.resamples, args.seed)
    weights = args.weights and read_numbers(args.weights)
    write_table(
        intervals(document, refitted, args.level, args.step, mixtures, args.baseline, weights, lower, upper), args.out
    )


if __name__ == "__main__":
    sys.exit(run(main))
