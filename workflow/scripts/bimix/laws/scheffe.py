"""Scheffe's second-order polynomial of a mixture with a lasso ("Mixture Experiment", arXiv
2608.23922): L_i(r) = c_i + sum_j b_ij r_j + sum_{j<k} b_ijk r_j r_k, one fit per step and domain.

The width of the lasso is chosen by cross-validation of five folds on standardised terms.
scikit-learn does both.
"""

import warnings
from collections.abc import Callable

import numpy as np

from bimix.laws.per_step import at_step, counted, fit_steps, predict_steps, refit_with
from bimix.observations.observations import Observations
from bimix.observations.record import Law, Size
from bimix.plan.laws import LAWS

FOLDS = 5
WIDTHS = 40  # of the lasso that are tried, a factor 1e4 from the first to the last


def fit(observed: Observations, weights: np.ndarray | None = None, start: dict | None = None) -> tuple[dict, dict]:
    """{domain: {"steps": {step: {c, linear {domain: b}, pairs [[domain, domain, b]], lasso}}}},
    terms of 0 left out of the pairs; and no notes.
    """
    names = observed.domains
    first, second = np.triu_indices(len(names), 1)

    def fit_named(shares, losses, base, begin):
        c, b, width = fit_step(shares, losses, base, begin and begin["lasso"])
        linear, pairs = b[: len(names)], b[len(names) :]
        return {
            "c": c,
            "linear": dict(zip(names, linear.tolist(), strict=True)),
            "pairs": [[names[first[p]], names[second[p]], float(pairs[p])] for p in np.flatnonzero(pairs)],
            "lasso": width,
        }

    return fit_steps(fit_named, observed, weights, start), {}


def fit_step(shares, losses, weights, width=None) -> tuple[float, np.ndarray, float]:
    """c, b (m + m (m - 1) / 2,) and the width of the lasso, chosen where none is given."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import Lasso, LassoCV  # costs a second: only these laws pay it
    from sklearn.model_selection import KFold

    x = terms(shares)
    mean = np.average(x, axis=0, weights=weights)
    scale = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weights))
    scale = np.where(scale > 1e-12, scale, np.inf)  # a term that never varies has no coefficient
    z = (x - mean) / scale
    if width is None:
        folds = KFold(min(FOLDS, len(losses)), shuffle=True, random_state=0)
        model = LassoCV(alphas=WIDTHS, eps=1e-4, cv=folds, max_iter=20_000)
    else:
        model = Lasso(width, max_iter=20_000)
    with warnings.catch_warnings():
        # of the narrowest lassos, whose errors on left-out runs say themselves that they are none
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(z, losses, sample_weight=weights)
    b = model.coef_ / scale
    return float(model.intercept_ - mean @ b), b, float(model.alpha_ if width is None else width)


def terms(shares: np.ndarray) -> np.ndarray:
    """Proportions and their products by pairs (n, m + m (m - 1) / 2)."""
    first, second = np.triu_indices(shares.shape[1], 1)
    return np.concatenate([shares, shares[:, first] * shares[:, second]], axis=1)


def predict(
    coefficients: dict, domains: list[str], seen: list[int], proportions: np.ndarray, steps: np.ndarray
) -> np.ndarray:
    """Losses (n, k, d) at proportions (n, m) and steps that were fitted.

    Errors: a step that was not.
    """

    def of_step(numbers, shares):
        c, linear, quadratic = _by_domain(numbers, domains)
        return c + shares @ linear + np.einsum("nj,jk,nk->n", shares, quadratic, shares) / 2

    return predict_steps(of_step, coefficients, seen, proportions, steps)


def objective(fitted: dict, step: int, target: np.ndarray) -> Callable:
    """What the optimum at a fitted step minimises: value and gradient (m,) of the weighted sum."""
    parts = [
        _by_domain(at_step(name, values, step), fitted["domains"]) for name, values in fitted["coefficients"].items()
    ]
    linear = sum(weight * part[1] for weight, part in zip(target, parts, strict=True))
    quadratic = sum(weight * part[2] for weight, part in zip(target, parts, strict=True))

    def at(r):
        bend = quadratic @ r
        return linear @ r + r @ bend / 2, linear + bend

    return at


def count(coefficients: dict) -> int:
    """The constant, the terms of first order and those of second order that the lasso kept."""
    return counted(coefficients, lambda numbers: 1 + sum(map(bool, numbers["linear"].values())) + len(numbers["pairs"]))


def _by_domain(numbers: dict, domains: list[str]) -> tuple[float, np.ndarray, np.ndarray]:
    """c, the linear terms (m,) and the symmetric matrix (m, m) of the second order."""
    place = {name: j for j, name in enumerate(domains)}
    quadratic = np.zeros((len(domains), len(domains)))
    for one, other, value in numbers["pairs"]:
        quadratic[place[one], place[other]] = quadratic[place[other], place[one]] = value
    return numbers["c"], np.array([numbers["linear"][name] for name in domains]), quadratic


LAW = Law(
    fit=fit,
    refit=refit_with(fit),
    predict=predict,
    count=count,
    formula="c + b.r + r'Br, per step",
    size=Size(lambda m: None, lambda m, n: None, ("terms kept", "terms kept", "terms kept")),
    plan=LAWS["scheffe"],
    objective=objective,
)
