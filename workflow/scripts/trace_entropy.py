"""Trace the entropies of every domain against the tokens they are estimated from.

index of the training split, the rows -> csv: domain, measure, tokens, nats (plug-in), miller_madow,
chao_shen, equal (true where the number of tokens is the largest that all domains have)
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl

from bimix.corpus.counts import NgramCounter
from bimix.corpus.estimators import ESTIMATORS, measure_counts
from bimix.corpus.permutation import permute
from bimix.errors import run
from bimix.outputs import write_table
from bimix.tables import read_table
from bimix.training.rows import RowStore, open_rows

BLOCK_ROWS = 1024  # rows read and counted at once
SMALLEST_ROWS = 4


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", type=Path, required=True, help="index of the training split, parquet")
    parser.add_argument("--domains", nargs="+", required=True)
    parser.add_argument("--tokens", type=int, required=True, help="tokens of each domain to go up to, at most")
    parser.add_argument("--out", type=Path, required=True, help="csv")
    options = parser.parse_args(argv)

    store = RowStore(read_table(options.index), options.domains, open_rows)
    most = np.minimum(store.sizes, max(1, options.tokens // store.row_length))
    equal = int(most.min())
    entries = []
    for number, domain in enumerate(options.domains):
        for rows, measured in trace(store, number, curve_points(int(most[number]), equal)):
            for entry in measured:
                kept = {name: entry[name] for name in ("measure", *ESTIMATORS)}
                entries.append({"domain": domain, "tokens": rows * store.row_length, **kept, "equal": rows == equal})
    columns = ["domain", "measure", "tokens", *ESTIMATORS, "equal"]
    write_table(pl.DataFrame(entries).select(columns).sort("domain", "measure", "tokens"), options.out)


def curve_points(most: int, equal: int) -> list[int]:
    """Numbers of rows: powers of two, all, and the number that every domain has."""
    powers = [2**power for power in range(most.bit_length()) if 2**power >= SMALLEST_ROWS]
    return sorted({*powers, most, equal})


def trace(store: RowStore, domain: int, points: list[int]):
    """Yield the rows and the entropies of each point: of the first rows of one random order,
    so that points are nested.
    """
    size, done = int(store.sizes[domain]), 0
    counter = NgramCounter()
    for point in points:
        while done < point:
            numbers = np.sort(permute(np.arange(done, min(point, done + BLOCK_ROWS)), size, domain))
            rows = store.read(np.full(len(numbers), domain), numbers)
            counter.add(rows.astype(np.uint32))
            done += len(numbers)
        first, _, pairs = counter.pairs()
        _, tokens = counter.tokens()
        yield point, measure_counts(tokens, first, pairs)


if __name__ == "__main__":
    sys.exit(run(main))
