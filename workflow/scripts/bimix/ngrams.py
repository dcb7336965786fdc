"""Counts of tokens and of pairs of neighbours by sorting: integer codes, runs of equal ones, sorted blocks merged."""

import numpy as np
import polars as pl

BLOCK = 2**20  # tokens sorted at once: 4 MB of codes; so many wait in each of a shard's domains


def pair_codes(rows: np.ndarray) -> np.ndarray:
    """Code first * 2^b + second of the T - 1 pairs of neighbours in each row (n, T), flat.

    b is 16 (uint32 codes) for two-byte ids and 32 (uint64 codes) for four-byte ids.
    """
    bits = 8 * rows.dtype.itemsize
    wide = np.dtype(f"<u{2 * rows.dtype.itemsize}")
    codes = rows[:, :-1].astype(wide)
    codes <<= wide.type(bits)
    codes |= rows[:, 1:]
    return codes.ravel()


def split_codes(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and second id, uint32, of pair codes."""
    bits = 4 * codes.dtype.itemsize
    return (codes >> codes.dtype.type(bits)).astype(np.uint32), (codes & codes.dtype.type(2**bits - 1)).astype(
        np.uint32
    )


def sort_codes(codes: np.ndarray) -> np.ndarray:
    """Codes in ascending order; by polars, whose sort takes a third of the time of `np.sort` and frees the lock too."""
    return pl.Series(codes).sort(multithreaded=False).to_numpy()


def count_sorted(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct values of sorted codes and how often each stands there (uint64)."""
    starts = np.flatnonzero(np.concatenate([[len(codes) > 0], codes[1:] != codes[:-1]])[: len(codes)])
    return codes[starts], np.diff(np.append(starts, len(codes))).astype(np.uint64)


def merge_counts(*parts: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Sum of several tables (distinct sorted codes, counts)."""
    codes = np.concatenate([codes for codes, _ in parts])
    counts = np.concatenate([counts for _, counts in parts])
    order = np.argsort(codes, kind="stable")
    return count_runs(codes[order], counts[order])


def count_runs(codes: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct values of sorted codes and the sum of the counts of each."""
    starts = np.flatnonzero(np.concatenate([[len(codes) > 0], codes[1:] != codes[:-1]])[: len(codes)])
    return codes[starts], np.add.reduceat(counts, starts) if len(starts) else counts


def add_padded(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Sum of two vectors, the shorter one taken to end in zeros."""
    shorter, longer = sorted((one, other), key=len)
    total = longer.copy()
    total[: len(shorter)] += shorter
    return total


class NgramCounter:
    """Unigram and bigram counts of rows that arrive in pieces.

    Rows are held back until they fill a block; tables of similar size are merged, so each count is moved a
    logarithmic number of times. Counts may be asked for at any time. Memory: a block, and the distinct pairs once or twice.
    """

    def __init__(self) -> None:
        self.last = np.zeros(0, dtype=np.uint64)  # how often each id ends a row: those are in no pair as the first
        self.pending: list[np.ndarray] = []
        self.waiting = 0
        self.tables: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, rows: np.ndarray) -> None:
        """Count rows (n, T) of unsigned ids."""
        if rows.size:
            self.pending.append(rows)
            self.waiting += rows.size
        if self.waiting >= BLOCK:
            self._count()

    def _count(self) -> None:
        rows = np.concatenate(self.pending)
        self.pending, self.waiting = [], 0
        self.last = add_padded(self.last, np.bincount(rows[:, -1]).astype(np.uint64))
        table = count_sorted(sort_codes(pair_codes(rows)))
        while self.tables and len(self.tables[-1][0]) <= 2 * len(table[0]):
            table = merge_counts(self.tables.pop(), table)
        self.tables.append(table)

    def tokens(self) -> tuple[np.ndarray, np.ndarray]:
        """Ids that occur (uint32, sorted) and their counts (uint64): of the first of all pairs and the last of all rows."""
        first, _, pairs = self.pairs()
        ids, counts = count_runs(first, pairs)
        found = np.zeros(int(ids[-1]) + 1 if len(ids) else 0, dtype=np.uint64)
        found[ids] = counts
        found = add_padded(found, self.last)
        ids = np.flatnonzero(found)
        return ids.astype(np.uint32), found[ids]

    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """First ids, second ids (uint32, sorted by both) and their counts (uint64)."""
        if self.pending:
            self._count()
        if not self.tables:
            return np.empty(0, np.uint32), np.empty(0, np.uint32), np.empty(0, np.uint64)
        if len(self.tables) > 1:
            self.tables = [merge_counts(*self.tables)]
        codes, counts = self.tables[0]
        return *split_codes(codes), counts
