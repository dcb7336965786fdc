"""What an optimum is found from: its law, the tokens it reads, the run whose epochs it counts."""

import pytest

from bimix.errors import InputError
from bimix.plan.optimum import optimum_coefficients, optimum_run_tokens, optimum_tokens
from bimix.plan.pools import epoch_tokens, pool_tokens


@pytest.fixture
def config() -> dict:
    own = {
        "corpus": {},
        "domains": ["a", "b", "c"],
        "groups": {"entropy": ["se", "ce"], "swarm": ["swarm_0001", "swarm_0002"]},
        "training": {"tiny": {"batch_rows": 4}},
        "sequence_length": 10,
        "optimum": {"model": "tiny", "group": "entropy", "step": 800},
        "swarm": {"model": "small", "runs": 12, "step": 50},
        "compare": {"model": "tiny", "mixtures": ["baseline", "bimix"]},
    }
    seen = {"observations": {}, "optimum": {"model": "observed", "group": "all", "step": 9}}
    return {"laws": {"optimise": ["bimix", "transfer"]}, "datasets": {"own": own, "seen": seen}}


def test_an_optimum_is_of_a_law(config: dict) -> None:
    with pytest.raises(InputError, match="'baseline' is not the optimum of a law"):
        optimum_coefficients(config, "own", "baseline")


def test_tokens_are_read_for_epochs_and_for_regmix(config: dict) -> None:
    table = ["results/own/tokens/train.parquet"]
    assert epoch_tokens(config, "own") == optimum_tokens(config, "own", "transfer") == table
    assert optimum_tokens(config, "own", "regmix") == table
    assert optimum_run_tokens(config, "own", "bimix") == "none"
    # the run under `optimum`, 800 updates of 4 rows of 10 tokens, and not the swarm's 50
    assert optimum_run_tokens(config, "own", "bimix_swarm") == 32_000
    config["datasets"]["own"]["optimum"]["max_epochs"] = 4
    assert epoch_tokens(config, "own") == optimum_tokens(config, "own", "bimix") == table
    assert optimum_tokens(config, "seen", "regmix") == []
    config["datasets"]["seen"]["observations"]["tokens"] = "tokens.csv"
    assert optimum_tokens(config, "seen", "regmix") == ["tokens.csv"]


def test_runs_that_repeat_as_the_large_one_will_count_its_tokens(config: dict) -> None:
    table, block = ["results/own/tokens/train.parquet"], config["datasets"]["own"]
    assert pool_tokens(config, "seen") == []
    block["simulate_epochs"] = True
    block["compare"] = {"model": "large", "mixtures": ["baseline"]}
    block["training"]["large"] = {"steps": 5000, "batch_rows": 8}
    assert pool_tokens(config, "own") == epoch_tokens(config, "own") == optimum_tokens(config, "own", "bimix") == table
    assert optimum_run_tokens(config, "own", "bimix") == optimum_run_tokens(config, "own", "bimix_swarm") == 400_000
