"""What a config may not ask of a model that a command trains. Such are keys of its block that do
not go together, and stages that need weights: it leaves none where they are known.

Faults are pairs of a key below the block and a sentence.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from bimix.names import named
from bimix.plan.runs import weights_of
from bimix.plan.trainings import LAUNCHED
from bimix.training import command_template as template
from bimix.training.command_template import FOLDER, WAYS

HOLE = "{domain}"
OWN = [key for key, usual in LAUNCHED.items() if not usual]  # of `launch`, that a shape needs
WEIGHTS = {
    "downstream": "answers questions with its weights",
    "swarm": "is trained in one process with others",
    "reweighting": "weighs domains while it trains",
}
Fault = tuple[tuple[str, ...], str]


def of_model(model: Mapping) -> Iterator[Fault]:
    """Faults of a block under `models` in which the schema finds none."""
    if "shape" in model:
        for key in OWN:
            if key not in model["launch"]:
                yield ("launch", key), "the key is missing; a model with a `shape` needs it."
        return
    for key in LAUNCHED:
        if key in model["launch"]:
            yield ("launch", key), "a command does not hear of it: take it away."
    complaint = template.fault(model["command"])
    if complaint is not None:
        yield ("command",), complaint
    of_losses = _fault_of_losses(model["losses"])
    if of_losses is not None:
        yield ("losses", of_losses[0]), of_losses[1]


def of_dataset(block: Mapping, models: Mapping) -> Iterator[Fault]:
    """Faults of a dataset's block, which may have others: `models` as the config has them."""
    commands = {
        name: model["command"]
        for name, model in models.items()
        if isinstance(model, Mapping) and isinstance(model.get("command"), str)
    }
    for stage, what in WEIGHTS.items():
        own = block.get(stage)
        if isinstance(own, Mapping) and isinstance(own.get("model"), str) and own["model"] in commands:
            yield (stage, "model"), f"{own['model']} is trained by a command; a model that {what} needs a `shape`."
    trained = block.get("training")
    trained = [name for name in trained if name in commands] if isinstance(trained, Mapping) else []
    if trained and block.get("simulate_epochs"):
        yield (
            ("simulate_epochs",),
            f"{trained[0]} is trained by a command, which reads all the text there is: take it away.",
        )
    seeds = block.get("seeds")
    for name in seeds if isinstance(seeds, Mapping) else ():
        if name in commands and "{seed}" not in commands[name]:
            yield ("seeds", name), "its command never says {seed}: all of its seeds would be one run."
    optimum = block.get("optimum")
    proxy = _proxy(optimum, models) if isinstance(optimum, Mapping) else None
    if proxy in commands:
        for key, names in _lists(block):
            if "chameleon" in names:
                yield key, f"chameleon embeds the domains by the weights of {proxy}, which a command trains."


def _proxy(optimum: Mapping, models: Mapping) -> str | None:
    """The smallest model of an optimum's runs."""
    several = optimum.get("models")
    names = several if isinstance(several, list) and several else [optimum.get("model")]
    known = [name for name in names if isinstance(name, str) and isinstance(models.get(name), Mapping)]
    return min(known, key=lambda name: weights_of(models[name]), default=None)


def _lists(block: Mapping) -> Iterator[tuple[tuple[str, ...], list]]:
    """Lists of mixtures in a dataset's block."""
    groups, compare = block.get("groups"), block.get("compare")
    for name, names in groups.items() if isinstance(groups, Mapping) else ():
        yield ("groups", name), names if isinstance(names, list) else []
    if isinstance(compare, Mapping) and isinstance(compare.get("mixtures"), list):
        yield ("compare", "mixtures"), compare["mixtures"]
    if isinstance(block.get("methods"), list):
        yield ("methods",), block["methods"]


def _fault_of_losses(asked: Mapping) -> tuple[str, str] | None:
    """(key, sentence) of what is wrong with a model's `losses` that the schema cannot say, or
    None.
    """
    way = next(way for way in WAYS if way in asked)
    takes = {"table": (), "lines": ("step", "loss"), "trainer_state": ("loss",), "pattern": ("file",)}[way]
    for key in asked:
        if key not in (way, *takes):
            return key, f"it does not go with {way}, which takes {named(takes)}."
    path = asked.get("file", FOLDER) if way == "pattern" else asked[way]
    if not path.startswith(FOLDER) or ".." in Path(path).parts:
        return ("file" if way == "pattern" else way), f"it must begin with {FOLDER}: each run has a file of its own."
    if "loss" in takes:
        loss = asked.get("loss")
        if loss is None:
            return "loss", f"the key is missing; name the metric of each domain, or one with {HOLE} for all."
        if way == "trainer_state" and not isinstance(loss, str):
            return "loss", f"of trainer_state it is one name with {HOLE}, as eval_{HOLE}_loss."
        if isinstance(loss, str) and loss.count(HOLE) != 1:
            return "loss", f"{loss!r} needs {HOLE} once, as in eval/{HOLE}/loss; or name the metric of each domain."
    if way == "pattern":
        return _fault_of_pattern(asked["pattern"])
    return None


def _fault_of_pattern(forms: str | Mapping[str, str]) -> tuple[str, str] | None:
    groups = {"step", "loss"} if isinstance(forms, Mapping) else {"step", "loss", "domain"}
    for form in forms.values() if isinstance(forms, Mapping) else [forms]:
        try:
            names = re.compile(form).groupindex
        except re.error as error:
            return "pattern", f"{form!r} is no regular expression: {error}."
        lacking = sorted(groups - names.keys())
        if lacking:
            return "pattern", f"{form!r} has no group (?P<{lacking[0]}>...); it needs {named(sorted(groups))}."
    return None
