"""The root find of a power sum where domains that gain nothing hold a part; its last rounding."""

import numpy as np

from bimix.optimum.solve import closed, power_sum_optimum


def test_what_domains_that_gain_nothing_must_hold_is_not_there_for_the_others() -> None:
    """Two domains of different exponents share 0.6: their marginal gains are equal there, which
    shares of more than 0.6, scaled down, would not have.
    """
    gains, exponents = np.array([1.0, 3.0, 5.0]), np.array([0.05, 0.9, 0.0])
    shares = power_sum_optimum(gains, exponents, np.array([0, 0, 0.4]), np.ones(3))
    marginal = (gains * exponents * shares ** (-exponents - 1))[:2]
    assert shares[2] == 0.4 and abs(shares.sum() - 1) < 1e-15
    assert abs(marginal[0] / marginal[1] - 1) < 1e-9


def test_the_last_rounding_is_put_on_shares_that_are_free() -> None:
    lower, upper = np.array([0.2, 0.0, 0.0, 0.0]), np.array([1.0, 1.0, 1.0, 0.4])
    found = closed(np.array([0.2, 0.1, 0.2, 0.4]), lower, upper)
    assert np.allclose(found, [0.2, 0.1 * 4 / 3, 0.2 * 4 / 3, 0.4], atol=1e-15)
    assert found[0] == 0.2 and found[3] == 0.4
    assert closed(lower, lower, lower).tolist() == lower.tolist()


def test_bounds_of_0_leave_nothing_and_warn_of_nothing() -> None:
    shares = power_sum_optimum(np.ones(3), np.full(3, 0.2), np.zeros(3), np.array([0.0, 1, 1]))
    assert np.allclose(shares, [0, 0.5, 0.5], atol=1e-15)
    with np.errstate(divide="raise"):
        power_sum_optimum(np.ones(3), np.full(3, 0.2), np.zeros(3), np.ones(3))
