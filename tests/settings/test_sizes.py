"""What a config may say of models of several sizes, each fault in one sentence."""

import copy
import functools
from pathlib import Path

import pytest

from bimix.errors import InputError
from bimix.plan.runs import weights_of
from bimix.settings import checks
from bimix.settings.complete import complete

ROOT = Path(__file__).parents[2]


@functools.cache
def default() -> dict:
    return checks.merged([ROOT / "workflow/defaults.yaml", ROOT / "config.yaml"]) | {"run": ["demo"]}


def small_ones(config: dict) -> None:
    """Tiny and small are fitted, and larger is optimised for."""
    demo = config["datasets"]["demo"]
    config["models"]["small"] = copy.deepcopy(config["models"]["tiny"])
    config["models"]["small"]["shape"]["layers"] += 1
    demo["training"]["small"] = dict(demo["training"]["tiny"])
    demo["optimum"] = {"models": ["tiny", "small"], "group": "entropy"}
    demo["compare"]["mixtures"] = ["baseline", "uniform", "transfer"]
    demo["held_out"] = []
    demo.pop("methods", None)
    config["laws"]["optimise"] = ["transfer"]


def checked(change=lambda config: None) -> tuple[dict, list[str]]:
    """The config with that change, filled, and the remarks on it."""
    config = copy.deepcopy(default())
    small_ones(config)
    change(config)
    ready = checks.settle(config, default(), ROOT, (), ["demo"])
    return ready.config, ready.remarks


def demo(config: dict) -> dict:
    return config["datasets"]["demo"]


def test_two_models_and_a_third_are_taken() -> None:
    config, remarks = checked()
    assert remarks == []
    complete(config)
    optimum = demo(config)["optimum"]
    assert (optimum["model"], optimum["for"], optimum["step"]) == ("tiny+small", "larger", 160)
    assert "+" not in "".join(config["models"])


def test_names_that_are_too_long_together_are_refused() -> None:
    def rename(config: dict) -> None:
        long = "small" * 20
        config["models"][long] = config["models"].pop("small")
        demo(config)["training"][long] = demo(config)["training"].pop("small")
        demo(config)["optimum"]["models"] = ["tiny", long]

    with pytest.raises(InputError, match="optimum/models: their names joined have 105 letters"):
        checked(rename)


def test_what_is_left_out_is_a_remark() -> None:
    def change(config: dict) -> None:
        config["laws"]["optimise"] = ["bimix", "transfer"]
        demo(config)["optimum"]["for"] = "small"
        demo(config)["held_out"] = ["held_out"]

    said = "\n".join(checked(change)[1])
    assert "bimix (in laws/optimise) is fitted to losses of one size of model, and left out here." in said
    assert "`compare` trains larger: what is predicted of small is not measured." in said
    assert "held_out: a law over sizes is not scored on held-out groups" in said


def test_the_compared_mixtures_have_the_laws_over_sizes_only() -> None:
    def change(config: dict) -> None:
        config["laws"]["optimise"] = ["bimix", "transfer"]
        del demo(config)["compare"]["mixtures"]

    assert demo(checked(change)[0])["compare"]["mixtures"] == ["baseline", "uniform", "ce", "transfer"]


def test_models_of_several_sizes_are_ordered_by_size_whatever_their_order_in_the_config() -> None:
    def swapped(config: dict) -> None:
        demo(config)["optimum"]["models"] = ["small", "tiny"]  # small has a layer more

    config, _ = checked(swapped)
    complete(config)
    assert demo(config)["optimum"]["models"] == ["tiny", "small"]
    assert demo(config)["optimum"]["model"] == "tiny+small"
    assert weights_of({"parameters": 5}) == 5 < weights_of({"shape": {"layers": 1, "width": 2, "heads": 1}}) == 48
