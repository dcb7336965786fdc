"""Slopes of the law by its numbers, against differences; what is known before, against the fit."""

import numpy as np
import pytest
from laws.known import mixtures

from bimix.search import sensitivity
from bimix.search.sensitivity import Numbers, guessed, known_before, slopes
from bimix.transfer import mixing


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
