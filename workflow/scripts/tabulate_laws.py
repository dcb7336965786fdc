"""Put the laws side by side for a person: their mean scores, and the paper's complexity table for this dataset's sizes.

comparison.csv, losses, mixtures -> tables/laws.csv (one row per law), tables/complexity.csv (numbers to fit)
"""

import argparse
import sys

from bimix.errors import run
from bimix.laws.observations import observations
from bimix.outputs import write_table
from bimix.scores.laws import complexity, laws_table
from bimix.tables import read_table


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparison", required=True, help="written by compare_laws.py")
    parser.add_argument(
        "--losses", required=True, help="the losses that were fitted, for the numbers of steps and domains"
    )
    parser.add_argument("--mixtures", required=True)
    parser.add_argument("--laws-table", required=True, help="csv")
    parser.add_argument("--complexity-table", required=True, help="csv")
    args = parser.parse_args(argv)

    scores = laws_table(read_table(args.comparison))
    observed = observations(read_table(args.losses), read_table(args.mixtures), (args.losses, args.mixtures))
    sizes = len(observed.domains), len(observed.loss_domains), len(observed.steps)
    write_table(scores, args.laws_table)
    write_table(complexity(scores["law"].to_list(), *sizes), args.complexity_table)


if __name__ == "__main__":
    sys.exit(run(main))
