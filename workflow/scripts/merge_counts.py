"""Add up the n-gram counts that the shards of one domain hold.

index of the training split, parquet -> bigrams (first, second, n) and unigrams (token, n), sorted, parquet
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl

from bimix.errors import InputError, run
from bimix.ngrams import merge_counts, split_codes
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
    """Sum of the counts `n` of tables by one or two keys, sorted; one table after the other, each merged into the sums.

    Memory grows with the distinct keys alone: some 100 bytes each. (polars' streaming group_by took 15 GB for 1,000
    tables that add up to one of 30 MB.)
    """
    sums: list[tuple[np.ndarray, np.ndarray]] = []
    for path in paths:
        table = pl.read_parquet(path, columns=[*keys, "n"])
        codes = np.zeros(len(table), dtype=np.uint64)
        for key in keys:
            codes = codes << np.uint64(32) | table[key].to_numpy().astype(np.uint64)
        part = (codes, table["n"].to_numpy())
        while sums and len(sums[-1][0]) <= 2 * len(part[0]):
            part = merge_counts(sums.pop(), part)
        sums.append(part)
    if not sums:
        raise InputError("No shard has a row of this domain; see index_tokens.")
    codes, counts = merge_counts(*sums)
    columns = dict(zip(keys, split_codes(codes)[-len(keys) :], strict=True))
    return pl.DataFrame(columns | {"n": counts})


if __name__ == "__main__":
    sys.exit(run(main))
