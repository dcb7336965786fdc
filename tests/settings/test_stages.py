"""What a config may say of stages, and each fault in one sentence."""

import copy
import json
from pathlib import Path

import pytest

from bimix.errors import InputError
from bimix.settings import checks

ROOT = Path(__file__).parents[2]
DEFAULT = checks.merged([ROOT / "workflow/defaults.yaml", ROOT / "config.yaml"]) | {"run": ["demo"]}


def demo(config: dict) -> dict:
    return config["datasets"]["demo"]


def said(change) -> str:
    """The lines in which the changed config is refused."""
    config = copy.deepcopy(DEFAULT)
    change(config)
    try:
        checks.settle(config, DEFAULT, ROOT)
    except InputError as error:
        return str(error)
    return ""


def staged(*mixtures: str, shares: tuple = (0.8, 0.2)) -> list[dict]:
    return [{"share": share, "mixture": name} for share, name in zip(shares, mixtures, strict=True)]


def with_stages(config: dict) -> None:
    """Two fits: the second stage of runs that begin alike is optimised, and put behind it."""
    block = demo(config)
    block["stages"] = {
        "late_se": staged("ce", "se"),
        "late_uniform": staged("ce", "uniform"),
        "late_baseline": staged("ce", "baseline"),
        "late_optimum": staged("ce", "bimix"),
    }
    block["groups"]["second"] = ["late_se", "late_uniform", "late_baseline"]
    block["held_out"] = []
    block["optimum"].pop("max_epochs", None)
    block["optimum"] |= {"group": "second", "stage": 2}
    block["compare"]["mixtures"] = ["baseline", "late_optimum"]


def test_stages_and_their_optimum_are_taken() -> None:
    assert said(with_stages) == ""


def test_a_reference_in_stages_of_ones_own_file_is_refused_when_the_config_is_read(tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    own.write_text(
        json.dumps({"stages": [{"share": 0.5, "mixture": {"code": 1}}, {"share": 0.5, "mixture": {"docs": 1}}]})
    )

    def change(config: dict) -> None:
        demo(config).update(mixture_files={"own": str(own)}, methods=["own", "ce"])

    assert "methods: own has stages, and what others are measured against" in said(change)
    own.write_text(json.dumps({"code": 1}))
    assert said(change) == ""


HELD = "datasets/demo/compare/mixtures: late_optimum has stages, and theirs gets its mixtures in the format csv"


@pytest.mark.parametrize(("form", "sentence"), [("csv", HELD), ("nanotron", ""), (None, "")])
def test_a_trainer_whose_format_holds_one_mixture_trains_on_no_stages(form: str | None, sentence: str) -> None:
    def change(config: dict) -> None:
        with_stages(config)
        config["models"]["theirs"] = {
            "command": "train {mixture} {folder}",
            "parameters": 1000,
            "losses": {"table": "{folder}/losses.csv"},
            "launch": {"nodes": 1, "gpus": 0, "threads": 1},
        } | ({"format": form} if form else {})
        block = demo(config)
        block["training"]["theirs"] = dict(block["training"][block["compare"]["model"]])
        block["compare"]["model"] = "theirs"
        block.pop("downstream", None)

    found = said(change)
    assert sentence in found if sentence else found == ""
