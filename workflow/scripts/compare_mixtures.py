"""Compare the runs of one model on several mixtures.

losses (mixture, step, domain, loss) -> tables/comparison.csv, one row per mixture
"""

import argparse
import sys
from pathlib import Path

from bimix.errors import run
from bimix.outputs import write_table
from bimix.results.comparison import compare
from bimix.tables import read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", type=Path, required=True, help="tidy losses, parquet or csv")
    parser.add_argument("--reference", required=True, help="the mixture that the others are measured against")
    parser.add_argument("--out", type=Path, required=True, help="csv")
    options = parser.parse_args(argv)
    write_table(compare(read_table(options.losses), options.reference), options.out)


if __name__ == "__main__":
    sys.exit(run(main))
