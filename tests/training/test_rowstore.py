"""Rows behind one address: which of a domain's are held out, whatever its files are."""

import numpy as np
import polars as pl
import pytest

from bimix.errors import InputError
from bimix.training.rows import RowStore, pool, set_aside

FILES, ROWS, LENGTH = 10, 40, 4


def store() -> RowStore:
    """Two domains of ten files each; a row is its domain, its file and its place in it."""
    lines, contents = [], {}
    for domain in ("ants", "bees"):
        for file in range(FILES):
            rows = np.zeros((ROWS, LENGTH), dtype=np.uint16)
            rows[:] = [domain == "bees", file, 0, 0]
            rows[:, 2] = np.arange(ROWS)
            contents[f"{domain}.{file}"] = rows
            lines.append((domain, f"{domain}.{file}", ROWS, ROWS * LENGTH, "uint16"))
    index = pl.DataFrame(lines, schema=["domain", "path", "rows", "tokens", "dtype"], orient="row")
    return RowStore(index, ["ants", "bees"], lambda path, dtype, rows: contents[path])


def test_a_sample_is_spread_over_all_files_of_a_domain() -> None:
    rows = store().sample(1, 60)
    assert rows.shape == (60, LENGTH) and (rows[:, 0] == 1).all()
    assert len({tuple(row) for row in rows.tolist()}) == 60
    # the first 60 rows would be one file and a half
    per_file = np.bincount(rows[:, 1], minlength=FILES)
    assert (per_file > 0).all() and per_file.max() <= 15
    # a larger one holds the smaller, and the largest is the domain
    few, more = ({tuple(row) for row in store().sample(0, rows).tolist()} for rows in (16, 64))
    assert few < more
    assert len({tuple(row) for row in store().sample(0, 10**6).tolist()}) == FILES * ROWS


def test_what_is_set_aside_and_what_is_left_are_all_rows_once() -> None:
    left, kept = set_aside(store(), 0.05)
    assert kept.sizes.tolist() == [20, 20] and left.sizes.tolist() == [380, 380]
    assert (left.row_length, left.domains) == (LENGTH, ["ants", "bees"])
    assert set_aside(store(), 0.051)[1].sizes.tolist() == [21, 21], "20.4 rows, rounded up"
    seen = []
    for part in (left, kept):
        chosen = np.repeat([0, 1], part.sizes)
        seen += [tuple(row) for row in part.read(chosen, np.tile(np.arange(part.sizes[0]), 2)).tolist()]
    assert len(seen) == len(set(seen)) == 2 * FILES * ROWS
    files = {row[1] for row in kept.read(np.zeros(20, dtype=np.int64), np.arange(20)).tolist()}
    assert len(files) > 5, "from all over a domain"
    index = pl.DataFrame({"domain": ["x"], "path": ["x"], "rows": [1], "tokens": [4], "dtype": ["uint16"]})
    with pytest.raises(InputError, match="Domain 'x' has one row"):
        set_aside(RowStore(index, ["x"], lambda path, dtype, rows: np.zeros((1, 4))), 0.05)


def rows_of(part) -> set[tuple]:
    """All rows of the second domain."""
    numbers = np.arange(part.sizes[1])
    return {tuple(row) for row in part.read(np.ones(len(numbers), dtype=np.int64), numbers).tolist()}


def test_a_pool_is_a_share_of_each_domain_and_holds_the_smaller_ones() -> None:
    whole = store()
    assert pool(whole, 1.0) is whole
    fewer, more = pool(whole, 1 / 64), pool(whole, 0.25)
    assert fewer.sizes.tolist() == [6, 6] and more.sizes.tolist() == [100, 100]
    assert rows_of(fewer) < rows_of(more) < rows_of(whole)
    assert len(rows_of(more)) == 100 and len({row[1] for row in rows_of(more)}) == FILES, "from all over a domain"
    assert pool(whole, 1e-9).sizes.tolist() == [1, 1]
    small = pool(whole, 0.1)  # a part of it can be set aside
    left, kept = set_aside(small, 0.5)
    assert rows_of(left) | rows_of(kept) == rows_of(small) and not rows_of(left) & rows_of(kept)
