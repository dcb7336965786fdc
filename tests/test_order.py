"""The data order: how close every prefix comes to the mixture, that rows are a permutation, that nothing is stored."""

import numpy as np
import pytest

from bimix.order import assign_domains, next_rows, permute, rows_of_domain


@pytest.mark.parametrize("domains", [2, 3, 7, 22])
def test_every_prefix_matches_the_mixture_within_one_row(domains: int) -> None:
    for seed in range(5):
        proportions = np.random.default_rng(seed).dirichlet(np.full(domains, 0.3))
        chosen = assign_domains(proportions, np.zeros(domains, dtype=np.int64), 3000)
        counts = np.eye(domains)[chosen].cumsum(axis=0)
        wanted = proportions * np.arange(1, 3001)[:, None]
        assert np.abs(counts - wanted).max() <= 1 - 1 / (2 * domains - 2) + 1e-9


def test_domains_of_proportion_zero_are_never_read() -> None:
    assert set(assign_domains(np.array([0.0, 1.0, 0.0]), np.zeros(3, dtype=np.int64), 50)) == {1}
    assert set(assign_domains(np.array([0.5, 0.0, 0.5]), np.zeros(3, dtype=np.int64), 50)) == {0, 2}


@pytest.mark.parametrize("size", [1, 2, 3, 10, 1000, 4097])
def test_permutations_are_permutations_and_differ_by_key(size: int) -> None:
    positions = np.arange(size)
    assert sorted(permute(positions, size, 7)) == list(range(size))
    if size >= 10:
        assert not np.array_equal(permute(positions, size, 7), permute(positions, size, 8))


def test_permutations_scatter() -> None:
    images = permute(np.arange(10_000), 10_000, 5)
    assert abs(np.corrcoef(np.arange(10_000), images)[0, 1]) < 0.05


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


def test_each_epoch_reads_every_row_once_in_another_order() -> None:
    first, second = rows_of_domain(1, "a", 50, np.arange(100)).reshape(2, 50)
    assert sorted(first) == sorted(second) == list(range(50))
    assert not np.array_equal(first, second)


def test_all_mixtures_see_a_domains_rows_in_the_same_order() -> None:
    sizes, names, start = np.array([30, 30]), ["a", "b"], np.zeros(2, dtype=np.int64)
    orders = []
    for proportions in ([0.9, 0.1], [0.3, 0.7]):
        chosen, numbers, _ = next_rows(1, names, np.array(proportions), sizes, start, 40)
        orders.append(numbers[chosen == 0])
    shared = min(map(len, orders))
    assert np.array_equal(orders[0][:shared], orders[1][:shared])


def test_backwards_a_run_reads_first_what_another_reads_last() -> None:
    """A proxy beside a reference: the rows that half an epoch of the reference has not seen, and no others."""
    size = 50
    forth, back = (rows_of_domain(1, "a", size, np.arange(2 * size), backwards) for backwards in (False, True))
    assert not set(forth[: size // 2]) & set(back[: size // 2])
    assert np.array_equal(back[:size], forth[:size][::-1]) and np.array_equal(back[size:], forth[size:][::-1])
    chosen, numbers, taken = next_rows(
        1, ["a", "b"], np.array([0.5, 0.5]), np.array([50, 9]), np.zeros(2, dtype=np.int64), 20, backwards=True
    )
    assert numbers[chosen == 0].tolist() == back[:10].tolist() and taken.tolist() == [10, 10]
