"""The exponential law of Ye et al. ("Data Mixing Laws"): L_i(r) = c_i + k_i exp(sum_j t_ij r_j),
one fit per step and domain.

As published: m + 2 coefficients per domain and step, Huber loss of width 0.05, many starts. It says
nothing about other steps.
"""

from collections.abc import Callable

import numpy as np
from scipy.optimize import least_squares

from bimix.laws.per_step import at_step, counted, fit_steps, predict_steps, refit_with
from bimix.observations.observations import Observations
from bimix.observations.record import Law, Size
from bimix.plan.laws import LAWS

HUBER = 0.05
STARTS = 8
T_RANGE = 20.0


def fit(observed: Observations, weights: np.ndarray | None = None, start: dict | None = None) -> tuple[dict, dict]:
    """Coefficients {domain: {"steps": {step: {c, k, t}}}} from every step by itself, and no
    notes.
    """
    return fit_steps(fitted_as(HUBER, observed.domains), observed, weights, start), {}


def fitted_as(width: float, domains: tuple[str, ...]) -> Callable:
    """`fit_step` with a Huber loss of that width, its numbers by name."""

    def fit_named(shares, losses, weights, begin):
        c, k, t = fit_step(shares, losses, weights, begin and _numbers(begin), width)
        return {"c": c, "k": k, "t": dict(zip(domains, t.tolist(), strict=True))}

    return fit_named


def fit_step(shares, losses, weights, begin=None, width=HUBER):
    """c, k, t (m,) from losses (n,) of mixtures (n, m): Huber, Trust Region Reflective, the best of
    the starts; c and k at least 0.
    """
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
        starts = [begin]
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
    return float(best[0]), float(np.exp(best[1])), best[2:]


def predict(
    coefficients: dict, domains: list[str], seen: list[int], proportions: np.ndarray, steps: np.ndarray
) -> np.ndarray:
    """Losses (n, k, d) at proportions (n, m) and steps that were fitted, NaN of a domain that was
    not observed at a step as others were.

    Errors: a step that was not.
    """

    def of_step(numbers, shares):
        c, k, t = _by_domain(numbers, domains)
        return c + k * np.exp(shares @ t)

    return predict_steps(of_step, coefficients, seen, proportions, steps)


def objective(fitted: dict, step: int, target: np.ndarray) -> Callable:
    """What the optimum at a fitted step minimises: sum_i w_i k_i exp(t_i.r); it is convex."""
    numbers = [at_step(name, values, step) for name, values in fitted["coefficients"].items()]
    rows = [_by_domain(one, fitted["domains"]) for one in numbers]
    height, t = target * np.array([k for _, k, _ in rows]), np.array([t for _, _, t in rows])

    def at(r):
        grown = height * np.exp(t @ r)
        return grown.sum(), grown @ t, (t * grown[:, None]).T @ t

    return at


def _by_domain(numbers: dict, domains: list[str]) -> tuple[float, float, np.ndarray]:
    """c, k, t (m,)."""
    return numbers["c"], numbers["k"], np.array([numbers["t"][name] for name in domains])


def count(coefficients: dict) -> int:
    """m + 2 per domain and step (one of which only scales another, since proportions sum to 1)."""
    return counted(coefficients, lambda numbers: 2 + len(numbers["t"]))


def _numbers(fitted) -> np.ndarray:
    return np.array([fitted["c"], np.log(fitted["k"]), *fitted["t"].values()])


LAW = Law(
    fit=fit,
    refit=refit_with(fit),
    predict=predict,
    count=count,
    formula="c + k exp(t.r), per step",
    size=Size(lambda m: m + 2, lambda m, n: n * (m + 2), ("m + 2", "d (m + 2)", "d n (m + 2)")),
    plan=LAWS["exponential"],
    objective=objective,
)
