"""Runs of groups, their settings, and the sizes of what laws are fitted to."""

import copy
import os
from pathlib import Path

import polars as pl
import pytest

from bimix.errors import InputError
from bimix.plan import runs
from bimix.plan.runs import Run

CONFIG = {
    "models": {
        "tiny": {"launch": {"nodes": 1, "gpus": 0, "threads": 3}},
        "large": {"launch": {"nodes": 2, "gpus": 8, "threads": 64}},
    },
    "datasets": {
        "own": {
            "groups": {"entropy": ["se", "ce"], "compare": ["se", "bimix"], "swarm": ["s1", "s2", "s3", "s4", "s5"]},
            "training": {
                "tiny": {"steps": 100, "evaluate_every": 30, "seed": 1},
                "large": {"steps": 40, "evaluate_every": 10, "seed": 7},
            },
            "seeds": {"tiny": [1, 2]},
            "optimum": {"model": "tiny", "group": "entropy"},
            "swarm": {"model": "tiny", "runs": 5, "together": 2, "training": {"steps": 20}},
            "downstream": {
                "model": "large",
                "steps": [10, 40],
                "tasks": {
                    "far": {"kind": "question", "items": "https://host/a.json", "shots": "near.jsonl"},
                    "hub": {"kind": "last_word", "items": {"hub": "x/y", "file": "z"}, "shots": None},
                    "made": {"kind": "question", "generate": {"items": 3}},
                },
            },
        }
    },
}


@pytest.fixture
def config() -> dict:
    return copy.deepcopy(CONFIG)


def test_the_recipes_seed_comes_first_and_once(config: dict) -> None:
    expected = [Run("se", "se", 1), Run("se@2", "se", 2), Run("ce", "ce", 1), Run("ce@2", "ce", 2)]
    assert runs.runs_of(config, "own", "tiny", "entropy") == expected
    assert runs.runs_of(config, "own", "large", "entropy") == [Run("se", "se", 7), Run("ce", "ce", 7)]
    assert runs.run_losses(config, "own", "tiny", "entropy")[1] == "results/own/runs/tiny/se@2/losses.parquet"
    assert runs.run_mixtures(config, "own", "tiny", "entropy") == ["se", "se", "ce", "ce"]
    assert runs.run_seeds(config, "own", "tiny", "entropy") == [1, 2, 1, 2]


def test_a_run_has_its_models_recipe_but_for_seed_and_swarm(config: dict) -> None:
    usual = config["datasets"]["own"]["training"]["tiny"]
    assert runs.recipe(config, "own", "tiny", "se") == usual
    assert runs.recipe(config, "own", "tiny", "se@2") == usual | {"seed": 2}
    assert runs.recipe(config, "own", "tiny", "s3@9") == usual | {"steps": 20, "seed": 9}
    assert runs.recipe(config, "own", "large", "s3")["steps"] == 40  # the swarm is of another model
    assert config == CONFIG


def test_parts_of_a_swarm_hold_each_run_once(config: dict) -> None:
    parts = runs.swarm_parts(config, "own", "tiny")
    assert [runs.swarm_part(config, "own", str(part)) for part in parts] == [["s1", "s2"], ["s3", "s4"], ["s5"]]
    with pytest.raises(InputError, match="own/swarm/model: the swarm is trained with 'tiny', not 'large'"):
        runs.swarm_parts(config, "own", "large")


def test_a_part_of_a_swarm_takes_what_one_process_of_its_model_does(config: dict) -> None:
    assert (runs.gpus(config, "tiny"), runs.swarm_gpu(config, "tiny"), runs.swarm_threads(config, "tiny")) == (0, 0, 3)
    assert (runs.gpus(config, "large"), runs.swarm_gpu(config, "large"), runs.swarm_threads(config, "large")) == (
        16,
        1,
        8,
    )


def test_weights_are_kept_of_the_runs_that_answer(config: dict) -> None:
    assert runs.kept_steps(config, "own", "large", "bimix") == "10,40"
    assert runs.kept_steps(config, "own", "large", "ce") == runs.kept_steps(config, "own", "tiny", "bimix") == "none"
    assert runs.answering_runs(config, "own") == runs.answering_mixtures(config, "own") == ["se", "bimix"]
    assert runs.answering_seeds(config, "own") == [7, 7]
    del config["datasets"]["own"]["downstream"]
    assert runs.answering_runs(config, "own") == []
    assert runs.kept_steps(config, "own", "large", "bimix") == "none"


def test_the_size_of_a_fit_is_counted_from_the_config(config: dict) -> None:
    assert runs.fitted_size(config, "own") == (2, 4)
    assert runs.interval_tables(config, "own", "tiny", "bimix", "entropy") == []
    config["datasets"]["own"]["optimum"]["group"] = "swarm"
    assert runs.fitted_size(config, "own") == (5, 1)
    assert runs.interval_tables(config, "own", "tiny", "bimix", "swarm") == [
        "results/own/laws/tiny/bimix/swarm/intervals.csv"
    ]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_size_of_observations_is_counted_in_their_table(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"losses [1].{ending}"  # a name, and no glob
    block = {
        "observations": {"losses": str(path)},
        "groups": {"all": [], "some": ["1", "3"]},
        "optimum": {"model": "observed", "group": "all"},
    }
    config = {"datasets": {"seen": block}}
    assert runs.fitted_size(config, "seen") == (0, 0)  # no such file
    table = pl.DataFrame({"mixture": [1, 1, 2, 3], "step": [10, 20, 10, 10], "loss": [1.0] * 4})
    table.write_csv(path) if ending == "csv" else table.write_parquet(path)
    assert runs.fitted_size(config, "seen") == (3, 2)
    block["optimum"]["group"] = "some"
    assert runs.fitted_size(config, "seen") == (2, 2)
    assert not runs.observes_sizes(config, "seen")
    for number, (sizes, several) in enumerate((([5, 5, 5, 5], False), ([5, 5, 7, 5], False), ([5, 5, 5, 7], True))):
        sized = table.with_columns(parameters=pl.Series(sizes))
        sized.write_csv(path) if ending == "csv" else sized.write_parquet(path)
        os.utime(path, ns=(0, 10**9 * number))
        assert runs.observes_sizes(config, "seen") == several
    path.write_text("no table")
    os.utime(path, ns=(0, 10**18))
    assert runs.fitted_size(config, "seen") == (0, 0)


def test_the_pools_of_a_group_are_those_of_the_runs_that_laws_are_fitted_to(config: dict) -> None:
    block = config["datasets"]["own"]
    assert runs.pool_share(config, "own", "entropy") == runs.pool_share(config, "own", "swarm") == 1
    block["training"]["tiny"]["pool_share"], block["swarm"]["training"]["pool_share"] = 0.25, 0.05
    assert runs.pool_share(config, "own", "entropy") == 0.25
    assert runs.pool_share(config, "own", "swarm") == 0.05
