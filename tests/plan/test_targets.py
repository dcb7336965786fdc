"""Everything that a dataset's run makes, and what is left out for want of runs, steps or blocks."""

import copy
from pathlib import Path

import pytest
from made_configs import demo_dataset
from refusals import refused

from bimix.plan.dataset import Dataset
from bimix.plan.targets import all_targets, nearest, targets
from bimix.settings.prepare import wanted_datasets

PAGES = ["extrapolation", "generalization", "comparison", "laws", "complexity", "downstream"]


@pytest.fixture
def own() -> Dataset:
    """The demo with eleven fitted mixtures, which a learning curve needs, and questions."""
    dataset = demo_dataset()
    dataset.config["laws"]["optimise"] = ["bimix", "regmix"]
    dataset.groups["entropy"] = [f"m{number}" for number in range(11)]
    dataset.block["downstream"] = {}
    return dataset


def figures(own: Dataset) -> set[str]:
    return {path.removeprefix("results/demo/figures/") for path in targets(own)["figures"]}


def test_a_dataset_with_all_blocks_makes_everything(own: Dataset) -> None:
    made, law = targets(own), "results/demo/laws/proxy/{}/entropy"
    assert made["reference"] == ["results/demo/mixtures/baseline.json"]
    assert made["coefficients"] == [f"{law.format(name)}/coefficients.json" for name in ("bimix", "regmix")]
    assert made["intervals"] == [f"{law.format('bimix')}/intervals.csv"]  # of regmix that takes hours
    assert made["further"] == [f"results/demo/tables/{name}.html" for name in PAGES]
    assert made["answers"] == ["results/demo/tables/downstream.csv"]
    assert len(figures(own)) == len(made["figures"]) == 15
    assert {"learning_proxy_entropy.svg", "perplexity_target_compare.svg"} < figures(own)
    assert not [name for name in figures(own) if name.startswith("optimum_proxy_regmix")]


def test_what_cannot_be_made_is_left_out(own: Dataset) -> None:
    whole = figures(own)
    for change, left_out in (
        (lambda block: block.pop("corpus"), {"entropy.svg", "cross_entropy.svg"}),
        (lambda block: block.pop("downstream"), {"downstream.svg", "downstream_tasks.svg"}),
        (lambda block: block["groups"]["entropy"].pop(), {"learning_proxy_entropy.svg"}),
    ):
        changed = Dataset(copy.deepcopy(own.config), "demo")
        change(changed.block)
        assert whole - figures(changed) == left_out
    own.block["held_out"] = []
    predicted = {f"predictions_proxy_{law}_entropy.svg" for law in ("bimix", "regmix")}
    assert whole - figures(own) == predicted
    assert not [path for paths in targets(own).values() for path in paths if "tables/generalization" in path]


def test_a_run_makes_all_of_its_datasets_and_of_no_other(own: Dataset) -> None:
    own.config["datasets"]["other"] = copy.deepcopy(own.block)
    own.config["run"] = ["other"]
    files = all_targets(own.config)
    assert files[:3] == [f"results/other/{name}" for name in ("summary.txt", "explore.html", "figures/recommended.svg")]
    made = targets(Dataset(own.config, "other"))
    assert set(files[3:]) == {file for paths in made.values() for file in paths}
    assert all(file.startswith("results/other/") for file in files)


def test_files_are_wanted_of_the_datasets_of_which_everything_is_built() -> None:
    assert wanted_datasets({"run": ["own"]}, ["--cores", "2"]) == wanted_datasets({"run": ["own"]}, []) == ["own"]
    assert wanted_datasets({"run": ["own"]}, ["results/own/entropy.csv"]) == []
    assert wanted_datasets({"run": ["own"]}, ["--unlock"]) == wanted_datasets({"run": 5}, []) == []


def test_mixtures_of_no_common_size_are_refused_before_the_first_job(seen: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "losses.csv"
    path.write_text("mixture,parameters,step,domain,loss\na,1e6,9,web,3\nb,1e6,9,web,3\nb,8e6,9,web,2\nc,8e6,9,web,2\n")
    seen.block["observations"]["losses"], seen.block["held_out"] = str(path), []
    seen.block["compare"]["mixtures"] = ["a", "b"]
    drawn = targets(seen)["figures"]
    assert not [path for path in drawn if "steps" in path or "proportions" in path], "they are of one size"
    seen.block["compare"]["mixtures"] = ["a", "b", "c"]
    refused("none has runs of all of a, b, c: compare mixtures of one size", targets, seen)


# A file that no rule makes


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("demo/mixtures/unifrm.json", "did you mean results/demo/mixtures/uniform.json"),
        ("demo/runs/target/bimx/losses.parquet", "did you mean results/demo/runs/target/bimix/losses.parquet"),
        ("demo/sumary.txt", "did you mean results/demo/summary.txt"),
        ("demo/tables/lawz.html", "results/demo/tables/laws.html"),
        ("demo/figures/steps.svg", "did you mean results/demo/figures/steps_proxy_bimix_entropy.svg or "),
        ("demo/entropi.csv", "did you mean results/demo/entropy.csv or "),
        ("demo/mixtures/temprature.json", "did you mean results/demo/mixtures/temperature.json"),
        ("demo/zzz", "docs/results.md lists what there is."),
        ("dema/summary.txt", "did you mean results/demo/summary.txt"),
    ],
)
def test_what_was_meant_is_named(path: str, said: str) -> None:
    sentence = nearest([demo_dataset()], f"results/{path}")
    assert sentence.startswith(f"No rule to produce results/{path}: ") and said in sentence
