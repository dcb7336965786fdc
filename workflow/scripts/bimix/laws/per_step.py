"""Laws that are fitted to each step and loss domain separately, and predict no other step.

The module of such a law has:

    fit_step(shares (n, m), losses (n,), weights (n,), domains, begin, **settings) -> numbers,
        for JSON; begin: those of an earlier fit, whose choices are kept, or None. With a parameter
        `loss` it gets the name of the loss domain
    predict_step(numbers, domains, shares (n, m)) -> losses (n,)
    slope_step(numbers, domains) -> function of shares (m,) that gives the loss, but for a constant,
        and its gradient (m,)
    count_step(numbers) -> how many there are
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import signature
from types import ModuleType

import numpy as np

from bimix.errors import InputError
from bimix.observations.observations import Observations


@dataclass(frozen=True)
class PerStep:
    """The functions of a law (`table.py`) from those of its module. Coefficients are {loss domain:
    {"steps": {step: numbers}}}.
    """

    module: ModuleType
    settings: Mapping

    def fit(
        self, observed: Observations, weights: np.ndarray | None = None, start: dict | None = None
    ) -> tuple[dict, dict]:
        """Coefficients, and empty notes, from the runs (n,) with a loss at a step, at least two."""
        base = np.ones(len(observed.mixtures)) if weights is None else np.asarray(weights, dtype=float)
        coefficients: dict = {}
        reads_name = "loss" in signature(self.module.fit_step).parameters
        for i, domain in enumerate(observed.loss_domains):
            steps = {}
            for s, step in enumerate(observed.steps):
                used = np.isfinite(observed.losses[:, s, i]) & (base > 0)
                if used.sum() >= 2:
                    begin = start["coefficients"][domain]["steps"].get(str(step)) if start else None
                    runs = observed.proportions[used], observed.losses[used, s, i], base[used]
                    more = {**self.settings, "loss": domain} if reads_name else self.settings
                    steps[str(step)] = self.module.fit_step(*runs, observed.domains, begin, **more)
            coefficients[domain] = {"steps": steps}
        return coefficients, {}

    def refit(self, samples: list[tuple[Observations, np.ndarray | None]], fitted: dict) -> Iterator[dict]:
        for observed, weights in samples:
            yield self.fit(observed, weights, fitted)[0]

    def predict(
        self, coefficients: dict, domains: list[str], seen: list[int], proportions: np.ndarray, steps: np.ndarray
    ) -> np.ndarray:
        """Losses (n, k, d) at proportions (n, m) and fitted steps (k,); NaN where a loss domain was
        not observed at a step at which others were, such as metrics before the last step.

        Errors: a step that was not fitted.
        """
        losses = np.full((len(proportions), len(steps), len(coefficients)), np.nan)
        for i, (domain, values) in enumerate(coefficients.items()):
            for s, step in enumerate(steps):
                if step not in seen or f"{step:.0f}" in values["steps"]:
                    losses[:, s, i] = self.module.predict_step(_at_step(domain, values, step), domains, proportions)
        return losses

    def objective(self, fitted: dict, step: int, target: np.ndarray) -> Callable:
        """r (m,) -> value and gradient of the loss weighted by `target` (d,)."""
        coefficients, domains = fitted["coefficients"], fitted["domains"]
        parts = [
            (weight, self.module.slope_step(_at_step(name, values, step), domains))
            for weight, (name, values) in zip(target, coefficients.items(), strict=True)
            if weight
        ]

        def at(r):
            found = zip(*([weight * one for one in slope(r)] for weight, slope in parts), strict=True)
            return tuple(map(sum, found))

        return at

    def count(self, coefficients: dict) -> int:
        """The number of fitted coefficients of all steps and loss domains."""
        return sum(
            self.module.count_step(numbers) for own in coefficients.values() for numbers in own["steps"].values()
        )


def _at_step(domain: str, values: dict, step: float) -> dict:
    """The numbers of a loss domain at a step. Errors: a step that was not fitted."""
    if f"{step:.0f}" not in values["steps"]:
        raise InputError(
            f"the law was fitted to {domain} at the steps {', '.join(values['steps'])} one by one: "
            f"it says nothing about step {step:g}."
        )
    return values["steps"][f"{step:.0f}"]
