"""Measure the entropies of every domain: Shannon (SE), joint (JE), conditional (CE) and von Neumann
(VNE).

unigram and bigram counts and second moments of the domains -> entropy.csv: domain, measure, nats
(plug-in: the paper's), miller_madow, chao_shen, tokens, pairs, documents, zeros, distinct,
singletons, coverage; empty: does not apply
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl

from bimix.digests import check
from bimix.entropy.counts import count_runs
from bimix.entropy.estimators import ESTIMATORS, measure_counts, von_neumann
from bimix.errors import run
from bimix.outputs import write_table
from bimix.tables import read_table

SCHEMA = {
    "domain": pl.String,
    "measure": pl.String,
    **dict.fromkeys(ESTIMATORS, pl.Float64),
    **dict.fromkeys(["tokens", "pairs", "documents", "zeros", "distinct", "singletons"], pl.UInt64),
    "coverage": pl.Float64,
}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--domains", nargs="+", required=True, help="domains, in the order of the files")
    parser.add_argument("--unigrams", nargs="+", type=Path, required=True, help="token, n; parquet")
    parser.add_argument("--bigrams", nargs="+", type=Path, required=True, help="first, second, n; parquet")
    parser.add_argument(
        "--moments", nargs="*", type=Path, required=True, help="gram, documents, zeros; npz; none: no VNE"
    )
    parser.add_argument("--out", type=Path, required=True, help="entropy.csv to write")
    options = parser.parse_args(argv)

    moments = options.moments or [None] * len(options.domains)
    entries = []
    for domain, unigrams, bigrams, moment in zip(
        options.domains, options.unigrams, options.bigrams, moments, strict=True
    ):
        tokens, pairs = read_table(unigrams), read_table(bigrams)
        _, first = count_runs(pairs["first"].to_numpy(), pairs["n"].to_numpy())
        measured = measure_counts(tokens["n"].to_numpy(), first, pairs["n"].to_numpy())
        if moment is not None:
            with np.load(check(moment)) as sums:
                documents, zeros = int(sums["documents"]), int(sums["zeros"])
                nats = von_neumann(sums["gram"], documents)
            measured.append({"measure": "VNE", "nats": nats, "documents": documents, "zeros": zeros})
        entries += [{"domain": domain} | entry for entry in measured]
    write_table(pl.DataFrame(entries, schema=SCHEMA), options.out)


if __name__ == "__main__":
    sys.exit(run(main))
