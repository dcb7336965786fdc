"""What a mixture is to be best at, in a config: names, keys that belong to a kind, what is written
out of it for all that averages losses.
"""

import copy
import functools
from pathlib import Path

import pytest

from bimix.errors import InputError
from bimix.plan.optimum import centre, objective_pair, objective_reference
from bimix.plan.targets import targets
from bimix.settings import checks
from bimix.settings.complete import complete

ROOT = Path(__file__).parents[2]


@functools.cache
def default() -> dict:
    return checks.merged([ROOT / "workflow/defaults.yaml", ROOT / "config.yaml"]) | {"run": ["demo"]}


def checked(**optimum: object) -> dict:
    """The demo with more under `optimum`, checked."""
    config = copy.deepcopy(default())
    config["datasets"]["demo"]["optimum"] = {**config["datasets"]["demo"]["optimum"], **optimum}
    return checks.settle(config, default(), ROOT).config


FAMILIES = {"code": ["python", "cpp"], "text": ["web"]}


def test_families_become_weights_and_the_reference_the_first_that_is_compared() -> None:
    config = checked(objective={"kind": "minimax", "families": FAMILIES, "weights": {"code": 3, "text": 1}})
    complete(config)
    block = config["datasets"]["demo"]
    assert block["optimum"]["weights"] == {"python": 1.5, "cpp": 1.5, "web": 1}
    assert block["optimum"]["objective"]["reference"] == block["compare"]["mixtures"][0] == "baseline"
    assert objective_reference(config, "demo") == ["results/demo/mixtures/baseline.json"]


def test_without_an_objective_nothing_is_waited_for() -> None:
    config = checked()
    complete(config)
    assert objective_reference(config, "demo") == []
    assert not [file for files in targets(config, "demo").values() for file in files if "pareto" in file]


def test_a_front_is_a_table_and_a_figure() -> None:
    config = checked(objective={"families": FAMILIES}, pareto=["code", {"web": 2}])
    complete(config)
    made = targets(config, "demo")
    assert "results/demo/figures/pareto.svg" in made["figures"] and "results/demo/tables/pareto.html" in made["further"]
    assert objective_pair(config, "demo") == ["code", '{"web": 2}']


def test_metrics_need_weights_or_families(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("losses.csv").write_text("mixture,step,domain,loss\na,1,web,3\nb,1,web,2\n")
    Path("mixtures.csv").write_text("mixture,web,code\na,0.5,0.5\nb,0.2,0.8\n")
    Path("metrics.csv").write_text("mixture,err\na,0.5\nb,0.4\n")
    config = copy.deepcopy(default())
    observations = {"losses": "losses.csv", "mixtures": "mixtures.csv", "metrics": "metrics.csv"}
    own = {"observations": observations, "groups": {"every": "all"}, "optimum": {"group": "every", "step": 1}}
    config["datasets"] = {"mine": own | {"held_out": [], "compare": {"mixtures": ["a", "b"]}}}
    config["run"], config["laws"] = ["mine"], config["laws"] | {"optimise": ["transfer"], "compare": ["transfer"]}
    with pytest.raises(
        InputError, match="observations/metrics: losses in nats and metrics in units of their own have no"
    ):
        checks.settle(config, default(), ROOT, (), ("mine",))
    for objective in ({"weights": {"err": 1}}, {"objective": {"families": {"all": ["err"]}}}):
        config["datasets"]["mine"]["optimum"] = {"group": "every", "step": 1, **objective}
        checks.settle(config, default(), ROOT, (), ("mine",))


@pytest.mark.parametrize("name", ["basline", "bimix", "best", "swarm_0001", "regmix"])
def test_a_centre_must_be_there_before_the_runs(name: str) -> None:
    config = copy.deepcopy(default())
    config["datasets"]["demo"]["centre"] = name
    with pytest.raises(InputError, match=f'datasets/demo/centre: no mixture "{name}"'):
        checks.settle(config, default(), ROOT)


def test_a_centre_is_read_by_optima() -> None:
    config = copy.deepcopy(default())
    complete(config)
    assert centre(config, "demo") == []
    config = copy.deepcopy(default())
    config["datasets"]["demo"]["centre"] = "uniform"
    config = checks.settle(config, default(), ROOT).config
    complete(config)
    assert centre(config, "demo") == ["results/demo/mixtures/uniform.json"]
