"""Compare the runs of one model on several mixtures.

losses (mixture, step, domain, loss), bytes of their text (count_bytes.py) -> tables/comparison.csv,
one row per mixture
"""

import argparse
import sys
from pathlib import Path

from bimix.errors import run
from bimix.judge.comparison import compared, table
from bimix.judge.measured import add_criterion, criterion_of, measured
from bimix.outputs import write_table
from bimix.tables import read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", type=Path, required=True, help="tidy losses, parquet or csv")
    parser.add_argument("--reference", required=True, help="the mixture that the others are measured against")
    parser.add_argument("--bytes", type=Path, nargs="?", help="domain and bits_per_nat, csv; none: no bits per byte")
    add_criterion(parser)
    parser.add_argument("--out", type=Path, required=True, help="csv")
    options = parser.parse_args(argv)
    factors = dict(read_table(options.bytes).select("domain", "bits_per_nat").iter_rows()) if options.bytes else None
    comparison = compared(measured(read_table(options.losses)), criterion_of(options))
    write_table(table(comparison, factors), options.out)


if __name__ == "__main__":
    sys.exit(run(main))
