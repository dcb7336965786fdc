"""Checks of a dataset of text: its domains, trainings and mixtures, and the names in them."""

import csv
from collections.abc import Iterator
from pathlib import Path

from bimix.laws.table import LAWS, is_optimum
from bimix.names import named, shown, unknown
from bimix.plan.dataset import evaluations, weights_of
from bimix.plan.sources import BEST, GROUP, REWEIGHTING, counts_runs, search_runs
from bimix.settings.faults import Fault
from bimix.settings.models import Drawn
from bimix.settings.scope import Scope
from bimix.training.recipe import schedule_fault

Faults = Iterator[Fault]


# Text


def check_domains(scope: Scope) -> Faults:
    """Domains that the corpus leaves out."""
    domains, corpus = scope.block.domains, scope.block.corpus
    for name in ("harvest", "train", "validation"):
        part = getattr(corpus, name)
        lacking = [domain for domain in domains if domain not in part] if isinstance(part, dict) else []
        if lacking:
            what = "harvest" if name == "harvest" else "files"
            yield Fault(("corpus", name), f"no {what} for {named(lacking)}; name some, or take it out of `domains`.")


def check_records(scope: Scope) -> Faults:
    """How the records say their domains."""
    domains, corpus, labels = scope.block.domains, scope.block.corpus, {}
    for name in ("train", "validation") if corpus.domain_field is None else ():
        if isinstance(getattr(corpus, name), str | list):
            yield Fault(
                ("corpus", name),
                "files without a domain: name the field of the records that says it as `domain_field`, or map"
                " domains to their files, as in `train: {web: web/*.jsonl}`.",
            )
    for domain in domains if corpus.domain_field is not None else ():
        label = (corpus.labels or {}).get(domain, domain)
        if label in labels:
            yield Fault(("corpus", "labels"), f"{labels[label]!r} and {domain!r} have the same label {label!r}.")
        labels[label] = domain


def check_lengths(scope: Scope) -> Faults:
    """The lengths above which documents of each domain give their ends to validation."""
    key, corpus = ("corpus", "held_out_characters"), scope.block.corpus
    lengths, files = corpus.held_out_characters, corpus.harvest or corpus.train
    if not isinstance(lengths, dict):
        return
    if not isinstance(files, dict):
        yield Fault(key, "a number for each domain needs files for each domain under `train`; give one number for all.")
        return
    if lacking := [domain for domain in files if domain not in lengths]:
        yield Fault(key, f"no number for {named(lacking)}; name some, or give one number for all.")


def check_measured_only(scope: Scope) -> Faults:
    """Domains that nothing trains on: laws without losses of them, and a tokenizer that would be
    trained before the text is drawn that it must leave out.
    """
    key, block = ("corpus", "validation_only"), scope.block
    for name in block.corpus.validation_only:
        if name in block.domains:
            sentence = "it is in `domains`, which are trained on; files of it go to `validation`."
            yield Fault((*key, name), sentence)
    names = [*scope.laws, *(name.removesuffix("_swarm") for _, names in scope.lists() for name in names)]
    for law in dict.fromkeys(name for name in names if name in LAWS) if scope.wanted else ():
        if not LAWS[law].measured_only:
            yield Fault(
                key,
                f"{law} has losses of training domains alone; leave it out of laws/optimise, as in"
                " `laws: {optimise: [transfer]}`, and of all groups, or take these domains out.",
            )
    drawn = block.corpus.validation
    if scope.sound("tokenizer/train") and isinstance(drawn, Drawn) and drawn.tokens is not None:
        yield Fault(
            key,
            "with validation `tokens`, which are drawn with the tokenizer, the tokenizer would be trained"
            " on text of these domains; hold out a `share` alone, or give a tokenizer.",
        )


def check_published(scope: Scope) -> Faults:
    """The table of published mixtures that the dataset names."""
    tables, name = scope.config.mixtures.published, scope.block.published
    if name not in tables:
        return
    try:
        with Path(scope.code, tables[name]).open(encoding="utf-8", newline="") as lines:
            header, *rows = [row for row in csv.reader(lines) if row] or [[]]
    except (OSError, UnicodeDecodeError) as error:
        yield Fault(("published",), f"the table {tables[name]} cannot be read ({error}).")
        return
    if header[:1] != ["domain"] or len(header) < 2:
        yield Fault(("published",), f"the table {tables[name]} must have a column domain and one a mixture.")
        return
    strange = [row[0] for row in rows if row[0] not in (scope.block.domains or [row[0]])]
    if strange:
        sentence = f"the table {tables[name]} has a domain {shown(strange[0])}, which `domains` has not."
        yield Fault(("published",), sentence)


# Trainings


def check_trainings(scope: Scope) -> Faults:
    """Rows that processes cannot share, and two ways to name models."""
    models, block = scope.config.models or {}, scope.block
    if block.models:
        sentence = "auto contradicts `training`, which names the models; take one of them away."
        yield Fault(("models",), sentence)
    for name in block.training:
        recipe, launch = scope.recipe(name), models[name].launch if name in models else None
        if recipe and launch and scope.sound(f"/models/{name}"):
            processes = max(launch.gpus or 0, 1) * (launch.nodes or 1)
            if recipe["batch_rows"] < processes:
                sentence = (
                    f"{recipe['batch_rows']} rows cannot be shared by the {processes} processes of {name}"
                    " (gpus times nodes in its `launch`); each needs one at least."
                )
                yield Fault(("training", name, "batch_rows"), sentence)


def check_commands(scope: Scope) -> Faults:
    """What is not possible of a model that a command trains: its weights are not known."""
    block, models = scope.block, scope.config.models
    commands = {name: model.command for name, model in models.items() if model.command}
    for stage, what in (
        ("downstream", "answers questions with its weights"),
        ("swarm", "is trained in one process with others"),
        ("reweighting", "weighs domains while it trains"),
    ):
        if scope.sound(f"{stage}/model") and (model := getattr(block, stage).model) in commands:
            yield Fault((stage, "model"), f"{model} is trained by a command; a model that {what} needs a `shape`.")
    trained = [name for name in block.training or () if name in commands]
    if trained and block.simulate_epochs:
        sentence = f"{trained[0]} is trained by a command, which reads all the text there is: take it away."
        yield Fault(("simulate_epochs",), sentence)
    for name in block.seeds or () if scope.sound("?seeds") else ():
        if name in commands and "{seed}" not in commands[name]:
            yield Fault(("seeds", name), "its command never says {seed}: all of its seeds would be one run.")
    proxies = [block.optimum.model, *(block.optimum.models or [])] if block.optimum else []
    plain = scope.plain["models"]
    proxy = min((name for name in proxies if name in plain), key=lambda name: weights_of(plain[name]), default=None)
    for key, names in scope.lists() if proxy in commands else ():
        if "chameleon" in names:
            sentence = f"chameleon embeds the domains by the weights of {proxy}, which a command trains."
            yield Fault(key, sentence)


def check_schedules(scope: Scope) -> Faults:
    """What does not go together in a schedule, and an optimum at a step at which a run's rate has
    not decayed: its losses compare with those of no run of that length. Losses measured once are
    remarked.
    """
    block = scope.block
    fitted = None
    if scope.sound("optimum/step", "optimum/model", "optimum/group"):
        fitted = ("swarm", "training") if block.optimum.group == "swarm" else ("training", block.optimum.model)
    for key, recipe in scope.recipes():
        annealed, last = recipe["schedule"] == "wsds", recipe["steps"]
        if key[0] == "reweighting" and not annealed:
            continue  # the model's horizons are nothing to another schedule
        if found := schedule_fault(recipe):
            yield Fault((*key, found[0]), found[1])
            continue
        own = (scope.config.models or {}).get(key[1]) if key[0] == "training" else None
        if annealed and own and own.command:
            sentence = f"{key[1]} is trained by a command, which has its own schedule; wsds is none for it."
            yield Fault((*key, "schedule"), sentence)
        if annealed and key == fitted and block.optimum.step not in evaluations(recipe):
            yield Fault(
                ("optimum", "step"),
                f"the losses of {block.optimum.model} are measured {measurements(recipe)}, not at"
                f" {block.optimum.step:,}: name one of these steps, or make it a horizon.",
            )
        if key[0] == "training" and len(evaluations(recipe)) == 1:
            interval = "no horizons" if annealed else f"evaluate_every {recipe['evaluate_every']:,}"
            sentence = f"with {interval} and {last:,} steps the losses are measured once, at the end; a law over steps"
            yield Fault(key, f"{sentence} needs several.", remark=True)


def measurements(recipe: dict) -> str:
    """When a training measures its losses, in words."""
    if recipe["schedule"] == "wsds":
        return f"at the ends of its decays alone, {named(f'{step:,}' for step in evaluations(recipe))}"
    return f"every {recipe['evaluate_every']} steps and after the last, {recipe['steps']}"


# Mixtures


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
