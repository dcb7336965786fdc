"""Every loss of a fitted law as a convex function of the mixture, by what the law's record gives:
its prediction and its objective, whatever its form.
"""

from collections.abc import Callable, Sequence

import numpy as np

from bimix.laws.fitted import predict_defined
from bimix.laws.table import LAWS

TINY = 1e-30  # stands for a share of 0, where a power of it has no slope


class Losses:
    """The losses of d loss domains at a step: values (d,) and gradients (d, m)."""

    def __init__(self, fitted: dict, step: int, names: Sequence[str]) -> None:
        self.fitted, self.step, self.names = fitted, step, list(names)
        self.parts = [_part(fitted, step, name) for name in self.names]
        # What the optimum of a law minimises may lack a constant of its loss.
        centre = np.full(len(fitted["domains"]), 1 / len(fitted["domains"]))
        self.constants = np.zeros(len(self.names))
        self.constants = self.predicted(centre) - self.at(centre)[0]

    def predicted(self, shares: np.ndarray) -> np.ndarray:
        """The law's own losses (..., d) at mixtures (..., m), NaN where it defines none."""
        columns = [self.fitted["loss_domains"].index(name) for name in self.names]
        rows = np.atleast_2d(shares)
        losses = predict_defined(self.fitted, rows, np.array([self.step]))[:, 0][:, columns]
        return losses[0] if np.ndim(shares) == 1 else losses

    def at(self, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Losses (d,) and their gradients (d, m)."""
        found = [part(r)[:2] for part in self.parts]
        return np.array([value for value, _ in found]) + self.constants, np.array([slope for _, slope in found])

    def average(self, weights: np.ndarray) -> Callable:
        """r -> value, gradient and Hessian of the sum of the losses by weights (d,)."""

        def at(r):
            found = [[weight * one for one in part(r)] for part, weight in zip(self.parts, weights, strict=True)]
            return tuple(sum(ones) for ones in zip(*found, strict=True))

        return at


def _part(fitted: dict, step: int, name: str) -> Callable:
    """r -> value, gradient and Hessian of one loss domain's loss, but for a constant."""
    law = LAWS[fitted["law"]]
    alone = fitted | {"loss_domains": [name], "coefficients": {name: fitted["coefficients"][name]}}
    problem = law.code.objective(alone, step, np.ones(1))
    if law.optimum != "power_sum":
        return problem
    gains, exponents = problem

    def at(r):
        r = np.maximum(r, TINY)
        value = gains * r**-exponents
        slope = -exponents * value / r
        return value.sum(), slope, np.diag(-(exponents + 1) * slope / r)

    return at


def divergence(shares: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """KL(r || q) (...) of mixtures (..., m) from shares q (m,) above 0, in nats."""
    safe = np.maximum(shares, TINY)
    return np.where(shares > 0, shares * np.log(safe / centre), 0.0).sum(axis=-1)


def divergence_slope(shares: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Its gradient (m,)."""
    return np.log(np.maximum(shares, TINY) / centre) + 1
