"""Laws that are fitted to each step and loss domain by itself, and say nothing of other steps."""

from collections.abc import Callable, Iterator

import numpy as np

from bimix.errors import InputError
from bimix.observations.observations import Observations

# (proportions (n, m), losses (n,), weights (n,), what was fitted there before or None) -> numbers
# of one step
FitStep = Callable[[np.ndarray, np.ndarray, np.ndarray, dict | None], dict]


def fit_steps(
    fit_step: FitStep,
    observed: Observations,
    weights: np.ndarray | None = None,
    start: dict | None = None,
    proportions: np.ndarray | None = None,
) -> dict:
    """{loss domain: {"steps": {step: numbers}}} of the runs (n,) whose loss is known at a step and
    whose weight is above 0. A step with fewer than two is left out.

    `proportions` (n, m) stand in the place of those observed, as epochs do.
    """
    base = np.ones(len(observed.mixtures)) if weights is None else np.asarray(weights, dtype=float)
    shares = observed.proportions if proportions is None else proportions
    coefficients: dict = {}
    for i, domain in enumerate(observed.loss_domains):
        steps = {}
        for s, step in enumerate(observed.steps):
            used = np.isfinite(observed.losses[:, s, i]) & (base > 0)
            if used.sum() >= 2:
                begin = start["coefficients"][domain]["steps"].get(str(step)) if start else None
                steps[str(step)] = fit_step(shares[used], observed.losses[used, s, i], base[used], begin)
        coefficients[domain] = {"steps": steps}
    return coefficients


def refit_with(fit: Callable) -> Callable:
    """The `refit` of a law that knows no quicker way than `fit`, begun at what was fitted."""

    def refit(samples: list[tuple[Observations, np.ndarray | None]], fitted: dict) -> Iterator[dict]:
        for observed, weights in samples:
            yield fit(observed, weights, fitted)[0]

    return refit


def predict_steps(
    of_step: Callable[[dict, np.ndarray], np.ndarray],
    coefficients: dict,
    seen: list[int],
    proportions: np.ndarray,
    steps: np.ndarray,
) -> np.ndarray:
    """Losses (n, k, d) at proportions (n, m); `of_step` (numbers, proportions) gives (n,). NaN of a
    loss domain that was not observed at a step that others were, as metrics at the last step.

    Errors: a step that was not fitted.
    """
    losses = np.full((len(proportions), len(steps), len(coefficients)), np.nan)
    for i, (domain, values) in enumerate(coefficients.items()):
        for s, step in enumerate(steps):
            if step not in seen or f"{step:.0f}" in values["steps"]:
                losses[:, s, i] = of_step(at_step(domain, values, step), proportions)
    return losses


def at_step(domain: str, values: dict, step: float) -> dict:
    """The numbers of a loss domain at a step. Errors: a step that was not fitted."""
    if f"{step:.0f}" not in values["steps"]:
        raise InputError(
            f"the law was fitted to {domain} at the steps {', '.join(values['steps'])} one by one: "
            f"it says nothing about step {step:g}."
        )
    return values["steps"][f"{step:.0f}"]


def counted(coefficients: dict, of_step: Callable[[dict], int]) -> int:
    """The sum over steps and loss domains of what a step's numbers count."""
    return sum(of_step(numbers) for values in coefficients.values() for numbers in values["steps"].values())
