"""The interior point method: how often it asks for the function, shares exactly at bounds, bounds
that leave hardly any room.
"""

import numpy as np
import pytest

from bimix.optimum.solve import _bordered, minimum


class Asked:
    """A power sum plus a shared term, with its calls counted."""

    def __init__(self, seed: int, m: int) -> None:
        draw = np.random.default_rng(seed)
        self.gains, self.a = draw.uniform(1, 6, m) * draw.choice([0.01, 1, 20], m), draw.uniform(0.02, 0.9, m)
        self.mixed = draw.uniform(-1, 1, m)
        self.calls = 0

    def __call__(self, r):
        self.calls += 1
        value, grown = self.gains * r**-self.a, np.exp(self.mixed @ r)
        hessian = np.diag(self.a * (self.a + 1) * value / r**2) + grown * np.outer(self.mixed, self.mixed)
        return value.sum() + grown, -self.a * value / r + grown * self.mixed, hessian


def test_a_minimum_takes_few_steps() -> None:
    """Those of a method of second order: 315 in all today. A wrong sign or factor in a step, which
    the search for its length would mend, costs more.
    """
    assert sum(has_its_gradient(seed) for seed in range(12)) <= 345


def has_its_gradient(seed: int) -> int:
    """The minimum of a random problem with bounds that bite is one; how often it was asked for."""
    draw = np.random.default_rng(seed)
    m = int(draw.integers(3, 30))
    lower = np.where(draw.random(m) < 0.4, draw.uniform(0.2, 0.9, m) / m, 1e-4 / m)
    upper = np.where(draw.random(m) < 0.4, np.maximum(1.1 / m, lower * 1.5), 1.0)
    asked = Asked(seed, m)
    found = minimum(asked, lower, upper)
    calls = asked.calls
    assert abs(found.sum() - 1) < 1e-14 and (found >= lower).all() and (found <= upper).all()
    gradient = asked(found)[1]
    low, high = found == lower, found == upper
    free = ~low & ~high
    assert free.any() and (low.any() or high.any() or m < 6)
    mu = gradient[free].mean()
    assert np.abs(gradient[free] - mu).max() < 1e-9 * np.abs(mu)
    assert (gradient[low] >= mu).all() and (gradient[high] <= mu).all()
    return calls


def test_a_shift_of_the_function_and_its_scale_change_nothing() -> None:
    asked = Asked(3, 8)
    lower, upper = np.full(8, 1e-5), np.ones(8)
    best = minimum(asked, lower, upper)
    for factor in (1e-6, 1e6):

        def scaled(r, factor=factor):
            value, gradient, hessian = asked(r)
            return factor * value + 3, factor * gradient, factor * hessian

        assert np.abs(minimum(scaled, lower, upper) - best).max() < 1e-9


def test_fixed_shares_are_taken_off_what_the_others_share() -> None:
    """With one share fixed, the others' gradients are equal at the minimum, and it takes no more
    steps than without.
    """
    asked = Asked(5, 6)
    lower, upper = np.full(6, 1e-5), np.ones(6)
    lower[2] = upper[2] = 0.35
    best = minimum(asked, lower, upper)
    assert asked.calls <= 26 and best[2] == 0.35 and abs(best.sum() - 1) < 1e-14
    free = (best > lower) & (best < upper)
    gradient = asked(best)[1][free]
    assert free.sum() >= 2 and np.ptp(gradient) < 1e-9 * np.abs(gradient).max()
    lower[:], upper[:] = [0.5, 0.5, 0, 0, 0, 0], [0.5, 0.5, 0, 1, 1, 1]
    assert minimum(asked, lower, upper).tolist() == lower.tolist()


def test_hardly_any_room_is_the_nearer_bound() -> None:
    def flat(r):
        return r @ r, 2 * r, 2 * np.eye(len(r))

    point = np.array([0.5, 0.3, 0.2])
    assert minimum(flat, point - 1e-14, point + 0.1).tolist() == (point - 1e-14).tolist()
    assert minimum(flat, point - 0.1, point + 1e-14).tolist() == (point + 1e-14).tolist()


def test_the_matrix_of_a_step_holds_the_sum() -> None:
    step = np.linalg.solve(_bordered(np.diag([1.0, 2.0])), [0.3, 0.4, 0.0])
    assert abs(step[:2].sum()) < 1e-15
    # both sides of the stationarity move by the same multiplier
    assert step[0] - 0.3 == pytest.approx(2 * step[1] - 0.4)
    assert step[0] - step[2] == pytest.approx(0.3)
