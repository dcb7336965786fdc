"""Runs at one step, and the losses of a law of three domains, for tests of laws of others."""

from pathlib import Path

import numpy as np
import public_tables
import pytest

from bimix.laws import fitted as laws
from bimix.observations.observations import Observations

DOMAINS = ("code", "law", "web")
STEP = 100
REGMIX = Path(__file__).parents[3] / "shared" / "data" / "regmix"
NO_RUNS = pytest.mark.skipif(not REGMIX.exists(), reason="RegMix's public runs are not there")


def drawn(n: int, m: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(m), n)


def observed(shares: np.ndarray, losses: np.ndarray, **more) -> Observations:
    """Runs at one step; losses (n, d) of as many loss domains."""
    domains = tuple(f"d{j}" for j in range(shares.shape[1])) if shares.shape[1] != 3 else DOMAINS
    return Observations(
        mixtures=tuple(f"m{n}" for n in range(len(shares))),
        domains=domains,
        steps=np.array([STEP]),
        loss_domains=tuple(f"loss{i}" for i in range(losses.shape[1])),
        proportions=shares,
        losses=losses[:, None],
        tokens_per_step=1000.0,
        **more,
    )


def exponential(shares: np.ndarray) -> np.ndarray:
    t = np.array([[-1.5, 0.3, 0.2], [0.4, -2.0, 0.1], [0.2, 0.5, -1.0]])
    return 1.5 + np.exp(0.8 + shares @ t.T)


def predicted(fitted: dict, shares: np.ndarray) -> np.ndarray:
    return laws.predict(fitted, shares, np.array([STEP]))[:, 0]


def grid(parts: int = 60) -> np.ndarray:
    found = [(i, j, parts - i - j) for i in range(parts + 1) for j in range(parts + 1 - i)]
    return np.array(found) / parts


def regmix_runs(split: str, size: str) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Domains, mixtures (n, 17) and losses on Pile-CC (n,) of RegMix's public runs."""
    runs = public_tables.regmix(REGMIX, split, size)
    return list(runs.domains), runs.proportions, runs.losses[:, 0, runs.loss_domains.index("pile_cc")]
