"""Score a law on what it was not fitted to: the last step of each mixture, and mixtures held out (paper Tables 2 and 3).

losses and mixtures of the fitted group and of held-out groups -> extrapolation.csv, generalization.csv

extrapolation:  law, mixture, domain, step, observed, predicted, relative_error   (each mixture fitted by itself without its last step)
generalization: law, mixture, domain, r2_log, mre                                 (over the steps of each held-out mixture)
"""

import argparse
import sys

import polars as pl

from bimix.errors import InputError, run
from bimix.laws import LAWS
from bimix.laws.observations import observations, proportions_of
from bimix.outputs import write_table
from bimix.scores.scores import extrapolation, generalization
from bimix.tables import read_json, read_table


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coefficients", required=True, help="the law fitted to the group, written by fit_law.py")
    parser.add_argument("--losses", required=True, help="tidy losses of the fitted group")
    parser.add_argument("--mixtures", required=True, help="tidy mixtures of the fitted group")
    parser.add_argument("--held-out-losses", nargs="*", default=[], help="tidy losses of held-out groups")
    parser.add_argument(
        "--held-out-mixtures", nargs="*", default=[], help="tidy mixtures of the same groups, in the same order"
    )
    parser.add_argument("--extrapolation", required=True, help="csv")
    parser.add_argument("--generalization", required=True, help="csv")
    args = parser.parse_args(argv)
    if len(args.held_out_losses) != len(args.held_out_mixtures):
        raise InputError(
            f"{len(args.held_out_losses)} tables of held-out losses and {len(args.held_out_mixtures)} of mixtures were named: "
            "each group has one of both."
        )

    document = read_json(args.coefficients)
    pairs = zip([args.losses, *args.held_out_losses], [args.mixtures, *args.held_out_mixtures], strict=True)
    extrapolated, generalized = [], []
    for losses, mixtures in pairs:
        observed = observations(read_table(losses), read_table(mixtures), (losses, mixtures))
        extrapolated.append(extrapolation(document["law"], observed))
        new = [n for n, mixture in enumerate(observed.mixtures) if mixture not in document["mixtures"]]
        names, proportions = proportions_of(read_table(mixtures), tuple(document["domains"]), mixtures)
        held_out = observed.take(new)
        generalized.append(
            generalization(document, held_out, proportions[[names.index(name) for name in held_out.mixtures]])
        )
    key = ["law", "mixture", "domain"]
    write_table(pl.concat(extrapolated).unique(key, keep="first", maintain_order=True), args.extrapolation)
    write_table(pl.concat(generalized).unique(key, keep="first", maintain_order=True), args.generalization)
    if not LAWS[document["law"]].plan.over_steps:
        print(f"{document['law']} is fitted at single steps: it extrapolates to no other step", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(run(main))
