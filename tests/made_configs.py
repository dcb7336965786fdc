"""The workflow's own config with changes, settled or refused."""

import copy
import functools
from collections.abc import Callable, Sequence
from pathlib import Path

from bimix.errors import InputError
from bimix.plan.dataset import Dataset
from bimix.settings.files import ConfigFile
from bimix.settings.layers import merged
from bimix.settings.prepare import Prepared, settled

ROOT = Path(__file__).parents[1]
# The workflow's own config, with a demo that fits its laws once.
FITTED_ONCE = [ROOT / "workflow/defaults.yaml", ROOT / "tests/fitted_once.yaml"]


@functools.cache
def default() -> dict:
    return merged(FITTED_ONCE)


def whole(change: Callable[[dict], object] | None = None) -> dict:
    config = copy.deepcopy(default())
    if change:
        change(config)
    return config


def demo(config: dict) -> dict:
    return config["datasets"]["demo"]


def two_sizes(config: dict) -> None:
    """The proxy and another are fitted, and target is optimised for."""
    block = demo(config)
    config["models"]["small"] = copy.deepcopy(config["models"]["proxy"])
    config["models"]["small"]["shape"]["layers"] += 1
    block["training"]["small"] = dict(block["training"]["proxy"])
    block["optimum"] = {"models": ["small", "proxy"], "group": "entropy"}
    block["compare"]["mixtures"] = ["baseline", "uniform", "transfer"]
    block["held_out"] = []
    config["laws"]["optimise"] = ["transfer"]


def ready(config: dict, wanted: Sequence[str] = (), files: Sequence[Path] = ()) -> Prepared:
    return settled({"run": ["demo"]} | config, ROOT, list(map(ConfigFile, files)), wanted)


def made(config: dict, wanted: Sequence[str] = ()) -> dict:
    """The config as rules read it."""
    return ready(config, wanted).config


@functools.cache
def complete(change: Callable[[dict], object] | None) -> dict:
    return made(whole(change))


def demo_dataset(change: Callable[[dict], object] | None = None) -> Dataset:
    """The demo for planning; a change that is a function of a module is completed once."""
    return Dataset(copy.deepcopy(complete(change)), "demo")


def said(config: dict, files: Sequence[Path] = (), wanted: Sequence[str] = ()) -> list[str]:
    """The lines in which a config is refused, none where it is taken."""
    try:
        ready(config, wanted, files)
    except InputError as error:
        lines = str(error).splitlines()
        return [line.strip() for line in lines[1:]] if len(lines) > 1 else [lines[0].removeprefix("config: ")]
    return []
