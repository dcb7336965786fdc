"""Compare the runs of one model on several mixtures.

losses (mixture, step, domain, loss), bytes of their text (count_bytes.py), reports of the runs that
mixtures were found from -> tables/comparison.csv, one row per mixture
"""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from bimix.errors import InputError, run
from bimix.judge.comparison import compared, table
from bimix.judge.measured import add_criterion, criterion_of, measured
from bimix.outputs import write_table
from bimix.tables import read_json, read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", type=Path, required=True, help="tidy losses, parquet or csv")
    parser.add_argument("--reference", required=True, help="the mixture that the others are measured against")
    parser.add_argument("--bytes", type=Path, nargs="?", help="domain and bits_per_nat, csv; none: no bits per byte")
    parser.add_argument(
        "--searches",
        type=json.loads,
        default={},
        help="{mixture: list of the run.json of the runs that it was found from}, JSON",
    )
    add_criterion(parser)
    parser.add_argument("--out", type=Path, required=True, help="csv")
    options = parser.parse_args(argv)
    factors = dict(read_table(options.bytes).select("domain", "bits_per_nat").iter_rows()) if options.bytes else None
    comparison = compared(measured(read_table(options.losses)), criterion_of(options))
    spent = {name: search_cost(map(Path, paths)) for name, paths in options.searches.items()}
    write_table(table(comparison, factors, spent), options.out)


def search_cost(paths: Iterable[Path]) -> tuple[int, float]:
    """The number and the FLOPs of the runs that reports are of."""
    flops = {}
    for path in paths:
        report = read_json(path)
        if report.get("flops") is None:
            raise InputError(f"{path} does not say its flops; make the run again.")
        # A round after the end of a search is an earlier run once more.
        same = [report.get(key) for key in ("mixture", "seed", "parameters", "tokens")]
        flops[json.dumps(same, sort_keys=True)] = report["flops"]
    return len(flops), float(sum(flops.values()))


if __name__ == "__main__":
    sys.exit(run(main))
