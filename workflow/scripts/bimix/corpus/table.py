"""The table of entropies, of the counts and the vectors of all domains."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from bimix.corpus.counts import count_runs
from bimix.corpus.estimators import ESTIMATORS, measure_counts, von_neumann
from bimix.digests import check

SCHEMA = {
    "domain": pl.String,
    "measure": pl.String,
    **dict.fromkeys(ESTIMATORS, pl.Float64),
    **dict.fromkeys(["tokens", "pairs", "documents", "zeros", "distinct", "singletons"], pl.UInt64),
    "coverage": pl.Float64,
}


def entropy_table(
    domains: Sequence[str], unigrams: Iterable[Path], bigrams: Iterable[Path], moments: Sequence[Path]
) -> pl.DataFrame:
    """Entropies in nats, one row per domain and measure, from files in the order of the domains.

    Without `moments` (second moments of document vectors, npz) there is no VNE. Errors: a file is
    not as it was written.
    """
    entries = []
    for domain, tokens_of, pairs_of, moment in zip(
        domains, unigrams, bigrams, moments or [None] * len(domains), strict=True
    ):
        tokens, pairs = (pl.read_parquet(check(path), glob=False) for path in (tokens_of, pairs_of))
        _, first = count_runs(pairs["first"].to_numpy(), pairs["n"].to_numpy())
        measured = measure_counts(tokens["n"].to_numpy(), first, pairs["n"].to_numpy())
        if moment is not None:
            with np.load(check(moment)) as sums:
                documents, zeros = int(sums["documents"]), int(sums["zeros"])
                nats = von_neumann(sums["gram"], documents)
            measured.append({"measure": "VNE", "nats": nats, "documents": documents, "zeros": zeros})
        entries += [{"domain": domain} | entry for entry in measured]
    return pl.DataFrame(entries, schema=SCHEMA)
