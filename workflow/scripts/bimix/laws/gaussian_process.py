"""A Gaussian process over the proportions, one per step and domain: a constant times a squared
exponential, and white noise, fitted by marginal likelihood (scikit-learn).

Kernel and bounds are those of Olmix's code, which has the process beside its own law.
"""

import warnings
from collections.abc import Callable

import numpy as np

from bimix.laws.per_step import at_step, counted, fit_steps, predict_steps, refit_with
from bimix.observations.observations import Observations
from bimix.observations.record import Law, Size
from bimix.plan.laws import LAWS

RESTARTS = 4
HEIGHT, LENGTH, NOISE = (1e-3, 1e3), (1e-2, 1e2), (1e-5, 1e1)  # bounds; losses are standardised


def fit(observed: Observations, weights: np.ndarray | None = None, start: dict | None = None) -> tuple[dict, dict]:
    """{domain: {"steps": {step: {mean, height, length, noise, runs (n, m), weights (n,)}}}}; no
    notes.

    The loss is mean + sum_n weights_n height exp(-|r - runs_n|^2 / (2 length^2)).
    """
    return fit_steps(fit_step, observed, weights, start), {}


def fit_step(shares, losses, weights, begin=None) -> dict:
    """The numbers of one step; from `begin` kernel and noise are taken and not fitted again. A run
    that counts twice has half the noise.
    """
    mean, spread = np.average(losses, weights=weights), max(float(losses.std()), 1e-12)
    z, share_of_noise = (losses - mean) / spread, weights.mean() / weights
    if begin is None:
        height, length, noise = _likeliest(shares, z, share_of_noise)
    else:
        height, length, noise = (begin[name] for name in ("height", "length", "noise"))
    kernel = height * _near(shares, shares, length)
    solved = np.linalg.solve(kernel + np.diag(noise * share_of_noise), z)
    return {
        "mean": float(mean),
        "height": height,
        "length": length,
        "noise": noise,
        "runs": shares.tolist(),
        "weights": (spread * solved).tolist(),
    }


def _likeliest(shares, z, share_of_noise) -> tuple[float, float, float]:
    """Height, length and noise of the greatest marginal likelihood, from several starts."""
    from sklearn.exceptions import ConvergenceWarning  # costs a second: only these laws pay it
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel(1.0, HEIGHT) * RBF(1.0, LENGTH) + WhiteKernel(0.1, NOISE)
    process = GaussianProcessRegressor(kernel, alpha=1e-10, n_restarts_optimizer=RESTARTS, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a number at its bound is no fault here
        process.fit(shares, z)
    product, white = process.kernel_.k1, process.kernel_.k2
    return float(product.k1.constant_value), float(product.k2.length_scale), float(white.noise_level)


def _near(some, others, length) -> np.ndarray:
    """exp(-|a - b|^2 / (2 length^2)) (n, k) of mixtures (n, m) and (k, m)."""
    squares = (some**2).sum(1)[:, None] + (others**2).sum(1) - 2 * some @ others.T
    return np.exp(-np.maximum(squares, 0.0) / (2 * length**2))


def predict(
    coefficients: dict, domains: list[str], seen: list[int], proportions: np.ndarray, steps: np.ndarray
) -> np.ndarray:
    """Losses (n, k, d) at proportions (n, m) and steps that were fitted.

    Errors: a step that was not.
    """

    def of_step(numbers, shares):
        near = _near(shares, np.array(numbers["runs"]), numbers["length"])
        return numbers["mean"] + numbers["height"] * near @ np.array(numbers["weights"])

    return predict_steps(of_step, coefficients, seen, proportions, steps)


def objective(fitted: dict, step: int, target: np.ndarray) -> Callable:
    """What the optimum at a fitted step minimises: value and gradient (m,) of the weighted sum."""
    parts = [at_step(name, values, step) for name, values in fitted["coefficients"].items()]
    runs = [np.array(part["runs"]) for part in parts]
    heights = [w * part["height"] * np.array(part["weights"]) for w, part in zip(target, parts, strict=True)]

    def at(r):
        value, gradient = 0.0, np.zeros(len(r))
        for part, there, height in zip(parts, runs, heights, strict=True):
            pull = height * _near(r[None], there, part["length"])[0]
            value += pull.sum()
            gradient += pull @ (there - r) / part["length"] ** 2
        return value, gradient

    return at


def count(coefficients: dict) -> int:
    """Mean, height, length and noise, and a number for each run."""
    return counted(coefficients, lambda numbers: 4 + len(numbers["weights"]))


LAW = Law(
    fit=fit,
    refit=refit_with(fit),
    predict=predict,
    count=count,
    formula="Gaussian process of r, per step",
    size=Size(lambda m: None, lambda m, n: None, ("4 + runs", "d (4 + runs)", "d n (4 + runs)")),
    plan=LAWS["gaussian_process"],
    objective=objective,
)
