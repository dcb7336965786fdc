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


@pytest.mark.parametrize(
    ("optimum", "sentence"),
    [
        ({"objective": {"kind": "minmax"}}, "did you mean minimax?"),
        ({"objective": {"families": {"code": ["pyton"]}}}, 'objective/families/code: no loss of "pyton"; did you'),
        ({"objective": {"families": {"a": ["web"], "b": ["web"]}}}, "families/b: web is in a as well"),
        ({"objective": {"families": {"code": []}}}, "objective/families/code: "),
        ({"objective": {"families": FAMILIES, "weights": {"web": 1}}}, 'objective/weights/web: no family "web"'),
        ({"objective": {"weights": {"wep": 1}}}, 'objective/weights/wep: no loss of "wep"; did you mean web?'),
        ({"objective": {"weights": {"web": 0}}}, "optimum/objective/weights: all weights are 0"),
        ({"weights": {"web": 0}}, "optimum/weights: all weights are 0"),
        ({"weights": {"web": 1}, "objective": {"families": FAMILIES}}, "optimum/weights: `objective` has weights"),
        ({"objective": {"margin": 0.1}}, "objective/margin: it is of the kind no_worse_than; weighted has none."),
        ({"objective": {"kind": "no_worse_than", "margin": -1}}, "objective/margin: "),
        ({"objective": {"kind": "minimax", "reference": "basline"}}, 'reference: no mixture "basline"; did you mean'),
        ({"objective": {"kind": "minimax", "reference": "bimix"}}, 'objective/reference: no mixture "bimix"'),
        ({"objective": {"trust": {"kl": 0.1}}}, "trust/kl: unknown key"),
        ({"objective": {"trust": {"most_kl": 0}}}, "trust/most_kl: "),
        ({"pareto": ["web"]}, "optimum/pareto: "),
        ({"pareto": ["web", "web"]}, "optimum/pareto: both objectives are the same"),
        ({"pareto": ["web", "coed"]}, 'optimum/pareto: no family or loss of "coed"'),
        ({"pareto": ["web", {"pyton": 1}]}, 'pareto/pyton: no loss of "pyton"'),
    ],
)
def test_a_fault_of_an_objective_is_one_sentence_with_its_key(optimum: dict, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        checked(**optimum)
    lines = str(refused.value).splitlines()
    assert any(sentence in line for line in lines), lines
    assert len(lines) == 1


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


def test_an_optimum_is_no_reference_by_default() -> None:
    config = copy.deepcopy(default())
    config["datasets"]["demo"]["compare"]["mixtures"] = ["bimix", "baseline"]
    config["datasets"]["demo"]["optimum"] = {**config["datasets"]["demo"]["optimum"], "objective": {"kind": "minimax"}}
    with pytest.raises(InputError, match="`reference` is missing; name one: the first mixture under `compare`, bimix"):
        checks.settle(config, default(), ROOT)
    config["datasets"]["demo"]["optimum"]["objective"]["reference"] = "baseline"
    checks.settle(config, default(), ROOT)
    config["datasets"]["demo"]["optimum"]["objective"]["reference"] = "uniform"
    with pytest.raises(InputError, match="reference: uniform is not under `compare/mixtures`: add it"):
        checks.settle(config, default(), ROOT)


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


def test_a_trust_region_of_observed_losses_needs_their_tokens(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("losses.csv").write_text("mixture,step,domain,loss\na,1,web,3\nb,1,web,2\n")
    Path("mixtures.csv").write_text("mixture,web,code\na,0.5,0.5\nb,0.2,0.8\n")
    Path("tokens.csv").write_text("domain,tokens\nweb,10\ncode,5\n")
    config = copy.deepcopy(default())
    observations = {"losses": "losses.csv", "mixtures": "mixtures.csv"}
    optimum = {"group": "every", "step": 1, "objective": {"trust": {"most_kl": 0.1}, "reference": "a"}}
    own = {"observations": observations, "groups": {"every": "all"}, "optimum": optimum, "held_out": []}
    config["datasets"] = {"mine": own | {"compare": {"mixtures": ["a"]}}}
    config["run"] = ["mine"]
    with pytest.raises(InputError, match="objective/trust: name a table of domain and tokens as `tokens`"):
        checks.settle(config, default(), ROOT)
    observations["tokens"] = "tokens.csv"
    checks.settle(config, default(), ROOT)
    optimum["objective"]["reference"] = "b"
    with pytest.raises(InputError, match='objective/reference: no mixture "b"'):
        checks.settle(config, default(), ROOT)


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
