"""Write lm_eval's results of a run at several steps as one tidy table.

JSON as lm_eval writes it, one for each step -> downstream/{model}/{run}.csv: task, metric, step,
value, stderr, n
"""

import argparse
import sys
from pathlib import Path

from bimix.downstream.accuracy import tidy
from bimix.errors import run
from bimix.outputs import write_table
from bimix.tables import read_json


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, nargs="+", required=True, help="lm_eval's results, JSON")
    parser.add_argument("--steps", type=int, nargs="+", required=True, help="the step of each, in the same order")
    parser.add_argument("--out", type=Path, required=True, help="csv")
    options = parser.parse_args(argv)
    write_table(tidy(dict(zip(options.steps, map(read_json, options.results), strict=True))), options.out)


if __name__ == "__main__":
    sys.exit(run(main))
