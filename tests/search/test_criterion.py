"""Designs of runs: candidates, slopes, what is known before, the criterion, sizes."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from laws.known import mixtures

from bimix.errors import InputError
from bimix.search import design, sensitivity
from bimix.search.design import (
    CANDIDATES,
    Aim,
    Offer,
    candidates,
    choose,
    exchanged,
    informations,
    outer,
    repeated,
    wanted,
)
from bimix.search.sensitivity import Numbers, guessed, known_before, slopes
from bimix.search.sizes import at_sizes, known_at_sizes, model, read_budget, read_large, slope_spread
from bimix.transfer import mixing

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
    # a linked one, whose smaller run is done, is exchanged for no mixture without one
    linked = frozenset({3, 4})
    first = [row for row in range(60) if offer.size[row] == 1 and offer.mixture[row] in linked]
    assert exchanged(offer, aim_of(slopes, 0.1), first, linked) == first
    assert exchanged(offer, aim_of(slopes, 0.1), first) != first


def test_the_run_that_is_repeated_is_of_the_cheapest_chosen() -> None:
    slopes, _ = random_case(8, n=10)
    offer = Offer(slopes, np.arange(10), np.array([0, 1] * 5), np.array([1.0, 9.0] * 5))
    aim = aim_of(slopes, 0.1)
    again = repeated(offer, aim, [1, 2, 3, 4])
    assert again in (2, 4)
    precision = aim.precision + outer(slopes[[1, 2, 3, 4]])
    gains = dict(zip((2, 4), aim.gains(precision, slopes[[2, 4]]), strict=True))
    assert gains[again] == max(gains.values())


def test_candidates_keep_to_the_bounds_and_reach_them() -> None:
    for lower, upper in (
        (np.zeros(5), np.ones(5)),
        (np.full(5, 0.02), np.full(5, 0.6)),
        # pools so small that a random mixture hardly ever keeps to them
        (np.zeros(17), np.array([*[0.004] * 12, *[0.3] * 5])),
        (np.array([0.3, 0, 0]), np.array([0.3, 0.5, 0.5])),
        (np.zeros(4), np.array([1, 0, 1, 1.0])),
    ):
        m = len(lower)
        found = candidates(np.full(m, 1 / m), lower, upper, 0)
        assert len(found) == 2 * m + CANDIDATES
        assert found.sum(axis=1) == pytest.approx(np.ones(len(found)), abs=1e-12)
        assert (found >= lower - 1e-12).all() and (found <= upper + 1e-9).all()
        # the most that a domain may have leaves the others their least
        most = np.minimum(upper, 1 - lower.sum() + lower)
        assert found.max(axis=0) == pytest.approx(most, abs=1e-4)
        least = np.maximum(lower, 1 - (upper.sum() - upper))
        assert found.min(axis=0) == pytest.approx(least, abs=1e-4)


def test_bounds_that_leave_one_mixture_are_refused() -> None:
    for lower, upper in (([0.5, 0.5, 0], [1, 1, 1]), ([0, 0, 0], [0.5, 0.5, 0]), ([0.2, 0.3, 0], [0.2, 0.3, 1])):
        with pytest.raises(InputError, match="leave one mixture only"):
            candidates(np.full(3, 1 / 3), np.array(lower, dtype=float), np.array(upper, dtype=float), 0)


def test_candidates_are_many_near_the_middle_of_the_runs() -> None:
    """Half way between the centre and equal shares: the mean of those that are drawn."""
    centre, m = np.array([0.7, 0.2, 0.1]), 3
    drawn = candidates(centre, np.zeros(m), np.ones(m), 0)[2 * m :]
    assert drawn.mean(axis=0) == pytest.approx(0.5 * (centre + 1 / m), abs=0.02)


def moved(at: Numbers, step: np.ndarray) -> Numbers:
    """The numbers after a step (d, p) in c, log a, logit g and log k."""
    d, terms, m = at.k.shape
    logit = np.log(at.g / (1 - at.g)) + step[:, 2 * terms]
    k = at.k * np.exp(step[:, 2 * terms + 1 :].reshape(d, terms, m))
    trained = np.nonzero(at.own >= 0)[0]
    k[trained, 0, at.own[trained]] = at.k[trained, 0, at.own[trained]]
    g = 1 / (1 + np.exp(-logit))
    return Numbers(at.c + step[:, :terms], at.a * np.exp(step[:, terms : 2 * terms]), g, k, at.own, at.ridge, at.t)


def random_numbers(seed: int, terms: int, own: np.ndarray, m: int = 4) -> Numbers:
    draw, d = np.random.default_rng(seed), len(own)
    k = np.exp(draw.normal(-1, 1, (d, terms, m)))
    trained = np.nonzero(own >= 0)[0]
    k[trained, 0, own[trained]] = 1
    c, a = draw.normal(0, 0.5, (d, terms)), draw.uniform(0.05, 0.5, (d, terms))
    return Numbers(c, a, draw.uniform(0.3, 0.9, d), k, own)


def test_slopes_are_those_of_differences() -> None:
    for terms in (1, 2):
        own = np.array([0, 2, -1])
        at = random_numbers(terms, terms, own)
        shares = np.vstack([mixtures(0, 5, 4), [0.0, 0.5, 0.5, 0.0]])
        _, found = slopes(at, shares)
        assert found.shape == (6, 3, at.size)
        for number in range(at.size):
            step = np.zeros((3, at.size))
            step[:, number] = 1e-6
            there, back = (slopes(moved(at, sign * step), shares)[0] for sign in (1, -1))
            assert found[:, :, number] == pytest.approx((there - back) / 2e-6, abs=1e-7)
    # a domain's own k stands still
    at = random_numbers(0, 1, np.array([1, 3]))
    by_k = slopes(at, mixtures(1, 4, 4))[1][:, :, 3:]
    assert not by_k[:, 0, 1].any() and not by_k[:, 1, 3].any() and by_k[:, 0, 0].all()
    assert (moved(at, np.ones((2, at.size))).k[[0, 1], 0, [1, 3]] == 1).all()


def test_the_guess_is_where_a_fit_starts() -> None:
    gaps = np.array([[0.0, 0.5, -0.5], [1.0, 0.0, -1.0], [0.2, -0.1, -0.1]])
    own, shares = np.array([0, 1, -1]), mixtures(2, 6, 3)
    x = np.zeros((3, 4 + 3))
    x[:, 1], x[:, 2], x[:2, 3] = mixing.MEAN_LOG_A, mixing.MEAN_LOGIT_G, mixing.MEAN_U
    expected = mixing.levels(x, 1, own, gaps, np.log(shares)).T
    at = guessed(3, own, gaps)
    assert slopes(at, shares)[0] == pytest.approx(expected, rel=1e-12)
    assert at.k[0, 0] == pytest.approx([1, np.exp(-4.5), np.exp(-3.5)])


def test_what_is_known_before_is_the_fit_s_penalty_with_its_means_left_open() -> None:
    at = guessed(3, np.array([0, 1, -1]))
    covariance = np.linalg.inv(known_before(at) / at.ridge)[0]

    def variance(strength, hold=mixing.HOLD_MEANS):
        return 1 / strength + 1 / hold

    assert covariance[1, 1] == pytest.approx(variance(mixing.SHRINK_LOG_A, mixing.HOLD_LOG_A))
    assert covariance[2, 2] == pytest.approx(variance(mixing.SHRINK_LOGIT_G))
    # log k = u + delta: the helpers of a domain share u
    shared = variance(mixing.SHRINK_U)
    assert covariance[4:, 4:] == pytest.approx(np.eye(2) + shared)
    untrained = np.linalg.inv(known_before(at) / at.ridge)[2]
    assert untrained[3:, 3:] == pytest.approx(np.eye(3))


def test_a_prior_moves_what_is_worth_a_run() -> None:
    """With the prior domain 2 is like domain 0: a run of it says more of domain 0."""
    gaps = np.array([[0.0, 3.0, -3.0], [1.5, 0.0, -1.5], [-3.0, 3.0, 0.0]])
    shares = np.array([[0.05, 0.05, 0.9]])
    by_text, flat = (np.abs(slopes(guessed(3, np.arange(3), one), shares)[1][0, 0, 3 + 2]) for one in (gaps, None))
    assert by_text > 3 * flat
    assert guessed(3, np.arange(3)).ridge == sensitivity.RIDGE


OWN = np.arange(3)


def test_a_run_costs_six_flops_a_parameter_and_token() -> None:
    large = model("large", 1e9, 2e10)
    assert large.flops == 6 * 1e9 * 2e10 and model("other", 1e9, 2e10, 7.0).flops == 7
    assert read_budget("5%", large) == pytest.approx(0.05 * large.flops) and read_budget("2e18", None) == 2e18
    assert read_large("1e9,2e10", None) == large
    # slopes of sizes spread with the distance
    spread = slope_spread(np.array([1e6, 1e8, 1e9, 1e10]), 1e9)
    assert spread == pytest.approx([0.25, 0.25 / 9, 1e-3, 0.25 / 9])


def test_of_one_size_as_large_as_the_large_run_the_law_alone_is_told() -> None:
    """A level takes the place of the first c, and a slope of a size with none is held."""
    at, shares = guessed(3, OWN), mixtures(0, 20, 3)
    plain = np.linalg.inv(known_before(at) + design.outer(slopes(at, shares[:8])[1]))
    sized = at_sizes(at, shares[:8], np.zeros(8, dtype=int), 1)
    with_size = np.linalg.inv(known_at_sizes(at, np.ones(1), 1.0) + design.outer(sized))
    targets = slopes(at, shares)[1], at_sizes(at, shares, None, 1)
    first, second = (
        np.einsum("ndi,dij,ndj->nd", one, inverse, one)
        for one, inverse in zip(targets, (plain, with_size), strict=True)
    )
    assert second == pytest.approx(first, rel=2e-3)


def test_runs_of_a_small_model_leave_its_slope_open_and_large_ones_close_it() -> None:
    at, shares = guessed(3, OWN), mixtures(0, 200, 3)
    before = known_at_sizes(at, np.array([1e6, 1e9]), 1e9)
    targets = at_sizes(at, shares, None, 2)
    # differences to the uniform mixture, which no level moves
    targets = targets - at_sizes(at, np.full((1, 3), 1 / 3), None, 2)

    def variance(small: int, large: int) -> float:
        size = np.array([0] * small + [1] * large)
        precision = before + design.outer(at_sizes(at, shares[: small + large], size, 2))
        return float(np.einsum("ndi,dij,ndj->nd", targets, np.linalg.inv(precision), targets).mean())

    # before a run the slope's deviation is the documented one, in the units of a run's error
    places = before.shape[1] - 2 + np.arange(2)
    spread = np.sqrt(at.ridge / before[:, places, places])
    assert spread == pytest.approx(np.tile(slope_spread(np.array([1e6, 1e9]), 1e9), (len(before), 1)))
    fitted = known_at_sizes(replace(at, ridge=1e-6), np.array([1e6, 1e9]), 1e9)
    assert fitted == pytest.approx(1e-6 / at.ridge * before)
    assert variance(190, 0) > 0.9 * variance(100, 0)  # more of them do not help
    assert variance(100, 10) < 0.3 * variance(110, 0)
