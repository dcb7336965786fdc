"""Runs of groups and their recipes; what laws are fitted to: one size, several, a stage."""

import copy
import os
from pathlib import Path

import polars as pl
import pytest
from refusals import refused

from bimix.plan import budget, inputs
from bimix.plan.dataset import Dataset, Fit, Run, joined_models
from bimix.plan.targets import targets

CONFIG = {
    "models": {
        "proxy": {"launch": {"nodes": 1, "gpus": 0, "threads": 3}},
        "large": {"launch": {"nodes": 2, "gpus": 8, "threads": 64}},
    },
    "datasets": {
        "own": {
            "groups": {"entropy": ["se", "ce"], "compare": ["se", "bimix"], "swarm": ["s1", "s2", "s3", "s4", "s5"]},
            "training": {
                "proxy": {"steps": 100, "evaluate_every": 30, "seed": 1},
                "large": {"steps": 40, "evaluate_every": 10, "seed": 7},
            },
            "seeds": {"proxy": [1, 2]},
            "optimum": {"model": "proxy", "group": "entropy"},
            "swarm": {"model": "proxy", "runs": 5, "training": {"steps": 20, "evaluate_every": 30, "seed": 1}},
            "downstream": {
                "model": "large",
                "steps": [10, 40],
                "tasks": ["triviaqa", "arc_easy"],
            },
        }
    },
}


@pytest.fixture
def own() -> Dataset:
    return Dataset(copy.deepcopy(CONFIG), "own")


def test_runs_have_the_recipe_of_their_model_or_of_the_swarm(own: Dataset) -> None:
    usual = own.block["training"]["proxy"]
    assert own.recipe("proxy", "se") == usual
    assert own.recipe("proxy", "se@2") == usual | {"seed": 2}
    assert own.recipe("proxy", "s3@9") == usual | {"steps": 20, "seed": 9}
    assert own.recipe("large", "s3")["steps"] == 40  # the swarm is of another model
    assert own.config == CONFIG


def test_weights_are_kept_of_the_runs_that_answer(own: Dataset) -> None:
    assert inputs.kept_steps(own, "large", "bimix") == "10,40"
    assert inputs.kept_steps(own, "large", "ce") == inputs.kept_steps(own, "proxy", "bimix") == "none"
    assert own.answering_runs() == [Run("large", "se", "se", 7), Run("large", "bimix", "bimix", 7)]
    del own.block["downstream"]
    assert own.answering_runs() == [] and inputs.kept_steps(own, "large", "bimix") == "none"


def test_the_size_of_a_fit_is_counted_from_the_config(own: Dataset) -> None:
    assert own.fitted_size() == (2, 4)
    assert inputs.intervals(own, "proxy", "bimix", "entropy") == []
    own.block["optimum"]["group"] = "swarm"
    assert own.fitted_size() == (5, 1)
    assert inputs.intervals(own, "proxy", "bimix", "swarm") == ["results/own/laws/proxy/bimix/swarm/intervals.csv"]


def test_the_size_of_observations_is_counted_in_their_table(tmp_path: Path) -> None:
    for ending in ("csv", "parquet"):
        path = tmp_path / f"losses [1].{ending}"  # a name, and no glob
        block = {
            "observations": {"losses": str(path)},
            "groups": {"all": [], "some": ["1", "3"]},
            "optimum": {"model": "observed", "group": "all"},
        }
        seen = Dataset({"datasets": {"seen": block}}, "seen")
        assert seen.fitted_size() == (0, 0)  # no such file
        table = pl.DataFrame({"mixture": [1, 1, 2, 3], "step": [10, 20, 10, 10], "loss": [1.0] * 4})
        table.write_csv(path) if ending == "csv" else table.write_parquet(path)
        assert seen.fitted_size() == (3, 2)
        block["optimum"]["group"] = "some"
        assert seen.fitted_size() == (2, 2)
        assert not seen.observes_sizes
        for number, (sizes, several) in enumerate((([5, 5, 5, 5], False), ([5, 5, 7, 5], False), ([5, 5, 5, 7], True))):
            sized = table.with_columns(parameters=pl.Series(sizes))
            sized.write_csv(path) if ending == "csv" else sized.write_parquet(path)
            os.utime(path, ns=(0, 10**9 * number))
            assert seen.observes_sizes == several
        path.write_text("no table")
        os.utime(path, ns=(0, 10**18))
        assert seen.fitted_size() == (0, 0)


def test_the_pools_of_a_group_are_those_of_the_runs_that_laws_are_fitted_to(own: Dataset) -> None:
    assert inputs.pool_share(own, "entropy") == inputs.pool_share(own, "swarm") == 1
    own.block["training"]["proxy"]["pool_share"], own.block["swarm"]["training"]["pool_share"] = 0.25, 0.05
    assert inputs.pool_share(own, "entropy") == inputs.pool_share(own) == 0.25
    assert inputs.pool_share(own, "swarm") == 0.05


# Models of several sizes

SIZES = {
    "models": {
        name: {"shape": {"layers": layers, "width": 16, "heads": 2}}
        for name, layers in (("proxy", 1), ("small", 2), ("large", 4))
    },
    "laws": {"optimise": ["bimix", "transfer"], "prior": False},
    "datasets": {
        "own": {
            "corpus": {},
            "domains": ["a", "b"],
            "groups": {"some": ["se", "ce", "je"], "compare": ["se", "ce", "transfer"]},
            "training": {
                "proxy": {"steps": 100, "batch_rows": 4, "evaluate_every": 10, "seed": 1},
                "small": {"steps": 50, "batch_rows": 8, "evaluate_every": 10, "seed": 1},
                "large": {"steps": 80, "batch_rows": 16, "evaluate_every": 10, "seed": 1},
            },
            "sequence_length": 32,
            "seeds": {"small": [2]},
            "optimum": {
                "models": ["proxy", "small"],
                "for": "large",
                "model": "proxy+small",
                "group": "some",
                "step": 80,
            },
            "held_out": [],
            "compare": {"model": "large", "mixtures": ["se", "ce", "transfer"]},
        },
        "other": {"optimum": {"model": "proxy"}},
    },
}


@pytest.fixture
def sized() -> Dataset:
    return Dataset(copy.deepcopy(SIZES), "own")


def test_the_models_have_one_name_in_paths_and_the_optimum_is_for_the_whole_run_of_the_large_one(sized) -> None:
    other = Dataset(SIZES, "other")
    assert joined_models(SIZES) == ["proxy+small"]
    assert inputs.asked_size(sized, "proxy+small") == ["results/own/sizes/large.json"]
    assert inputs.asked_size(sized, "proxy") == inputs.asked_size(other, "proxy") == []
    assert inputs.asked_model(sized) == "large"
    assert sized.fit("transfer") == Fit("proxy+small", "transfer", "some", 80)
    assert inputs.epoch_run_tokens(sized, "transfer") == sized.run_tokens("large") == 80 * 16 * 32
    assert inputs.pool_share(sized, "some") == 1.0


def test_the_optimum_of_one_model_is_for_a_larger_one_that_is_named(sized) -> None:
    optimum = sized.block["optimum"] = {"model": "proxy", "for": "large", "group": "some", "step": 100}
    assert inputs.asked_size(sized, "proxy") == ["results/own/sizes/large.json"]
    assert inputs.asked_size(sized, "proxy", "bimix") == inputs.asked_size(sized, "large") == []
    assert inputs.epoch_run_tokens(sized, "transfer") == sized.run_tokens("large")
    assert inputs.asked_model(sized) == "none"  # losses are predicted of the proxy
    optimum["for"] = "proxy"
    assert inputs.asked_size(sized, "proxy") == []


def test_laws_of_one_size_are_left_out_or_refused(sized: Dataset) -> None:
    assert sized.optimised_laws == ["transfer"]
    assert Dataset(SIZES, "other").optimised_laws == ["bimix", "transfer"]
    refused("own/optimum/models: 'bimix' is fitted to losses of one size of model", sized.fit, "bimix")
    sized.block["swarm"] = {"model": "proxy", "runs": 12, "step": 50}
    assert sized.fit("bimix_swarm").model == "proxy"
    assert inputs.epoch_run_tokens(sized, "bimix_swarm") == 80 * 16 * 32


def test_each_of_the_models_is_trained_on_the_group(sized: Dataset, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = [(run.model, run.name) for run in budget.searched_with(sized, "transfer")]
    assert sorted(found) == sorted(
        [("proxy", name) for name in ("se", "ce", "je")]
        + [("small", name) for mixture in ("se", "ce", "je") for name in (mixture, f"{mixture}@2")]
    )
    sized.groups["rest"] = ["uniform"]
    sized.block["held_out"] = ["rest"]
    rows = {(row.model, row.runs) for row in budget.planned_runs(sized)}
    assert rows == {("proxy", 3), ("small", 6), ("large", 3)}  # none on the group held out


def test_of_the_larger_model_a_law_reads_the_runs_of_compare_that_are_in_its_group(sized: Dataset) -> None:
    assert inputs.larger_runs(sized) == ["proxy", "small", "large"]
    sized.block["optimum"] |= {"models": ["proxy", "large"], "model": "proxy+large"}
    sized.block["search"] = {"start": ["se", "ce"], "of": 1, "rounds": 2}
    sized.block["groups"] |= {"search_0": ["se", "ce"], "search_1": ["se", "ce", "round1"]}
    for group in ("some", "search_0", "search_1"):  # its optimum is compared, and in no group
        assert [run.name for run in sized.runs(group, "large")] == ["se", "ce"]
    assert [run.name for run in sized.runs("compare", "large")] == ["se", "ce", "transfer"]
    found = [(run.model, run.name) for run in budget.searched_with(sized, "transfer")]
    assert sorted(found) == [("large", "ce"), ("large", "se"), *(("proxy", name) for name in ("ce", "je", "se"))]
    assert sized.searched_runs("best")[0] == "proxy"
    assert inputs.larger_runs(sized) == [] and not inputs.large_runs(sized)
    sized.block["optimum"] = {"model": "proxy"}
    assert inputs.larger_runs(sized) == ["proxy", "large"]
    sized.block["simulate_epochs"] = True  # each model has pools of its own
    assert inputs.larger_runs(sized) == []


def test_what_needs_one_size_is_left_out(sized: Dataset) -> None:
    made = targets(sized)
    law = "results/own/laws/proxy+small/transfer/some"
    assert made["coefficients"] == [f"{law}/coefficients.json"]
    assert made["intervals"] == [f"{law}/intervals.csv"]
    assert made["laws"] == [] and made["tables"] == ["results/own/tables/comparison.csv", f"{law}/sizes.csv"]
    drawn = {path.removeprefix("results/own/figures/") for path in made["figures"]}
    assert {name for name in drawn if "some" in name} == {
        "optimum_proxy+small_transfer_some.svg",
        "sizes_proxy+small_transfer_some.svg",
        "perplexity_proxy_some.svg",
        "perplexity_small_some.svg",
    }
    sized.block["held_out"] = ["rest"]
    drawn = {path for path in targets(sized)["figures"] if "perplexity" in path}
    assert drawn == {"results/own/figures/perplexity_large_compare.svg"}


def test_without_runs_of_the_large_size_there_is_no_score_of_them(sized: Dataset) -> None:
    assert inputs.large_runs(sized)
    for change in (
        lambda config, block: block["compare"].update(model="small"),
        lambda config, block: block["compare"]["mixtures"].pop(),
        lambda config, block: config["models"]["large"]["shape"].update(layers=2),
    ):
        config = copy.deepcopy(SIZES)
        change(config, config["datasets"]["own"])
        assert not inputs.large_runs(Dataset(config, "own"))
        assert not [path for path in targets(Dataset(config, "own"))["tables"] if path.endswith("sizes.csv")]


# Mixtures in stages

RECIPE = {"steps": 50, "batch_rows": 4, "seed": 1}


@pytest.fixture
def staged() -> Dataset:
    def stages(last: str) -> list[dict]:
        return [{"share": 0.8, "mixture": "se"}, {"share": 0.2, "mixture": last}]

    config = {
        "laws": {"optimise": ["bimix"]},
        "datasets": {
            "own": {
                "corpus": {},
                "domains": ["a", "b"],
                "sequence_length": 10,
                "stages": {"one": stages("uniform"), "two": stages("ce"), "found": stages("bimix")},
                "groups": {"plain": ["se", "ce"], "compare": ["found", "se"]},
                "training": {"proxy": RECIPE, "large": RECIPE | {"steps": 700}},
                "optimum": {"model": "proxy", "group": "plain", "step": 50},
                "held_out": [],
                "compare": {"model": "large", "mixtures": ["found", "se"]},
            }
        },
    }
    return Dataset(config, "own")


def test_a_mixture_in_stages_costs_the_searches_of_its_stages_once(staged: Dataset) -> None:
    assert staged.source("found").rule == "mix_stages" and staged.staged("found") == ["se", "bimix"]
    assert budget.searched_with(staged, "one") == []
    found = budget.searched_with(staged, "found")
    assert [(run.model, run.name) for run in found] == [("proxy", "se"), ("proxy", "ce")]
    staged.block["stages"]["found"][0]["mixture"] = "bimix"
    assert budget.searched_with(staged, "found") == found
