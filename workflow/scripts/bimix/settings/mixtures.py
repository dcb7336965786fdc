"""Checks of mixtures: those that lists name, of a search, in stages; of what one is to be best at,
of the runs that laws are fitted to, and of tables of losses measured elsewhere.
"""

import contextlib
import math
import re

from bimix.blocks import Faults, Key
from bimix.errors import InputError
from bimix.exports.formats import FORMATS
from bimix.laws.table import LAWS, SWARM_LAWS, is_optimum, one_size
from bimix.mixtures.names import BEST, GROUP, group_of, search_names, search_runs
from bimix.names import named
from bimix.settings.models import SUM_TOLERANCE
from bimix.settings.scope import Scope
from bimix.settings.text import file_fault
from bimix.training.recipe import evaluations, first_updates

SHARES = 1e-6  # by which shares of stages may miss 1
ONE_RUN = "it has one mixture; a law needs the losses of two or more."


def check_swarm(scope: Scope) -> Faults:
    """Too few runs for the optimum of a law, an optimum at a step that is not measured, and runs of the
    swarm among others of its model, which are trained otherwise.
    """
    swarm, lists, trained = scope.block.swarm, scope.lists, trained_on(scope)
    for key, names in lists.items():
        for number, mixture in enumerate(names):
            if lack := scope.mixtures.swarm_lack(mixture):
                yield (*key, number), lack
    recipe = scope.swarm_recipe()
    if recipe is None:
        return
    if swarm.step not in evaluations(recipe):
        when = f"every {recipe['evaluate_every']} steps and after the last, {recipe['steps']}"
        yield "swarm/step", f"the losses of the swarm are measured {when}, not at {swarm.step:,}."
    plain = scope.recipe(swarm.model)
    differs = named(sorted(key for key in recipe if recipe[key] != plain.get(key)))
    fitted = (("search", "start"), ("groups", scope.block.optimum.group))
    for key, names in lists.items() if recipe != plain else ():
        drawn = [number for number, name in enumerate(names) if re.fullmatch(r"swarm_\d+", name)]
        mixed = len(drawn) < len(names) or key in fitted
        for number in drawn if mixed and swarm.model in trained.get(key, ()) else ():
            sentence = f"runs of the swarm have their own {differs} under `swarm/training`, and the other runs those of"
            yield (*key, number), f"{sentence} {swarm.model}: they cannot be compared."


def trained_on(scope: Scope) -> dict[Key, list[str]]:
    """The models that are trained on the mixtures of each list, by its key."""
    block, optimum = scope.block, scope.block.optimum
    proxies = optimum.models or [optimum.model]
    trained = dict.fromkeys([("groups", group) for group in (optimum.group, *block.held_out)], proxies)
    trained[("search", "start")] = proxies
    return trained | {("compare", "mixtures"): [block.compare.model, *(proxies if "compare" in block.held_out else ())]}


def check_search(scope: Scope) -> Faults:
    """A search starts from mixtures that need no run, by a law that these can be fitted with."""
    block, search, optimum = scope.block, scope.block.search, scope.block.optimum
    for number, name in enumerate(search.start):
        if is_optimum(name) or name in (*BEST, *search_names(scope.block)):
            yield ("search", "start", number), f"{name!r} is found by runs: a search starts before them."
    law, start, recipe = LAWS[search.law], len(search.start), scope.recipe(optimum.model)
    if start < (least := law.least_runs(len(block.domains)) if law.refuses_few else 2):
        yield "search/start", f"a first round by the law {search.law} needs {least} mixtures at least, not {start}."
    if optimum.models is not None and not law.over_sizes:
        yield "search/law", f"{search.law} is fitted to one size of model, and `optimum` names several."
    elif optimum.models is None and recipe and law.over_steps and len(evaluations(recipe)) == 2:
        yield "search/law", no_curve("runs of the search", evaluations(recipe), search.law)
    for group in block.groups:
        if group == GROUP or group.startswith(f"{GROUP}_"):
            yield ("groups", group), "the search makes groups of this name: take another."
    for number, group in enumerate(block.held_out) if optimum.group == GROUP else ():
        if (names := scope.group(group)) and set(names) <= set(search_runs(scope.block)):
            yield ("held_out", number), f"all mixtures of {group!r} are runs of the search: hold out one that is not."


def no_curve(what: str, measured: list[int], laws: str) -> str:
    """That two steps are too few or too many."""
    steps = f"the {what} are measured at two steps, {measured[0]:,} and {measured[1]:,}, from which {laws} gives"
    return f"{steps} no curve: measure at three or more, or at one."


def check_downstream(scope: Scope) -> Faults:
    """Steps whose weights are to answer, and at which a run is not evaluated."""
    model = scope.block.downstream.model
    recipe = scope.recipe(model)
    for number, step in enumerate(scope.block.downstream.steps) if recipe else ():
        if step not in evaluations(recipe):
            every = f"one every {recipe['evaluate_every']} steps up to {recipe['steps']}"
            yield ("downstream", "steps", number), f"{step} is no evaluation of {model}, which has {every}."


# Mixtures in stages


def check_stages(scope: Scope) -> Faults:
    """Faulty stages: shares that do not sum to 1 or are shorter than an update, stages in stages, a name
    twice.
    """
    stages, trained = scope.block.stages, trained_on(scope)
    for name, parts in stages.items():
        shares = [stage.share for stage in parts]
        if abs(math.fsum(shares) - 1) > SHARES:
            yield ("stages", name), f"the shares of its stages sum to {math.fsum(shares):.9g}, not to 1."
        if name in (scope.block.mixture_files or {}):
            yield ("stages", name), "it is the name of a mixture under `mixture_files`; take another."
        for number, stage in enumerate(parts):
            if stage.mixture in stages:
                sentence = f"{stage.mixture} has stages itself; write all stages in one list."
                yield ("stages", name, number, "mixture"), sentence
        models = {model for key, names in scope.lists.items() if name in names for model in trained.get(key, ())}
        for model in sorted(models):
            if recipe := scope.recipe(model):
                try:
                    first_updates(shares, recipe["steps"], f"a run of {model}")
                except InputError as error:
                    yield ("stages", name), str(error)


def check_staged(scope: Scope) -> Faults:
    """Mixtures in stages where one mixture for the whole run is needed: what others are compared with or
    drawn around, runs that laws are fitted to or scored on, formats of commands that hold one mixture.
    """
    block, models, lists = scope.block, scope.config.models, scope.lists
    staged, trained = staged_names(scope), trained_on(scope)
    single = [("centre", block.centre), (("compare", "mixtures", 0), block.compare.mixtures[0])]
    single += [("optimum/objective/reference", block.optimum.objective.reference)] if block.optimum.objective else []
    single += [("reweighting/reference", block.reweighting.reference)] if block.reweighting else []
    for key, name in single:
        if name in staged:
            yield key, f"{name} has stages, and what others are measured against is one mixture for the whole run."
    fitted = {("compare", "mixtures") if group == "compare" else ("groups", group) for group in fitted_groups(scope)}
    fitted |= {("search", "start")} | ({("compare", "mixtures")} if block.optimum.models else set())
    able = named(name for name, form in FORMATS.items() if form.stages)
    for key, names in lists.items():
        forms = {model: models[model].format for model in trained.get(key, ()) if model in models}
        flat = [(model, form) for model, form in forms.items() if form and not FORMATS[form].stages]
        for number, name in enumerate(names):
            if name in staged and key in fitted:
                sentence = f"{name} has stages, and a law reads one mixture of each run; take it away."
                yield (*key, number), sentence
            for model, form in flat if name in staged else ():
                holds = f"{name} has stages, and the `format` of {model}, {form}, holds one mixture"
                yield (*key, number), f"{holds}: take {able}, or leave it out here."


def fitted_groups(scope: Scope) -> list[str]:
    """The groups that laws are fitted to or scored on."""
    return list(dict.fromkeys([scope.block.optimum.group, *scope.block.held_out]))


def staged_names(scope: Scope) -> set[str]:
    """Mixtures with stages, of the config and of the user's files, whose faults are reported where
    they are read.
    """
    staged, files = set(scope.block.stages or ()), scope.block.mixture_files or {}
    if files:  # these bring polars, a quarter of a second of each call of Snakemake
        from bimix.mixtures.mixture import is_staged
        from bimix.tables import read_json
    for name, path in files.items():
        with contextlib.suppress(InputError):
            staged |= {name} if is_staged(read_json(path)) else set()
    return staged


# What a mixture is best at


def check_upper(scope: Scope) -> Faults:
    """Upper bounds that no mixture of all domains reaches."""
    upper, trained = scope.block.optimum.upper, scope.trained
    if trained and set(trained) <= upper.keys() and (most := math.fsum(upper.values())) < 1 - SUM_TOLERANCE:
        yield "optimum/upper", f"the upper bounds sum to {most:g}: no mixture reaches 1."


def check_reference(scope: Scope) -> Faults:
    """The reference of the optimum must be there before it."""
    key, objective = "optimum/objective", scope.block.optimum.objective
    name, compared = objective.reference, scope.block.compare.mixtures
    if objective.kind == "weighted":
        return
    if name is None and is_optimum(compared[0]):
        sentence = f"name one: the first mixture under `compare`, {compared[0]}, is an optimum itself."
        yield key, f"`reference` is missing; {sentence}"
    if name is not None and name not in compared:
        sentence = f"{name} is not under `compare/mixtures`: add it, as runs are measured against its losses."
        yield f"{key}/reference", sentence


# What laws are fitted to


def check_fit(scope: Scope) -> Faults:
    """The steps and the runs that laws of one size are fitted to."""
    optimum = scope.block.optimum
    recipe = scope.recipe(optimum.model)
    if recipe is None:
        return
    if optimum.group == "swarm" and scope.block.swarm:
        recipe = scope.swarm_recipe() or recipe
    yield from step_faults(scope, evaluations(recipe))
    names = scope.group(optimum.group)
    if names is not None:
        yield from run_faults(scope, len(names), len(scope.block.domains))


def check_found_before(scope: Scope) -> Faults:
    """Mixtures of a fitted group that runs find, its own or another's: an optimum or the best run."""
    stages, lists = scope.block.get("stages", {}), scope.lists
    others = {group_of(name) for names in lists.values() for name in names} & scope.block.groups.keys()
    for group in dict.fromkeys([scope.block.optimum.group, *sorted(others)]):
        key = ("compare", "mixtures") if group == "compare" else ("groups", group)
        for number, name in enumerate(lists.get(key, ())):
            parts = [name, *(stage["mixture"] for stage in stages.get(name, ()))]
            if any(one == "best" or (is_optimum(one) and not scope.mixtures.from_swarm(one)) for one in parts):
                sentence = f"{name} is found by runs, and laws are fitted to the group {group}: take it out, or fit"
                yield (*key, number), f"{sentence} them to another group."


def step_faults(scope: Scope, measured: list[int]) -> Faults:
    """Faults of the steps at which runs are measured, and of the step of the optimum."""
    step, key, first, last = scope.block.optimum.step, "optimum/step", measured[0], measured[-1]
    single = [law for law in scope.laws if law in SWARM_LAWS or len(measured) == 1]
    curves = [law for law in scope.laws if law not in single]
    if scope.wanted and curves and len(measured) == 2:
        yield "optimum/group", no_curve("runs of the group", measured, named(curves))
    if scope.wanted and single and step not in measured:
        there = named(f"{one:,}" for one in measured)
        yield key, f"{named(single)} says nothing about the step {step:,}: runs are measured at {there} alone."
    elif step not in measured:
        does = "fills in" if first < step < last else f"extrapolates to {step / last:.3g} times the last"
        sentence = f"{step:,} is no step at which losses are measured, from {first:,} to {last:,}: the law {does}."
        yield key, sentence, True


def run_faults(scope: Scope, runs: int, domains: int) -> Faults:
    """Laws that need more runs than the group under `optimum` has."""
    if scope.wanted and runs < 2:
        yield "optimum/group", ONE_RUN
    for law in scope.laws if scope.wanted else ():
        least = LAWS[law].least_runs(domains)
        if LAWS[law].refuses_few and 2 <= runs < least:
            sentence = f"{law} (in laws/optimise) needs {least} runs at least for {domains} domains; the group has"
            yield "optimum/group", f"{sentence} {runs}."


# Several sizes


def single_laws(scope: Scope) -> list[str]:
    """Laws that are fitted to losses of one size of model."""
    return [law for law in scope.laws if not LAWS[law].over_sizes]


def check_sizes(scope: Scope) -> Faults:
    """An optimum for another size than those of the models that the laws are fitted to."""
    block, optimum, models = scope.block, scope.block.optimum, scope.config.models
    group = scope.group(optimum.group)
    shapes = [models[name].shape or models[name].parameters if name in models else None for name in optimum.models]
    for number, shape in enumerate(shapes):
        if shape is not None and shape in shapes[:number]:
            other = optimum.models[shapes.index(shape)]
            sentence = f"{optimum.models[number]} has the shape of {other}: a law over sizes needs models of several."
            yield ("optimum", "models", number), sentence
    if optimum.group == "swarm":
        yield "optimum/group", "the swarm is trained with one model: name a group of `groups` instead."
    elif group is not None and len(group) < 2:
        yield "optimum/group", ONE_RUN
    if block.held_out:
        yield "held_out", "a law over sizes is not scored on held-out groups; it predicts their losses only.", True


def check_larger(scope: Scope) -> Faults:
    """An optimum for another model than that under `compare`."""
    block, optimum = scope.block, scope.block.optimum
    if block.compare.model != optimum.for_:
        sentence = f"`compare` trains {block.compare.model}: what is predicted of {optimum.for_} is not measured."
        yield "optimum/for", sentence, True


def check_sized_laws(scope: Scope) -> Faults:
    """Laws of one size, as far as a dataset with models of several would need them."""
    if single := single_laws(scope):
        every = len(single) == len(scope.laws)
        then = "add transfer there" if every else "left out here"
        sentence = f"{named(single)} (in laws/optimise) is fitted to losses of one size of model: {then}."
        yield "optimum/models", sentence, not every
    for key, names in scope.lists.items():
        for number, name in enumerate(names):
            law = name.partition("_of_")[0]
            if law in LAWS and not LAWS[law].over_sizes and not scope.mixtures.from_swarm(name):
                yield (*key, number), one_size(law)


# Losses measured elsewhere


def check_observed(scope: Scope) -> Faults:
    """A reference that is an optimum, epochs of domains whose tokens are not known, metrics without
    weights, and metrics with the law bimix, which has losses of training domains.
    """
    block, optimum, given = scope.block, scope.block.optimum, scope.block.observations
    first, objective = block.compare.mixtures[0], optimum.objective
    if is_optimum(first):
        sentence = f"{first!r} is what a law finds now, and a run of that name may have had other proportions: name"
        yield ("compare", "mixtures", 0), f"{sentence} another mixture first, with which all others are compared."
    if optimum.max_epochs and not given.tokens:
        sentence = "name a table of domain and tokens as `tokens` under `observations`: it is not known how many there"
        yield "optimum/max_epochs", f"{sentence} are."
    if not scope.wanted or not given.metrics:
        return
    if not (optimum.weights or (objective and (objective.weights or objective.families))):
        sentence = "losses in nats and metrics in units of their own have no common average: say what the mixture is to"
        yield "observations/metrics", f"{sentence} be best at, by `weights` under `optimum`, or by `families`."
    for name in ("optimise", "compare"):
        for law in getattr(scope.config.laws, name):
            if not LAWS[law].measured_only:
                sentence = f"the law {law} (in laws/{name}) has losses of training domains only; name other laws there,"
                yield "observations/metrics", f"{sentence} such as transfer."


def check_tables(scope: Scope) -> Faults:
    """Tables of a dataset to be built, and runs no law fits; their domains go into the scope."""
    from bimix.observations import metrics, tables
    from bimix.observations.observations import observations

    given = scope.block.observations
    if not scope.wanted:
        return
    paths = {name: path for name, path in scope.block.observations if isinstance(path, str)}
    missing = [(("observations", name), fault) for name, path in paths.items() if (fault := file_fault(path))]
    yield from missing
    if missing:
        return
    try:
        mixtures = tables.read_mixtures(given.mixtures)
        losses = metrics.read_with_metrics(
            given.losses, mixtures.names("domain"), given.metrics, given.lower_is_better or ()
        )
        scope.answering, scope.trained = losses.names("domain"), mixtures.names("domain")
        shares = set(mixtures.names("mixture"))
        scope.measured = [name for name in losses.names("mixture") if name in shares]
        for key, read in (("losses", losses), ("mixtures", mixtures)):
            if read.remark:
                yield ("observations", key), read.remark, True
        observed = observations(losses.table, mixtures.table, (given.losses, given.mixtures))
        for remark in observed.remarks:
            yield "observations/losses", remark, True
        yield from _bounds_fault(scope, observed.tokens_per_step)
    except InputError as error:
        yield "observations", str(error)
        if scope.measured is None:
            return
    proposed = [name for name in losses.names("mixture") if is_optimum(name)]
    if proposed and "all" in scope.block.groups.values():
        sentence = f"{', '.join(proposed)}: called as what a law proposes, so the group `all` leaves it out of the fit."
        yield "observations/losses", sentence, True
    yield from _fit_faults(scope, losses.table)


def _bounds_fault(scope: Scope, tokens_per_step: float | None) -> Faults:
    """Epochs that leave no mixture at the run of the optimum."""
    from bimix.optimum.bounds import feasible_bounds
    from bimix.tables import read_tokens

    optimum, tokens = scope.block.optimum, scope.block.observations.tokens
    if not (optimum.max_epochs and tokens and tokens_per_step):
        return
    known = [
        {name: bound for name, bound in (bounds or {}).items() if name in scope.trained}
        for bounds in (optimum.lower, optimum.upper)
    ]
    try:
        run_tokens = optimum.step * tokens_per_step
        feasible_bounds(scope.trained, *known, optimum.max_epochs, read_tokens(tokens), run_tokens)
    except InputError as error:
        yield "optimum/max_epochs", str(error)


def _fit_faults(scope: Scope, losses: object) -> Faults:
    """Faults of the fitted runs; a law over sizes reads their ends, and so no steps."""
    group, names = scope.block.groups.get(scope.block.optimum.group, []), scope.measured
    fitted = [name for name in names if (not is_optimum(name) if group == "all" else name in group)]
    if not losses["step"].dtype.is_integer():
        return
    rows = losses.filter(losses["mixture"].cast(str).is_in(fitted))
    measured = rows["step"].drop_nulls().unique().sort().to_list()
    if "parameters" in rows.columns and rows["parameters"].drop_nulls().n_unique() > 1:
        if single := single_laws(scope):
            sentence = f"its losses are of models of several sizes, and {named(single)} (in laws/optimise) is fitted to"
            yield "optimum/group", f"{sentence} one: name transfer alone there, or the runs of one model here."
    elif measured:
        yield from step_faults(scope, measured)
    if group == "all" or (group and set(group) <= set(names)):
        yield from run_faults(scope, len(fitted), len(scope.trained))
