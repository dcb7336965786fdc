"""The order of rows: every prefix keeps to the mixture, rows are a permutation."""

import itertools

import numpy as np
import polars as pl
import pytest

from bimix.corpus.permutation import permute
from bimix.errors import InputError
from bimix.training.order import Schedule, assign_domains, next_rows, rows_of_domain
from bimix.training.rows import RowStore, pool, set_aside


def test_every_prefix_matches_the_mixture_within_one_row() -> None:
    for domains, seed in itertools.product((2, 3, 22), range(5)):
        proportions = np.random.default_rng(seed).dirichlet(np.full(domains, 0.3))
        chosen = assign_domains(proportions, np.zeros(domains, dtype=np.int64), 3000)
        counts = np.eye(domains)[chosen].cumsum(axis=0)
        wanted = proportions * np.arange(1, 3001)[:, None]
        assert np.abs(counts - wanted).max() <= 1 - 1 / (2 * domains - 2) + 1e-9


def test_a_domain_of_proportion_zero_changes_nothing_for_the_others() -> None:
    proportions, start = np.array([0.61, 0.28, 0.11]), np.zeros(5, dtype=np.int64)
    alone = assign_domains(proportions, start[:3], 500)
    among = assign_domains(np.insert(proportions, [0, 2], 0.0), start, 500)
    assert np.array_equal(np.array([1, 2, 4])[alone], among)


WORD = 2**64


def scrambled(value: int) -> int:
    """SplitMix64's finaliser (Steele et al. 2014), in whole numbers."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB % WORD
    return value ^ (value >> 31)


def image(position: int, size: int, key: int) -> int:
    """Six rounds of Feistel over the fewest even bits, walked again while outside."""
    half = next(half for half in range(1, 33) if 4**half >= size)
    while True:
        left, right = divmod(position, 2**half)
        for turn in range(1, 7):
            offset = key + turn * 0x9E3779B97F4A7C15
            left, right = right, left ^ scrambled((right + offset) % WORD) % 2**half
        position = left * 2**half + right
        if position < size:
            return position


def test_permutations_are_those_of_the_formula_and_never_change() -> None:
    """Runs that stopped under an earlier version go on in the same order."""
    rows = rows_of_domain(1, "bees", 9, np.arange(18))
    assert rows.tolist() == [4, 8, 5, 6, 0, 1, 3, 7, 2, 1, 0, 5, 7, 3, 2, 4, 8, 6] and rows.dtype == np.int64
    for size, key in itertools.product((1, 2, 4, 5, 15, 16, 17, 300, 4097), (0, 7, WORD - 1)):
        assert permute(np.arange(size), size, key).tolist() == [image(position, size, key) for position in range(size)]


def test_the_kth_row_does_not_depend_on_how_the_run_was_cut() -> None:
    proportions, sizes, names = np.array([0.61, 0.28, 0.11]), np.array([40, 9, 5]), ["a", "b", "c"]
    whole = next_rows(3, names, proportions, sizes, np.zeros(3, dtype=np.int64), 300)
    taken, parts = np.zeros(3, dtype=np.int64), []
    for rows in (1, 16, 83, 200):
        chosen, numbers, taken = next_rows(3, names, proportions, sizes, taken, rows)
        parts.append((chosen, numbers))
    assert np.array_equal(np.concatenate([part[0] for part in parts]), whole[0])
    assert np.array_equal(np.concatenate([part[1] for part in parts]), whole[1])
    assert np.array_equal(taken, whole[2])


def test_all_mixtures_see_a_domains_rows_in_the_same_order() -> None:
    sizes, names, start = np.array([30, 30]), ["a", "b"], np.zeros(2, dtype=np.int64)
    orders = []
    for proportions in ([0.9, 0.1], [0.3, 0.7]):
        chosen, numbers, _ = next_rows(1, names, np.array(proportions), sizes, start, 40)
        orders.append(numbers[chosen == 0])
    shared = min(map(len, orders))
    assert np.array_equal(orders[0][:shared], orders[1][:shared])


def test_backwards_a_run_reads_first_what_another_reads_last() -> None:
    """A proxy next to a reference: the rows that the reference has not seen."""
    size = 50
    forth, back = (rows_of_domain(1, "a", size, np.arange(2 * size), backwards) for backwards in (False, True))
    assert not set(forth[: size // 2]) & set(back[: size // 2])
    assert np.array_equal(back[:size], forth[:size][::-1]) and np.array_equal(back[size:], forth[size:][::-1])
    chosen, numbers, taken = next_rows(
        1, ["a", "b"], np.array([0.5, 0.5]), np.array([50, 9]), np.zeros(2, dtype=np.int64), 20, backwards=True
    )
    assert numbers[chosen == 0].tolist() == back[:10].tolist() and taken.tolist() == [10, 10]


def test_what_any_stage_reads_is_read() -> None:
    schedule = Schedule(np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.9, 0.0, 0.1]]), (0, 3, 5))
    assert schedule.reads().tolist() == [True, True, False, True]


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
