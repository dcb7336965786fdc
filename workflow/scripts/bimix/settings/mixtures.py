"""Checks of the mixtures of a dataset of text: those that lists name, of a search, in stages."""

import contextlib
import math
from collections.abc import Iterator

from bimix.errors import InputError
from bimix.exports.formats import FORMATS
from bimix.laws.table import LAWS, is_optimum
from bimix.plan.dataset import evaluations
from bimix.plan.sources import BEST, GROUP, counts_runs, search_names, search_runs
from bimix.settings.complete import mixture_lists
from bimix.settings.scope import Faults, Scope

SHARES = 1e-6  # by which shares of stages may miss 1


def check_swarms(scope: Scope) -> Faults:
    """Mixtures that a list names and that the swarm has too few runs for."""
    for key, names in scope.lists():
        for number, mixture in enumerate(names):
            if lack := scope.planned.swarm_lack(mixture):
                yield (*key, number), lack


def check_search(scope: Scope) -> Faults:
    """A search starts from mixtures that need no run, by a law that these can be fitted with."""
    block, search, optimum = scope.block, scope.block.search, scope.block.optimum
    for number, name in enumerate(search.start):
        if is_optimum(name) or name in (*BEST, *search_names(scope.own)):
            yield ("search", "start", number), f"{name!r} is found by runs: a search starts before them."
    law, start, recipe = LAWS[search.law], len(search.start), scope.recipe(optimum.model)
    if counts_runs(search.budget) and search.budget <= start:
        yield "search/budget", f"{search.budget:g} runs in all are spent by the {start} of `start`: allow more."
    if start < (least := law.least_runs(len(block.domains or ())) if law.refuses_few else 2):
        yield "search/start", f"a first round by the law {search.law} needs {least} mixtures at least, not {start}."
    if optimum.models is not None and not law.over_sizes:
        yield "search/law", f"{search.law} is fitted to one size of model, and `optimum` names several."
    elif optimum.models is None and recipe and law.over_steps and len(evaluations(recipe)) == 2:
        yield "search/law", no_curve("runs of the search", evaluations(recipe), search.law)
    for group in block.groups:
        if group == GROUP or group.startswith(f"{GROUP}_"):
            yield ("groups", group), "the search makes groups of this name: take another."
    for number, group in enumerate(block.held_out) if optimum.group == GROUP else ():
        if (names := scope.group(group)) and set(names) <= set(search_runs(scope.own)):
            yield ("held_out", number), f"all mixtures of {group!r} are runs of the search: hold out one that is not."


def no_curve(what: str, measured: list[int], laws: str) -> str:
    """That two steps are too few or too many."""
    steps = f"the {what} are measured at two steps, {measured[0]:,} and {measured[1]:,}, from which {laws} gives"
    return f"{steps} no curve: measure at three or more, or at one."


def check_downstream(scope: Scope) -> Faults:
    own = scope.block.downstream
    recipe = scope.recipe(own.model)
    every = f"one every {recipe['evaluate_every']} steps up to {recipe['steps']}" if recipe else ""
    for number, step in enumerate(own.steps) if recipe else ():
        if step not in evaluations(recipe):
            yield ("downstream", "steps", number), f"{step} is no evaluation of {own.model}, which has {every}."


# Mixtures one after the other, and an optimum in one stage


def check_stages(scope: Scope) -> Faults:
    """Faulty stages: shares that do not sum to 1, stages in stages, a name twice."""
    stages = scope.block.stages
    for name, own in stages.items():
        total = math.fsum(stage.share for stage in own)
        if abs(total - 1) > SHARES:
            yield ("stages", name), f"the shares of its stages sum to {total:.9g}, not to 1."
        if name in (scope.block.mixture_files or {}):
            yield ("stages", name), "it is the name of a mixture under `mixture_files`; take another."
        for number, stage in enumerate(own):
            if stage.mixture in stages:
                sentence = f"{stage.mixture} has stages itself; write all stages in one list."
                yield ("stages", name, number, "mixture"), sentence


def check_staged_references(scope: Scope) -> Faults:
    """Mixtures that others are measured against or drawn around have one stage."""
    block, files = scope.block, scope.block.mixture_files or {}
    given = [("centre", block.centre)]
    given += [((*key, 0), names[0]) for key, names in mixture_lists(scope.own) if key[0] not in ("groups", "search")]
    given += [("optimum/objective/reference", block.optimum.objective.reference)] if block.optimum.objective else []
    given += [("reweighting/reference", block.reweighting.reference)] if block.reweighting else []
    staged = {*(block.stages or ()), *staged_files(files)}
    for key, name in given:
        if name in staged:
            yield key, f"{name} has stages, and what others are measured against is one mixture for the whole run."


def staged_files(files: dict[str, str]) -> Iterator[str]:
    """Mixtures of the user's files that have stages; faults are reported where they are read."""
    if files:  # these bring polars, a quarter of a second of each call of Snakemake
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
        for model in trained:
            form = models[model].format if model in models else None
            for name in block.stages.keys() & set(names) if form and not FORMATS[form].stages else ():
                sentence = f"{name} has stages, and {model} gets its mixtures in the format {form}, which holds one:"
                yield (*key, names.index(name)), f"{sentence} take {able}, or no format."


def check_fitted_stages(scope: Scope) -> Faults:
    """Fitted and scored groups have no stages, or differ in the stage that is optimised alone."""
    block, staged, number = scope.block, scope.block.stages or {}, scope.block.optimum.stage
    for group in dict.fromkeys([block.optimum.group, *block.held_out]):
        compared = group == "compare"
        names, key = block.compare.mixtures if compared else scope.group(group) or [], ("groups", group)
        if number is not None and (fault := _differing(names, staged, number)):
            yield "optimum/stage", f"the group {group}: {fault}"
        for place, name in enumerate(names) if number is None else ():
            if name in staged:
                sentence = f"{name} has stages, and a law reads one mixture of each run: say under `optimum/stage`"
                yield (*(("compare", "mixtures") if compared else key), place), f"{sentence} which of them differs."


def _differing(names: list[str], staged: dict, number: int) -> str | None:
    """Why the mixtures are no runs that differ in their stage of that number alone, from 1."""
    first = None
    for name in names:
        if len(staged.get(name, ())) < number:
            return f"{name} has no stage {number} under `stages`, as each run must."
        rest = [(stage.share, place == number or stage.mixture) for place, stage in enumerate(staged[name], 1)]
        if first is not None and rest != first:
            return f"{name} differs from {names[0]} in more than the mixture of stage {number}."
        first = rest
    return None
