"""Rows and counts against the plainest way to make them."""

from collections import Counter
from itertools import pairwise

import numpy as np
import polars as pl
from tokenised import call

import merge_counts as merge_script
from bimix.corpus import counts
from bimix.corpus.counts import NgramCounter, add_up, count_sorted, merge_counts, pair_codes, split_codes


def test_counts_equal_counting_one_by_one(monkeypatch):
    for vocabulary, dtype, block in ((7, "<u2", 1), (65_536, "<u2", 500), (100_000, "<u4", 2**19)):
        monkeypatch.setattr("bimix.corpus.counts.BLOCK", block)
        generator = np.random.default_rng(2)
        pieces = [generator.integers(0, vocabulary, (int(generator.integers(0, 9)), 33)) for _ in range(30)]
        pieces[3][:] = vocabulary - 1
        counter = NgramCounter()
        for piece in pieces:
            counter.add(piece.astype(dtype))
        rows = np.concatenate(pieces).tolist()

        tokens, counts = counter.tokens()
        assert dict(zip(tokens.tolist(), counts.tolist(), strict=True)) == Counter(
            token for row in rows for token in row
        )
        first, second, counts = counter.pairs()
        expected = Counter(pair for row in rows for pair in pairwise(row))
        assert dict(zip(zip(first.tolist(), second.tolist(), strict=True), counts.tolist(), strict=True)) == expected
        assert list(zip(first, second, strict=True)) == sorted(zip(first, second, strict=True))
        assert len(tokens) == len(set(tokens.tolist())) and len(first) == len(expected)


def test_codes_keep_the_largest_ids_and_no_rows_have_no_counts():
    counter = NgramCounter()
    counter.add(np.empty((0, 8), dtype="<u2"))
    assert all(len(column) == 0 for column in (*counter.tokens(), *counter.pairs()))
    assert all(len(column) == 0 for column in count_sorted(np.empty(0, np.uint32)))
    empty = (np.empty(0, np.uint32), np.empty(0, np.uint64))
    assert all(len(column) == 0 for column in merge_counts(empty, empty))
    # codes keep the largest ids
    largest = 2**32 - 1
    rows = np.array([[largest, 0, largest, largest]], dtype="<u4")
    first, second = split_codes(pair_codes(rows))
    assert first.tolist() == [largest, 0, largest]
    assert second.tolist() == [0, largest, largest]


def test_merged_counts_are_sums_however_large():
    for dtype, largest in (("<u4", 5), ("<u4", 2**32 - 1), ("<u8", 2**32)):
        generator = np.random.default_rng(4)
        last = np.iinfo(dtype).max
        parts, expected = [], Counter()
        for _ in range(4):
            codes = np.array([*set(generator.integers(0, 50, 20).tolist()), last], dtype)
            codes.sort()
            numbers = generator.integers(1, largest, len(codes), np.uint64, endpoint=True)
            numbers[-1] = largest
            parts.append((codes, numbers))
            expected += Counter(dict(zip(codes.tolist(), numbers.tolist(), strict=True)))
        codes, sums = merge_counts(*parts)
        assert codes.dtype == dtype and sums.dtype == np.uint64
        assert list(zip(codes.tolist(), sums.tolist(), strict=True)) == sorted(expected.items())


def test_tables_add_up_in_pieces():
    for piece, keys in ((1, ["token"]), (40, ["first", "second"]), (10**6, ["token"])):
        generator = np.random.default_rng(3)
        tables, expected = [], Counter()
        for _ in range(5):
            own = Counter(tuple(row) for row in generator.integers(0, 9, (60, len(keys))).tolist())
            expected += own
            columns = dict(zip(keys, zip(*sorted(own), strict=True), strict=True)) | {
                "n": [own[key] for key in sorted(own)]
            }
            types = dict.fromkeys(keys, pl.UInt32) | {"n": pl.UInt64}
            tables.append(pl.DataFrame(columns, schema=types).lazy())
        pieces = list(add_up(tables, keys, piece))
        rows = [row for table in pieces for row in table.iter_rows()]
        assert [row[:-1] for row in rows] == sorted(expected)
        assert {row[:-1]: row[-1] for row in rows} == expected
        assert len(pieces) == {1: 9, 40: len(pieces), 10**6: 1}[piece]
        assert piece > 40 or all(table[keys[0]].n_unique() < 9 for table in pieces)


def test_memory_is_a_block_and_twice_the_first_table(monkeypatch):
    monkeypatch.setattr(counts, "BLOCK", 100)
    monkeypatch.setattr(counts, "UNMERGED", 20)
    counter, draw, merged = NgramCounter(), np.random.default_rng(0), 0
    for _ in range(200):
        before = len(counter.tables)
        counter.add(draw.integers(0, 1000, (2, 10)).astype(np.uint16))
        merged += len(counter.tables) < before
        assert counter.waiting == sum(rows.size for rows in counter.pending) < 100
        first, *rest = (len(codes) for codes, _ in counter.tables or [((), ())])
        assert sum(rest) <= max(first, 20)
    assert 3 < merged < 20


def test_sums_do_not_depend_on_what_is_put_aside(tmp_path, monkeypatch):
    for most in (1, 300):
        monkeypatch.setattr(merge_script, "MOST_SUMS", most)
        generator = np.random.default_rng(5)
        whole, paths = NgramCounter(), []
        for shard in range(7):
            rows, own = generator.integers(0, 40, (12, 16)).astype("<u2"), NgramCounter()
            whole.add(rows)
            own.add(rows)
            paths.append(str(tmp_path / f"{shard}.bin"))
            columns = dict(zip(("first", "second", "n"), own.pairs(), strict=True))
            pl.DataFrame(columns).write_parquet(tmp_path / f"{shard}.bigrams.parquet")
            columns = dict(zip(("token", "n"), own.tokens(), strict=True))
            pl.DataFrame(columns).write_parquet(tmp_path / f"{shard}.unigrams.parquet")
        index = pl.DataFrame({"domain": ["a"] * 7, "rows": [12] * 7, "path": paths})
        index.write_parquet(tmp_path / "index.parquet")
        out = {name: tmp_path / "out" / f"{name}.parquet" for name in ("bigrams", "unigrams")}
        call(merge_script, index=tmp_path / "index.parquet", domain="a", **out)
        found = pl.read_parquet(out["bigrams"])
        expected = dict(zip(("first", "second", "n"), whole.pairs(), strict=True))
        assert found.equals(pl.DataFrame(expected))
        tokens = dict(pl.read_parquet(out["unigrams"]).iter_rows())
        assert tokens == Counter(dict(zip(*(column.tolist() for column in whole.tokens()), strict=True)))
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["bigrams.parquet", "unigrams.parquet"]
