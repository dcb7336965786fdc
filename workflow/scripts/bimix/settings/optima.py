"""Checks of what a dataset's mixture is to be best at, and of the runs that laws are fitted to."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from bimix.errors import InputError
from bimix.laws.table import JOINS, LAWS, SWARM_LAWS, is_optimum
from bimix.mixtures.marginals import rows_of
from bimix.names import named, unknown
from bimix.plan.dataset import evaluations, one_size
from bimix.settings.complete import unsearched
from bimix.settings.disk import file_fault
from bimix.settings.faults import Fault, Key
from bimix.settings.scope import Scope
from bimix.settings.text import measurements

SUM_TOLERANCE = 1e-9
LONGEST = 100  # letters of the models' names together, which become part of paths
ZERO = "all weights are 0: one at least must be above 0."
ONE_RUN = "it has one mixture; a law needs the losses of two or more."
Faults = Iterator[Fault]


# What a mixture is best at


def check_domain_groups(scope: Scope) -> Faults:
    """Groups of domains that no run trains on."""
    for domain in scope.block.domain_groups or {}:
        if scope.trained is not None and domain not in scope.trained:
            yield Fault(("domain_groups", domain), unknown("domain", domain, scope.trained))


def check_bounds(scope: Scope) -> Faults:
    """Weights that are all 0, and bounds that no mixture keeps to."""
    optimum, trained = scope.block.optimum, scope.trained
    lower, upper, weights = optimum.lower or {}, optimum.upper or {}, optimum.weights or {}
    if weights and not any(weights.values()):
        yield Fault(("optimum", "weights"), ZERO)
    for domain in lower.keys() & upper.keys():
        if lower[domain] > upper[domain]:
            sentence = f"{lower[domain]:g} is above the upper bound of {domain!r}, {upper[domain]:g}."
            yield Fault(("optimum", "lower", domain), sentence)
    for domain, bound in upper.items():
        if bound > 1:
            sentence = f"{bound:g} is above 1, and bounds are proportions: write 0.3 for 30 per cent."
            yield Fault(("optimum", "upper", domain), sentence)
    least, most = math.fsum(lower.values()), math.fsum(upper.values())
    if least > 1 + SUM_TOLERANCE:
        yield Fault(("optimum", "lower"), f"the lower bounds sum to {least:g}: no mixture holds more than 1.")
    if trained and upper and set(trained) <= upper.keys() and most < 1 - SUM_TOLERANCE:
        yield Fault(("optimum", "upper"), f"the upper bounds sum to {most:g}: no mixture reaches 1.")


def check_objective(scope: Scope) -> Faults:
    """Families, weights, keys of another kind of objective, a trust region without tokens."""
    optimum = scope.block.optimum
    objective, key, of = optimum.objective, ("optimum", "objective"), {}
    families, weights = objective.families or {}, objective.weights or {}
    if optimum.weights is not None and (weights or families):
        sentence = "`objective` has weights or families of its own; say them there only."
        yield Fault(("optimum", "weights"), sentence)
    for family, members in families.items():
        for number, domain in enumerate(members):
            if domain in of:
                sentence = f"{domain} is in {of[domain]} as well; leave it in one family."
                yield Fault((*key, "families", family, number), sentence)
            of.setdefault(domain, family)
    if weights and not any(weights.values()):
        yield Fault((*key, "weights"), ZERO)
    yield from _marginal_faults(scope, (*key, "marginals"), objective.marginals or {})
    kind = objective.kind or "weighted"
    for name in ("margin", "carry", "confidence"):
        if getattr(objective, name) is not None and kind != "no_worse_than":
            yield Fault((*key, name), f"it is of the kind no_worse_than; {kind} has none.")
    observed = getattr(scope.block, "observations", None)
    if isinstance(objective.carry, list) and "auto" in objective.carry and not observed and not optimum.models:
        yield Fault(
            (*key, "carry"),
            "auto takes the reference's losses from a law over sizes: name `models` under `optimum`, or give both losses.",
        )
    if objective.trust and observed and not observed.tokens and not scope.block.centre:
        yield Fault(
            (*key, "trust"),
            "name a table of domain and tokens as `tokens` under `observations`: it is not known how many there are.",
        )


def _marginal_faults(scope: Scope, key: Key, marginals: Mapping[str, float]) -> Faults:
    """Marginals of no domain, or of a share that is none; and what cannot keep them."""
    if not marginals:
        return
    block, simulating = scope.block, [law for law in scope.laws if LAWS[law].optimum in ("simulated", "searched")]
    try:
        if scope.trained is not None:
            rows_of(marginals, scope.trained)
    except InputError as error:
        yield Fault(key, str(error))
    for there, why in (
        (
            simulating,
            f"{named(simulating)} (in laws/optimise) finds no mixture that keeps them: take a convex law, as transfer.",
        ),
        (block.optimum.pareto, "the mixtures between the objectives of `pareto` do not keep them: take one away."),
        (getattr(block, "reweighting", None), "DoReMi and DoGE weigh domains without them: take `reweighting` away."),
        (
            getattr(block.optimum, "stage", None),
            "they are of the whole run's mixture, and the optimum is of a stage's.",
        ),
    ):
        if there:
            yield Fault(key, why)


def check_reference(scope: Scope) -> Faults:
    """The reference of the optimum must be there before it."""
    key, kind = ("optimum", "objective"), scope.block.optimum.objective.kind or "weighted"
    name, compared = scope.block.optimum.objective.reference, scope.block.compare.mixtures
    if name is None:
        if kind != "weighted" and is_optimum(compared[0]):
            sentence = f"name one: the first mixture under `compare`, {compared[0]}, is an optimum itself."
            yield Fault(key, f"`reference` is missing; {sentence}")
        return
    if kind != "weighted":
        judged = scope.block.methods if scope.sound("?methods") else None
        if judged and hasattr(scope.block, "corpus"):
            judged = [*judged, *unsearched(scope.plain, scope.name)]
        for path, names in (("compare/mixtures", compared), ("methods", judged)):
            if names and name not in names:
                sentence = f"{name} is not under `{path}`: add it, as runs are measured against its losses."
                yield Fault((*key, "reference"), sentence)


def check_strengths(scope: Scope) -> Faults:
    least, most = scope.block.strengths
    if least > most:
        yield Fault(("strengths",), f"{least:g} is above {most:g}: the least strength comes first.")


def check_pareto(scope: Scope) -> Faults:
    """Two objectives that nothing stands behind, or that are one."""
    optimum, answering = scope.block.optimum, scope.answering
    families = (optimum.objective.families if optimum.objective else None) or {}
    for number, one in enumerate(optimum.pareto if answering is not None else []):
        key = ("optimum", "pareto", number)
        if isinstance(one, str) and one not in families and one not in answering:
            yield Fault(key, unknown("family or loss of", one, [*families, *answering]))
    if optimum.pareto[0] == optimum.pareto[1]:
        yield Fault(("optimum", "pareto"), "both objectives are the same; name two.")


# What laws are fitted to


def check_swarm_step(scope: Scope) -> Faults:
    swarm = scope.block.swarm
    recipe = scope.recipe(swarm.model)
    if recipe:
        recipe |= scope.own["swarm"].get("training", {})
        if swarm.step not in evaluations(recipe):
            sentence = f"the losses of the swarm are measured {measurements(recipe)}, not at {swarm.step}."
            yield Fault(("swarm", "step"), sentence)


def check_fit(scope: Scope) -> Faults:
    """The steps and the runs that laws of one size are fitted to."""
    optimum = scope.block.optimum
    recipe = scope.recipe(optimum.model)
    if recipe is None:
        return
    if optimum.group == "swarm" and scope.sound("swarm"):
        recipe |= scope.own["swarm"].get("training", {})
    yield from step_faults(scope, evaluations(recipe))
    if scope.block.reuse:  # how many runs join is counted by the job
        return
    names = scope.group(optimum.group) if scope.sound("groups", "domains") else None
    if names is not None:
        yield from run_faults(scope, len(names), len(scope.block.domains))


def check_reuse(scope: Scope) -> Faults:
    """Older runs that cannot join the fit, and folders that have none of the fitted model."""
    optimum, model = scope.block.optimum, scope.block.optimum.model
    for key, value, why in (
        ("models", optimum.models, "older runs join the fit of one model: take `reuse` or `models` away."),
        ("stage", optimum.stage, "older runs have one mixture for the whole run: take `reuse` or `stage` away."),
        ("group", optimum.group == "swarm" or None, "older runs join a group under `groups`: name one."),
    ):
        if value is not None:
            yield Fault(("optimum", key), why)
    for number, one in enumerate(scope.block.reuse):
        key, given = ("reuse", number), one if isinstance(one, str) else one.folder
        for parts in ({} if isinstance(one, str) else one.map or {}).values():
            for name in [parts] if isinstance(parts, str) else parts:
                if name not in scope.trained:
                    yield Fault((*key, "map"), unknown("domain", name, scope.trained, "there are"))
        if given and Path(given).resolve() == Path(scope.planned.folder).resolve():
            yield Fault(key, f"{given} is this dataset's own folder: its runs would count twice; see docs/reuse.md.")
        elif scope.wanted and given and not any(Path(given).glob(f"runs/{model}/*/run.json")):
            yield Fault(key, f"{given} has no finished run of {model} (runs/{model}/*/run.json).")
        tables = [] if isinstance(one, str) else [path for path in (one.losses, one.mixtures) if path]
        yield from filter(None, (file_fault(key, path) for path in tables if scope.wanted))
        if not given and len(tables) < 2:
            yield Fault(key, "name a folder of results, or losses and mixtures.")


def step_faults(scope: Scope, measured: list[int]) -> Faults:
    """Faults of the steps at which runs are measured, and of the step of the optimum."""
    step, key = scope.block.optimum.step, ("optimum", "step")
    single = [law for law in scope.laws if law in SWARM_LAWS or len(measured) == 1]
    curves = [law for law in scope.laws if law not in single]
    if scope.wanted and curves and len(measured) == 2:
        yield Fault(
            ("optimum", "group"),
            f"its runs are measured at two steps, {measured[0]:,} and {measured[1]:,}, from which {named(curves)}"
            " give no curve: measure at three or more, or at one.",
        )
    if step in measured:
        return
    first, last = measured[0], measured[-1]
    if scope.wanted and single:
        there = named(f"{one:,}" for one in measured)
        sentence = (
            f"{named(single)} says nothing about the step {step:,}, at which no run is measured; there are {there}."
        )
        yield Fault(key, sentence)
    elif step > last:
        sentence = f"{step:,} is {step / last:.3g} times the last measured step, {last:,}: the law extrapolates."
        yield Fault(key, sentence, remark=True)
    elif step < first:
        sentence = f"{step:,} comes before the first measured step, {first:,}: the law extrapolates."
        yield Fault(key, sentence, remark=True)
    else:
        before = max(one for one in measured if one < step)
        sentence = f"{step:,} lies between two measured steps, {before:,} and the next: the law fills in."
        yield Fault(key, sentence, remark=True)


def run_faults(scope: Scope, runs: int, domains: int) -> Faults:
    """Laws that need more runs than the group under `optimum` has."""
    if not scope.wanted:
        return
    if runs < 2:
        yield Fault(("optimum", "group"), ONE_RUN)
    for law in scope.laws:
        least = LAWS[law].least_runs(domains)
        if LAWS[law].refuses_few and 2 <= runs < least:
            sentence = f"{law} (in laws/optimise) needs {least} runs at least for {domains} domains; the group has"
            yield Fault(("optimum", "group"), f"{sentence} {runs}.")


# Several sizes


def single_laws(scope: Scope) -> list[str]:
    """Laws that are fitted to losses of one size of model."""
    return [law for law in scope.laws if not LAWS[law].over_sizes]


def check_one_size(scope: Scope) -> Faults:
    if scope.block.optimum.for_ is not None and scope.block.optimum.models is None:
        sentence = "a law of one size says nothing of another: name two or more models under `models`."
        yield Fault(("optimum", "for"), sentence)


def check_sizes(scope: Scope) -> Faults:
    """An optimum for another size than those of the models that the laws are fitted to."""
    block, optimum = scope.block, scope.block.optimum
    key, models = ("optimum", "models"), scope.config.models or {}
    for name, why in (
        ("model", "`models` names the models that the laws are fitted to"),
        ("step", "a law over sizes predicts the end of a run, and `for` has its own steps under `training`"),
    ):
        if getattr(optimum, name) is not None:
            yield Fault(("optimum", name), f"{why}: take {name} away.")
    length = len(JOINS.join(optimum.models))
    if length > LONGEST:
        sentence = f"their names joined have {length} letters, and names of files {LONGEST} at most: shorten some."
        yield Fault(key, sentence)
    shapes = [models[one].shape or models[one].parameters if one in models else None for one in optimum.models]
    for number, shape in enumerate(shapes):
        if shape is not None and shape in shapes[:number]:
            other = optimum.models[shapes.index(shape)]
            sentence = f"{optimum.models[number]} has the shape of {other}: a law over sizes needs models of several."
            yield Fault((*key, number), sentence)
    names = scope.group(optimum.group)
    if optimum.group == "swarm":
        sentence = "the swarm is trained with one model: name a group of `groups` instead."
        yield Fault(("optimum", "group"), sentence)
    elif names is not None and len(names) < 2:
        yield Fault(("optimum", "group"), ONE_RUN)
    if block.simulate_epochs:
        sentence = "each of `optimum/models` would have pools of its own, and a law over sizes reads one of each domain"
        yield Fault(("simulate_epochs",), f"{sentence}: take it away.")
    if block.held_out:
        sentence = "a law over sizes is not scored on held-out groups; it predicts their losses only."
        yield Fault(("held_out",), sentence, remark=True)
    if block.compare.model != (optimum.for_ or block.compare.model):
        sentence = f"`compare` trains {block.compare.model}: what is predicted of {optimum.for_} is not measured."
        yield Fault(("optimum", "for"), sentence, remark=True)


def check_sized_laws(scope: Scope) -> Faults:
    """Laws of one size, as far as a dataset with models of several would need them."""
    single = single_laws(scope)
    if single and len(single) == len(scope.laws):
        sentence = f"{named(single)} (in laws/optimise) are fitted to losses of one size of model: add transfer there."
        yield Fault(("optimum", "models"), sentence)
    elif single:
        sentence = f"{named(single)} (in laws/optimise) is fitted to losses of one size of model, and left out here."
        yield Fault(("optimum", "models"), sentence, remark=True)
    for key, names in scope.lists():
        for number, name in enumerate(names):
            if name in LAWS and not LAWS[name].over_sizes and not scope.planned.from_swarm(name):
                yield Fault((*key, number), one_size(name))
