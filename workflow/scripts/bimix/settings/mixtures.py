"""Checks of mixtures of a dataset of text: of a swarm, of a search, in stages, and those that laws are
fitted to.
"""

import contextlib
import math
import re
from collections.abc import Mapping

from bimix.blocks import Faults, Key
from bimix.errors import InputError
from bimix.exports.formats import FORMATS
from bimix.laws.table import LAWS, SWARM_LAWS, is_optimum, one_size
from bimix.mixtures.names import BEST, GROUP, group_of, runs_of, search_names, search_runs
from bimix.names import named
from bimix.settings.models import SUM_TOLERANCE
from bimix.settings.scope import Scope
from bimix.training.recipe import evaluations, first_updates

SHARES = 1e-6  # by which shares of stages may miss 1
ONE_RUN = "it has one mixture; a law needs the losses of two or more."
LARGER_RUNS = 2  # of a larger model, from which a law knows its growth of effects and harm


def trained_on(scope: Scope) -> dict[Key, list[str]]:
    """The models that are trained on the mixtures of each list, by its key."""
    optimum, held_out = scope.block["optimum"], scope.block["held_out"]
    proxies = optimum.get("models", [optimum["model"]])
    trained = dict.fromkeys([("groups", group) for group in (optimum["group"], *held_out)], proxies)
    trained[("search", "start")] = proxies
    of_compare = [scope.block["compare"]["model"], *(proxies if "compare" in held_out else ())]
    return trained | {("compare", "mixtures"): of_compare}


def key_of_group(group: str) -> Key:
    """The key of the list that is a group."""
    return ("compare", "mixtures") if group == "compare" else ("groups", group)


def check_swarm(scope: Scope) -> Faults:
    """Too few runs for the optimum of a law, an optimum at a step that is not measured, and runs of the
    swarm among others of its model, which are trained otherwise.
    """
    swarm, lists, trained = scope.block["swarm"], scope.lists, trained_on(scope)
    for key, names in lists.items():
        for number, mixture in enumerate(names):
            if lack := scope.swarm_lack(mixture):
                yield (*key, number), lack
    recipe, plain = swarm["training"], scope.block["training"][swarm["model"]]
    if swarm["step"] not in evaluations(recipe):
        when = f"every {recipe['evaluate_every']} steps and after the last, {recipe['steps']}"
        yield "swarm/step", f"the losses of the swarm are measured {when}, not at {swarm['step']:,}."
    differs = named(sorted(key for key in recipe if recipe[key] != plain.get(key)))
    fitted = (("search", "start"), ("groups", scope.block["optimum"]["group"]))
    for key, names in lists.items() if recipe != plain else ():
        drawn = [number for number, name in enumerate(names) if re.fullmatch(r"swarm_\d+", name)]
        mixed = len(drawn) < len(names) or key in fitted
        for number in drawn if mixed and swarm["model"] in trained.get(key, ()) else ():
            sentence = f"runs of the swarm have their own {differs} under `swarm/training`, and the other runs those of"
            yield (*key, number), f"{sentence} {swarm['model']}: they cannot be compared."


def check_search(scope: Scope) -> Faults:
    """A search starts from mixtures that need no run, by a law that these can be fitted with."""
    block, search, optimum = scope.block, scope.block["search"], scope.block["optimum"]
    for number, name in enumerate(search["start"]):
        if is_optimum(name) or name in (*BEST, *search_names(block)):
            yield ("search", "start", number), f"{name!r} is found by runs: a search starts before them."
    law, start = LAWS[search["law"]], len(search["start"])
    if (runs := runs_of(search.get("budget"))) is not None and runs <= start:
        yield "search/budget", f"{runs:g} runs in all are spent by the {start} of `start`: allow more."
    if start < (least := law.least_runs(len(block["domains"])) if law.refuses_few else 2):
        yield "search/start", f"a first round by the law {search['law']} needs {least} mixtures at least, not {start}."
    if "models" in optimum and not law.over_sizes:
        yield "search/law", f"{search['law']} is fitted to one size of model, and `optimum` names several."
    elif "models" not in optimum and law.over_steps:
        measured = evaluations(block["training"][optimum["model"]])
        if len(measured) == 2:
            yield "search/law", no_curve("runs of the search", measured, search["law"])
    for number, group in enumerate(block["held_out"]) if optimum["group"] == GROUP else ():
        if set(scope.groups[group]) <= set(search_runs(block)):
            yield ("held_out", number), f"all mixtures of {group!r} are runs of the search: hold out one that is not."


def no_curve(what: str, measured: list[int], laws: str) -> str:
    """That two steps are too few or too many."""
    steps = f"the {what} are measured at two steps, {measured[0]:,} and {measured[1]:,}, from which {laws} gives"
    return f"{steps} no curve: measure at three or more, or at one."


# Mixtures in stages


def check_stages(scope: Scope) -> Faults:
    """Faulty stages: shares that do not sum to 1 or are shorter than an update, stages in stages, a name
    twice.
    """
    stages, trained = scope.block["stages"], trained_on(scope)
    for name, parts in stages.items():
        shares = [stage["share"] for stage in parts]
        if abs(math.fsum(shares) - 1) > SHARES:
            yield ("stages", name), f"the shares of its stages sum to {math.fsum(shares):.9g}, not to 1."
        if name in scope.block.get("mixture_files", ()):
            yield ("stages", name), "it is the name of a mixture under `mixture_files`; take another."
        for number, stage in enumerate(parts):
            if stage["mixture"] in stages:
                sentence = f"{stage['mixture']} has stages itself; write all stages in one list."
                yield ("stages", name, number, "mixture"), sentence
        models = {model for key, names in scope.lists.items() if name in names for model in trained.get(key, ())}
        for model in sorted(models):
            try:
                first_updates(shares, scope.block["training"][model]["steps"], f"a run of {model}")
            except InputError as error:
                yield ("stages", name), str(error)


def check_staged(scope: Scope) -> Faults:
    """Mixtures in stages where one mixture for the whole run is needed: what others are compared with or
    drawn around, runs that laws are fitted to or scored on, formats of commands that hold one mixture.
    """
    block, lists, staged, trained = scope.block, scope.lists, staged_names(scope.block), trained_on(scope)
    single = {
        ("centre",): block.get("centre"),
        ("compare", "mixtures", 0): scope.compared[0],
        ("optimum", "objective", "reference"): block["optimum"].get("objective", {}).get("reference"),
        ("reweighting", "reference"): block.get("reweighting", {}).get("reference"),
    }
    for key, name in single.items():
        if name in staged:
            yield key, f"{name} has stages, and what others are measured against is one mixture for the whole run."
    fitted = {key_of_group(group) for group in (block["optimum"]["group"], *block["held_out"])}
    fitted |= {("search", "start")} | ({("compare", "mixtures")} if "models" in block["optimum"] else set())
    able = named(name for name, form in FORMATS.items() if form.stages)
    for key, names in lists.items():
        forms = {model: scope.config["models"][model].get("format") for model in trained.get(key, ())}
        flat = {model: form for model, form in forms.items() if form and not FORMATS[form].stages}
        for number, name in enumerate(names):
            if name not in staged:
                continue
            if key in fitted:
                sentence = f"{name} has stages, and a law reads one mixture of each run; take it away."
                yield (*key, number), sentence
            for model, form in flat.items():
                holds = f"{name} has stages, and the `format` of {model}, {form}, holds one mixture"
                yield (*key, number), f"{holds}: take {able}, or leave it out here."


def staged_names(block: Mapping) -> set[str]:
    """Mixtures with stages, of the config and of the user's files, whose faults are reported where
    they are read.
    """
    staged, files = set(block.get("stages", ())), block.get("mixture_files", {})
    if files:  # these bring polars, a quarter of a second of each call of Snakemake
        from bimix.mixtures.mixture import is_staged
        from bimix.tables import read_json
    for name, path in files.items():
        with contextlib.suppress(InputError):
            staged |= {name} if is_staged(read_json(path)) else set()
    return staged


# What a mixture is best at, and what laws are fitted to


def check_optimum(scope: Scope) -> Faults:
    """Upper bounds that no mixture of all domains reaches; a reference that is not there before the optimum."""
    optimum, compared = scope.block["optimum"], scope.compared
    upper, objective = optimum.get("upper", {}), optimum.get("objective", {})
    if set(scope.domains or ["unread"]) <= upper.keys() and (most := math.fsum(upper.values())) < 1 - SUM_TOLERANCE:
        yield "optimum/upper", f"the upper bounds sum to {most:g}: no mixture reaches 1."
    if objective.get("kind", "weighted") == "weighted":
        return
    if "reference" not in objective:  # it is the first that is compared
        sentence = f"name one: the first mixture under `compare`, {compared[0]}, is an optimum itself."
        yield "optimum/objective", f"`reference` is missing; {sentence}"
    elif objective["reference"] not in compared:
        sentence = "is not under `compare/mixtures`: add it, as runs are measured against its losses."
        yield "optimum/objective/reference", f"{objective['reference']} {sentence}"


def check_found_before(scope: Scope) -> Faults:
    """Mixtures of a fitted group that runs find, its own or another's: an optimum or the best run."""
    stages, lists = scope.block.get("stages", {}), scope.lists
    others = {group_of(name) for names in lists.values() for name in names} & scope.groups.keys()
    for group in dict.fromkeys([scope.block["optimum"]["group"], *sorted(others)]):
        key = key_of_group(group)
        for number, name in enumerate(lists.get(key, ())):
            parts = [name, *(stage["mixture"] for stage in stages.get(name, ()))]
            if any(one == "best" or (is_optimum(one) and not scope.from_swarm(one)) for one in parts):
                sentence = f"{name} is found by runs, and laws are fitted to the group {group}: take it out, or fit"
                yield (*key, number), f"{sentence} them to another group."


def check_fit(scope: Scope) -> Faults:
    """The steps and the runs that laws of one size are fitted to."""
    group, model = scope.block["optimum"]["group"], scope.block["optimum"]["model"]
    recipe = scope.block["swarm"]["training"] if group == "swarm" else scope.block["training"][model]
    yield from step_faults(scope, evaluations(recipe))
    yield from run_faults(scope, len(scope.groups[group]))


def step_faults(scope: Scope, measured: list[int]) -> Faults:
    """Faults of the steps at which runs are measured, and of the step of the optimum."""
    step, first, last = scope.block["optimum"]["step"], measured[0], measured[-1]
    single = [law for law in scope.laws if law in SWARM_LAWS or len(measured) == 1]
    curves = [law for law in scope.laws if law not in single]
    if scope.wanted and curves and len(measured) == 2:
        yield "optimum/group", no_curve("runs of the group", measured, named(curves))
    if scope.wanted and single and step not in measured:
        there = named(f"{one:,}" for one in measured)
        sentence = f"{named(single)} says nothing about the step {step:,}: runs are measured at {there} alone."
        yield "optimum/step", sentence
    elif step not in measured:
        does = "fills in" if first < step < last else f"extrapolates to {step / last:.3g} times the last"
        sentence = f"{step:,} is no step at which losses are measured, from {first:,} to {last:,}: the law {does}."
        yield "optimum/step", sentence, True


def run_faults(scope: Scope, runs: int) -> Faults:
    """Laws that need more runs than the group under `optimum` has."""
    if not scope.wanted:
        return
    if runs < 2:
        yield "optimum/group", ONE_RUN
    for law in scope.laws:
        least = LAWS[law].least_runs(len(scope.domains))
        if LAWS[law].refuses_few and 2 <= runs < least:
            sentence = f"{law} (in laws/optimise) needs {least} runs at least for {len(scope.domains)} domains; the"
            yield "optimum/group", f"{sentence} group has {runs}."


# Several sizes


def single_laws(scope: Scope) -> list[str]:
    """Laws that are fitted to losses of one size of model."""
    return [law for law in scope.laws if not LAWS[law].over_sizes]


def check_sizes(scope: Scope) -> Faults:
    """Models, groups and laws of an optimum by the law over sizes."""
    optimum, models = scope.block["optimum"], scope.config["models"]
    shapes: list[object] = []
    for name in optimum["models"]:
        shape = models[name].get("shape", models[name].get("parameters"))
        if shape in shapes:
            other = optimum["models"][shapes.index(shape)]
            yield "optimum/models", f"{name} has the shape of {other}: a law over sizes needs models of several."
        shapes.append(shape)
    if optimum["group"] == "swarm":
        yield "optimum/group", "the swarm is trained with one model: name a group of `groups` instead."
    elif len(scope.groups[optimum["group"]]) < 2:
        yield "optimum/group", ONE_RUN
    large = scope.block["compare"]["model"]
    if large in optimum["models"]:
        both = [name for name in scope.block["compare"]["mixtures"] if name in scope.groups[optimum["group"]]]
        if len(both) < LARGER_RUNS:
            sentence = f"of the runs of {large} the law reads {named(both) or 'none'}, as `compare` and the group"
            sentence += f" {optimum['group']} both have no other: name two there, as the reference and a rule by hand."
            yield "optimum/models", sentence, bool(both)
    if scope.block["held_out"]:
        yield "held_out", "a law over sizes is not scored on held-out groups; it predicts their losses only.", True
    if single := single_laws(scope):
        every = len(single) == len(scope.laws)
        then = "add transfer there" if every else "left out here"
        sentence = f"{named(single)} (in laws/optimise) is fitted to losses of one size of model: {then}."
        yield "optimum/models", sentence, not every
    for key, names in scope.lists.items():
        for number, name in enumerate(names):
            law = name.partition("_of_")[0]
            if law in LAWS and not LAWS[law].over_sizes and not scope.from_swarm(name):
                yield (*key, number), one_size(law)


def check_larger(scope: Scope) -> Faults:
    """An optimum for another model than that under `compare`."""
    compared, larger = scope.block["compare"]["model"], scope.block["optimum"]["for"]
    if compared != larger:
        sentence = f"`compare` trains {compared}: what is predicted of {larger} is not measured."
        yield "optimum/for", sentence, True
