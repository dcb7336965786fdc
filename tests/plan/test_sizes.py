"""Laws over models of several sizes: which runs and files there are, and what is left out."""

import copy

import pytest

from bimix.errors import InputError
from bimix.plan import costs, optimum, runs, sources
from bimix.plan.targets import optimised_laws, targets

CONFIG = {
    "models": {
        name: {"shape": {"layers": layers, "width": 16, "heads": 2}}
        for name, layers in (("tiny", 1), ("small", 2), ("large", 4))
    },
    "laws": {"optimise": ["bimix", "transfer"], "learning": {"counts": [4]}, "prior": False},
    "datasets": {
        "own": {
            "corpus": {},
            "domains": ["a", "b"],
            "groups": {"some": ["se", "ce", "je"], "compare": ["se", "ce", "transfer"]},
            "training": {
                "tiny": {"steps": 100, "batch_rows": 4, "evaluate_every": 10, "seed": 1},
                "small": {"steps": 50, "batch_rows": 8, "evaluate_every": 10, "seed": 1},
                "large": {"steps": 80, "batch_rows": 16, "evaluate_every": 10, "seed": 1},
            },
            "sequence_length": 32,
            "seeds": {"small": [2]},
            "optimum": {
                "models": ["tiny", "small"],
                "for": "large",
                "model": "tiny+small",
                "group": "some",
                "step": 80,
            },
            "held_out": [],
            "compare": {"model": "large", "mixtures": ["se", "ce", "transfer"]},
        },
        "other": {"optimum": {"model": "tiny"}},
    },
}


@pytest.fixture
def config() -> dict:
    return copy.deepcopy(CONFIG)


@pytest.fixture
def block(config: dict) -> dict:
    return config["datasets"]["own"]


def test_the_models_have_one_name_in_paths_that_no_model_can_have(config: dict) -> None:
    assert runs.joined_models(config) == ["tiny+small"]
    assert runs.size_losses("own", "tiny+small", "some") == [
        "results/own/losses/tiny/some.parquet",
        "results/own/losses/small/some.parquet",
    ]
    assert runs.size_files("own", "tiny+small") == ["results/own/sizes/tiny.json", "results/own/sizes/small.json"]
    assert runs.asked_size(config, "own", "tiny+small") == ["results/own/sizes/large.json"]
    assert runs.asked_size(config, "own", "tiny") == runs.asked_size(config, "other", "tiny") == []


def test_the_optimum_is_for_the_whole_run_of_the_model_asked_for(config: dict) -> None:
    assert sources.source_of(config, "own", "transfer").fit == sources.Fit("tiny+small", "transfer", "some", 80)
    assert optimum.optimum_run_tokens(config, "own", "transfer") == 80 * 16 * 32
    assert optimum.law_run_tokens(config, "own", "transfer") == runs.schedule_tokens(config, "own", "large")
    assert runs.pool_share(config, "own", "some") == 1.0


def test_laws_of_one_size_are_left_out_or_refused(config: dict, block: dict) -> None:
    assert optimised_laws(config, "own") == ["transfer"]
    assert optimised_laws(config, "other") == ["bimix", "transfer"]
    with pytest.raises(InputError, match="own/optimum/models: 'bimix' is fitted to losses of one size of model"):
        sources.source_of(config, "own", "bimix")
    block["swarm"] = {"model": "tiny", "runs": 12, "step": 50}
    assert sources.source_of(config, "own", "bimix_swarm").fit.model == "tiny"
    assert optimum.optimum_run_tokens(config, "own", "bimix_swarm") == 80 * 16 * 32


def test_each_of_the_models_is_trained_on_the_group(config: dict, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = [(run.model, run.name) for run in costs.searched_with(config, "own", "transfer")]
    assert sorted(found) == sorted(
        [("tiny", name) for name in ("se", "ce", "je")]
        + [("small", name) for mixture in ("se", "ce", "je") for name in (mixture, f"{mixture}@2")]
    )
    config["datasets"]["own"]["groups"] |= {"methods": [], "rest": ["vne"]}
    config["datasets"]["own"]["held_out"] = ["rest"]
    rows = {(row.model, row.runs) for row in costs.planned_runs(config, "own")}
    assert rows == {("tiny", 3), ("small", 6), ("large", 3)}  # none on the group held out


def test_what_needs_one_size_is_left_out(config: dict, block: dict) -> None:
    made = targets(config, "own")
    law = "results/own/laws/tiny+small/transfer/some"
    assert made["coefficients"] == [f"{law}/coefficients.json"]
    assert made["intervals"] == [f"{law}/intervals.csv"]
    assert made["sizes"] == [f"{law}/sizes.csv"]
    assert made["extrapolation"] == made["generalization"] == made["laws"] == []
    assert made["comparison"] == ["results/own/tables/comparison.csv"]
    drawn = {path.removeprefix("results/own/figures/") for path in made["figures"]}
    assert {name for name in drawn if "some" in name} == {
        "optimum_tiny+small_transfer_some.svg",
        "sizes_tiny+small_transfer_some.svg",
        "perplexity_tiny_some.svg",
        "perplexity_small_some.svg",
    }
    block["held_out"] = ["rest"]
    drawn = {path for path in targets(config, "own")["figures"] if "perplexity" in path}
    assert drawn == {"results/own/figures/perplexity_large_compare.svg"}


@pytest.mark.parametrize(
    "change",
    [
        lambda config, block: block["compare"].update(model="small"),
        lambda config, block: block["compare"]["mixtures"].pop(),
        lambda config, block: config["models"]["large"]["shape"].update(layers=2),
    ],
)
def test_without_runs_of_the_large_size_there_is_no_score_of_them(config: dict, block: dict, change) -> None:
    assert runs.large_runs(config, "own")
    change(config, block)
    assert not runs.large_runs(config, "own")
    assert targets(config, "own")["sizes"] == []
