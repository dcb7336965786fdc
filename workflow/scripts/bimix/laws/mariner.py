"""MARINER (Marin, 2026): losses by epochs, with a benefit that saturates and a harm that sets in,
one fit per step and domain.

log(L_i - floor_i) = c_i - sum_j b_ij benefit(e_j) + sum_j d_ij harm(e_j), b and d at least 0; e_j =
r_j T / U_j, epochs of a domain's pool; benefit(e) = 1 - exp(-(rate e)^power), harm(e) =
softplus(log(1 + e) - threshold)^2. Floor = anchor - depth (anchor - least loss).

b and d are solved for by non-negative least squares with a ridge. Rate, power and threshold are one
of 168, chosen for each loss by cross-validation; then ridge and depth are. What its source leaves
open was chosen here. The anchor is the mean loss, the folds are five, the shape is chosen at a
ridge of 0.1 and a depth of 2. Where the fitted runs have no pools, e_j is the proportion itself,
at every run that the law is asked for.
"""

from collections.abc import Callable
from itertools import product

import numpy as np
from scipy.optimize import nnls

from bimix.errors import InputError
from bimix.laws.per_step import at_step, counted, fit_steps, predict_steps, refit_with
from bimix.observations.observations import Observations
from bimix.observations.record import Law, Size
from bimix.plan.laws import LAWS

RATES, POWERS, THRESHOLDS = np.geomspace(0.05, 4, 7), (0.3, 0.5, 0.75, 1.0), np.linspace(1, 6, 6)
RIDGES, DEPTHS = (0.0, 1e-3, 1e-2, 0.1, 1.0), (1.25, 2.0, 3.5, 6.0)
FIRST_RIDGE, FIRST_DEPTH = 0.1, 2.0  # while the shape is chosen
FOLDS = 5
LEAST_EPOCHS = 1e-6  # below it the slope of the benefit is that at it: at 0 it may be infinite
SHAPE = ("rate", "power", "threshold", "ridge", "depth")


def fit(observed: Observations, weights: np.ndarray | None = None, start: dict | None = None) -> tuple[dict, dict]:
    """{domain: {"steps": {step: {floor, c, benefit {domain: b}, harm {domain: d}, rate, power,
    threshold, ridge, depth}}, "epochs_of_share" {domain: T / U; null: fitted to proportions}}}, and
    no notes.

    Errors: sizes; a domain that is trained on and has no pool where others have one.
    """
    if observed.parameters is not None:
        raise InputError("the losses are of models of several sizes, and the law mariner has no size.")
    per_share = _per_share(observed)

    def fit_named(epochs, losses, base, begin):
        shape = tuple(begin[name] for name in SHAPE) if begin else choose(epochs, losses, base)
        floor, c, b, d = solve(epochs, losses, base, shape)
        named = [dict(zip(observed.domains, one.tolist(), strict=True)) for one in (b, d)]
        shown = dict(zip(SHAPE, map(float, shape), strict=True))
        return {"floor": floor, "c": c, "benefit": named[0], "harm": named[1], **shown}

    epochs = observed.proportions if per_share is None else observed.proportions * per_share
    coefficients = fit_steps(fit_named, observed, weights, start, epochs)
    mean = None if per_share is None else dict(zip(observed.domains, per_share.mean(axis=0).tolist(), strict=True))
    return {name: {**values, "epochs_of_share": mean} for name, values in coefficients.items()}, {}


def _per_share(observed: Observations) -> np.ndarray | None:
    """Epochs of a whole run on one domain, T / U (n, m); None where no pools are known."""
    if observed.pools is None or observed.tokens is None:
        return None
    endless = np.isinf(observed.pools) & (observed.proportions > 0)
    if endless.any():
        run, domain = np.argwhere(endless)[0]
        raise InputError(
            f"mixture {observed.mixtures[run]!r} has no pool of {observed.domains[domain]!r}: the law mariner reads epochs"
            " and needs the pool of every domain that is trained on, or none at all."
        )
    known = np.where(np.isinf(observed.pools), np.nan, observed.tokens[:, None] / observed.pools)
    return np.where(np.isnan(known), np.nanmean(known, axis=0), known)


def choose(epochs, losses, weights) -> tuple[float, ...]:
    """Rate, power, threshold, ridge and depth with the least squared error on folds left out."""
    folds = np.random.default_rng(0).permutation(len(losses)) % min(FOLDS, len(losses))

    def error(shape):
        total = 0.0
        for fold in range(folds.max() + 1):
            kept, out = folds != fold, folds == fold
            floor, c, b, d = solve(epochs[kept], losses[kept], weights[kept], shape)
            benefit, harm = features(epochs[out], *shape[:3])
            total += weights[out] @ (floor + np.exp(c - benefit @ b + harm @ d) - losses[out]) ** 2
        return total

    shapes = ((*shape, FIRST_RIDGE, FIRST_DEPTH) for shape in product(RATES, POWERS, THRESHOLDS))
    shape = min(shapes, key=error)[:3]
    return min(((*shape, ridge, depth) for ridge, depth in product(RIDGES, DEPTHS)), key=error)


def solve(epochs, losses, weights, shape) -> tuple[float, float, np.ndarray, np.ndarray]:
    """Floor, c, b (m,) and d (m,) for losses (n,) at epochs (n, m); c has no ridge."""
    *form, ridge, depth = shape
    anchor = float(np.average(losses, weights=weights))
    floor = anchor - depth * max(anchor - float(losses.min()), 1e-9 * anchor)
    target = np.log(losses - floor)
    benefit, harm = features(epochs, *form)
    x = np.concatenate([-benefit, harm], axis=1)
    middle, height = np.average(x, axis=0, weights=weights), float(np.average(target, weights=weights))
    root = np.sqrt(weights)
    rows = np.concatenate([root[:, None] * (x - middle), np.sqrt(ridge) * np.eye(x.shape[1])])
    found = nnls(rows, np.concatenate([root * (target - height), np.zeros(x.shape[1])]), maxiter=30 * x.shape[1])[0]
    m = epochs.shape[1]
    return floor, height - float(middle @ found), found[:m], found[m:]


def features(epochs, rate, power, threshold) -> tuple[np.ndarray, np.ndarray]:
    """Benefit and harm (n, m) of epochs (n, m)."""
    return -np.expm1(-((rate * epochs) ** power)), np.logaddexp(0.0, np.log1p(epochs) - threshold) ** 2


def slopes(epochs, rate, power, threshold) -> tuple[np.ndarray, np.ndarray]:
    """How benefit and harm (m,) change with epochs (m,)."""
    grown = rate * np.maximum(epochs, LEAST_EPOCHS)
    over = np.log1p(epochs) - threshold
    benefit = np.exp(-(grown**power)) * power * grown ** (power - 1) * rate
    return benefit, 2 * np.logaddexp(0.0, over) / (1 + np.exp(-over)) / (1 + epochs)


def predict(
    coefficients: dict, domains: list[str], seen: list[int], proportions: np.ndarray, steps: np.ndarray
) -> np.ndarray:
    """Losses (n, k, d) at proportions (n, m) and steps that were fitted.

    Errors: a step that was not.
    """
    per_share = _epochs_of_share(coefficients, domains)

    def of_step(numbers, shares):
        benefit, harm = features(shares * per_share, *(numbers[name] for name in SHAPE[:3]))
        b, d = _by_domain(numbers, domains)
        return numbers["floor"] + np.exp(numbers["c"] - benefit @ b + harm @ d)

    return predict_steps(of_step, coefficients, seen, proportions, steps)


def objective(fitted: dict, step: int, target: np.ndarray) -> Callable:
    """What the optimum at a fitted step minimises: value and gradient (m,) of the weighted sum."""
    parts = [at_step(name, values, step) for name, values in fitted["coefficients"].items()]
    per_share = _epochs_of_share(fitted["coefficients"], fitted["domains"])

    def at(r):
        value, gradient = 0.0, np.zeros(len(r))
        for weight, numbers in zip(target, parts, strict=True):
            if weight == 0:
                continue
            form = [numbers[name] for name in SHAPE[:3]]
            b, d = _by_domain(numbers, fitted["domains"])
            benefit, harm = features(r * per_share, *form)
            up, down = slopes(r * per_share, *form)
            grown = weight * np.exp(numbers["c"] - benefit @ b + harm @ d)
            value += grown
            gradient += grown * (d * down - b * up) * per_share
        return value, gradient

    return at


def at_run(coefficients: dict, domains: list[str], parameters: float | None, tokens: float, pools: dict) -> dict:
    """The coefficients at a run on so many tokens, with pools {domain: unique tokens}; as they are
    where the fit was to proportions, which are no epochs.

    Errors: a domain without a pool.
    """
    if next(iter(coefficients.values()))["epochs_of_share"] is None:
        return coefficients
    missing = [name for name in domains if not pools.get(name)]
    if missing:
        raise InputError(f"the pool of {missing[0]!r} is missing: the law mariner reads epochs of every domain.")
    per_share = {name: tokens / pools[name] for name in domains}
    return {name: {**values, "epochs_of_share": per_share} for name, values in coefficients.items()}


def count(coefficients: dict) -> int:
    """c, floor, rate, power, threshold, and the benefits and harms that are not 0."""
    return counted(
        coefficients,
        lambda numbers: 5 + sum(value > 0 for part in ("benefit", "harm") for value in numbers[part].values()),
    )


def _epochs_of_share(coefficients: dict, domains: list[str]) -> np.ndarray:
    named = next(iter(coefficients.values()))["epochs_of_share"]
    return np.ones(len(domains)) if named is None else np.array([named[name] for name in domains])


def _by_domain(numbers: dict, domains: list[str]) -> tuple[np.ndarray, np.ndarray]:
    return tuple(np.array([numbers[part][name] for name in domains]) for part in ("benefit", "harm"))


LAW = Law(
    fit=fit,
    refit=refit_with(fit),
    predict=predict,
    count=count,
    formula="floor + exp(c - b.benefit(e) + d.harm(e)), e epochs, per step",
    # numbers that the fit leaves at 0 do not count
    size=Size(lambda m: None, lambda m, n: None, ("2m + 5 or fewer", "d (2m + 5) or fewer", "d n (2m + 5) or fewer")),
    plan=LAWS["mariner"],
    objective=objective,
    at_run=at_run,
)
