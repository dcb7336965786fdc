"""Runs of groups and their recipes; what laws are fitted to: one size, several, a stage."""

import copy
import os
from pathlib import Path

import polars as pl
import pytest
from made_configs import complete, demo, demo_dataset, two_sizes
from refusals import refused

from bimix.plan import budget, inputs
from bimix.plan.dataset import Dataset, Fit, Run, joined_models
from bimix.plan.targets import targets


@pytest.fixture
def own() -> Dataset:
    dataset = demo_dataset()
    dataset.block["downstream"] = {"model": "target", "steps": [40, 160], "tasks": ["triviaqa"]}
    return dataset


def test_runs_have_the_recipe_of_their_model_or_of_the_swarm(own: Dataset) -> None:
    usual, before = own.block["training"]["proxy"], copy.deepcopy(own.config)
    assert own.recipe("proxy", "se") == usual
    assert own.recipe("proxy", "se@2") == usual | {"seed": 2}
    assert own.recipe("proxy", "swarm_0003@9") == usual | {"steps": 50, "evaluate_every": 50, "seed": 9}
    assert own.recipe("target", "swarm_0003")["steps"] == 160  # the swarm is of another model
    assert own.config == before


def test_weights_are_kept_of_the_runs_that_answer(own: Dataset) -> None:
    assert inputs.kept_steps(own, "target", "bimix") == "40,160"
    assert inputs.kept_steps(own, "target", "se") == inputs.kept_steps(own, "proxy", "bimix") == "none"
    answering = own.answering_runs()
    assert answering[:2] == [Run("target", "baseline", "baseline", 1), Run("target", "baseline@2", "baseline", 2)]
    assert len(answering) == 2 * len(own.compared)
    del own.block["downstream"]
    assert own.answering_runs() == [] and inputs.kept_steps(own, "target", "bimix") == "none"


def test_the_size_of_a_fit_is_counted_from_the_config(own: Dataset) -> None:
    assert own.fitted_size() == (4, 10)
    own.block["optimum"]["group"] = "held_out"
    assert own.fitted_size() == (2, 10) and inputs.intervals(own, "proxy", "bimix", "held_out") == []
    own.block["optimum"]["group"] = "swarm"
    assert own.fitted_size() == (32, 1)
    assert inputs.intervals(own, "proxy", "bimix", "swarm") == ["results/demo/laws/proxy/bimix/swarm/intervals.csv"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_size_of_observations_is_counted_in_their_table(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"losses [1].{ending}"  # a name, and no glob
    block = {"observations": {"losses": str(path)}, "groups": {"all": [], "some": ["1", "3"]}}
    block["optimum"] = {"model": "observed", "group": "all"}
    seen = Dataset({"datasets": {"seen": block}}, "seen")
    assert seen.fitted_size() == (0, 0)  # no such file
    table = pl.DataFrame({"mixture": [1, 1, 2, 3], "step": [10, 20, 10, 10], "loss": [1.0] * 4})
    for number, (sizes, several) in enumerate((([5, 5, 5, 5], False), ([5, 5, 7, 5], False), ([5, 5, 5, 7], True))):
        sized = table.with_columns(parameters=pl.Series(sizes))
        sized.write_csv(path) if ending == "csv" else sized.write_parquet(path)
        os.utime(path, ns=(0, 10**9 * number))
        block["optimum"]["group"] = "all"
        assert seen.fitted_size() == (3, 2)
        block["optimum"]["group"] = "some"
        assert seen.fitted_size() == (2, 2) and seen.observes_sizes == several
    path.write_text("no table")
    os.utime(path, ns=(0, 10**18))
    assert seen.fitted_size() == (0, 0)


def test_the_pools_of_a_group_are_those_of_the_runs_that_laws_are_fitted_to(own: Dataset) -> None:
    assert inputs.pool_share(own, "entropy") == inputs.pool_share(own, "swarm") == 1
    own.block["training"]["proxy"]["pool_share"], own.block["swarm"]["training"]["pool_share"] = 0.25, 0.05
    assert inputs.pool_share(own, "entropy") == inputs.pool_share(own) == 0.25
    assert inputs.pool_share(own, "swarm") == 0.05


# Models of several sizes


def sizes(config: dict) -> None:
    two_sizes(config)
    demo(config)["seeds"] = {"small": [2]}
    demo(config)["compare"]["mixtures"] = ["se", "ce", "transfer"]
    config["laws"] |= {"optimise": ["bimix", "transfer"], "prior": False}


@pytest.fixture
def sized() -> Dataset:
    return demo_dataset(sizes)


def test_the_models_have_one_name_in_paths_and_the_optimum_is_for_the_whole_run_of_the_large_one(sized) -> None:
    other = Dataset(sized.config, "pile")
    assert joined_models(sized.config) == ["proxy+small"]
    assert inputs.asked_size(sized, "proxy+small") == ["results/demo/sizes/target.json"]
    assert inputs.asked_size(sized, "proxy") == inputs.asked_size(other, "280M") == []
    assert inputs.asked_model(sized) == "target"
    assert sized.fit("transfer") == Fit("proxy+small", "transfer", "entropy", 160)
    assert inputs.epoch_run_tokens(sized, "transfer") == sized.run_tokens("target") == 160 * 8 * 128


def test_the_optimum_of_one_model_is_for_a_larger_one_that_is_named(sized) -> None:
    optimum = sized.block["optimum"] = {"model": "proxy", "for": "target", "group": "entropy", "step": 400}
    assert inputs.asked_size(sized, "proxy") == ["results/demo/sizes/target.json"]
    assert inputs.asked_size(sized, "proxy", "bimix") == inputs.asked_size(sized, "target") == []
    assert inputs.epoch_run_tokens(sized, "transfer") == sized.run_tokens("target")
    assert inputs.asked_model(sized) == "none"  # losses are predicted of the proxy
    optimum["for"] = "proxy"
    assert inputs.asked_size(sized, "proxy") == []


def test_laws_of_one_size_are_left_out_or_refused(sized: Dataset) -> None:
    assert sized.optimised_laws == ["transfer"]
    assert Dataset(sized.config, "pile").optimised_laws == ["bimix", "transfer"]
    refused("demo/optimum/models: 'bimix' is fitted to losses of one size of model", sized.fit, "bimix")
    assert sized.fit("bimix_swarm").model == "proxy"


def test_each_of_the_models_is_trained_on_the_group(sized: Dataset, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = {(row.model, row.runs) for row in budget.planned_runs(sized)}
    assert rows == {("proxy", 4), ("small", 8), ("target", 3)}  # two seeds of the small one
    sized.block["held_out"] = ["held_out"]
    assert {(row.model, row.runs) for row in budget.planned_runs(sized)} == rows  # none on the group held out


def test_of_the_larger_model_a_law_reads_the_runs_of_compare_that_are_in_its_group(sized: Dataset) -> None:
    assert inputs.larger_runs(sized) == ["proxy", "small", "target"]
    sized.block["optimum"] |= {"models": ["proxy", "target"], "model": "proxy+target"}
    sized.block["search"] = {"start": ["se", "ce"], "of": 1, "rounds": 2}
    sized.block["groups"] |= {"search_0": ["se", "ce"], "search_1": ["se", "ce", "round1"]}
    for group in ("entropy", "search_0", "search_1"):  # its optimum is compared, and in no group
        assert [run.name for run in sized.runs(group, "target")] == ["se", "ce"]
    assert [run.name for run in sized.runs("compare", "target")] == ["se", "ce", "transfer"]
    found = [(run.model, run.name) for run in budget.searched_with(sized, "transfer")]
    assert sorted(found) == [
        *(("proxy", name) for name in ("ce", "je", "se", "vne")),
        ("target", "ce"),
        ("target", "se"),
    ]
    assert sized.searched_runs("best")[0] == "proxy"
    assert inputs.larger_runs(sized) == [] and not inputs.large_runs(sized)
    sized.block["optimum"] = {"model": "proxy"}
    assert inputs.larger_runs(sized) == ["proxy", "target"]
    sized.block["simulate_epochs"] = True  # each model has pools of its own
    assert inputs.larger_runs(sized) == []


def test_what_needs_one_size_is_left_out(sized: Dataset) -> None:
    made = targets(sized)
    assert made["laws"] == [] and made["tables"][-1].endswith("proxy+small/transfer/entropy/sizes.csv")
    drawn = {path.removeprefix("results/demo/figures/") for path in made["figures"]}
    assert {name for name in drawn if name.endswith("_entropy.svg")} == {
        "optimum_proxy+small_transfer_entropy.svg",
        "sizes_proxy+small_transfer_entropy.svg",
        "perplexity_proxy_entropy.svg",
        "perplexity_small_entropy.svg",
    }
    sized.block["held_out"] = ["held_out"]
    drawn = {path for path in targets(sized)["figures"] if "perplexity" in path}
    assert drawn == {"results/demo/figures/perplexity_target_compare.svg"}


def test_without_runs_of_the_large_size_there_is_no_score_of_them(sized: Dataset) -> None:
    assert inputs.large_runs(sized)
    for change in (
        lambda config, block: block["compare"].update(model="small"),
        lambda config, block: block["compare"]["mixtures"].pop(),
        lambda config, block: config["models"]["target"].update(shape=config["models"]["small"]["shape"]),
    ):
        config = copy.deepcopy(complete(sizes))
        change(config, config["datasets"]["demo"])
        assert not inputs.large_runs(Dataset(config, "demo"))
        assert not [path for path in targets(Dataset(config, "demo"))["tables"] if path.endswith("sizes.csv")]


# Mixtures in stages


def test_a_mixture_in_stages_costs_the_searches_of_its_stages_once(own: Dataset) -> None:
    own.block["stages"] = {
        name: [{"share": 0.8, "mixture": first}, {"share": 0.2, "mixture": last}]
        for name, first, last in (("plain", "se", "ce"), ("found", "se", "bimix"), ("twice", "bimix", "bimix"))
    }
    assert own.source("found").rule == "mix_stages" and own.staged("found") == ["se", "bimix"]
    assert budget.searched_with(own, "plain") == []
    found = budget.searched_with(own, "found")
    assert [run.name for run in found] == own.groups["entropy"]
    assert budget.searched_with(own, "twice") == found
