"""A Gaussian process over the proportions, one per step and domain: a constant times a squared
exponential, plus white noise, fitted by marginal likelihood (scikit-learn).

Kernel and bounds are those of Olmix's code, which offers the process as an alternative.
"""

import warnings

import numpy as np

RESTARTS = 4
HEIGHT, LENGTH, NOISE = (1e-3, 1e3), (1e-2, 1e2), (1e-5, 1e1)  # bounds; losses are standardised


def fit_step(shares, losses, weights, domains, begin=None) -> dict:
    """{mean, height, length, noise, runs (n, m), weights (n,)}: the loss is mean + sum_n weights_n
    height exp(-|r - runs_n|^2 / (2 length^2)). Given `begin`, its kernel and noise are kept. A run
    of weight 2 has half the noise, but in the choice of the kernel, where all weigh the same.
    """
    mean, spread = np.average(losses, weights=weights), max(float(losses.std()), 1e-12)
    z, share_of_noise = (losses - mean) / spread, weights.mean() / weights
    if begin is None:
        height, length, noise = _likeliest(shares, z)
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


def _likeliest(shares, z) -> tuple[float, float, float]:
    """Height, length and noise that maximise the marginal likelihood, from several starts."""
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


def predict_step(numbers, domains, shares) -> np.ndarray:
    near = _near(shares, np.array(numbers["runs"]), numbers["length"])
    return numbers["mean"] + numbers["height"] * near @ np.array(numbers["weights"])


def count_step(numbers) -> int:
    """Mean, height, length and noise, and a number for each run."""
    return 4 + len(numbers["weights"])
