"""How well the pairs of one domain foretell the text of another: a bigram model, and its
cross-entropies.

The model of a domain gives the token w after the token v the probability

    P(w | v) = (max(n(v, w) - 0.75, 0) + 0.75 D(v) P(w)) / n(v)
    P(w)     = (n(w) + 0.1) / (N + 0.1 V)

with n(v, w) the counts of its pairs, n(v) and n(w) their sums by first and second token, D(v) the
number of distinct tokens after v, N all pairs and V the size of the vocabulary; P(w) alone where v
was never first. Absolute discounting is of Ney, Essen and Kneser (1994).
"""

from collections.abc import Callable

import numpy as np

from bimix.corpus.counts import count_runs

DISCOUNT, ADDED = 0.75, 0.1
WIDTH = np.uint64(32)  # a pair's code is first * 2^32 + second
MASK = np.uint64(2**32 - 1)

# Distinct codes of pairs, sorted, and their counts.
Pairs = tuple[np.ndarray, np.ndarray]


def thin(pairs: Pairs, wanted: int, draw: np.random.Generator) -> Pairs:
    """Each of the pairs kept with one probability, so that about `wanted` are left (all where there
    are no more).
    """
    codes, counts = pairs
    total = int(counts.sum())
    if total <= wanted:
        return pairs
    kept = draw.binomial(counts.astype(np.int64), wanted / total)
    return codes[kept > 0], kept[kept > 0].astype(np.uint64)


def log_probabilities(pairs: Pairs, asked: np.ndarray, vocabulary: int) -> np.ndarray:
    """log P(second | first), nats, of the codes asked for (sorted), under the model of these
    pairs.
    """
    codes, counts = pairs
    counts = counts.astype(np.float64)
    first, second = asked >> WIDTH, asked & MASK
    followers = codes & MASK
    order = np.argsort(followers, kind="stable")
    seconds, sums = count_runs(followers[order], counts[order])
    alone = (_found(seconds, sums, second) + ADDED) / (counts.sum() + ADDED * vocabulary)
    starts = codes >> WIDTH
    firsts, totals = count_runs(starts, counts)
    _, distinct = count_runs(starts, np.ones(len(starts)))
    total = _found(firsts, totals, first)
    spread = DISCOUNT * _found(firsts, distinct, first) * alone
    pair = np.maximum(_found(codes, counts, asked) - DISCOUNT, 0.0)
    return np.log(np.where(total > 0, (pair + spread) / np.maximum(total, 1.0), alone))


def _found(keys: np.ndarray, values: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """The values of the keys (sorted) asked for; 0 of those that are not there."""
    places = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return np.where(keys[places] == asked, values[places], 0.0)


def cross_entropies(held_out: list[Pairs], models: list[Callable[[], Pairs]], vocabulary: int) -> np.ndarray:
    """H (d, m) in nats a token: held-out text of d domains under the models of m, whose pairs are
    opened one by one.
    """
    asked = np.unique(np.concatenate([codes for codes, _ in held_out]))
    places = [np.searchsorted(asked, codes) for codes, _ in held_out]
    shares = [counts / counts.sum() for _, counts in held_out]
    table = np.empty((len(held_out), len(models)))
    for column, open_pairs in enumerate(models):
        logs = log_probabilities(open_pairs(), asked, vocabulary)
        table[:, column] = [-(share @ logs[place]) for share, place in zip(shares, places, strict=True)]
    return table
