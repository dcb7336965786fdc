"""The linear part of the law `transfer` for metrics, and its weight in the law.

    log F_i = c_i - sum_j b_ij sqrt(rho_j) + sum_j t_ij r_j        b >= 0, t of either sign

One ridge per loss domain, on b and t, shrinks it to a loss that does not depend on the mixture. The
ridge of the mixing factor shrinks to domains with equal effects, which is wrong for a metric that
is nearly noise. For metrics the law is the weighted geometric mean of both. With one term the mean
has the form of the law plus b, and stays convex.

Each metric has the ridge with the least error in left-out mixtures, then the weight with the least
error. A metric's own error is a rough estimate, so it is combined with that of all, as in `choice`.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from bimix.transfer.factor import Factor

# Smaller ridges overfit few runs; strong effects are described better by the mixing factor.
RIDGES = np.array([0.4, 2.0, 10.0])
PARTS = np.linspace(0, 0.9, 10)  # of this member; something is left of the other
COST = 1  # any part must cut the error by so much over the number of runs


@dataclass(frozen=True)
class Runs:
    """The data to which both parts are fitted."""

    shares: np.ndarray  # (n, m) that count
    straight: np.ndarray  # (n, m) as they are, of which t is
    y: np.ndarray  # (n, d) levels, NaN where not observed

    def design(self) -> np.ndarray:
        """The regressors (n, 2 m) of b and t."""
        return np.concatenate([-np.sqrt(self.shares), self.straight], axis=1)

    def fits(self, weights: np.ndarray, ridges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """c (k, d), and b and t (k, d, 2 m), at ridges (k,), for runs with weights (n,)."""
        design, m = self.design(), self.shares.shape[1]
        heights = np.zeros((len(ridges), self.y.shape[1]))
        numbers = np.zeros((*heights.shape, 2 * m))
        masks, of = np.unique(np.isfinite(self.y).T, axis=0, return_inverse=True)
        for number, mask in enumerate(masks):
            w = weights * mask
            if not w.any():
                continue
            middle = w @ design / w.sum()
            weighed = w[:, None] * (design - middle)
            gram = weighed.T @ (design - middle)
            columns = np.flatnonzero(of.ravel() == number)
            levels = np.where(mask[:, None], self.y[:, columns], 0.0)
            means = w @ levels / w.sum()
            right = weighed.T @ (levels - means)
            for place, ridge in enumerate(ridges):
                # b >= 0 is solved for with t eliminated, since the best t is linear in b
                of_t = np.linalg.solve(gram[m:, m:] + ridge * np.eye(m), np.hstack([gram[m:, :m], right[m:]]))
                own = gram[:m, :m] - gram[:m, m:] @ of_t[:, :m] + ridge * np.eye(m)
                lower = np.linalg.cholesky(own)
                goals = np.linalg.solve(lower, right[:m] - gram[:m, m:] @ of_t[:, m:])
                b = np.array([nnls(lower.T, goal, maxiter=30 * m)[0] for goal in goals.T])
                found = np.hstack([b, of_t[:, m:].T - b @ of_t[:, :m].T])
                numbers[place, columns] = found
                heights[place, columns] = means - found @ middle
        return heights, numbers


def choose(runs: Runs, weights: np.ndarray, folds: np.ndarray, missed: np.ndarray, weigh) -> tuple[dict, np.ndarray]:
    """{ridges (d,), parts (d,)} of the linear part, and |error| (n, d) of the mean of both parts in
    the mixtures of `folds` (n,); `missed` (n, d) is the error of the mixing factor.

    `weigh` (parts, d) -> (parts, d) combines a metric's log errors with those of all.
    """
    left = np.full((len(RIDGES), *runs.y.shape), np.nan)
    design = runs.design()
    for fold in range(1 + folds.max()):
        out = folds == fold
        heights, numbers = runs.fits(np.where(out, 0.0, weights), RIDGES)
        left[:, out] = heights[:, None] + design[out] @ numbers.transpose(0, 2, 1)
    left -= runs.y
    at = weigh(_log_mean(np.abs(left))).argmin(axis=0)
    own = left[at, :, np.arange(len(at))].T
    both = missed + PARTS[:, None, None] * (own - missed)
    logs = weigh(0.5 * _log_mean(both**2))
    logs[0] += np.log(1 - COST / np.count_nonzero(weights))
    best = logs.argmin(axis=0)
    made = {"ridges": RIDGES[at].tolist(), "parts": PARTS[best].tolist()}
    return made, np.abs(both[best, :, np.arange(len(best))].T)


def _log_mean(errors: np.ndarray) -> np.ndarray:
    """Logs of the means over runs of errors (k, n, d); equal for all k where none is known."""
    seen = np.isfinite(errors)
    return np.log(np.maximum(np.where(seen, errors, 0.0).sum(axis=1) / np.maximum(seen.sum(axis=1), 1), 1e-300))


def joined(factor: Factor, made: dict, runs: Runs, weights: np.ndarray) -> Factor:
    """The mean of a mixing factor with one term and the linear part of the choice `made`."""
    ridges, part = np.array(made["ridges"]), np.array(made["parts"])[:, None]
    known, at = np.unique(ridges, return_inverse=True)
    heights, numbers = runs.fits(weights, known)
    heights, numbers = (one[at.ravel(), np.arange(len(at))] for one in (heights, numbers))
    m = runs.shares.shape[1]
    return factor._replace(
        c=(1 - part) * factor.c + part * heights[:, None],
        a=(1 - part) * factor.a,
        t=(1 - part) * factor.t + part * numbers[:, m:],
        b=part * numbers[:, :m],
    )


def start_of(factor: Factor, made: dict) -> Factor:
    """The mixing factor from which a refit of a `joined` one starts."""
    return factor._replace(a=factor.a / (1 - np.array(made["parts"]))[:, None])
