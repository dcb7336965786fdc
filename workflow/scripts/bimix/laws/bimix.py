"""The bivariate law of the paper (Eq. 3): L_i(r_i, s) = A_i / r_i^alpha_i (B_i / s^beta_i + C_i).

A scales B and C, so four of the five numbers can be identified: A is fixed to 1 where steps vary.
At a single step the law has its fixed-step form A / r^alpha (Eq. 8), without B, beta and C. Each
loss domain must be a training domain with proportions above 0.

The fit over steps is that of `transfer/curve`.
"""

from collections.abc import Iterator

import numpy as np

from bimix.errors import InputError
from bimix.observations.observations import Observations
from bimix.transfer.curve import ALPHA_RANGE, fit_curves, fit_points

SAME = 1e-9  # a range of log r (or of log loss) below this is rounding: it has no slope


def fit(observed: Observations, weights: np.ndarray | None = None, start: dict | None = None) -> tuple[dict, dict]:
    """Coefficients of every loss domain from n mixtures at one step or at three and more, and empty
    notes.

    `start` is an earlier fitted law, where the optimizer starts. Errors: a loss domain that is not
    trained on, a proportion of 0.
    """
    logarithms = log_proportions(observed)
    coefficients = {}
    for d, domain in enumerate(observed.loss_domains):
        if len(observed.steps) == 1:
            coefficients[domain] = fit_fixed_step(logarithms[:, d], np.log(observed.losses[:, 0, d]), weights)
        else:
            begin = start and start["coefficients"][domain]
            coefficients[domain] = fit_domain(
                logarithms[:, d], observed.steps, observed.losses[:, :, d], weights, begin
            )
    return coefficients, {}


def refit(samples: list[tuple[Observations, np.ndarray | None]], fitted: dict) -> Iterator[dict]:
    """Coefficients for each (observed, weights (n,) or None); the fits start at `fitted`."""
    for observed, weights in samples:
        yield fit(observed, weights, fitted)[0]


def predict(
    coefficients: dict, domains: list[str], seen: list[int], proportions: np.ndarray, steps: np.ndarray
) -> np.ndarray:
    """Losses (n, k, d) of mixtures (n, m) at steps (k,); NaN where a domain has proportion 0."""
    columns = [domains.index(domain) for domain in coefficients]
    alpha = np.array([values["alpha"] for values in coefficients.values()])
    factor, constant = bracket(coefficients, seen, steps)
    own = proportions[:, columns]
    # r^-0 is 1, at 0 too
    mixing = np.where((own > 0) | (alpha == 0), np.where(own > 0, own, 1.0) ** -alpha, np.nan)
    return mixing[:, None, :] * (factor + constant)


def bracket(coefficients, seen, steps) -> tuple[np.ndarray, np.ndarray]:
    """A B / s^beta (k, d) and A C (d,). Errors: a step other than that of a fixed-step fit."""
    table = list(coefficients.values())
    steps = np.asarray(steps, dtype=float)
    if "B" not in table[0]:
        strange = [step for step in steps if step not in seen]
        if strange:
            raise InputError(
                f"the law was fitted at step {seen[0]} alone, in its fixed-step form: it says nothing about step {strange[0]:g}."
            )
        return np.zeros((len(steps), len(table))), np.array([values["A"] for values in table])
    a, b, beta, c = (np.array([values[name] for values in table]) for name in ("A", "B", "beta", "C"))
    # B may be huge where beta is: go through the logarithm.
    with np.errstate(divide="ignore"):
        return a * np.exp(np.log(b) - beta * np.log(steps)[:, None]), a * c


def objective(fitted: dict, step: int, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """K (m,), alpha (m,) of sum_i K_i r_i^-alpha_i: K_i = w_i A_i (B_i / s^beta_i + C_i)."""
    factor, constant = bracket(fitted["coefficients"], fitted["steps"], [step])
    columns = [fitted["domains"].index(domain) for domain in fitted["coefficients"]]
    gains, exponents = np.zeros(len(fitted["domains"])), np.zeros(len(fitted["domains"]))
    gains[columns] = target * (factor[0] + constant)
    exponents[columns] = [values["alpha"] for values in fitted["coefficients"].values()]
    return gains, exponents


def count(coefficients: dict) -> int:
    """The number of identifiable coefficients: 4 per loss domain, 2 in the fixed-step form."""
    return sum(4 if "B" in values else 2 for values in coefficients.values())


def log_proportions(observed) -> np.ndarray:
    """log r (n, d) of each loss domain. Errors: one is not trained on, a proportion is 0."""
    for domain in observed.loss_domains:
        if domain in observed.pairs:
            own = observed.pairs[domain]
            raise InputError(f"the bimix law knows a domain by one name: call {domain!r} of the losses {own!r}, too.")
        if domain not in observed.domains:
            raise InputError(
                f"losses of {domain!r} were observed but no mixture trains on it: the bimix law covers training domains only; "
                "use the law transfer, or take its rows out."
            )
    columns = [observed.domains.index(domain) for domain in observed.loss_domains]
    own = observed.proportions[:, columns]
    if (own <= 0).any():
        row, column = np.argwhere(own <= 0)[0]
        raise InputError(
            f"mixture {observed.mixtures[row]!r} has proportion 0 of {observed.loss_domains[column]!r}: the bimix law is not "
            "defined there; use the law transfer, or take the mixture out."
        )
    return np.log(own)


def fit_fixed_step(u: np.ndarray, log_losses: np.ndarray, weights=None) -> dict[str, float]:
    """A and alpha of log L = log A - alpha u: least squares with alpha clipped to its range, which
    is the bounded optimum of a line.

    If u varies by rounding only, alpha is not identified and is 0.
    """
    weights = np.ones(len(u)) if weights is None else np.asarray(weights, dtype=float)
    weights = np.where(np.isfinite(log_losses), weights, 0.0)
    log_losses = np.where(weights > 0, log_losses, 0.0)
    centre, level = weights @ u / weights.sum(), weights @ log_losses / weights.sum()
    slope = 0.0
    if np.ptp(u[weights > 0]) >= SAME:
        slope = weights @ ((u - centre) * (log_losses - level)) / (weights @ (u - centre) ** 2)
    alpha = float(np.clip(-slope, *ALPHA_RANGE))
    return {"A": float(np.exp(level + alpha * centre)), "alpha": alpha}


def fit_curve(steps: np.ndarray, losses: np.ndarray, weights: np.ndarray | None = None) -> dict[str, float]:
    """The law at one mixture, B / s^beta + C (Eq. 4), for the extrapolation of Table 2, from losses
    (k,) or (n, k) of several seeds.

    One mixture does not identify alpha, since r is constant: alpha is fixed to 0, and B and C
    absorb the factor r^-alpha.
    """
    numbers = fit_curves(steps, np.atleast_2d(losses)[:, :, None], weights)
    return {"A": 1.0, "alpha": 0.0} | {
        name: float(one[0]) for name, one in zip(("B", "beta", "C"), numbers, strict=True)
    }


def fit_domain(u, steps, losses, weights=None, start=None) -> dict[str, float]:
    """A = 1, alpha, B, beta, C of one loss domain: u = log r (n,), steps (k,), losses (n, k) with
    NaN where not observed.

    If u does not vary, alpha is not identified and is fixed to 0. The optimizer starts at an
    earlier fit's coefficients, or at the slope within steps and the remaining curve.
    """
    rows, columns = np.nonzero(np.isfinite(losses))
    count = np.ones(len(u)) if weights is None else np.asarray(weights, dtype=float)
    rows, columns = rows[count[rows] > 0], columns[count[rows] > 0]
    if np.ptp(u[rows]) < SAME:
        return fit_curve(steps, losses, weights)
    y, times, of = np.log(losses[rows, columns]), np.log(np.asarray(steps, dtype=float))[columns], count[rows]
    if start is None:
        within = np.stack([u[rows], y])
        for step in np.unique(columns):
            here = columns == step
            within[:, here] -= np.average(within[:, here], axis=1, keepdims=True)
        spread = within[0] @ within[0]
        alpha = np.clip(-(within[0] @ within[1]) / spread, 1e-3, 2.0) if spread > SAME**2 else 0.0
        start = fit_curve(steps, losses * np.exp(alpha * u[:, None]), weights) | {"alpha": alpha}
    begin = [start[name] for name in ("B", "beta", "C", "alpha")]
    b, beta, c, alpha = map(float, fit_points(times, y, of, begin, u[rows]))
    return {"A": 1.0, "alpha": alpha, "B": b, "beta": beta, "C": c}
