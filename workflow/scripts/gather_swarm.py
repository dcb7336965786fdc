"""Put the parts of a swarm together.

swarm/{model}/{part}/losses.parquet, runs.parquet ... -> losses/{model}/swarm.parquet,
swarm/{model}/runs.parquet
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.errors import InputError, run
from bimix.outputs import write_table
from bimix.tables import read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", type=Path, nargs="+", required=True, help="of each part; parquet")
    parser.add_argument("--runs", type=Path, nargs="+", required=True, help="of each part; parquet")
    parser.add_argument("--names", nargs="+", required=True, help="all mixtures of the swarm")
    parser.add_argument("--gathered-losses", type=Path, required=True, help="parquet of all parts")
    parser.add_argument("--gathered-runs", type=Path, required=True, help="parquet of all parts: what each run cost")
    options = parser.parse_args(argv)

    runs = pl.concat([read_table(path) for path in options.runs])
    missing = sorted(set(options.names) - set(runs["mixture"]))
    if missing:
        raise InputError(
            f"of {len(options.names)} runs of the swarm {len(missing)} are in none of its parts, {missing[0]} the first:"
            f" make {options.runs[0].parent.parent}/*/runs.parquet again."
        )
    write_table(runs, options.gathered_runs)
    write_table(pl.concat([read_table(path) for path in options.losses]), options.gathered_losses)


if __name__ == "__main__":
    sys.exit(run(main))
