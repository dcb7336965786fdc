"""The optimum of convex laws: KKT, no restart is better, `bimix` as by its root find."""

import numpy as np

from bimix.laws.table import LAWS
from bimix.optimum.solve import minimum, power_sum_optimum


def kkt(gradient, r, lower, upper):
    free = (r > lower) & (r < upper)
    mu = gradient[free].mean()
    low, high = (r <= lower) & (lower < upper), (r >= upper) & (lower < upper)
    worst = [np.abs(gradient[free] - mu).max(), *(mu - gradient[low]), *(gradient[high] - mu)]
    return max(worst) / np.abs(mu)


def test_kkt_and_the_root_find_agree_on_a_power_sum():
    for seed in range(8):
        agree(seed)


def agree(seed):
    draw = np.random.default_rng(seed)
    m = int(draw.integers(2, 23))
    gains, a = draw.uniform(1, 6, m), draw.uniform(0.02, 0.5, m)
    exact = power_sum_optimum(gains, a, np.zeros(m), np.ones(m))
    lower = np.where(draw.random(m) < 0.3, exact * 1.2, 0.0)
    upper = np.where(draw.random(m) < 0.3, np.maximum(lower, exact * 0.8), 1.0)

    def objective(r):
        value = gains * r**-a
        return value.sum(), -a * value / r, np.diag(a * (a + 1) * value / r**2)

    if upper.sum() < 1:
        upper[0] = 1.0
    found, exact = minimum(objective, lower, upper), power_sum_optimum(gains, a, lower, upper)
    assert abs(found.sum() - 1) < 1e-12
    assert np.abs(found - exact).max() < 1e-9
    assert kkt(objective(found)[1], found, lower, upper) < 1e-9


def test_no_room_and_one_point():
    def objective(r):
        return (r @ r), 2 * r, 2 * np.eye(len(r))

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


def test_a_corner_is_found_when_one_domain_is_best():
    names = ["a", "b", "c"]
    coefficients = {"x": {"steps": {"5": {"c": 1.0, "k": 1.0, "t": dict(zip(names, [-3.0, -1.0, 0.5], strict=True))}}}}
    fitted = {"law": "exponential", "domains": names, "loss_domains": ["x"], "steps": [5], "coefficients": coefficients}
    value = LAWS["exponential"].code.objective(fitted, 5, np.ones(1))
    assert np.allclose(minimum(value, np.zeros(3), np.ones(3)), [1, 0, 0], atol=1e-8)
    bounded = minimum(value, np.array([0, 0.1, 0.05]), np.array([0.7, 1, 1]))
    assert np.allclose(bounded, [0.7, 0.25, 0.05], atol=1e-8)
