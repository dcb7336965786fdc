"""Score several laws on the same rows.

losses and mixtures, optionally of held-out groups -> comparison.csv (law, score, domain, value, runs, coefficients, note)
"""

import argparse
import sys

from bimix.errors import run
from bimix.laws import LAWS
from bimix.laws.observations import joined, observations
from bimix.outputs import write_table
from bimix.scores.laws import compare
from bimix.tables import read_table


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--laws", required=True, nargs="+", choices=list(LAWS))
    parser.add_argument("--losses", required=True)
    parser.add_argument("--mixtures", required=True)
    parser.add_argument("--held-out-losses", nargs="*", default=[])
    parser.add_argument("--held-out-mixtures", nargs="*", default=[], help="of the same groups, in the same order")
    parser.add_argument("--out", required=True, help="csv or parquet")
    args = parser.parse_args(argv)

    observed = observations(read_table(args.losses), read_table(args.mixtures), (args.losses, args.mixtures))
    pairs = zip(args.held_out_losses, args.held_out_mixtures, strict=True)
    held_out = [
        observations(read_table(losses), read_table(mixtures), (losses, mixtures)) for losses, mixtures in pairs
    ]
    write_table(compare(args.laws, observed, joined(observed, held_out)), args.out)


if __name__ == "__main__":
    sys.exit(run(main))
