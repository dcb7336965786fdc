"""MARINER (Marin, 2026): losses by epochs, with a saturating benefit and a harm above a threshold,
one fit per step and domain.

log(L_i - floor_i) = c_i - sum_j b_ij benefit(e_j) + sum_j d_ij harm(e_j), b and d at least 0; e_j =
r_j T / U_j, epochs of a domain's pool; benefit(e) = 1 - exp(-(rate e)^power), harm(e) =
softplus(log(1 + e) - threshold)^2. Floor = anchor - depth (anchor - least loss).

b and d are fitted by non-negative least squares with a ridge. Rate, power and threshold are one of
168 combinations, chosen for each loss by cross-validation, then ridge and depth. Our choices, which
the source leaves open: the anchor is the mean loss, there are five folds, and rate, power and
threshold are chosen at a ridge of 0.1 and a depth of 2. Where the fitted runs have no pools, e_j is
the proportion itself in all predictions. Runs without pools get those of the fitted runs.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
from scipy.optimize import nnls

from bimix.errors import InputError
from bimix.laws.per_step import PerStep
from bimix.observations.observations import Observations

RATES, POWERS, THRESHOLDS = np.geomspace(0.05, 4, 7), (0.3, 0.5, 0.75, 1.0), np.linspace(1, 6, 6)
RIDGES, DEPTHS = (0.0, 1e-3, 1e-2, 0.1, 1.0), (1.25, 2.0, 3.5, 6.0)
FIRST_RIDGE, FIRST_DEPTH = 0.1, 2.0  # while the shape is chosen
FOLDS = 5
SHAPE = ("rate", "power", "threshold", "ridge", "depth")


def fit_step(epochs, losses, weights, domains, begin=None) -> dict:
    """{floor, c, benefit {domain: b}, harm {domain: d}, rate, power, threshold, ridge, depth}."""
    shape = tuple(begin[name] for name in SHAPE) if begin else choose(epochs, losses, weights)
    floor, c, *parts = solve(epochs, losses, weights, shape)
    benefit, harm = (dict(zip(domains, one.tolist(), strict=True)) for one in parts)
    return {
        "floor": floor,
        "c": c,
        "benefit": benefit,
        "harm": harm,
        **dict(zip(SHAPE, map(float, shape), strict=True)),
    }


def epochs_of_share(observed: Observations) -> np.ndarray | None:
    """Epochs T / U (n, m) of a run that reads one domain only; None if no pools are known. Errors:
    a domain that is trained on has no pool while others have one.
    """
    if observed.pools is None or observed.tokens is None:
        return None
    endless = np.isinf(observed.pools) & (observed.proportions > 0)
    if endless.any():
        run, domain = np.argwhere(endless)[0]
        raise InputError(
            f"mixture {observed.mixtures[run]!r} has no pool of {observed.domains[domain]!r}: the law mariner reads epochs"
            " and needs the pool of every domain that is trained on, or none at all."
        )
    known = observed.tokens[:, None] / observed.pools
    there = np.isfinite(observed.pools) & np.isfinite(known)
    known = np.where(there, known, 0.0)
    # 0 of a domain without any pool, on which no run trains
    return np.where(there, known, known.sum(axis=0) / np.maximum(there.sum(axis=0), 1))


def choose(epochs, losses, weights) -> tuple[float, ...]:
    """Rate, power, threshold, ridge and depth with the least squared error on left-out folds."""
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
    """Floor, c, b (m,) and d (m,) for losses (n,) at epochs (n, m); c is not penalised."""
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


def predict_step(numbers, domains, epochs) -> np.ndarray:
    benefit, harm = features(epochs, *(numbers[name] for name in SHAPE[:3]))
    b, d = _by_domain(numbers, domains)
    return numbers["floor"] + np.exp(numbers["c"] - benefit @ b + harm @ d)


def count_step(numbers) -> int:
    """The number of c, floor, rate, power, threshold, and non-zero benefits and harms."""
    return 5 + sum(value > 0 for part in ("benefit", "harm") for value in numbers[part].values())


def _by_domain(numbers, domains) -> tuple[np.ndarray, np.ndarray]:
    return tuple(np.array([numbers[part][name] for name in domains]) for part in ("benefit", "harm"))


class OfEpochs(PerStep):
    """A law of epochs in the place of shares. Its coefficients also have `epochs_of_share` {domain:
    epochs of a run on it alone}, null where it was fitted to proportions.
    """

    def fit(
        self, observed: Observations, weights: np.ndarray | None = None, start: dict | None = None
    ) -> tuple[dict, dict]:
        epochs = self.module.epochs_of_share(observed)
        shares = observed.proportions if epochs is None else observed.proportions * epochs
        mean = epochs if epochs is None else dict(zip(observed.domains, epochs.mean(axis=0).tolist(), strict=True))
        coefficients, notes = super().fit(replace(observed, proportions=shares), weights, start)
        return {name: values | {"epochs_of_share": mean} for name, values in coefficients.items()}, notes

    def refit(self, samples: list[tuple[Observations, np.ndarray | None]], fitted: dict) -> Iterator[dict]:
        run = next(iter(fitted["coefficients"].values())).get("run")
        for found in super().refit(samples, fitted):
            yield self.at_run(found, fitted["domains"], **run) if run else found

    def predict(
        self, coefficients: dict, domains: list[str], seen: list[int], proportions: np.ndarray, steps: np.ndarray
    ) -> np.ndarray:
        return super().predict(coefficients, domains, seen, proportions * _scale(coefficients, domains), steps)

    def at_run(self, coefficients: dict, domains: list[str], parameters, tokens, pools) -> dict:
        """The coefficients at a run, of which no domain lacks a pool; without pools, and of one
        without a limit, the epochs are the fitted ones.
        """
        missing = [name for name in domains if pools and not pools.get(name)]
        if missing and next(iter(coefficients.values()))["epochs_of_share"]:
            raise InputError(f"the pool of {missing[0]!r} is missing: the law mariner reads epochs of every domain.")
        run = {"parameters": parameters, "tokens": tokens, "pools": pools}
        return {name: values | {"run": run} for name, values in coefficients.items()}


def _scale(coefficients: dict, domains: list[str]) -> np.ndarray | float:
    """The factors (m,) from shares to epochs; 1 where the law was fitted to shares."""
    first = next(iter(coefficients.values()))
    fitted, run = first["epochs_of_share"], first.get("run") or {"pools": None}
    if fitted is None:
        return 1.0
    known = {name: run["tokens"] / pool for name, pool in (run["pools"] or {}).items() if np.isfinite(pool)}
    return np.array([known.get(name, fitted[name]) for name in domains])
