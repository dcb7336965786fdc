"""Add up the n-gram counts that the shards of one domain hold.

index of the training split, parquet -> bigrams (first, second, n) and unigrams (token, n), sorted, parquet
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.errors import run
from bimix.outputs import write_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", type=Path, required=True, help="index of the training split, parquet")
    parser.add_argument("--domain", required=True, help="domain to count")
    parser.add_argument("--bigrams", type=Path, required=True, help="table to write")
    parser.add_argument("--unigrams", type=Path, required=True, help="table to write")
    options = parser.parse_args(argv)

    index = pl.read_parquet(options.index).filter(pl.col("domain") == options.domain, pl.col("rows") > 0)
    stems = [path.removesuffix(".bin") for path in index["path"]]
    write_table(add_up([f"{stem}.bigrams.parquet" for stem in stems], ["first", "second"]), options.bigrams)
    write_table(add_up([f"{stem}.unigrams.parquet" for stem in stems], ["token"]), options.unigrams)


def add_up(paths: list[str], keys: list[str]) -> pl.DataFrame:
    """Sum of the counts `n` of tables by their `keys`, sorted; streamed, so memory grows with the distinct keys alone."""
    tables = pl.scan_parquet(paths, glob=False)
    return tables.group_by(keys).agg(pl.sum("n")).sort(keys).collect(engine="streaming")


if __name__ == "__main__":
    sys.exit(run(main))
