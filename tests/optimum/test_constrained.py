"""Solvers of convex programs: KKT, the root find of a power sum, duality gaps."""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from bimix.laws.table import LAWS
from bimix.optimum.solve import NUDGES, Program, certified, closed, power_sum_optimum, solve, without_parts

M = 5


class Problem:
    """A quadratic with the largest of three lines, or under a constraint that bites, in bounds."""

    def __init__(self, seed: int, worst: bool) -> None:
        draw = np.random.default_rng(seed)
        root = draw.normal(size=(M, M))
        self.square, self.line = root @ root.T, draw.normal(size=M)
        self.lower, self.upper = draw.uniform(0, 0.1, M), draw.uniform(0.4, 0.9, M)
        self.lower[0], self.upper[1] = 0.0, 1.0
        lines, heights = draw.normal(size=(4, M)), draw.normal(size=4)
        centre = self.lower + (1 - self.lower.sum()) / (self.upper - self.lower).sum() * (self.upper - self.lower)
        heights[3] = -lines[3] @ centre - 0.03
        self.lines, self.heights = (lines[:3], heights[:3]) if worst else (lines[3:], heights[3:])
        self.program = Program(self.at, worst)

    def at(self, r: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        slope = self.square @ r
        return r @ slope / 2 + self.line @ r, slope + self.line, self.lines @ r + self.heights, self.lines

    def by_another(self) -> float:
        """The least value, by sequential quadratic programming in r and t."""
        e = float(self.program.worst)
        start = np.append(np.full(M, 1 / M), 5.0)
        conditions = [
            {"type": "eq", "fun": lambda x: x[:M].sum() - 1},
            {"type": "ineq", "fun": lambda x: e * x[M] - self.lines @ x[:M] - self.heights},
        ]
        found = minimize(
            lambda x: x[:M] @ self.square @ x[:M] / 2 + self.line @ x[:M] + e * x[M],
            start,
            bounds=[*zip(self.lower, self.upper, strict=True), (-50, 50)],
            constraints=conditions,
            options={"ftol": 1e-13, "maxiter": 500},
        )
        assert found.success
        return found.fun


def test_a_program_ends_at_its_minimum() -> None:
    for worst in (True, False):
        bitten = 0
        for seed in range(6):
            problem = Problem(seed, worst)
            found = solve(problem.program, problem.lower, problem.upper)
            assert found.value == pytest.approx(problem.by_another(), abs=1e-7)
            assert -1e-12 < found.gap < 1e-7 and found.violation < 1e-9
            assert found.shares.sum() == pytest.approx(1, abs=1e-14)
            assert (found.shares >= problem.lower).all() and (found.shares <= problem.upper).all()
            bitten += (problem.lines @ found.shares + problem.heights)[-1] > -1e-9
        assert bitten or worst


def test_the_gap_is_that_of_linear_programs() -> None:
    """At a share of 0 the slope is infinite: the bound is from points towards the centre."""
    weights, lines = np.array([1.0, 2, 3, 1, 2]), np.array([[1.0, -1, 0.5, 0, 2], [0.3, 0, 0, -1, 1]])
    lower, upper = np.array([0.0, 0.1, 0.02, 0, 0.05]), np.array([0.5, 0.9, 0.6, 0.7, 0.8])

    def at(r: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        with np.errstate(divide="ignore"):
            return -weights @ np.sqrt(r), -weights / (2 * np.sqrt(r)), lines @ r, lines

    program = Program(at, True)
    shares, multipliers = np.array([0.0, 0.3, 0.3, 0.1, 0.3]), np.array([1.0, 3.0])
    found = certified(program, shares, multipliers, lower, upper)
    v = np.array([0.25, 0.75])
    centre = lower + (upper - lower) * (1 - lower.sum()) / (upper - lower).sum()
    bounds = []
    for nudge in NUDGES[1:]:
        p = (1 - nudge) * shares + nudge * centre
        value, gradient, parts, _ = at(p)
        slope = gradient + v @ lines
        least = linprog(slope, A_eq=np.ones((1, M)), b_eq=[1], bounds=list(zip(lower, upper, strict=True)))
        bounds.append(value + v @ parts + least.fun - slope @ p)
    value = -weights @ np.sqrt(shares) + (lines @ shares).max()
    assert found.value == pytest.approx(value) and found.violation == 0
    assert found.multipliers.tolist() == [0.25, 0.75]
    assert found.gap == pytest.approx(value - max(bounds), rel=1e-6)
    # a constraint that is broken, and multipliers of nothing
    broken = certified(program._replace(worst=False), shares, np.array([0.5, -1]), lower, upper)
    assert broken.violation == pytest.approx((lines @ shares).max()) and broken.multipliers.tolist() == [0.5, 0]


def minimum(objective, lower, upper):
    found = solve(without_parts(objective), lower, upper)
    assert -1e-12 < found.gap < 1e-6 * abs(found.value)
    return found.shares


def kkt(gradient, r, lower, upper):
    low, high = (r <= lower + 1e-9) & (lower < upper), (r >= upper - 1e-9) & (lower < upper)
    free = (lower < upper) & ~low & ~high
    mu = gradient[free].mean()
    worst = [np.abs(gradient[free] - mu).max(), *(mu - gradient[low]), *(gradient[high] - mu)]
    return max(worst) / np.abs(mu)


def test_kkt_and_the_root_find_agree_and_a_corner_is_found():
    for seed in range(8):
        agree(seed)
    # a corner is found when one domain is best
    names = ["a", "b", "c"]
    coefficients = {"x": {"steps": {"5": {"c": 1.0, "k": 1.0, "t": dict(zip(names, [-3.0, -1.0, 0.5], strict=True))}}}}
    fitted = {"law": "exponential", "domains": names, "loss_domains": ["x"], "steps": [5], "coefficients": coefficients}
    value = LAWS["exponential"].code.objective(fitted, 5, np.ones(1))
    assert np.allclose(minimum(value, np.zeros(3), np.ones(3)), [1, 0, 0], atol=1e-8)
    bounded = minimum(value, np.array([0, 0.1, 0.05]), np.array([0.7, 1, 1]))
    assert np.allclose(bounded, [0.7, 0.25, 0.05], atol=1e-8)


def agree(seed):
    draw = np.random.default_rng(seed)
    m = int(draw.integers(2, 23))
    gains, a = draw.uniform(1, 6, m), draw.uniform(0.02, 0.5, m)
    exact = power_sum_optimum(gains, a, np.zeros(m), np.ones(m))
    lower = np.where(draw.random(m) < 0.3, exact * 1.2, 0.0)
    upper = np.where(draw.random(m) < 0.3, np.maximum(lower, exact * 0.8), 1.0)

    def objective(r):
        value = gains * r**-a
        return value.sum(), -a * value / r

    if upper.sum() < 1:
        upper[0] = 1.0
    found, exact = minimum(objective, lower, upper), power_sum_optimum(gains, a, lower, upper)
    assert abs(found.sum() - 1) < 1e-12
    assert objective(found)[0] == pytest.approx(objective(exact)[0], rel=1e-12)
    assert np.abs(found - exact).max() < 1e-7
    assert kkt(objective(found)[1], found, lower, upper) < 1e-5


def test_no_room_and_one_point():
    def objective(r):
        return r @ r, 2 * r

    assert np.allclose(minimum(objective, np.zeros(4), np.ones(4)), 0.25)
    lower = np.array([0.4, 0.0, 0.0, 0.1])
    upper = np.array([0.4, 1.0, 1.0, 0.1])
    assert np.allclose(minimum(objective, lower, upper), [0.4, 0.25, 0.25, 0.1])
    point = np.array([0.4, 0.3, 0.2, 0.1])
    assert np.allclose(minimum(objective, point, np.ones(4)), point)
    assert np.allclose(minimum(objective, np.zeros(4), point), point)
    # Hardly any room is the nearer bound.
    assert minimum(objective, point - 1e-14, point + 0.1).tolist() == (point - 1e-14).tolist()
    assert minimum(objective, point - 0.1, point + 1e-14).tolist() == (point + 1e-14).tolist()


def test_a_power_sum_leaves_what_others_must_hold_rounds_free_shares_and_takes_bounds_of_0() -> None:
    """Two domains of different exponents share 0.6: their marginal gains are equal there, which
    shares of more than 0.6, scaled down, would not have.
    """
    gains, exponents = np.array([1.0, 3.0, 5.0]), np.array([0.05, 0.9, 0.0])
    shares = power_sum_optimum(gains, exponents, np.array([0, 0, 0.4]), np.ones(3))
    marginal = (gains * exponents * shares ** (-exponents - 1))[:2]
    assert shares[2] == 0.4 and abs(shares.sum() - 1) < 1e-15
    assert abs(marginal[0] / marginal[1] - 1) < 1e-9
    # the last rounding is put on shares that are free
    lower, upper = np.array([0.2, 0.0, 0.0, 0.0]), np.array([1.0, 1.0, 1.0, 0.4])
    found = closed(np.array([0.2, 0.1, 0.2, 0.4]), lower, upper)
    assert np.allclose(found, [0.2, 0.1 * 4 / 3, 0.2 * 4 / 3, 0.4], atol=1e-15)
    assert found[0] == 0.2 and found[3] == 0.4
    assert closed(lower, lower, lower).tolist() == lower.tolist()
    # bounds of 0 leave nothing and warn of nothing
    shares = power_sum_optimum(np.ones(3), np.full(3, 0.2), np.zeros(3), np.array([0.0, 1, 1]))
    assert np.allclose(shares, [0, 0.5, 0.5], atol=1e-15)
    with np.errstate(divide="raise"):
        power_sum_optimum(np.ones(3), np.full(3, 0.2), np.zeros(3), np.ones(3))
