"""An objective of a fitted law at a step, as functions of a mixture and as a convex program.

Every loss of a convex law is a convex function of the mixture, given by the law's prediction and
objective, whatever its form.
"""

from collections.abc import Callable

import numpy as np

from bimix.errors import InputError
from bimix.laws.fitted import predict_defined
from bimix.laws.table import LAWS
from bimix.optimum.config import combined
from bimix.optimum.objective import Objective
from bimix.optimum.solve import Program

TINY = 1e-30  # stands for a share of 0, where a power of it has no slope
# The tolerance of constraints, as a fraction of the reference's loss: with a margin of 0 the
# reference may be the only feasible mixture, and a solver needs an interior.
HELD = 1e-6


class Goal:
    """An objective of a fitted law at a step, as functions of a mixture."""

    def __init__(self, fitted: dict, step: int, objective: Objective) -> None:
        self.fitted, self.step, self.objective = fitted, step, objective
        self.target = objective.target(fitted)
        self.groups = objective.groups(fitted) if objective.kind == "minimax" else {}
        self.reference = objective.shares(fitted)
        self.held = fitted["loss_domains"] if objective.kind == "no_worse_than" else []
        weigh = [name for name, one in zip(fitted["loss_domains"], self.target, strict=True) if one > 0]
        self.names = list(fitted["loss_domains"]) if self.held else weigh
        self.weights = np.array([self.target[fitted["loss_domains"].index(name)] for name in self.names])
        self.weights = self.weights / self.weights.sum()
        self.convex = LAWS[fitted["law"]].optimum != "simulated"
        coefficients = {name: fitted["coefficients"][name] for name in self.names}
        self.alone = fitted | {"loss_domains": self.names, "coefficients": coefficients}
        if self.convex:
            self.minimised = [_minimised(fitted, step, name) for name in self.names]  # refuses unknown steps
        self.before = self._reference_losses() if self.groups or self.held else None
        # The parts of minimax, or the constraints
        self.parts = list(self.groups) or list(self.held)
        self.members = [[self.names.index(name) for name in group] for group in self.groups.values()]
        self.rows = self._rows()
        if self.convex:
            # The objective of a law's optimum may differ from its loss by a constant.
            centre = np.full(len(fitted["domains"]), 1 / len(fitted["domains"]))
            self.constants = np.zeros(len(self.names))
            self.constants = self.predicted(centre) - self.at(centre)[0]

    def _reference_losses(self) -> np.ndarray:
        """Predicted losses of the reference. Errors: the law does not define them."""
        before = self.predicted(self.reference)
        for name, loss in zip(self.names, before, strict=True):
            if not np.isfinite(loss):
                raise InputError(
                    f"the reference mixture has proportion 0 of {name}, where the law {self.fitted['law']} has no loss:"
                    " take another reference, or the law transfer."
                )
        return before

    def predicted(self, shares: np.ndarray) -> np.ndarray:
        """Losses (..., d) of `names` at mixtures (..., m), NaN where not defined."""
        losses = predict_defined(self.alone, np.atleast_2d(shares), np.array([self.step]))[:, 0]
        return losses[0] if np.ndim(shares) == 1 else losses

    def at(self, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Losses (d,) of a convex law at a mixture (m,), and their gradients (d, m)."""
        found = [part(r) for part in self.minimised]
        return np.array([value for value, _ in found]) + self.constants, np.array([slope for _, slope in found])

    def _rows(self) -> np.ndarray:
        """Weights (p, d) of losses in each part: mean ratios to the reference's, or to limits."""
        if self.held:
            return np.diag(1 / (self.before * self.objective.limits(self.fitted, self.held) * (1 + HELD)))
        rows = np.zeros((len(self.parts), len(self.names)))
        for row, members in zip(rows, self.members, strict=True):
            row[members] = 1 / (len(members) * self.before[members])
        return rows

    def value(self, shares: np.ndarray) -> np.ndarray:
        """The objective (...) at mixtures (..., m)."""
        return self.combined(self.predicted(shares))

    def combined(self, losses: np.ndarray) -> np.ndarray:
        """The objective (...) of losses (..., d) of `names`, predicted or measured."""
        return combined(self.objective.kind, losses, self.weights, self.members, self.before)

    def excess(self, shares: np.ndarray) -> np.ndarray:
        """Relative excess (..., p) of constrained losses over their limits at mixtures (..., m)."""
        return self.predicted(shares) @ self.rows.T - 1 if self.held else np.zeros((*np.shape(shares)[:-1], 0))

    def holds(self, shares: np.ndarray) -> bool:
        """Whether a mixture (m,) satisfies all constraints, as predicted by the law."""
        return bool((self.excess(shares) <= HELD).all())

    def program(self, only_feasible: bool = False) -> Program:
        """The convex program; `only_feasible`: minimise the largest violation of a constraint."""
        worst = bool(self.groups) or only_feasible
        weights = np.zeros(len(self.names)) if worst else self.weights
        less = 0.0 if self.groups else 1.0

        def at(r):
            losses, slopes = self.at(r)
            return weights @ losses, weights @ slopes, self.rows @ losses - less, self.rows @ slopes

        return Program(at, worst)


def _minimised(fitted: dict, step: int, name: str) -> Callable:
    """r -> value and gradient of one loss domain's loss, up to a constant."""
    law = LAWS[fitted["law"]]
    alone = fitted | {"loss_domains": [name], "coefficients": {name: fitted["coefficients"][name]}}
    problem = law.code.objective(alone, step, np.ones(1))
    if law.optimum != "power_sum":
        return problem
    gains, exponents = problem

    def at(r):
        r = np.maximum(r, TINY)
        value = gains * r**-exponents
        return value.sum(), -exponents * value / r

    return at
