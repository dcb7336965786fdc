"""The demo of tests as rules read it, and a dataset of losses."""

import pytest
from made_configs import demo_dataset

from bimix.plan.dataset import Dataset


@pytest.fixture
def own() -> Dataset:
    return demo_dataset()


@pytest.fixture
def seen() -> Dataset:
    block = {
        "observations": {"losses": "losses.csv", "mixtures": "mixtures.csv"},
        "groups": {"all": [], "some": ["m1", "m0"]},
        "optimum": {"model": "observed", "group": "all", "step": 9},
        "compare": {"model": "observed", "mixtures": ["m2", "bimix"]},
    }
    return Dataset({"laws": {"optimise": ["bimix"]}, "datasets": {"seen": block}}, "seen")
