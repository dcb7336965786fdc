"""Checks of a model: its shape, or the command that trains it and where that leaves its losses."""

import re
from collections.abc import Iterator
from pathlib import Path

from bimix.names import named
from bimix.plan.dataset import LAUNCHED
from bimix.settings.faults import Fault
from bimix.settings.models import Losses, Model, Shape

HOLE = "{domain}"
# What goes with each way in which a command may leave its losses.
TAKES = {"table": (), "lines": ("step", "loss"), "trainer_state": ("loss",), "pattern": ("file",)}


def check_model(model: Model) -> Iterator[Fault]:
    """Faults of a model with a launch, and a shape or a command, in which nothing is refused."""
    given = model.launch.model_fields_set
    if model.shape:
        yield from check_shape(model.shape)
        for key, usual in LAUNCHED.items():
            if not usual and key not in given:
                yield Fault(("launch", key), "the key is missing; a model with a `shape` needs it.")
        return
    for key in LAUNCHED:
        if key in given:
            yield Fault(("launch", key), "a command is not given it: take it away.")
    from bimix.training.command import fault  # brings polars

    if model.command and (sentence := fault(model.command)):
        yield Fault(("command",), sentence)
    if model.losses and (found := loss_fault(model.losses)):
        yield Fault(("losses", found[0]), found[1])


def check_shape(shape: Shape) -> Iterator[Fault]:
    """What `bimix.model.transformer.Shape` refuses."""
    width, heads, key = shape.width, shape.heads, ("shape", "width")
    if width is None or heads is None:
        return
    if width % heads:
        yield Fault(key, f"{width} is not a multiple of heads, {heads}.")
    elif width // heads < 8 or width // heads // 4 % 2:
        sentence = (
            f"a quarter of the width of a head, {width} / {heads} = {width // heads}, must be even for the rotary"
        )
        yield Fault(key, f"{sentence} embedding; take a multiple of {8 * heads}.")


def loss_fault(losses: Losses) -> tuple[str, str] | None:
    """(key, sentence) of what is wrong with a model's `losses`, or None."""
    from bimix.training.command import FOLDER

    given = {key: getattr(losses, key) for key in losses.model_fields_set}
    ways = [way for way in TAKES if way in given]
    if len(ways) != 1:  # reported as such
        return None
    (way,) = ways
    for key in given:
        if key not in (way, *TAKES[way]):
            return key, f"it does not go with {way}, which takes {named(TAKES[way])}."
    path = given.get("file", FOLDER) if way == "pattern" else given[way]
    if not path.startswith(FOLDER) or ".." in Path(path).parts:
        return ("file" if way == "pattern" else way), f"it must begin with {FOLDER}: each run has a file of its own."
    if "loss" in TAKES[way]:
        loss = losses.loss
        if loss is None:
            return "loss", f"the key is missing; name the metric of each domain, or one with {HOLE} for all."
        if way == "trainer_state" and not isinstance(loss, str):
            return "loss", f"of trainer_state it is one name with {HOLE}, as eval_{HOLE}_loss."
        if isinstance(loss, str) and loss.count(HOLE) != 1:
            return "loss", f"{loss!r} needs {HOLE} once, as in eval/{HOLE}/loss; or name the metric of each domain."
    forms = losses.pattern if way == "pattern" else {}
    groups = {"step", "loss"} if isinstance(forms, dict) else {"step", "loss", "domain"}
    for form in forms.values() if isinstance(forms, dict) else [forms]:
        try:
            lacking = sorted(groups - re.compile(form).groupindex.keys())
        except re.error as error:
            return "pattern", f"{form!r} is no regular expression: {error}."
        if lacking:
            return "pattern", f"{form!r} has no group (?P<{lacking[0]}>...); it needs {named(sorted(groups))}."
    return None
