"""Checks of a dataset of text, its domains and trainings, and of models."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from bimix.laws.table import LAWS
from bimix.names import named, shown
from bimix.plan.dataset import LAUNCHED, evaluations, weights_of
from bimix.settings.faults import Fault
from bimix.settings.models import Drawn, Losses, Model, Shape
from bimix.settings.scope import Scope
from bimix.training.recipe import schedule_fault

Faults = Iterator[Fault]
HOLE = "{domain}"
# What goes with each way in which a command may leave its losses.
TAKES = {"table": (), "lines": ("step", "loss"), "trainer_state": ("loss",), "pattern": ("file",)}


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


# Models


def check_model(model: Model) -> Faults:
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


def check_shape(shape: Shape) -> Faults:
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
