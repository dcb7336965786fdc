"""Designs that are known exactly, criteria by their definitions, and what every choice keeps to."""

from itertools import combinations

import numpy as np
import pytest

from bimix.search.design import Aim, Offer, choose, informations, outer, repeated, wanted

WEAK = 1e-6


def offer_of(slopes: np.ndarray, costs=None) -> Offer:
    n = len(slopes)
    return Offer(slopes, np.arange(n), np.zeros(n, dtype=int), np.ones(n) if costs is None else costs)


def aim_of(slopes: np.ndarray, precision: float = WEAK) -> Aim:
    d, p = slopes.shape[1:]
    return Aim(np.tile(precision * np.eye(p), (d, 1, 1)), wanted(slopes), np.arange(1.0, d + 1))


def random_case(seed: int, n: int = 12, d: int = 2, p: int = 3):
    slopes = np.random.default_rng(seed).standard_normal((n, d, p))
    return slopes, offer_of(slopes)


@pytest.mark.parametrize("seed", range(2))
def test_the_choice_is_all_but_the_best_of_all_subsets(seed: int) -> None:
    slopes, offer = random_case(seed, n=10)
    aim = aim_of(slopes, 0.1)

    def value(rows):
        return aim.information(aim.precision + outer(slopes[list(rows)]))

    every = sorted((value(rows) for rows in combinations(range(10), 4)), reverse=True)
    chosen = value(choose(offer, aim, np.inf, 4))
    assert chosen >= every[4]  # of 210: exchanges of one run may end beside the best
    assert chosen > np.mean(every)


def test_the_choice_is_better_than_random_by_its_own_criterion() -> None:
    slopes, offer = random_case(1, n=60, d=3, p=5)
    aim, draw = aim_of(slopes, 0.01), np.random.default_rng(0)
    chosen = choose(offer, aim, np.inf, 6)
    random = [aim.information(aim.precision + outer(slopes[draw.permutation(60)[:6]])) for _ in range(500)]
    assert informations(offer, aim, chosen)[-1] > max(random)


def test_gains_and_the_criterion_are_those_of_their_definitions() -> None:
    slopes, _ = random_case(2, n=8, p=5)
    aim = aim_of(slopes, 0.2)
    precision = aim.precision + outer(slopes[:2])
    gains = aim.gains(precision, slopes[2:])
    before = aim.information(precision)
    after = np.array([aim.information(precision + outer(slopes[[n]])) for n in range(2, 8)])
    assert gains == pytest.approx(np.exp(-before) - np.exp(-after), rel=1e-9)
    # the criterion by its definition
    slopes, _ = random_case(3, n=20, d=2, p=4)
    precision = outer(slopes) + 0.1 * np.eye(4)
    inverse = np.linalg.inv(precision)
    variance = np.einsum("ndi,dij,ndj->nd", slopes, inverse, slopes).mean(axis=0)
    assert aim_of(slopes).information(precision) == pytest.approx(-np.log(variance @ [1, 4]))


def test_a_loss_that_weighs_nothing_decides_nothing() -> None:
    slopes, _ = random_case(4, n=30)
    other = slopes.copy()
    other[:, 1] = np.random.default_rng(9).standard_normal((30, 3))
    aims = [Aim(np.tile(0.1 * np.eye(3), (2, 1, 1)), wanted(one), np.array([1.0, 0.0])) for one in (slopes, other)]
    first, second = (choose(offer_of(one), aim, np.inf, 5) for one, aim in zip((slopes, other), aims, strict=True))
    assert first == second


def test_fewer_runs_than_numbers_make_no_singular_matrix() -> None:
    slopes, offer = random_case(5, n=20, p=9)
    values = informations(offer, aim_of(slopes), choose(offer, aim_of(slopes), np.inf, 3))
    assert np.isfinite(values).all() and (np.diff(values) > 0).all()


def test_a_budget_is_kept_and_used() -> None:
    slopes, _ = random_case(6, n=40)
    costs = np.random.default_rng(1).choice([1.0, 3.0], 40)
    size = (costs > 1).astype(int)
    offer = Offer(slopes, np.arange(40), size, costs)
    aim = aim_of(slopes, 0.1)
    for budget in (1, 2.5, 7, 19):
        chosen = choose(offer, aim, budget, linked=frozenset(range(40)))
        assert budget - 1 < costs[chosen].sum() <= budget
        assert len(set(chosen)) == len(chosen)
    assert choose(offer, aim, 0.5) == []


def test_larger_runs_are_of_mixtures_that_others_have() -> None:
    slopes = np.repeat(np.random.default_rng(7).standard_normal((30, 2, 3)), 2, axis=0)
    slopes[1::2] *= 5  # the larger run of each mixture tells far more
    offer = Offer(slopes, np.repeat(np.arange(30), 2), np.tile([0, 1], 30), np.tile([1.0, 2.0], 30))
    chosen = choose(offer, aim_of(slopes, 0.1), 20)
    small, large = ({int(offer.mixture[row]) for row in chosen if offer.size[row] == size} for size in (0, 1))
    assert large and large <= small


def test_the_run_that_is_repeated_is_of_the_cheapest_chosen() -> None:
    slopes, _ = random_case(8, n=10)
    offer = Offer(slopes, np.arange(10), np.array([0, 1] * 5), np.array([1.0, 9.0] * 5))
    aim = aim_of(slopes, 0.1)
    again = repeated(offer, aim, [1, 2, 3, 4])
    assert again in (2, 4)
    precision = aim.precision + outer(slopes[[1, 2, 3, 4]])
    gains = dict(zip((2, 4), aim.gains(precision, slopes[[2, 4]]), strict=True))
    assert gains[again] == max(gains.values())
