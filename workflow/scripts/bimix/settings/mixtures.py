"""Checks of the mixtures of a dataset of text: those that lists name, of a search, in stages."""

import contextlib
import math
from collections.abc import Iterator

from bimix.exports.formats import FORMATS
from bimix.laws.table import LAWS, is_optimum
from bimix.names import unknown
from bimix.plan.dataset import evaluations
from bimix.plan.sources import BEST, GROUP, REWEIGHTING, counts_runs, search_runs
from bimix.settings.complete import mixture_lists
from bimix.settings.faults import Fault
from bimix.settings.scope import Scope

SHARES = 1e-6  # by which shares of stages may miss 1
Faults = Iterator[Fault]


def check_mixtures(scope: Scope) -> Faults:
    """Mixtures that a list names and nothing makes."""
    known, swarm = scope.known, scope.swarm
    more = [f"{swarm[0]} to {swarm[-1]}"] if swarm else []
    for key, names in scope.lists():
        for number, mixture in enumerate(names):
            if mixture in REWEIGHTING and mixture not in known:
                yield Fault((*key, number), f"{mixture!r} needs a block `reweighting` in the dataset.")
            elif mixture not in known and mixture not in swarm:
                yield Fault((*key, number), unknown("mixture", mixture, known + more, "the dataset knows"))
            elif swarm and scope.sound("domains") and (lack := scope.planned.swarm_lack(mixture)):
                yield Fault((*key, number), lack)


def check_search(scope: Scope) -> Faults:
    """A search starts from mixtures that are there before it."""
    block, search = scope.block, scope.block.search
    for number, name in enumerate(search.start):
        if is_optimum(name) or name in (*BEST, *scope.searched):
            yield Fault(("search", "start", number), f"{name!r} is found by runs: a search starts before them.")
    if counts_runs(search.budget) and search.budget <= len(search.start):
        sentence = f"{search.budget:g} runs in all are spent by the {len(search.start)} of `start`: allow more."
        yield Fault(("search", "budget"), sentence)
    yield from _search_law_faults(scope)
    for group in block.groups:
        if group == GROUP or group.startswith(f"{GROUP}_"):
            yield Fault(("groups", group), "the search makes groups of this name: take another.")
    runs = set(search_runs(scope.own))
    for number, group in enumerate(block.held_out) if block.optimum.group == GROUP else ():
        names = scope.group(group)
        if names and set(names) <= runs:
            sentence = f"all mixtures of {group!r} are runs of the search, to which the laws are fitted:"
            yield Fault(("held_out", number), f"{sentence} hold out one that it does not run.")


def _search_law_faults(scope: Scope) -> Faults:
    """Of the law that the first round fits to the runs of `start`: known before any is trained."""
    optimum, search, name = scope.block.optimum, scope.block.search, scope.block.search.law
    law, domains, recipe = LAWS[name], len(scope.block.domains or ()), scope.recipe(optimum.model)
    least = law.least_runs(domains) if law.refuses_few else 2
    if len(search.start) < least:
        sentence = f"a first round by the law {name} needs {least} mixtures at least; there"
        yield Fault(("search", "start"), f"{sentence} {'is' if len(search.start) == 1 else 'are'} {len(search.start)}.")
    if optimum.models is not None:
        if not law.over_sizes:
            yield Fault(("search", "law"), f"{name} is fitted to one size of model, and `optimum` names several.")
    elif recipe and law.over_steps and len(measured := evaluations(recipe)) == 2:
        sentence = f"the runs of the search are measured at two steps, {measured[0]:,} and {measured[1]:,}, from which"
        yield Fault(("search", "law"), f"{sentence} {name} gives no curve: measure at three or more, or at one.")


def check_downstream(scope: Scope) -> Faults:
    own, length = scope.block.downstream, scope.block.sequence_length
    recipe = scope.recipe(own.model)
    for number, step in enumerate(own.steps) if recipe else ():
        if step not in evaluations(recipe):
            yield Fault(
                ("downstream", "steps", number),
                f"{step} is no evaluation of {own.model}, which has one every {recipe['evaluate_every']} steps up to"
                f" {recipe['steps']}.",
            )
    if own.new_tokens >= length:
        yield Fault(("downstream", "new_tokens"), f"no room is left for a question in {length} tokens.")
    if own.cache_tokens < length:
        yield Fault(("downstream", "cache_tokens"), f"fewer than the {length} of one prompt and its answer.")


# Mixtures one after the other, and an optimum in one stage


def check_stages(scope: Scope) -> Faults:
    """Faulty stages: shares that do not sum to 1, no source, stages in stages, a name twice."""
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
    """Mixtures that others are measured against or drawn around have one stage."""
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
    """Mixtures of the user's files that have stages; faults are reported where they are read."""
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
