"""Score several laws on the same rows.

losses and mixtures, optionally of held-out groups -> comparison.csv (law, score, domain, value,
runs, coefficients, note)
"""

import argparse
import sys
from pathlib import Path

from bimix.errors import run
from bimix.judge.law_scores import compare
from bimix.laws.table import LAWS
from bimix.observations.flags import add_tables, read_held_out, read_tables
from bimix.outputs import write_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--laws", required=True, nargs="+", choices=list(LAWS), help="to fit and score")
    add_tables(parser, held_out=True)
    parser.add_argument("--out", type=Path, required=True, help="csv or parquet")
    options = parser.parse_args(argv)

    observed = read_tables(options)
    write_table(compare(options.laws, observed, read_held_out(options, observed)), options.out)


if __name__ == "__main__":
    sys.exit(run(main))
