"""Add up the n-gram counts of the shards of one domain.

index of the training split, parquet -> bigrams (first, second, n) and unigrams
(token, n), sorted, parquet
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from bimix.corpus.counts import add_up, decode_keys, encode_keys, merge_counts, push
from bimix.digests import check
from bimix.errors import run
from bimix.outputs import write_pieces
from bimix.tables import read_table

MOST_SUMS = 2**23  # distinct keys in memory, some 100 bytes each


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", type=Path, required=True, help="index of the training split, parquet")
    parser.add_argument("--domain", required=True, help="domain to count")
    parser.add_argument("--bigrams", type=Path, required=True, help="table to write")
    parser.add_argument("--unigrams", type=Path, required=True, help="table to write")
    options = parser.parse_args(argv)

    index = read_table(options.index).filter(pl.col("domain") == options.domain, pl.col("rows") > 0)
    stems = [path.removesuffix(".bin") for path in index["path"]]
    for ending, keys, out in (
        ("bigrams", ["first", "second"], options.bigrams),
        ("unigrams", ["token"], options.unigrams),
    ):
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=".sums.") as folder:
            write_pieces(add_files([f"{stem}.{ending}.parquet" for stem in stems], keys, Path(folder)), out)


def add_files(paths: list[str], keys: list[str], folder: Path) -> Iterator[pl.DataFrame]:
    """Sums of the counts `n` of tables by one or two keys, sorted, in pieces.

    One table after the other is merged into the sums; where these grow past MOST_SUMS they are put
    aside in `folder`, so memory is bounded. (polars' streaming group_by took 15 GB for 1,000 tables
    that add up to one of 30 MB.)
    """
    sums: list[tuple[np.ndarray, np.ndarray]] = []
    aside: list[pl.LazyFrame] = []
    for number, path in enumerate(paths, start=1):
        push(sums, encode_keys(pl.scan_parquet(check(path), glob=False), keys))
        if sum(len(codes) for codes, _ in sums) > MOST_SUMS or (aside and number == len(paths)):
            put_aside = folder / f"{number}.parquet"
            decode_keys(*merge_counts(*sums), keys).write_parquet(put_aside)
            aside.append(pl.scan_parquet(put_aside, glob=False))
            sums = []
    if aside:
        yield from add_up(aside, keys)
    else:
        yield decode_keys(*merge_counts(*sums), keys)


if __name__ == "__main__":
    sys.exit(run(main))
