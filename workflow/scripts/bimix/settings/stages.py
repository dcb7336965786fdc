"""The checks of `stages`, mixtures of others one after the other, and of `optimum/stage`."""

import contextlib
import math

from bimix.errors import InputError
from bimix.exports.formats import FORMATS
from bimix.mixtures.mixture import SUM_TOLERANCE, is_staged
from bimix.names import unknown
from bimix.settings.block import BlockChecker
from bimix.settings.complete import known_mixtures, swarm_names
from bimix.tables import read_json


def check_stages(checker: BlockChecker) -> None:
    """Of a block that trains, and a config whose `mixtures` and `laws/optimise` are sound.

    Faults: shares that do not sum to one; a stage that nothing makes, or that has stages; a name
    that stands under `mixture_files`, too; a reference in stages, also in a file of the user's;
    groups that laws cannot be fitted to; runs of a trainer whose format holds one mixture.
    """
    if checker.sound("stages"):
        for name in checker.block["stages"]:
            _check(checker, name)
    _references(checker, staged_names(checker))
    if checker.sound("stages") and checker.sound_elsewhere("models"):
        _formats(checker)
    if checker.sound("groups", "optimum") and ("stages" not in checker.block or checker.sound("stages")):
        _fitted(checker)


def _check(checker: BlockChecker, name: str) -> None:
    """One mixture in stages."""
    block, stages = checker.block, checker.block["stages"][name]
    known = known_mixtures(checker.config, checker.dataset, checker.checker.code)
    known += swarm_names(checker.config, checker.dataset) if checker.sound("swarm") else []
    total = math.fsum(stage["share"] for stage in stages)
    if abs(total - 1) > SUM_TOLERANCE:
        checker.fault("stages", name, sentence=f"the shares of its stages sum to {total:.9g}, not to 1.")
    if name in (block.get("mixture_files") or {}):
        checker.fault("stages", name, sentence="it is the name of a mixture under `mixture_files`; take another.")
    for number, stage in enumerate(stages):
        key = ("stages", name, number, "mixture")
        if stage["mixture"] in block["stages"]:
            checker.fault(*key, sentence=f"{stage['mixture']} has stages itself; write all stages in one list.")
        elif stage["mixture"] not in known:
            sentence = unknown("mixture", stage["mixture"], known, "the dataset knows")
            checker.fault(*key, sentence=sentence)


def staged_names(checker: BlockChecker) -> set[str]:
    """Mixtures that have stages: under `stages`, or in a file of the user's that is there."""
    found = set(checker.block["stages"]) if checker.sound("stages") else set()
    for name, path in checker.block["mixture_files"].items() if checker.sound("mixture_files") else ():
        with contextlib.suppress(InputError):  # a table; or said where it is read
            if is_staged(read_json(path)):
                found.add(name)
    return found


def _references(checker: BlockChecker, staged: set[str]) -> None:
    """Mixtures that optima and weights are measured against, or drawn around, whose proportions are
    read.
    """
    block = checker.block
    named: list[tuple[tuple[str | int, ...], object]] = []
    if checker.sound("compare/mixtures"):
        named += [(("compare", "mixtures", 0), name) for name in block["compare"]["mixtures"][:1]]
    if checker.sound("methods"):
        named += [(("methods", 0), name) for name in block["methods"][:1]]
    if checker.sound("centre"):
        named.append((("centre",), block["centre"]))
    if checker.sound("optimum/objective"):
        named.append((("optimum", "objective", "reference"), block["optimum"]["objective"].get("reference")))
    if checker.sound("reweighting"):
        named.append((("reweighting", "reference"), block["reweighting"].get("reference")))
    for key, name in named:
        if name in staged:
            sentence = f"{name} has stages, and what others are measured against is one mixture for the whole run."
            checker.fault(*key, sentence=sentence)


def _formats(checker: BlockChecker) -> None:
    """Runs on stages of models that a command trains, whose format is that of one mixture."""
    block, models = checker.block, checker.config["models"]
    lists: list[tuple[tuple[str, ...], list[str], list[str]]] = []
    if checker.sound("compare/model", "compare/mixtures"):
        lists.append((("compare", "mixtures"), [block["compare"]["model"]], block["compare"]["mixtures"]))
        lists.append((("methods",), [block["compare"]["model"]], block["methods"] if checker.sound("methods") else []))
    if checker.sound("optimum", "groups"):
        fitted = block["optimum"].get("models") or [block["optimum"]["model"]]
        for group in dict.fromkeys(
            [block["optimum"]["group"], *(block["held_out"] if checker.sound("held_out") else [])]
        ):
            lists.append((("groups", group), fitted, block["groups"].get(group, [])))
    for key, trained, names in lists:
        for number, name in enumerate(names):
            for model in trained if name in block["stages"] else ():
                form = models.get(model, {}).get("format")
                if form and not FORMATS[form].stages:
                    able = ", ".join(one for one, other in FORMATS.items() if other.stages)
                    checker.fault(
                        *key,
                        number,
                        sentence=f"{name} has stages, and {model} gets its mixtures in the format {form}, which holds one:"
                        f" take {able}, or no format.",
                    )


def _fitted(checker: BlockChecker) -> None:
    """The groups that laws are fitted to and scored on: none has stages, or all have the same but
    for the mixture of the stage that is optimised.
    """
    block, optimum, staged = checker.block, checker.block["optimum"], checker.block.get("stages", {})
    held_out = block["held_out"] if checker.sound("held_out") else []
    for group in dict.fromkeys([optimum.get("group"), *held_out]):
        own = block["groups"].get(group, [])
        if group == "compare" and checker.sound("compare"):
            own = block["compare"]["mixtures"]
        names = [name for name in own if isinstance(name, str)]
        if "stage" not in optimum:
            for number, name in enumerate(names):
                if name in staged:
                    checker.fault(
                        *(("compare", "mixtures") if group == "compare" else ("groups", group)),
                        number,
                        sentence=f"{name} has stages, and a law reads one mixture of each run: say under `optimum/stage`"
                        " which of them differs between the runs.",
                    )
        elif fault := _differing(names, staged, optimum["stage"]):
            checker.fault("optimum", "stage", sentence=f"the group {group}: {fault}")
    if "stage" in optimum:
        _beside(checker)


def _differing(names: list[str], staged: dict, number: int) -> str | None:
    """Why the mixtures are no runs that differ in their stage of that number alone, from 1."""
    first = None
    for name in names:
        if name not in staged:
            return f"{name} is not under `stages`; each run must have a stage {number}."
        if number > len(staged[name]):
            return f"{name} has {len(staged[name])} stages."
        rest = [(stage["share"], place == number or stage["mixture"]) for place, stage in enumerate(staged[name], 1)]
        if first is not None and rest != first:
            return f"{name} differs from {names[0]} in more than the mixture of stage {number}."
        first = rest
    return None


def _beside(checker: BlockChecker) -> None:
    """What a law of a stage cannot say."""
    optimum = checker.block["optimum"]
    for key in ("models", "max_epochs"):
        if key in optimum:
            sentence = "counts a run on one mixture, and `stage` optimises a part of a run: take one of them away."
            checker.fault("optimum", key, sentence=f"it {sentence}")
