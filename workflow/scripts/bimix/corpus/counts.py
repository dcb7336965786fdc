"""Unigram and bigram counts by sorting: integer codes, run lengths, merges of sorted blocks."""

from collections.abc import Iterator

import numpy as np
import polars as pl

PIECE = 2**23  # rows of tables added up at once, some 100 bytes each
BLOCK = 2**23  # tokens sorted at once: 32 MB of codes; the more, the fewer partial counts are merged
UNMERGED = 2**22  # partial counts, 50 MB, that a counter leaves unmerged: a merge costs more than the sorting


def pair_codes(*pieces: np.ndarray) -> np.ndarray:
    """Codes first * 2^b + second of the T - 1 bigrams of each of the rows (n, T), flat. b is 16
    (uint32 codes) for two-byte ids and 32 (uint64 codes) for four-byte ids.
    """
    bits = 8 * pieces[0].dtype.itemsize
    codes = np.empty(sum(rows[:, 1:].size for rows in pieces), np.dtype(f"<u{bits // 4}"))
    start = 0
    for rows in pieces:  # one by one, as a piece fits the cache
        own = codes[start : start + rows[:, 1:].size].reshape(len(rows), -1)
        np.left_shift(rows[:, :-1], bits, out=own, dtype=codes.dtype)
        own |= rows[:, 1:]
        start += own.size
    return codes


def split_codes(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and second id, uint32, of pair codes."""
    bits = 4 * codes.dtype.itemsize
    return (codes >> codes.dtype.type(bits)).astype(np.uint32), (codes & codes.dtype.type(2**bits - 1)).astype(
        np.uint32
    )


def count_sorted(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct values of sorted codes and the count of each (uint64)."""
    starts = run_starts(codes)
    return codes[starts], np.diff(starts, append=len(codes)).astype(np.uint64)


def run_starts(codes: np.ndarray) -> np.ndarray:
    """The positions at which runs of equal sorted codes begin."""
    new = np.empty(len(codes), dtype=bool)
    new[:1] = True
    np.not_equal(codes[1:], codes[:-1], out=new[1:])
    return np.flatnonzero(new)


def merge_counts(*parts: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Sum of several tables (distinct sorted codes, counts)."""
    codes = np.concatenate([codes for codes, _ in parts])
    counts = np.concatenate([counts for _, counts in parts])
    order = np.argsort(codes, kind="stable")  # which makes use of the parts' order
    return count_runs(codes[order], counts[order])


def count_runs(codes: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct values of sorted codes and the sum (uint64) of the counts of each."""
    starts = run_starts(codes)
    if not len(starts):
        return codes, counts.astype(np.uint64)
    return codes[starts], np.add.reduceat(counts, starts, dtype=np.uint64)


def push(tables: list[tuple[np.ndarray, np.ndarray]], table: tuple[np.ndarray, np.ndarray], unmerged: int = 0) -> None:
    """Append a table to a list; all are merged once the later ones together hold more counts than
    the first, and more than `unmerged`.

    So a list takes at most twice the memory of its first table, or `unmerged` counts more, and a
    count is copied two or three times.
    """
    tables.append(table)
    first, *rest = (len(codes) for codes, _ in tables)
    if sum(rest) > max(first, unmerged):
        tables[:] = [merge_counts(*tables)]


def encode_keys(table: pl.LazyFrame, keys: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Codes (uint64) of the one or two keys of a table and its counts `n`."""
    part = table.select(*keys, "n").collect()
    codes = np.zeros(len(part), dtype=np.uint64)
    for key in keys:
        codes = codes << np.uint64(32) | part[key].to_numpy().astype(np.uint64)
    return codes, part["n"].to_numpy()


def decode_keys(codes: np.ndarray, counts: np.ndarray, keys: list[str]) -> pl.DataFrame:
    """The table that `encode_keys` read."""
    return pl.DataFrame(dict(zip(keys, split_codes(codes)[-len(keys) :], strict=True)) | {"n": counts})


def add_up(tables: list[pl.LazyFrame], keys: list[str], piece: int = PIECE) -> Iterator[pl.DataFrame]:
    """Sums of the counts `n` of tables by one or two keys (uint32), as consecutive pieces.

    Each table is sorted by its keys, so that a piece reads only its own row groups of a parquet
    file. A piece has `piece` rows of all tables together, or all rows of one first key if that key
    alone has more, so that memory is bounded.
    """
    key, rows = keys[0], pl.col("len").sum()
    counted = [table.group_by(key).len().collect(engine="streaming") for table in tables]
    firsts, sizes = pl.concat(counted).group_by(key).agg(rows).sort(key)
    ends, start = sizes.to_numpy().cumsum(dtype=np.int64), 0
    while start < len(firsts):
        before = ends[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + piece, side="right")))
        wanted = pl.col(key).is_between(firsts[start], firsts[end - 1])
        sums: list[tuple[np.ndarray, np.ndarray]] = []
        for table in tables:
            push(sums, encode_keys(table.filter(wanted), keys))
        yield decode_keys(*merge_counts(*sums), keys)
        start = end


class NgramCounter:
    """Unigram and bigram counts of rows that arrive in pieces.

    Rows are buffered until they fill a block. Counts may be requested at any time. Memory: a
    block, and the distinct pairs once or twice. `waiting` is the number of buffered tokens.
    """

    def __init__(self) -> None:
        self.unigrams = np.zeros(0, dtype=np.int64)  # by id
        self.pending: list[np.ndarray] = []
        self.waiting = 0
        self.tables: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, rows: np.ndarray) -> None:
        """Count rows (n, T) of unsigned ids."""
        if rows.size:
            self.pending.append(rows)
            self.waiting += rows.size
        if self.waiting >= BLOCK:
            self.count()

    def count(self) -> None:
        """Count the buffered rows; there must be at least one."""
        pieces, self.pending, self.waiting = self.pending, [], 0
        for rows in pieces:
            counted = np.bincount(rows.ravel(), minlength=len(self.unigrams))
            counted[: len(self.unigrams)] += self.unigrams
            self.unigrams = counted
        codes = pair_codes(*pieces)
        del pieces
        codes.sort()  # without the GIL
        push(self.tables, count_sorted(codes), UNMERGED)

    def merge(self) -> bool:
        """Merge the partial counts; return whether there were several tables."""
        several = len(self.tables) > 1
        if several:
            self.tables = [merge_counts(*self.tables)]
        return several

    @property
    def distinct(self) -> int:
        """Pairs in memory, counted once for each table that holds them."""
        return sum(len(codes) for codes, _ in self.tables)

    def tokens(self) -> tuple[np.ndarray, np.ndarray]:
        """Ids that occur (uint32, sorted) and counts (uint64)."""
        if self.pending:
            self.count()
        ids = np.flatnonzero(self.unigrams)
        return ids.astype(np.uint32), self.unigrams[ids].astype(np.uint64)

    def give_away(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return `pairs` and delete them."""
        pairs = self.pairs()
        self.tables = []
        return pairs

    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """First ids, second ids (uint32, sorted by both) and their counts (uint64)."""
        if self.pending:
            self.count()
        if not self.tables:
            return np.empty(0, np.uint32), np.empty(0, np.uint32), np.empty(0, np.uint64)
        self.merge()
        codes, counts = self.tables[0]
        return *split_codes(codes), counts
