"""Runs that a law of no form of ours made, whose best mixture is known.

L_i = c_i + 1.3 a_i exp(-sum_j T_ij r_j^0.55) (s / 1000)^-0.18, times exp(noise z), z one a run and
domain: five domains, twelve random mixtures, four steps, 0.3 % noise.
"""

from collections.abc import Callable

import numpy as np
import polars as pl
from scipy.optimize import minimize

DOMAINS = ["web", "code", "books", "math", "wiki"]
STEPS = [2000, 4000, 6000, 8000]
NOISE = 0.003

Law = Callable[[np.ndarray, int], np.ndarray]  # proportions (n, m), step -> losses (n, d)


def law(seed: int) -> Law:
    """One of the laws: floors, levels and who helps whom are drawn."""
    draw, d = np.random.default_rng([28, seed]), len(DOMAINS)
    floor, level = draw.uniform(0.8, 2.6, d), draw.uniform(1.0, 1.9, d)
    helps = draw.choice([0.05, 0.1, 0.1, 0.3, 0.6, 0.8, 1.0], (d, d))
    helps[np.arange(d), np.arange(d)] = draw.uniform(1.8, 2.8, d)

    def losses(shares: np.ndarray, step: int) -> np.ndarray:
        return floor + 1.3 * level * np.exp(-(np.atleast_2d(shares) ** 0.55) @ helps.T) * (step / 1000) ** -0.18

    return losses


def best(true: Law) -> float:
    """The least average loss of any mixture at the last step."""

    def at(logits: np.ndarray) -> float:
        shares = np.exp(logits - logits.max())
        return float(true(shares / shares.sum(), STEPS[-1]).mean())

    return min(minimize(at, start, method="BFGS").fun for start in [np.zeros(len(DOMAINS)), *np.eye(len(DOMAINS))])


def tables(true: Law, seed: int, runs: int = 12) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tidy losses and mixtures of random runs."""
    draw = np.random.default_rng([11, seed])
    shares = draw.dirichlet(np.full(len(DOMAINS), 1.5), runs)
    noise = np.exp(NOISE * draw.standard_normal((runs, len(DOMAINS))))
    names = [f"m{number:02d}" for number in range(runs)]
    losses = [
        (name, step, domain, float(one))
        for name, own, z in zip(names, shares, noise, strict=True)
        for step in STEPS
        for domain, one in zip(DOMAINS, true(own, step)[0] * z, strict=True)
    ]
    mixtures = [
        (name, domain, float(one))
        for name, own in zip(names, shares, strict=True)
        for domain, one in zip(DOMAINS, own, strict=True)
    ]
    return (
        pl.DataFrame(losses, ["mixture", "step", "domain", "loss"], orient="row"),
        pl.DataFrame(mixtures, ["mixture", "domain", "proportion"], orient="row"),
    )
