"""Objectives of RegMix' trees, by search among simulated mixtures, and optima by descents."""

import numpy as np
import pytest
from laws.known import mixtures, observe, with_transfer
from refusals import refused

from bimix.laws.fitted import fit
from bimix.optimum.goal import Goal
from bimix.optimum.objective import Objective
from bimix.optimum.optimum import best

STEP = 1000


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees take a second for some thousands of mixtures."""
    monkeypatch.setattr("bimix.optimum.search.SIMULATED", 8000)


@pytest.fixture(scope="module")
def trees() -> dict:
    """RegMix fitted to 40 mixtures of three domains."""
    return fit("regmix", observe(with_transfer(0, 3), mixtures(0, 40, 3), np.array([STEP])))


REFERENCE = {"d00": 0.7, "d01": 0.2, "d02": 0.1}
TOKENS = {"d00": 3.0, "d01": 2.0, "d02": 1.0}


def test_trees_find_what_holds_its_constraints(trees: dict) -> None:
    for kind, more in (("minimax", {}), ("no_worse_than", {"margin": 0.05})):
        weights = {"d01": 1.0, "d02": 1.0}
        objective = Objective(kind=kind, weights=weights, reference=REFERENCE, **more)
        found = best(trees, STEP, objective, np.zeros(3), np.ones(3), TOKENS)
        goal = Goal(trees, STEP, objective)
        assert found.gap is None and found.shares.sum() == pytest.approx(1)
        assert (goal.excess(found.shares) <= 0).all()
        drawn = np.random.default_rng(0).dirichlet(np.ones(3), 5000)
        held = drawn[(goal.excess(drawn) <= 0).all(axis=1)]
        assert len(held) > 50 and (goal.value(held) >= found.value).mean() > 0.95
    # what no draw holds is named
    objective = Objective(kind="no_worse_than", reference={"d00": 0.97, "d01": 0.015, "d02": 0.015})
    refused(r"d00 cannot be held", best, trees, STEP, objective, np.zeros(3), np.array([0.2, 1, 1]), TOKENS)
