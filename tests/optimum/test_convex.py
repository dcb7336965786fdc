"""The optimum of convex laws: KKT, no restart is better, `bimix` as by its root find."""

import numpy as np
import pytest
from scipy.optimize import minimize

from bimix.laws import transfer
from bimix.laws.fitted import predict
from bimix.laws.table import LAWS
from bimix.optimum.solve import minimum, power_sum_optimum


def transfer_fitted(seed, m, d=None, terms=1):
    draw = np.random.default_rng(seed)
    names = [f"d{j:02d}" for j in range(m)]
    coefficients = {}
    for i in range(d or m):
        parts = []
        for q in range(terms):
            k = np.exp(draw.normal(-4, 1.5, m)) * (draw.random(m) < 0.8)
            if i < m and q == 0:
                k[i] = 1.0
            parts.append(
                {
                    "A": draw.uniform(0.3, 1),
                    "alpha": draw.uniform(0.05, 0.5),
                    "transfer": dict(zip(names, k, strict=True)),
                }
            )
        curve = {"B": draw.uniform(5, 50), "beta": draw.uniform(0.2, 0.8), "C": draw.uniform(0.5, 3)}
        coefficients[f"d{i:02d}"] = {"terms": parts, "gamma": draw.uniform(0.5, 1.0), **curve}
    return {
        "law": "transfer",
        "domains": names,
        "loss_domains": list(coefficients),
        "steps": [1, 2, 3],
        "coefficients": coefficients,
    }


def average(fitted, step):
    return lambda r: predict(fitted, np.atleast_2d(r), [step])[:, 0].sum(axis=1)


def slopes(function, r):
    """Numerical derivatives (m,) at r."""
    gradient = np.empty(len(r))
    for j in range(len(r)):
        step = min(1e-6, r[j] * 1e-3)
        up, down = r.copy(), r.copy()
        up[j] += step
        down[j] -= step
        gradient[j] = (function(up)[0] - function(down)[0]) / (2 * step)
    return gradient


@pytest.mark.parametrize(("seed", "terms"), [(0, 1), (1, 1), (2, 2), (3, 2)])
def test_transfer_beats_restarts_and_random_mixtures(seed, terms):
    m = 7
    fitted = transfer_fitted(seed, m, terms=terms)
    value = average(fitted, 10_000)
    best = minimum(transfer.objective(fitted, 10_000, np.ones(m)), np.zeros(m), np.ones(m))
    assert abs(best.sum() - 1) < 1e-12 and (best >= 0).all()
    draw = np.random.default_rng(seed)
    assert value(best)[0] <= value(draw.dirichlet(np.ones(m), 10_000)).min()
    for start in draw.dirichlet(np.ones(m) * 3, 4):
        found = minimize(
            lambda r: value(np.clip(r, 1e-12, 1))[0],
            start,
            bounds=[(1e-9, 1)] * m,
            constraints={"type": "eq", "fun": lambda r: r.sum() - 1},
            options={"ftol": 1e-13, "maxiter": 300},
        )
        assert value(best)[0] <= found.fun + 1e-9
        if found.success:
            assert np.abs(found.x - best).max() < 2e-3
    free = best > 1e-6
    gradient = slopes(value, best)[free]
    assert np.ptp(gradient) < 1e-5 * np.abs(gradient).max()


def kkt(gradient, r, lower, upper):
    free = (r > lower) & (r < upper)
    mu = gradient[free].mean()
    low, high = (r <= lower) & (lower < upper), (r >= upper) & (lower < upper)
    worst = [np.abs(gradient[free] - mu).max(), *(mu - gradient[low]), *(gradient[high] - mu)]
    return max(worst) / np.abs(mu)


@pytest.mark.parametrize("seed", range(8))
def test_kkt_and_the_root_find_agree_on_a_power_sum(seed):
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
