"""Checks of `stages`, mixtures one after the other, and of an optimum in one stage."""

import contextlib
import math
from collections.abc import Iterator

from bimix.exports.formats import FORMATS
from bimix.names import unknown
from bimix.settings.expand import mixture_lists
from bimix.settings.faults import Fault
from bimix.settings.scope import Scope

SHARES = 1e-6  # by which shares of stages may miss 1
Faults = Iterator[Fault]


def check_stages(scope: Scope) -> Faults:
    """Shares that do not sum to one, a stage that nothing makes or that has stages, a name that
    stands under `mixture_files`, too.
    """
    known, stages = scope.known + scope.swarm, scope.block.stages
    for name, own in stages.items():
        total = math.fsum(stage.share for stage in own)
        if abs(total - 1) > SHARES:
            yield Fault(("stages", name), f"the shares of its stages sum to {total:.9g}, not to 1.")
        if name in (scope.block.mixture_files or {}):
            yield Fault(("stages", name), "it is the name of a mixture under `mixture_files`; take another.")
        for number, stage in enumerate(own):
            key = ("stages", name, number, "mixture")
            if stage.mixture in stages:
                yield Fault(key, f"{stage.mixture} has stages itself; write all stages in one list.")
            elif stage.mixture not in known:
                yield Fault(key, unknown("mixture", stage.mixture, known, "the dataset knows"))


def check_staged_references(scope: Scope) -> Faults:
    """Mixtures whose proportions are read, as others are measured against them or drawn around
    them, are one for the whole run.
    """
    block = scope.block
    given = [(("centre",), block.centre)]
    given += [((*key, 0), names[0]) for key, names in mixture_lists(scope.own)]
    given = [one for one in given if one[0][0] not in ("groups", "search")]
    if block.optimum.objective:
        given.append((("optimum", "objective", "reference"), block.optimum.objective.reference))
    if block.reweighting:
        given.append((("reweighting", "reference"), block.reweighting.reference))
    staged = {*(block.stages or ()), *staged_files(block.mixture_files or {})}
    for key, name in given:
        if name in staged:
            sentence = f"{name} has stages, and what others are measured against is one mixture for the whole run."
            yield Fault(key, sentence)


def staged_files(files: dict[str, str]) -> Iterator[str]:
    """Mixtures of the user's files that have stages; what is wrong with a file is reported where it
    is read.
    """
    if files:  # these bring polars, a quarter of a second of each call of Snakemake
        from bimix.errors import InputError
        from bimix.mixtures.mixture import is_staged
        from bimix.tables import read_json
    for name, path in files.items():
        with contextlib.suppress(InputError):
            if is_staged(read_json(path)):
                yield name


def check_staged_formats(scope: Scope) -> Faults:
    """Runs on stages of models that a command trains, whose format is that of one mixture."""
    block, models = scope.block, scope.config.models
    fitted = block.optimum.models or [block.optimum.model]
    groups = dict.fromkeys([block.optimum.group, *block.held_out])
    lists = [(("groups", group), fitted, scope.group(group) or []) for group in groups]
    lists.append((("compare", "mixtures"), [block.compare.model], block.compare.mixtures))
    lists.append((("methods",), [block.compare.model], block.methods or []))
    able = ", ".join(name for name, form in FORMATS.items() if form.stages)
    for key, trained, names in lists:
        for number, name in enumerate(names):
            for model in trained if name in block.stages else ():
                form = models[model].format if model in models else None
                if form and not FORMATS[form].stages:
                    yield Fault(
                        (*key, number),
                        f"{name} has stages, and {model} gets its mixtures in the format {form}, which holds one: take"
                        f" {able}, or no format.",
                    )


def check_fitted_stages(scope: Scope) -> Faults:
    """The groups that laws are fitted to and scored on: none has stages, or all have the same but
    for the mixture of the stage that is optimised.
    """
    block, staged = scope.block, scope.block.stages or {}
    number = block.optimum.stage
    for group in dict.fromkeys([block.optimum.group, *block.held_out]):
        compared = group == "compare"
        names = block.compare.mixtures if compared else scope.group(group) or []
        if number is not None:
            if fault := _differing(names, staged, number):
                yield Fault(("optimum", "stage"), f"the group {group}: {fault}")
            continue
        key = ("compare", "mixtures") if compared else ("groups", group)
        for place, name in enumerate(names):
            if name in staged:
                sentence = f"{name} has stages, and a law reads one mixture of each run: say under `optimum/stage`"
                yield Fault((*key, place), f"{sentence} which of them differs between the runs.")
    for name in ("models", "max_epochs") if number is not None else ():
        if getattr(block.optimum, name) is not None:
            sentence = "it counts a run on one mixture, and `stage` optimises a part of a run: take one of them away."
            yield Fault(("optimum", name), sentence)


def _differing(names: list[str], staged: dict, number: int) -> str | None:
    """Why the mixtures are no runs that differ in their stage of that number alone, from 1."""
    first = None
    for name in names:
        if name not in staged:
            return f"{name} is not under `stages`; each run must have a stage {number}."
        if number > len(staged[name]):
            return f"{name} has {len(staged[name])} stages."
        rest = [(stage.share, place == number or stage.mixture) for place, stage in enumerate(staged[name], 1)]
        if first is not None and rest != first:
            return f"{name} differs from {names[0]} in more than the mixture of stage {number}."
        first = rest
    return None
