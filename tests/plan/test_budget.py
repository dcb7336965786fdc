"""What mixtures are found with: each run counted once, and by the table that needs it first."""

from collections import Counter
from pathlib import Path

import pytest
from made_configs import complete, demo_dataset

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

FITTED = ["se", "je", "ce", "vne"]  # of the group under `optimum`
METHODS = ("baseline", "bimix", "doremi", "doge", "regmix", "transfer_swarm")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    """The demo in an empty folder, in which no training has ended."""
    monkeypatch.chdir(tmp_path)
    dataset = demo_dataset()
    dataset.block["downstream"] = {"model": "target", "steps": [40, 80, 160]}
    dataset.block["compare"]["mixtures"] = dataset.groups["compare"] = list(METHODS)
    return dataset


def names(trainings) -> list[tuple[str, str, str]]:
    return [(training.what, training.model, training.name) for training in trainings]


def of_proxy(*mixtures: str) -> list[tuple[str, str, str]]:
    return [("pretraining", "proxy", name) for name in mixtures]


def test_a_search_trains_the_runs_of_the_swarm_that_it_starts_from(own: Dataset) -> None:
    own.block["search"] = {"start": ["se", "swarm_0007"], "rounds": 1, "of": 1}
    own.groups.update(groups_of(own.block))
    wanted = [f"results/demo/runs/proxy/{name}/losses.parquet" for name in ("se", "swarm_0007")]
    assert inputs.losses(own, "proxy", "search_0") == wanted
    assert names(searched_with(own, "round1")) == of_proxy("se", "swarm_0007")


def test_an_optimum_costs_the_runs_that_its_law_is_fitted_to(own: Dataset) -> None:
    assert names(searched_with(own, "bimix")) == of_proxy(*FITTED)
    swarm = searched_with(own, "regmix")
    assert names(swarm) == of_proxy(*own.groups["swarm"])
    assert {training.recipe["steps"] for training in swarm} == {50}
    own.groups["entropy"] = ["se", "bimix"]  # found with itself, which Snakemake refuses
    assert names(searched_with(own, "bimix")) == of_proxy("se", "bimix")


def test_a_search_pays_for_the_search_of_its_mixtures(own: Dataset) -> None:
    own.groups["entropy"] = ["se", "doge"]
    own.block["reweighting"]["reference"] = "bimix"
    found = searched_with(own, "doremi")
    assert names(found) == [("doremi", "proxy", "doremi"), *of_proxy("bimix", "se", "doge"), ("doge", "proxy", "doge")]
    schedules = [training.recipe["schedule"] for training in found]
    assert schedules == ["doremi", *["exponential"] * 4]


def test_a_group_costs_its_runs_and_its_searches(own: Dataset) -> None:
    own.groups["compare"] = ["baseline", "bimix"]
    wanted = names(trained_for(own, "target", "compare"))
    runs = [f"{mixture}{seed}" for mixture in ("baseline", "bimix") for seed in ("", "@2")]
    assert wanted == of_proxy(*FITTED) + [("pretraining", "target", run) for run in runs]


def test_runs_are_counted_once_by_kind_model_and_recipe(own: Dataset) -> None:
    counted = {(row.what, row.model, row.recipe["steps"]): row for row in planned_runs(own)}
    assert {kind: row.runs for kind, row in counted.items()} == {
        ("pretraining", "proxy", 400): 6,  # fitted and held out, of which baseline is DoReMi's reference too
        ("pretraining", "target", 160): 12,
        ("doremi", "proxy", 400): 1,
        ("doge", "proxy", 400): 1,
        ("pretraining", "proxy", 50): 32,
    }
    # two of the three steps whose weights answer questions come before the last
    assert {kind: row.kept for kind, row in counted.items() if row.kept} == {("pretraining", "target", 160): 24}
    assert not any(row.done for row in counted.values())


def test_what_has_ended_is_counted_where_its_losses_are(own: Dataset) -> None:
    ended = [("pretraining", "proxy", "ce"), ("doremi", "proxy", "doremi"), ("doge", "proxy", "doge")]
    for kind in ended:
        folder = Path(folder_of(own, Training(*kind, {})))
        folder.mkdir(parents=True)
        (folder / "losses.parquet").touch()
    done = Counter({(row.what, row.model): row.done for row in planned_runs(own) if row.done})
    assert done == {(what, model): 1 for what, model, _ in ended}


def test_reports_are_those_of_all_runs_behind_a_mixture_and_of_none_twice(own: Dataset) -> None:
    folder, reports = "results/demo", search_reports(own)
    assert reports["baseline"] == []
    assert reports["bimix"] == [f"{folder}/runs/proxy/{name}/run.json" for name in FITTED]
    reweighted = [f"{folder}/reweighting/proxy/{method}/run.json" for method in ("doremi", "doge")]
    assert reports["doremi"] == [reweighted[0], f"{folder}/runs/proxy/baseline/run.json"]
    assert reports["doge"] == reweighted[1:]
    drawn = [f"{folder}/runs/proxy/{name}/run.json" for name in own.groups["swarm"]]
    assert reports["regmix"] == reports["transfer_swarm"] == drawn
    assert report_files(own) == sorted({file for files in reports.values() for file in files})


def test_the_papers_datasets_fit_five_runs_and_train_the_papers_rivals(own: Dataset) -> None:
    for name, rival in (("pile", "published_regmix"), ("slimpajama", "published_doge")):
        paper = Dataset(complete(None), name)
        fitted, held_out = paper.groups[paper.block["optimum"]["group"]], paper.groups[paper.block["held_out"][0]]
        assert set(fitted) == {"baseline", *paper.groups["entropy"]} and rival in paper.compared
        # the fifth run is of the paper's held-out pair, and costs none
        assert set(held_out) - set(fitted) == {"published_doremi"}
        trained = {row.model: row.runs for row in planned_runs(paper)}
        assert trained == {"280M": len({*fitted, *held_out}), "1B": len(paper.compared)} == {"280M": 6, "1B": 6}
