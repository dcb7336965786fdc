"""Entropies of counts in nats: the plug-in value that the paper uses, and two corrections of its
bias; von Neumann entropy; and the cross-entropies of domains under each other's bigram models.

A plug-in entropy is biased low, most with few observations, so that large domains appear more
diverse than small ones; the corrections and the coverage show by how much. All sums are in float64.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from bimix.corpus.counts import count_runs
from bimix.digests import check

DISCOUNT, ADDED = 0.75, 0.1  # of the bigram model
WIDTH, MASK = np.uint64(32), np.uint64(2**32 - 1)  # a pair's code is first * 2^32 + second

Pairs = tuple[np.ndarray, np.ndarray]  # distinct codes of pairs, sorted, and their counts


def plug_in(counts: np.ndarray) -> float:
    """Plug-in entropy log N - (1/N) sum n log n of positive counts n of sum N (paper App. A)."""
    n = counts.astype(np.float64)
    total = n.sum()
    return max(0.0, float(np.log(total) - (n * np.log(n)).sum() / total))


def miller_madow(counts: np.ndarray) -> float:
    """Plug-in entropy plus (K - 1) / (2 N) for K distinct values (Miller 1955)."""
    return plug_in(counts) + (len(counts) - 1) / (2 * float(counts.sum()))


def coverage(counts: np.ndarray) -> float:
    """Good's estimate 1 - f1/N of the total probability of the values seen, f1 of them seen once.
    If every value was seen once, f1 = N - 1 is used instead, so that coverage is above 0.
    """
    total, singletons = int(counts.sum()), int((counts == 1).sum())
    return 1 - min(singletons, total - 1) / total


def chao_shen(counts: np.ndarray) -> float:
    """-sum q log q / (1 - (1 - q)^N) with q = coverage n/N (Chao and Shen 2003)."""
    total = float(counts.sum())
    q = coverage(counts) * (counts / total)
    seen = -np.expm1(total * np.log1p(-np.minimum(q, 1 - 2**-53)))
    return float(-(q * np.log(q) / seen).sum())


ESTIMATORS = {"nats": plug_in, "miller_madow": miller_madow, "chao_shen": chao_shen}


SCHEMA = {
    "domain": pl.String,
    "measure": pl.String,
    **dict.fromkeys(ESTIMATORS, pl.Float64),
    **dict.fromkeys(["tokens", "pairs", "documents", "zeros", "distinct", "singletons"], pl.UInt64),
    "coverage": pl.Float64,
}


def measure_counts(tokens: np.ndarray, first: np.ndarray, pairs: np.ndarray) -> list[dict[str, object]]:
    """SE, JE and CE = JE - H(first) by every estimator, with the numbers that show how reliable
    they are, from the counts of tokens and of bigrams; `first` are the bigrams' first tokens,
    sorted.
    """
    _, firsts = count_runs(first, pairs)
    shannon = {name: estimate(tokens) for name, estimate in ESTIMATORS.items()}
    joint = {name: estimate(pairs) for name, estimate in ESTIMATORS.items()}
    conditional = {name: max(0.0, joint[name] - estimate(firsts)) for name, estimate in ESTIMATORS.items()}
    of_tokens, of_pairs = (
        {"distinct": len(counts), "singletons": int((counts == 1).sum()), "coverage": coverage(counts)}
        for counts in (tokens, pairs)
    )
    seen = {"tokens": int(tokens.sum()), "pairs": int(pairs.sum())}
    return [
        {"measure": "SE", **shannon, "tokens": seen["tokens"], **of_tokens},
        {"measure": "JE", **joint, **seen, **of_pairs},
        {"measure": "CE", **conditional, **seen, **of_pairs},
    ]


def von_neumann(gram: np.ndarray, documents: int) -> float:
    """Von Neumann entropy -sum l log l over the eigenvalues l of V'V/N, for unit rows
    V (N, d) (paper App. A).

    The non-zero eigenvalues of the paper's (N, N) matrix VV'/N are those of this (d, d) one.
    """
    values = np.linalg.eigvalsh(np.asarray(gram, dtype=np.float64) / documents)
    values = values[values > 0]
    return max(0.0, float(-(values * np.log(values)).sum()))


def entropy_table(
    domains: Sequence[str], unigrams: Iterable[Path], bigrams: Iterable[Path], moments: Sequence[Path]
) -> pl.DataFrame:
    """Entropies in nats, one row per domain and measure, from files in the order of the domains.

    Without `moments` (second moments of document vectors, npz) there is no VNE. Errors: a file
    differs from its digest.
    """
    entries = []
    for domain, tokens_of, pairs_of, moment in zip(
        domains, unigrams, bigrams, moments or [None] * len(domains), strict=True
    ):
        tokens, pairs = (pl.read_parquet(check(path), glob=False) for path in (tokens_of, pairs_of))
        measured = measure_counts(*(column.to_numpy() for column in (tokens["n"], pairs["first"], pairs["n"])))
        if moment is not None:
            with np.load(check(moment)) as sums:
                documents, zeros = int(sums["documents"]), int(sums["zeros"])
                nats = von_neumann(sums["gram"], documents)
            measured.append({"measure": "VNE", "nats": nats, "documents": documents, "zeros": zeros})
        entries += [{"domain": domain} | entry for entry in measured]
    return pl.DataFrame(entries, schema=SCHEMA)


def thin(pairs: Pairs, wanted: int, draw: np.random.Generator) -> Pairs:
    """A random sample of about `wanted` pairs; all pairs if there are no more."""
    codes, counts = pairs
    total = int(counts.sum())
    if total <= wanted:
        return pairs
    kept = draw.binomial(counts.astype(np.int64), wanted / total)
    return codes[kept > 0], kept[kept > 0].astype(np.uint64)


def log_probabilities(pairs: Pairs, wanted: np.ndarray, vocabulary: int) -> np.ndarray:
    """log P(second | first), nats, of sorted codes under the bigram model of `pairs`,

        P(w | v) = (max(n(v, w) - 0.75, 0) + 0.75 D(v) P(w)) / n(v)
        P(w)     = (n(w) + 0.1) / (N + 0.1 V)

    with n(v, w) the counts of the pairs, n(v) and n(w) their sums by first and second token, D(v)
    the number of distinct tokens after v, N all pairs and V the `vocabulary`; P(w) alone where v
    was never first. Absolute discounting is of Ney, Essen and Kneser (1994).
    """
    codes, counts = pairs
    counts = counts.astype(np.float64)
    first, second = wanted >> WIDTH, wanted & MASK
    followers = codes & MASK
    order = np.argsort(followers, kind="stable")
    seconds, sums = count_runs(followers[order], counts[order])
    alone = (_found(seconds, sums, second) + ADDED) / (counts.sum() + ADDED * vocabulary)
    starts = codes >> WIDTH
    firsts, totals = count_runs(starts, counts)
    _, distinct = count_runs(starts, np.ones(len(starts)))
    total = _found(firsts, totals, first)
    spread = DISCOUNT * _found(firsts, distinct, first) * alone
    pair = np.maximum(_found(codes, counts, wanted) - DISCOUNT, 0.0)
    return np.log(np.where(total > 0, (pair + spread) / np.maximum(total, 1.0), alone))


def _found(keys: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Values of the wanted keys; 0 if a key is not among the sorted `keys`."""
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, values[places], 0.0)


def cross_entropies(held_out: list[Pairs], models: list[Callable[[], Pairs]], vocabulary: int) -> np.ndarray:
    """H (d, m), nats per token: held-out text under bigram models, of which one is in memory."""
    codes_held = np.unique(np.concatenate([codes for codes, _ in held_out]))
    places = [np.searchsorted(codes_held, codes) for codes, _ in held_out]
    shares = [counts / counts.sum() for _, counts in held_out]
    table = np.empty((len(held_out), len(models)))
    for column, open_pairs in enumerate(models):
        logs = log_probabilities(open_pairs(), codes_held, vocabulary)
        table[:, column] = [-(share @ logs[place]) for share, place in zip(shares, places, strict=True)]
    return table
