"""A config of a dataset of text with all that makes mixtures, and of one of losses."""

import copy

import pytest

CONFIG = {
    "laws": {"optimise": ["bimix", "transfer"]},
    "datasets": {
        "own": {
            "corpus": {},
            "vectors": {"train": {}, "documents": 3},
            "domains": ["a", "b", "c"],
            "published": "table",
            "mixture_files": {"mine": "mine.json"},
            "groups": {"entropy": ["se", "ce"], "swarm": ["swarm_0001", "swarm_0002"]},
            "training": {"proxy": {"batch_rows": 4}},
            "sequence_length": 10,
            "optimum": {"model": "proxy", "group": "entropy", "step": 800},
            "swarm": {"model": "small", "runs": 12, "step": 50},
            "reweighting": {"model": "proxy", "reference": "baseline", "doremi": {}},
            "compare": {"model": "proxy", "mixtures": ["baseline", "bimix"]},
        },
        "seen": {
            "observations": {"losses": "losses.csv", "mixtures": "mixtures.csv"},
            "groups": {"all": [], "some": ["m1", "m0"]},
            "optimum": {"model": "observed", "group": "all", "step": 9},
            "compare": {"model": "observed", "mixtures": ["m2", "bimix"]},
        },
    },
}


@pytest.fixture
def config() -> dict:
    return copy.deepcopy(CONFIG)
