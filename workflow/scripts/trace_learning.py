"""How many runs a law needs: its error and rank correlation on unseen mixtures against the number of mixtures fitted.

losses and mixtures, optionally of held-out groups -> learning.csv (law, runs, draw, mre, mre_worst, spearman, note)
"""

import argparse
import sys

from bimix.errors import run
from bimix.laws import LAWS
from bimix.laws.observations import joined, observations
from bimix.outputs import write_table
from bimix.scores.learning import learning_curve
from bimix.tables import read_table


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--laws", required=True, nargs="+", choices=list(LAWS))
    parser.add_argument("--losses", required=True)
    parser.add_argument("--mixtures", required=True)
    parser.add_argument(
        "--held-out-losses", nargs="*", default=[], help="without them the mixtures not drawn are predicted"
    )
    parser.add_argument("--held-out-mixtures", nargs="*", default=[], help="of the same groups, in the same order")
    parser.add_argument(
        "--counts", required=True, nargs="+", type=int, help="numbers of mixtures to fit, as far as there are so many"
    )
    parser.add_argument("--draws", required=True, type=int, help="random draws of the fitted mixtures for each number")
    parser.add_argument("--seed", required=True, type=int)
    parser.add_argument("--out", required=True, help="csv or parquet")
    args = parser.parse_args(argv)

    observed = observations(read_table(args.losses), read_table(args.mixtures), (args.losses, args.mixtures))
    pairs = zip(args.held_out_losses, args.held_out_mixtures, strict=True)
    held_out = [
        observations(read_table(losses), read_table(mixtures), (losses, mixtures)) for losses, mixtures in pairs
    ]
    new = joined(observed, held_out)
    # Three mixtures at least are left to predict where none is held out; the numbers above are for larger groups.
    most = len(observed.mixtures) - (0 if new else 3)
    counts = [count for count in args.counts if count <= most] or args.counts
    write_table(learning_curve(args.laws, observed, new, counts, args.draws, args.seed), args.out)


if __name__ == "__main__":
    sys.exit(run(main))
