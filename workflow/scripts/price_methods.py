"""The price list: what each method spent before the large run, and how the large
run on its mixture ended.

losses (mixture, step, domain, loss), reports of the runs that mixtures were found
with, or a table of their costs -> tables/methods.csv
"""

import argparse
import json
import sys
from pathlib import Path

from bimix.errors import run
from bimix.judge.comparison import compared
from bimix.judge.measured import add_criterion, criterion_of, measured
from bimix.judge.worth import price, read_cost, read_spent, spent_on
from bimix.outputs import write_table
from bimix.tables import read_json, read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", type=Path, required=True, help="tidy losses of the large runs, parquet or csv")
    parser.add_argument("--reference", required=True, help="the mixture that the others are measured against")
    parser.add_argument("--large", type=Path, nargs="?", help="run.json of the large run on the reference")
    parser.add_argument(
        "--searches",
        type=json.loads,
        default={},
        help="{mixture: list of the run.json and runs.parquet of the runs that it was found with}, JSON",
    )
    parser.add_argument(
        "--costs",
        type=Path,
        nargs="?",
        help="of runs trained elsewhere, in the place of these two: mixture, search_runs, search_flops, large_flops",
    )
    add_criterion(parser)
    parser.add_argument("--out", type=Path, required=True, help="csv")
    options = parser.parse_args(argv)

    comparison = compared(measured(read_table(options.losses)), criterion_of(options))
    spent, large_flops = None, None
    if options.large is not None:
        spent = {
            name: spent_on([cost for path in paths for cost in costs(Path(path))])
            for name, paths in options.searches.items()
        }
        large_flops = read_cost(read_json(options.large), str(options.large))["flops"]
    elif options.costs is not None:
        spent, large_flops = read_spent(read_table(options.costs))
    write_table(price(comparison, spent, large_flops), options.out)


def costs(path: Path) -> list[dict[str, float]]:
    """Of each run that a report is of, what it cost."""
    if path.suffix == ".json":
        return [read_cost(read_json(path), str(path))]
    return [read_cost(row, str(path)) for row in read_table(path).iter_rows(named=True)]


if __name__ == "__main__":
    sys.exit(run(main))
