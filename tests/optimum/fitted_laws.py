"""Fitted laws of known coefficients, of each form whose losses are convex."""

import numpy as np

from bimix.optimum.objective import Objective
from bimix.optimum.optimum import best_shares

KINDS = ("bimix", "transfer", "exponential")


def fitted_law(law: str, seed: int, m: int, extra: int = 0) -> dict:
    """A law of m training domains; `extra` loss domains that are not trained on (not of bimix)."""
    draw = np.random.default_rng([seed, m])
    names = [f"d{j:02d}" for j in range(m)]
    losses = names + [f"task{i}" for i in range(extra)]
    coefficients = {}
    for i, name in enumerate(losses):
        if law == "bimix":
            coefficients[name] = {"A": draw.uniform(1, 4), "alpha": draw.uniform(0.03, 0.3)}
        elif law == "exponential":
            t = draw.normal(0, 0.5, m) - np.where(np.arange(m) == i, 2, 0)
            one = {"c": draw.uniform(0.5, 2), "k": draw.uniform(0.5, 2), "t": dict(zip(names, t.tolist(), strict=True))}
            coefficients[name] = {"steps": {"100": one}}
        else:
            k = np.exp(draw.normal(-2, 1, m))
            k[i % m] = 1.0
            term = {"A": draw.uniform(1, 4), "alpha": draw.uniform(0.05, 0.4), "transfer": {}}
            term["transfer"] = dict(zip(names, k.tolist(), strict=True))
            coefficients[name] = {"terms": [term], "gamma": draw.uniform(0.5, 1.0)}
    seen = {name: {"min": 0.01, "max": 0.9, "mean": 1 / m} for name in names}
    return {
        "law": law,
        "domains": names,
        "loss_domains": losses,
        "steps": [100],
        "mixtures": [f"m{n}" for n in range(100)],
        "proportions_seen": seen,
        "tokens_per_step": None,
        "coefficients": coefficients,
        "coefficients_fitted": 0,
        "warnings": [],
    }


def even(fitted: dict) -> dict[str, float]:
    return dict.fromkeys(fitted["domains"], 1 / len(fitted["domains"]))


def optimum(fitted: dict, step: int, weights: dict | None, lower, upper, tokens=None) -> np.ndarray:
    """The optimum (m,) of the average of losses by weights; None: of the plain mean."""
    return best_shares(fitted, step, Objective(weights=weights or {}), lower, upper, tokens)
