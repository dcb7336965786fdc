"""Put the laws side by side for a person: their mean scores, and the paper's complexity table
for this dataset's sizes.

comparison.csv, losses, mixtures -> tables/laws.csv (one row per law),
tables/complexity.csv (numbers to fit)
"""

import argparse
import sys
from pathlib import Path

from bimix.errors import run
from bimix.judge.law_scores import complexity, laws_table
from bimix.observations.flags import add_tables, read_tables
from bimix.outputs import write_table
from bimix.tables import read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparison", type=Path, required=True, help="written by compare_laws.py")
    add_tables(parser, prior=False)  # those fitted, for the numbers of steps and domains
    parser.add_argument("--laws-table", type=Path, required=True, help="csv")
    parser.add_argument("--complexity-table", type=Path, required=True, help="csv")
    options = parser.parse_args(argv)

    scores = laws_table(read_table(options.comparison))
    observed = read_tables(options)
    sizes = len(observed.domains), len(observed.loss_domains), len(observed.steps)
    write_table(scores, options.laws_table)
    write_table(complexity(scores["law"].to_list(), *sizes), options.complexity_table)


if __name__ == "__main__":
    sys.exit(run(main))
