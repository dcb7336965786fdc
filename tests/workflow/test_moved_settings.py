"""Settings that change places with others of their kind: Snakemake compares the values of params
without their names, and inputs in no order. And settings of a job behind one that must run.
"""

import json
from pathlib import Path

import polars as pl
import pytest
import yaml
from checkout import link_checkout, planned, said
from mini_dataset import mini_config, write_checkout


def test_stages_in_another_order_are_another_mixture(tmp_path: Path) -> None:
    config = mini_config(4, 4, slim={})
    config["datasets"]["mini"]["groups"]["all"] = config["datasets"]["mini"]["compare"]["mixtures"] = ["early"]
    write_checkout(tmp_path, config, {"early": 0.6, "late": 0.3})

    def ordered(*names: str) -> str:
        stages = {"both": [{"share": 0.5, "mixture": name} for name in names]}
        config["datasets"]["mini"]["stages"] = stages
        (tmp_path / "mini.yaml").write_text(yaml.safe_dump(config))
        return "results/mini/mixtures/both.json"

    said(tmp_path, ordered("early", "late"), "--configfile", "mini.yaml")
    assert planned(tmp_path, ordered("late", "early"), "--configfile", "mini.yaml") == {"mix_stages": 1}


def test_a_bound_that_becomes_one_of_the_other_kind_is_a_change(tmp_path: Path) -> None:
    link_checkout(tmp_path)
    shares = [(f"m{number}", 0.2 + number / 10) for number in range(5)]
    rows = [
        (run, step, name, 3 - own / 2 + 10 / step)
        for run, share in shares
        for step in (50, 75, 100)
        for name, own in (("a", share), ("b", 1 - share))
    ]
    pl.DataFrame(rows, ["mixture", "step", "domain", "loss"], orient="row").write_csv(tmp_path / "losses.csv")
    pl.DataFrame([(run, x, 1 - x) for run, x in shares], ["mixture", "a", "b"], orient="row").write_csv(
        tmp_path / "mixtures.csv"
    )
    own = {
        "observations": {"losses": "losses.csv", "mixtures": "mixtures.csv"},
        "groups": {"fitted": "all"},
        "compare": {"mixtures": ["m4", "m0"]},
    }

    def bounded(**optimum: object) -> str:
        block = own | {"optimum": {"group": "fitted", "step": 100} | optimum}
        laws = {"compare": ["bimix"], "optimise": ["bimix"]}
        (tmp_path / "own.yaml").write_text(json.dumps({"run": ["own"], "laws": laws, "datasets": {"own": block}}))
        return "results/own/mixtures/bimix.json"

    said(tmp_path, bounded(upper={"a": 0.4}), "--configfile", "own.yaml")
    assert planned(tmp_path, bounded(lower={"a": 0.4}), "--configfile", "own.yaml") == {"optimize_mixture": 1}


@pytest.mark.slow
def test_rounds_with_a_budget_are_proposed_again_by_another_setting_and_not_because_runs_ended(tmp_path: Path) -> None:
    config = mini_config(4, 4, slim={})
    starts = {f"m{number}": 0.3 + number / 10 for number in range(4)}
    block = config["datasets"]["mini"]
    block["groups"], block["optimum"]["group"] = {"all": ["m0"]}, "search"
    block["search"] = {"start": list(starts), "rounds": 1, "budget": "900%"}
    block["compare"]["mixtures"] = ["m0", "found"]
    config["laws"] = {"compare": ["transfer"], "optimise": ["transfer"]}
    write_checkout(tmp_path, config, starts)

    def asked(**changes: float) -> tuple[str, ...]:
        config["datasets"]["mini"]["search"] |= changes
        (tmp_path / "mini.yaml").write_text(yaml.safe_dump(config))
        return "results/mini/search/slim/1/next.csv", "results/mini/plan.csv", "--configfile", "mini.yaml"

    said(tmp_path, *asked())
    assert planned(tmp_path, *asked()) == {"plan_runs": 1}  # as runs have ended
    config["models"]["slim"]["launch"]["threads"] = 2
    assert planned(tmp_path, *asked()) == {"plan_runs": 1}
    assert planned(tmp_path, *asked(least=0.2)) == {"plan_runs": 1, "propose_round": 1}
