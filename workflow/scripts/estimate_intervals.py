"""Intervals of a fitted law: predictions, the optimum's loss and its gain over a baseline; with
--resamples also coefficients and the optimum's proportions.

coefficients.json and the tables it was fitted to -> intervals.csv (law, quantity, mixture, step,
domain, estimate, low, high, level, kind)

kind left_out: from the law's errors on runs that it was refitted without, what a new run does; of
losses, averages and the gain. kind residuals: from refits to drawn residuals, the scatter of the
fit given that the law is right; of coefficients and proportions.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl

from bimix.errors import InputError, finite, run
from bimix.laws.document import checked_law
from bimix.laws.fitted import defined, far_ahead
from bimix.mixtures.mixture import read_proportions
from bimix.observations.flags import add_tables, read_tables
from bimix.observations.observations import proportions_of
from bimix.optimum.flags import add_flags
from bimix.optimum.intervals import intervals, left_out, resampled
from bimix.optimum.optimum import Sought
from bimix.outputs import write_table
from bimix.tables import read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coefficients", type=Path, required=True, help="written by fit_law.py")
    add_tables(parser, prior=False)  # those that it was fitted to
    parser.add_argument("--step", required=True, type=int, help="the step of the predictions and of the optimum")
    parser.add_argument("--resamples", type=int, default=0, help="refits for intervals of coefficients and proportions")
    parser.add_argument("--level", required=True, type=finite, help="share that an interval is to hold, such as 0.9")
    parser.add_argument("--seed", type=int, default=0, help="of --resamples")
    parser.add_argument("--predict", type=Path, nargs="*", default=[], help="tidy mixtures, for intervals of losses")
    parser.add_argument("--baseline", help="name of the mixture that the optimum's gain is counted from")
    parser.add_argument("--baseline-mixture", help="{domain: proportion}, if the baseline is not among those predicted")
    add_flags(parser, "bounds", "objective", "centre", "run-tokens", "parameters")
    parser.add_argument("--out", type=Path, required=True, help="intervals, csv or parquet")
    options = parser.parse_args(argv)

    if options.resamples < 0:
        raise InputError(f"--resamples is {options.resamples}: it must be a number of refits, 0 or more.")
    if not 0 < options.level < 1:
        raise InputError(f"--level is {options.level:g}: it must be between 0 and 1, such as 0.9.")
    fitted = checked_law(options.coefficients)
    if note := far_ahead(fitted, options.step):
        print(f"warning: {note}", file=sys.stderr)
    observed = defined(fitted["law"], read_tables(options))
    if list(observed.mixtures) != fitted["mixtures"] or list(observed.loss_domains) != fitted["loss_domains"]:
        raise InputError(f"{options.coefficients} was not fitted to {options.losses}: mixtures or domains differ.")
    mixtures = predicted_mixtures(options, tuple(fitted["domains"]))
    sought = Sought.of(options, fitted, options.step)
    fitted = sought.fitted
    left = left_out(fitted, observed, options.step, ahead=True)
    if note := left.outlier():
        print(f"warning: {note}", file=sys.stderr)
    refitted = resampled(fitted, observed, options.resamples, options.seed) if options.resamples else None
    table = intervals(sought, options.level, mixtures, options.baseline, left, refitted)
    undefined = table["estimate"].null_count()
    if undefined:
        print(
            f"{undefined} numbers are null: the law {fitted['law']} does not define them at mixtures with a proportion of 0.",
            file=sys.stderr,
        )
    if table["low"].null_count() > undefined:
        print("averages have no interval: fewer than two runs have all losses that count.", file=sys.stderr)
    write_table(table, options.out)


def predicted_mixtures(options: argparse.Namespace, domains: tuple[str, ...]) -> dict[str, np.ndarray]:
    """{name: proportions (m,)} fitted, predicted, and the baseline. Errors: that is unknown."""
    mixtures = {}
    for path in [options.mixtures, *options.predict]:
        names, shares = proportions_of(read_table(path), domains, str(path))
        mixtures |= {name: share for name, share in zip(names, shares, strict=True) if name not in mixtures}
    if options.baseline is not None and options.baseline_mixture is not None and options.baseline not in mixtures:
        one = read_proportions(options.baseline_mixture)
        one = pl.DataFrame({"mixture": options.baseline, "domain": list(one), "proportion": list(one.values())})
        mixtures[options.baseline] = proportions_of(one, domains, options.baseline_mixture)[1][0]
    if options.baseline is not None and options.baseline not in mixtures:
        raise InputError(f"--baseline {options.baseline!r} is not among the mixtures predicted: {', '.join(mixtures)}.")
    return mixtures


if __name__ == "__main__":
    sys.exit(run(main))
