"""Measure how similar the text of the domains is: cross-entropies of the domains' held-out text
under bigram models of one another.

bigram counts of the domains' training text, index of the validation split -> cross_entropy.csv
(domain, under, nats per token); every model is made of about the same number of pairs, drawn from
the counts
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl

from bimix.corpus.counts import encode_keys, merge_counts, push
from bimix.corpus.estimators import Pairs, cross_entropies, thin
from bimix.digests import check
from bimix.errors import run
from bimix.outputs import write_table
from bimix.tables import read_table

KEYS = ["first", "second"]
PAIRS = 10_000_000  # of each model at most


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--domains", nargs="+", required=True, help="training domains, in the order of the files")
    parser.add_argument("--bigrams", nargs="+", type=Path, required=True, help="first, second, n; parquet")
    parser.add_argument("--validation", type=Path, required=True, help="index of the validation split, parquet")
    parser.add_argument("--seed", type=int, default=0, help="of the pairs that are drawn (%(default)s)")
    parser.add_argument("--out", type=Path, required=True, help="cross_entropy.csv to write")
    options = parser.parse_args(argv)

    held_out = read_held_out(options.validation)
    totals, last = zip(*map(measure_size, options.bigrams), strict=True)
    wanted = min(*totals, PAIRS)
    draw = np.random.default_rng(options.seed)
    models = [lambda path=path: thin(read_pairs(path), wanted, draw) for path in options.bigrams]
    vocabulary = 1 + max(*last, *(int(codes.max() & np.uint64(2**32 - 1)) for codes, _ in held_out.values()))
    table = cross_entropies(list(held_out.values()), models, vocabulary)
    rows = [
        (domain, under, nats)
        for domain, row in zip(held_out, table, strict=True)
        for under, nats in zip(options.domains, row, strict=True)
    ]
    schema = {"domain": pl.String, "under": pl.String, "nats": pl.Float64}
    write_table(pl.DataFrame(rows, schema=schema, orient="row"), options.out)
    print(f"models of {wanted:,} pairs of tokens each", file=sys.stderr)


def read_held_out(index: Path) -> dict[str, Pairs]:
    """Counts of pairs by domain, summed over the shards of the validation split."""
    table = read_table(index).filter(pl.col("rows") > 0).sort("domain", "path")
    counted: dict[str, list[Pairs]] = {}
    for domain, path in table.select("domain", "path").iter_rows():
        pairs = read_pairs(check(path.removesuffix(".bin") + ".bigrams.parquet"))
        push(counted.setdefault(domain, []), pairs)
    return {domain: merge_counts(*tables) for domain, tables in counted.items()}


def read_pairs(path: Path) -> Pairs:
    """Sorted codes of the pairs of a table, and their counts."""
    return encode_keys(pl.scan_parquet(path, glob=False), KEYS)


def measure_size(path: Path) -> tuple[int, int]:
    """All pairs of a table, and the largest second id."""
    total, last = pl.scan_parquet(check(path), glob=False).select(pl.sum("n"), pl.max("second")).collect().row(0)
    return total, last


if __name__ == "__main__":
    sys.exit(run(main))
