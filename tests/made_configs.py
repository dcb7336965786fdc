"""The workflow's own config with changes, settled or refused."""

import copy
import functools
from collections.abc import Callable, Sequence
from pathlib import Path

from bimix.errors import InputError
from bimix.settings.complete import expanded
from bimix.settings.files import read_config_file
from bimix.settings.layers import merged
from bimix.settings.prepare import Prepared, settled

ROOT = Path(__file__).parents[1]
DEFAULTS = ROOT / "workflow/defaults.yaml"


def fitted_once(config: dict) -> dict:
    """`config` with a demo without a search: laws fitted once, for the plain mean."""
    block = demo(config)
    del block["search"]
    block["groups"]["held_out"] = ["baseline", "uniform"]
    block["training"]["proxy"]["steps"] = 400
    block["optimum"] = {"model": "proxy", "group": "entropy", "step": 400}
    block["compare"]["mixtures"] = ["baseline", "uniform", "ce", "bimix", "transfer"]
    block["held_out"] = ["held_out"]
    return config


@functools.cache
def default() -> dict:
    return fitted_once(merged([DEFAULTS, ROOT / "config.yaml"])) | {"run": ["demo"]}


def whole(change: Callable[[dict], object] | None = None) -> dict:
    config = copy.deepcopy(default())
    if change:
        change(config)
    return config


def demo(config: dict) -> dict:
    return config["datasets"]["demo"]


def ready(config: dict, wanted: Sequence[str] = (), files: Sequence[Path] = ()) -> Prepared:
    return settled({"run": ["demo"]} | config, default(), ROOT, list(map(read_config_file, files)), wanted)


def made(config: dict, wanted: Sequence[str] = ()) -> dict:
    """The config as rules read it."""
    return expanded(ready(config, wanted).config)


def said(config: dict, files: Sequence[Path] = (), wanted: Sequence[str] = ()) -> list[str]:
    """The lines in which a config is refused, none where it is taken."""
    try:
        ready(config, wanted, files)
    except InputError as error:
        lines = str(error).splitlines()
        return [line.strip() for line in lines[1:]] if len(lines) > 1 else [lines[0].removeprefix("config: ")]
    return []
