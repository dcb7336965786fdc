"""What the plan knows of mixtures in stages: who makes them, their cost, which stage is fitted."""

import pytest

from bimix.errors import InputError
from bimix.plan import optimum, sources
from bimix.plan.costs import searched_with
from bimix.plan.pools import epoch_tokens

RECIPE = {"steps": 50, "batch_rows": 4, "seed": 1}


@pytest.fixture
def config() -> dict:
    def stages(last: str) -> list[dict]:
        return [{"share": 0.8, "mixture": "se"}, {"share": 0.2, "mixture": last}]

    return {
        "laws": {"optimise": ["bimix"]},
        "datasets": {
            "own": {
                "corpus": {},
                "domains": ["a", "b"],
                "sequence_length": 10,
                "stages": {"one": stages("uniform"), "two": stages("ce"), "found": stages("bimix")},
                "groups": {"second": ["one", "two"], "plain": ["se", "ce"], "compare": ["found", "se"]},
                "training": {"tiny": RECIPE, "large": RECIPE | {"steps": 700}},
                "optimum": {"model": "tiny", "group": "second", "step": 50, "stage": 2},
                "held_out": [],
                "methods": ["one", "found"],
                "compare": {"model": "large", "mixtures": ["found", "se"]},
            }
        },
    }


def test_a_mixture_in_stages_is_made_of_the_files_of_its_stages(config: dict) -> None:
    assert sources.source_of(config, "own", "found").rule == "mix_stages"
    folder = "results/own/mixtures"
    assert sources.staged_mixtures(config, "own", "found") == [f"{folder}/se.json", f"{folder}/bimix.json"]
    assert sources.staged_shares(config, "own", "found") == [0.8, 0.2]


def test_it_costs_the_searches_of_its_stages_once(config: dict) -> None:
    assert searched_with(config, "own", "one") == []
    found = searched_with(config, "own", "found")
    assert [(run.model, run.name) for run in found] == [("tiny", "one"), ("tiny", "two")]
    config["datasets"]["own"]["stages"]["found"][0]["mixture"] = "bimix"
    assert searched_with(config, "own", "found") == found


def test_the_groups_of_the_laws_are_of_one_stage_and_no_others(config: dict) -> None:
    assert sources.fitted_stage(config, "own", "second") == [2]
    assert sources.fitted_stage(config, "own", "compare") == sources.fitted_stage(config, "own", "plain") == []
    assert sources.stage_begins(config, "own", "tiny", "second") == [40]
    assert sources.stage_begins(config, "own", "large", "second") == [560]
    assert sources.stage_begins(config, "own", "large", "compare") == []
    del config["datasets"]["own"]["optimum"]["stage"]
    assert sources.fitted_stage(config, "own", "second") == sources.stage_begins(config, "own", "tiny", "second") == []


def test_an_optimum_of_a_stage_counts_no_epochs_of_the_run(config: dict) -> None:
    """The law of a stage has no pools, and a domain is read for that stage only."""
    block = config["datasets"]["own"]
    assert optimum.optimum_tokens(config, "own", "bimix") == epoch_tokens(config, "own") == []
    assert optimum.centre(config, "own") == ["results/own/mixtures/baseline.json"]
    block["swarm"] = {"model": "tiny", "runs": 20, "step": 50}
    tokens = ["results/own/tokens/train.parquet"]
    assert optimum.optimum_tokens(config, "own", "transfer_swarm") == tokens  # its runs have no stages
    del block["optimum"]["stage"]
    assert optimum.optimum_tokens(config, "own", "bimix") == epoch_tokens(config, "own") == tokens
    assert optimum.centre(config, "own") == []


def test_a_stage_without_an_update_is_told_before_a_run(config: dict) -> None:
    config["datasets"]["own"]["training"]["tiny"]["steps"] = 2
    with pytest.raises(InputError, match=r"^one, tiny: stage 2 has a share of 0\.2, which of 2 updates is none"):
        sources.stage_begins(config, "own", "tiny", "second")
