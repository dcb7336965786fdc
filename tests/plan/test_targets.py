"""Everything that a dataset's run makes, and what is left out for want of runs, steps or blocks."""

import copy

import pytest
from refusals import refused

from bimix.plan.dataset import Dataset
from bimix.plan.targets import all_targets, nearest, targets
from bimix.settings.prepare import wanted_datasets

PAGES = ["extrapolation", "generalization", "comparison", "laws", "complexity", "downstream"]
CONFIG = {
    "laws": {"optimise": ["bimix", "regmix"]},
    "datasets": {
        "own": {
            "corpus": {},
            "groups": {"fitted": [f"m{number}" for number in range(11)]},
            "training": {"proxy": {"steps": 100, "evaluate_every": 50}},
            "optimum": {"model": "proxy", "group": "fitted"},
            "held_out": ["rest"],
            "compare": {"model": "large", "mixtures": ["m1", "m0"]},
            "downstream": {},
        }
    },
}


@pytest.fixture
def config() -> dict:
    return copy.deepcopy(CONFIG)


def figures(config: dict) -> set[str]:
    return {path.removeprefix("results/own/figures/") for path in targets(Dataset(config, "own"))["figures"]}


def test_a_dataset_with_all_blocks_makes_everything(config: dict) -> None:
    made = targets(Dataset(config, "own"))
    assert made["reference"] == ["results/own/mixtures/m1.json"]
    assert made["coefficients"] == [
        f"results/own/laws/proxy/{law}/fitted/coefficients.json" for law in ("bimix", "regmix")
    ]
    assert made["intervals"] == ["results/own/laws/proxy/bimix/fitted/intervals.csv"]  # of regmix that takes hours
    assert made["further"] == [*(f"results/own/tables/{name}.html" for name in PAGES)]
    assert made["answers"] == ["results/own/tables/downstream.csv"]
    assert len(figures(config)) == len(made["figures"]) == 15
    assert {"learning_proxy_fitted.svg", "perplexity_large_compare.svg"} < figures(config)
    assert not [name for name in figures(config) if name.startswith("optimum_proxy_regmix")]


def test_what_cannot_be_made_is_left_out(config: dict) -> None:
    whole = figures(config)
    for change, left_out in (
        (lambda block: block.pop("corpus"), {"entropy.svg", "cross_entropy.svg"}),
        (lambda block: block.pop("downstream"), {"downstream.svg", "downstream_tasks.svg"}),
        (
            lambda block: block["held_out"].clear(),
            {"predictions_proxy_bimix_fitted.svg", "predictions_proxy_regmix_fitted.svg"},
        ),
        (lambda block: block["groups"]["fitted"].pop(), {"learning_proxy_fitted.svg"}),
    ):
        changed = copy.deepcopy(config)
        change(changed["datasets"]["own"])
        assert whole - figures(changed) == left_out


def test_a_dataset_that_holds_nothing_out_has_no_table_of_it(config: dict) -> None:
    config["datasets"]["own"]["held_out"] = []
    made = targets(Dataset(config, "own"))
    assert made["further"] == [f"results/own/tables/{name}.html" for name in PAGES if name != "generalization"]
    assert not [path for paths in made.values() for path in paths if path.endswith("tables/generalization.csv")]


def test_a_run_makes_all_of_its_datasets_and_of_no_other(config: dict) -> None:
    config["datasets"]["other"] = copy.deepcopy(config["datasets"]["own"])
    config["run"] = ["other"]
    files = all_targets(config)
    assert files[:3] == [f"results/other/{name}" for name in ("summary.txt", "explore.html", "figures/recommended.svg")]
    assert set(files[3:]) == {file for made in targets(Dataset(config, "other")).values() for file in made}
    assert all(file.startswith("results/other/") for file in files)


def test_files_are_wanted_of_the_datasets_of_which_everything_is_built() -> None:
    assert wanted_datasets({"run": ["own"]}, ["--cores", "2"]) == wanted_datasets({"run": ["own"]}, []) == ["own"]
    assert wanted_datasets({"run": ["own"]}, ["results/own/entropy.csv"]) == []
    assert wanted_datasets({"run": ["own"]}, ["--unlock"]) == wanted_datasets({"run": 5}, []) == []


def test_mixtures_of_no_common_size_are_refused_before_the_first_job(config: dict, tmp_path) -> None:
    path = tmp_path / "losses.csv"
    path.write_text("mixture,parameters,step,domain,loss\na,1e6,9,web,3\nb,1e6,9,web,3\nb,8e6,9,web,2\nc,8e6,9,web,2\n")
    own = config["datasets"]["own"]
    del own["corpus"], own["downstream"]
    own |= {"observations": {"losses": str(path)}, "groups": {"fitted": []}, "held_out": []}
    own["compare"] = {"model": "observed", "mixtures": ["a", "b"]}
    drawn = targets(Dataset(config, "own"))["figures"]
    assert not [path for path in drawn if "steps" in path or "proportions" in path], "they are of one size"
    own["compare"]["mixtures"] = ["a", "b", "c"]
    refused("none has runs of all of a, b, c: compare mixtures of one size", targets, Dataset(config, "own"))


# A file that no rule makes

BLOCK = {
    "corpus": {},
    "groups": {"fitted": ["se", "je", "uniform"]},
    "training": {"proxy": {"steps": 100, "evaluate_every": 50}},
    "optimum": {"model": "proxy", "group": "fitted"},
    "held_out": [],
    "compare": {"model": "target", "mixtures": ["baseline", "bimix"]},
}
NAMED = {
    "run": ["mine"],
    "laws": {"optimise": ["bimix"]},
    "datasets": {"mine": BLOCK, "demo": BLOCK},
}


def test_what_was_meant_is_named() -> None:
    for path, said in (
        ("mine/mixtures/unifrm.json", "did you mean results/mine/mixtures/uniform.json"),
        ("mine/runs/target/bimx/losses.parquet", "did you mean results/mine/runs/target/bimix/losses.parquet"),
        ("mine/sumary.txt", "did you mean results/mine/summary.txt or "),
        ("mine/tables/lawz.html", "results/mine/tables/laws.html"),
        ("mine/figures/steps.svg", "did you mean results/mine/figures/steps_proxy_bimix_fitted.svg?"),
        ("mine/entropi.csv", "did you mean results/mine/entropy.csv or "),
        ("mine/mixtures/temprature.json", "did you mean results/mine/mixtures/temperature.json"),
        ("mine/zzz", "docs/results.md lists what there is."),
        ("mina/summary.txt", "did you mean results/mine/summary.txt"),
    ):
        sentence = nearest([Dataset(NAMED, name) for name in NAMED["datasets"]], f"results/{path}")
        assert sentence.startswith(f"No rule to produce results/{path}: ") and said in sentence
