"""The repetition constant R from runs of one source: models of several sizes that read pools of
several sizes several times.

    L = B / D^b + D' / N^g + C
    D = U (1 + R (1 - exp(-(e - 1) / R)))    tokens that count of a pool of U read e times

as in Muennighoff et al. (arXiv 2305.16264), whose models' parameters saturate too; these do not.
Harm and R cannot be told apart on one source: take runs of few epochs, in which a loss still falls.
"""

import numpy as np
from scipy.optimize import least_squares

from bimix.transfer import repetition

# Log losses off by more than this count less and less: some runs diverged.
WIDTH = 0.02
START = np.array([np.log(repetition.PUBLISHED_R), -0.5, np.log(0.35), -0.5, np.log(0.35), 0.5])
MILLIONS, BILLIONS = 1e8, 1e9  # sizes and tokens near which the coefficients are near 1


def fit(parameters, tokens, pools, losses, resamples: int = 0, level: float = 0.9, seed: int = 0):
    """R with the ends of a bootstrap over runs (NaN without `resamples`); arrays (n,)."""
    arrays = [np.asarray(one, dtype=float) for one in (parameters, tokens, pools, losses)]
    n = len(arrays[0])
    best = _once(*arrays, np.ones(n), START)
    draw = np.random.default_rng(seed)
    drawn = [_once(*arrays, draw.multinomial(n, np.full(n, 1 / n)), best)[0] for _ in range(resamples)]
    ends = np.exp(np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])) if drawn else (np.nan, np.nan)
    return float(np.exp(best[0])), float(ends[0]), float(ends[1])


def _once(parameters, tokens, pools, losses, weights, start):
    root = np.sqrt(weights)

    def residuals(z):
        rho = repetition.counted(np.ones(len(tokens)), tokens / pools, np.exp(z[0]))[0]
        by_tokens = np.exp(z[1]) * (rho * tokens / BILLIONS) ** -np.exp(z[2])
        by_size = np.exp(z[3]) * (parameters / MILLIONS) ** -np.exp(z[4])
        return root * (np.log(by_tokens + by_size + np.exp(z[5])) - np.log(losses)) / WIDTH

    return least_squares(residuals, start, loss="soft_l1", max_nfev=400).x
