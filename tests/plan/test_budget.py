"""What mixtures are found with: each run counted once, and by the table that needs it first."""

import copy
from pathlib import Path

import pytest
from made_configs import made, whole

from bimix.mixtures.names import groups_of
from bimix.plan import inputs
from bimix.plan.budget import (
    Training,
    folder_of,
    planned_runs,
    report_files,
    search_reports,
    searched_with,
    trained_for,
)
from bimix.plan.dataset import Dataset

TINY, LARGE = {"steps": 100, "seed": 1}, {"steps": 40, "seed": 1}
CONFIG = {
    "laws": {"optimise": ["bimix", "transfer"]},
    "datasets": {
        "own": {
            "domains": ["a", "b"],
            "groups": {
                "entropy": ["se", "ce"],
                "rest": ["baseline"],
                "compare": ["baseline", "ce", "bimix"],
                "swarm": [f"swarm_{number:04d}" for number in range(1, 13)],
            },
            "training": {"proxy": TINY, "large": LARGE},
            "optimum": {"model": "proxy", "group": "entropy", "step": 100},
            "held_out": ["rest"],
            "compare": {"model": "large", "mixtures": ["baseline", "ce", "bimix"]},
            "swarm": {"model": "proxy", "runs": 12, "step": 20, "training": TINY | {"steps": 20}},
            "reweighting": {
                "model": "proxy",
                "reference": "baseline",
                "doremi": TINY | {"steps": 60},
                "doge": TINY | {"steps": 60},
            },
            "downstream": {"model": "large", "steps": [10, 20, 40]},
        }
    },
}


METHODS = ("baseline", "bimix", "doremi", "doge", "regmix", "transfer_swarm")


@pytest.fixture
def own() -> Dataset:
    return Dataset(copy.deepcopy(CONFIG), "own")


def compare(own: Dataset, *names: str) -> None:
    own.block["compare"]["mixtures"] = own.block["groups"]["compare"] = list(names)


def test_a_search_trains_the_runs_of_the_swarm_that_it_starts_from(own: Dataset) -> None:
    own.block["search"] = {"start": ["se", "swarm_0007"], "rounds": 1, "of": 1}
    own.block["groups"] |= groups_of(own.block)
    wanted = [f"results/own/runs/proxy/{name}/losses.parquet" for name in ("se", "swarm_0007")]
    assert inputs.losses(own, "proxy", "search_0") == wanted
    assert names(searched_with(own, "round1")) == [("pretraining", "proxy", name) for name in ("se", "swarm_0007")]


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in which no training has ended."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(trainings) -> list[tuple[str, str, str]]:
    return [(training.what, training.model, training.name) for training in trainings]


def test_an_optimum_costs_the_runs_that_its_law_is_fitted_to(own: Dataset) -> None:
    assert names(searched_with(own, "bimix")) == [("pretraining", "proxy", "se"), ("pretraining", "proxy", "ce")]
    found_with_itself = Dataset(copy.deepcopy(CONFIG), "own")
    found_with_itself.block["groups"]["entropy"] = ["se", "bimix"]
    assert [name for _, _, name in names(searched_with(found_with_itself, "bimix"))] == ["se", "bimix"]
    swarm = searched_with(own, "regmix")
    assert names(swarm) == [("pretraining", "proxy", name) for name in own.block["groups"]["swarm"]]
    assert {training.recipe["steps"] for training in swarm} == {20}


def test_a_search_pays_for_the_search_of_its_mixtures(own: Dataset) -> None:
    own.block["groups"]["entropy"] = ["se", "doge"]
    own.block["reweighting"]["reference"] = "bimix"
    found = searched_with(own, "doremi")
    assert names(found) == [
        ("doremi", "proxy", "doremi"),
        ("pretraining", "proxy", "bimix"),
        ("pretraining", "proxy", "se"),
        ("pretraining", "proxy", "doge"),
        ("doge", "proxy", "doge"),
    ]
    assert [training.recipe["steps"] for training in found] == [60, 100, 100, 100, 60]


def test_a_group_costs_its_runs_and_its_searches(own: Dataset) -> None:
    own.block["seeds"] = {"large": [2]}
    wanted = names(trained_for(own, "large", "compare"))
    assert wanted[:2] == [("pretraining", "proxy", "se"), ("pretraining", "proxy", "ce")]
    assert [name for _, model, name in wanted if model == "large"] == [
        f"{mixture}{seed}" for mixture in ("baseline", "ce", "bimix") for seed in ("", "@2")
    ]
    assert len(names(trained_for(own, "proxy", "swarm"))) == 12


def test_runs_are_counted_once_by_kind_model_and_recipe(own: Dataset) -> None:
    compare(own, *METHODS)
    counted = {(row.what, row.model, row.recipe["steps"]): row for row in planned_runs(own)}
    assert {kind: row.runs for kind, row in counted.items()} == {
        ("pretraining", "proxy", 100): 3,  # se, ce and the held-out baseline, which is DoReMi's reference too
        ("pretraining", "large", 40): 6,
        ("doremi", "proxy", 60): 1,
        ("doge", "proxy", 60): 1,
        ("pretraining", "proxy", 20): 12,
    }
    # two of the three steps whose weights answer questions come before the last
    assert {kind: row.kept for kind, row in counted.items() if row.kept} == {("pretraining", "large", 40): 12}
    assert not any(row.done for row in counted.values())


def test_what_has_ended_is_counted_where_its_losses_are(own: Dataset, workplace: Path) -> None:
    ended = [
        Training("pretraining", "proxy", "ce", TINY),
        Training("doremi", "proxy", "doremi", TINY),
        Training("doge", "proxy", "doge", TINY),
    ]
    for training in ended:
        folder = workplace / folder_of(own, training)
        folder.mkdir(parents=True)
        (folder / "losses.parquet").touch()
    compare(own, *METHODS)
    done = {(row.what, row.model): row.done for row in planned_runs(own) if row.done}
    assert done == {(training.what, training.model): 1 for training in ended}


def test_reports_are_those_of_all_runs_behind_a_mixture_and_of_none_twice(own: Dataset) -> None:
    folder = "results/own"
    compare(own, *METHODS)
    reports = search_reports(own)
    assert reports["baseline"] == []
    assert reports["bimix"] == [f"{folder}/runs/proxy/se/run.json", f"{folder}/runs/proxy/ce/run.json"]
    assert reports["doremi"] == [
        f"{folder}/reweighting/proxy/doremi/run.json",
        f"{folder}/runs/proxy/baseline/run.json",
    ]
    assert reports["doge"] == [f"{folder}/reweighting/proxy/doge/run.json"]
    drawn = [f"{folder}/runs/proxy/{name}/run.json" for name in own.block["groups"]["swarm"]]
    assert reports["regmix"] == reports["transfer_swarm"] == drawn
    assert report_files(own) == sorted({file for files in reports.values() for file in files})


def test_the_papers_datasets_fit_five_runs_and_train_the_papers_rivals(workplace: Path) -> None:
    config = made(whole())
    for name, rival in (("pile", "published_regmix"), ("slimpajama", "published_doge")):
        paper = Dataset(config, name)
        fitted, held_out = paper.groups[paper.block["optimum"]["group"]], paper.groups[paper.block["held_out"][0]]
        assert set(fitted) == {"baseline", *paper.groups["entropy"]} and rival in paper.compared
        # the fifth run is of the paper's held-out pair, and costs none
        assert set(held_out) - set(fitted) == {"published_doremi"}
        trained = {row.model: row.runs for row in planned_runs(paper)}
        assert trained == {"280M": len({*fitted, *held_out}), "1B": len(paper.compared)} == {"280M": 6, "1B": 6}
