"""Put the losses of several runs into one tidy table.

runs/{model}/{mixture}/losses.parquet ... -> losses/{model}/{group}.parquet
(mixture, seed, step, tokens, domain, loss). A round of a search that was not needed is left out.
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.digests import digest_file
from bimix.errors import run
from bimix.mixtures.names import round_of
from bimix.outputs import write_table
from bimix.training.artefacts import check


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--losses", type=Path, nargs="+", required=True, help="step, tokens, domain, loss; parquet")
    parser.add_argument("--names", nargs="+", required=True, help="the runs' mixtures, in the same order")
    parser.add_argument("--seeds", type=int, nargs="+", required=True, help="the runs' seeds, likewise")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    tables, known = [], set()
    for name, seed, path in zip(options.names, options.seeds, options.losses, strict=True):
        digest = digest_file(check(path))
        if round_of(name) is not None and digest in known:
            print(f"{name}, seed {seed}, is a run before it again: the search had ended.")
            continue
        known.add(digest)
        table = pl.read_parquet(path, glob=False)
        tables.append(table.select(pl.lit(name).alias("mixture"), pl.lit(seed).alias("seed"), pl.all()))
    write_table(pl.concat(tables), options.out)


if __name__ == "__main__":
    sys.exit(run(main))
