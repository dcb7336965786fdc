"""Count the bytes of the text whose loss is measured, for each domain.

index of the validation split, its rows, tokenizer.json -> csv: domain, rows, tokens (predicted: all
of a row but the first), bytes (of their text; null where the tokenizer's ids do not say),
bits_per_nat (tokens / (ln 2 x bytes): a loss in nats per token times it is in bits per byte)
"""

import argparse
import math
import sys
from pathlib import Path

import polars as pl

from bimix.corpus.encoders import byte_lengths
from bimix.errors import run
from bimix.outputs import write_table
from bimix.tables import read_table
from bimix.training.rows import RowStore, open_rows

SCHEMA = {
    "domain": pl.String,
    "rows": pl.Int64,
    "tokens": pl.Int64,
    "bytes": pl.Int64,
    "bits_per_nat": pl.Float64,
}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, required=True, help="index of the validation split, parquet")
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json")
    parser.add_argument("--end-of-text", required=True, help="the token after each document")
    parser.add_argument("--rows", type=int, required=True, help="rows of a domain that are evaluated, at most")
    parser.add_argument("--out", type=Path, required=True, help="csv")
    options = parser.parse_args(argv)

    index = read_table(options.index)
    store = RowStore(index, sorted(index["domain"].unique().to_list()), open_rows)
    lengths = byte_lengths(options.tokenizer.read_text(encoding="utf-8"), options.end_of_text)
    if lengths is None:
        print(f"{options.tokenizer} does not say of how many bytes its tokens are: none are counted.", file=sys.stderr)
    entries = []
    for number, domain in enumerate(store.domains):
        predicted = store.sample(number, options.rows)[:, 1:]
        size = None if lengths is None else int(lengths[predicted].sum())
        factor = predicted.size / (math.log(2) * size) if size else None
        entries.append((domain, len(predicted), predicted.size, size, factor))
    write_table(pl.DataFrame(entries, schema=SCHEMA, orient="row"), options.out)


if __name__ == "__main__":
    sys.exit(run(main))
