"""The exponential law of Ye et al. ("Data Mixing Laws"): L_i(r) = c_i + k_i exp(sum_j t_ij r_j),
one fit per step and domain.

As published: m + 2 coefficients per domain and step, Huber loss of width 0.05, many starts.
"""

from collections.abc import Callable

import numpy as np
from scipy.optimize import least_squares

HUBER = 0.05
STARTS = 8
T_RANGE = 20.0


def fit_step(shares, losses, weights, domains, begin=None, width=HUBER) -> dict:
    """c, k >= 0 and t {domain: t} by a Huber loss, Trust Region Reflective, best of many starts."""
    m = shares.shape[1]
    root = np.sqrt(weights)

    def residuals(z):
        return root * (z[0] + np.exp(z[1] + shares @ z[2:]) - losses)

    def jacobian(z):
        grown = np.exp(z[1] + shares @ z[2:])[:, None]
        return root[:, None] * np.concatenate([np.ones_like(grown), grown, grown * shares], axis=1)

    lower = np.array([0.0, -30.0, *[-T_RANGE] * m])
    upper = np.array([losses.max(), 30.0, *[T_RANGE] * m])
    draw = np.random.default_rng(0)
    low, spread = losses.min(), max(np.ptp(losses), 1e-3)
    starts = [
        np.array([share * low, np.log(low * (1 - share) + spread), *draw.normal(-0.5, 0.5, m)])
        for share in np.linspace(0, 0.95, STARTS)
    ]
    if begin is not None:
        starts = [np.array([begin["c"], np.log(begin["k"]), *begin["t"].values()])]
    inside = 1e-9 * (upper - lower)
    fits = [
        least_squares(
            residuals,
            np.clip(z, lower + inside, upper - inside),
            jac=jacobian,
            bounds=(lower, upper),
            loss="huber",
            f_scale=width,
            x_scale="jac",
            max_nfev=100,
        )
        for z in starts
    ]
    best = min(fits, key=lambda fitted: fitted.cost).x
    t = dict(zip(domains, best[2:].tolist(), strict=True))
    return {"c": float(best[0]), "k": float(np.exp(best[1])), "t": t}


def predict_step(numbers, domains, shares) -> np.ndarray:
    return numbers["c"] + numbers["k"] * np.exp(shares @ _by_domain(numbers, domains))


def slope_step(numbers, domains) -> Callable:
    """The loss without c, which is convex."""
    t = _by_domain(numbers, domains)

    def at(r):
        grown = numbers["k"] * np.exp(t @ r)
        return grown, grown * t

    return at


def count_step(numbers) -> int:
    """The number of coefficients, m + 2; one is redundant, as proportions sum to 1."""
    return 2 + len(numbers["t"])


def _by_domain(numbers, domains) -> np.ndarray:
    return np.array([numbers["t"][name] for name in domains])
