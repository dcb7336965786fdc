"""Checks of a dataset of text: its domains, files and trainings."""

import os
import stat
from pathlib import Path

from bimix.blocks import Faults
from bimix.corpus.files import (
    corpus_patterns,
    has_wildcards,
    local_paths,
    missing_files,
    missing_sentence,
    named_files,
    unknown_endings,
)
from bimix.laws.table import LAWS, OPTIMUM
from bimix.mixtures.names import published_table
from bimix.model.shape import UNKNOWN_VOCABULARY
from bimix.names import named, shown
from bimix.settings.ladder import text_bytes, token_bytes
from bimix.settings.scope import Scope
from bimix.training.recipe import evaluations, rate_fault

SURE = 10  # times as much text as the sizes of files say
# Stages of a run that need the weights of their model, or train it in our own way.
OF_OUR_OWN = ("downstream", "swarm", "reweighting")


def check_domains(scope: Scope) -> Faults:
    """Domains that the corpus leaves out, and files that do not say theirs."""
    corpus = scope.block.corpus
    for name in ("harvest", "train", "validation"):
        part = getattr(corpus, name)
        if isinstance(part, dict) and (lacking := [domain for domain in scope.block.domains if domain not in part]):
            yield ("corpus", name), f"no files for {named(lacking)}; name some, or take it out of `domains`."
        if isinstance(part, str | list) and corpus.domain_field is None:
            sentence = "files without a domain: name the field of the records that says it as `domain_field`, or"
            yield ("corpus", name), f"{sentence} map domains to their files, as in `train: {{web: web/*.jsonl}}`."


def check_labels(scope: Scope) -> Faults:
    """Two domains whose records say the same."""
    labels: dict[str, str] = {}
    for domain in scope.block.domains:
        label = (scope.block.corpus.labels or {}).get(domain, domain)
        if labels.setdefault(label, domain) != domain:
            yield "corpus/labels", f"{labels[label]!r} and {domain!r} have the same label {label!r}."


def check_lengths(scope: Scope) -> Faults:
    """The lengths above which documents of each domain give their ends to validation."""
    key, corpus = "corpus/held_out_characters", scope.block.corpus
    lengths, files = corpus.held_out_characters, corpus.harvest or corpus.train
    if isinstance(lengths, dict) and not isinstance(files, dict):
        yield key, "a number for each domain needs files for each domain under `train`; give one number for all."
    elif isinstance(lengths, dict) and (lacking := [domain for domain in files if domain not in lengths]):
        yield key, f"no number for {named(lacking)}; name some, or give one number for all."


def check_measured_only(scope: Scope) -> Faults:
    """Domains that nothing trains on: laws without losses of them."""
    key, block = "corpus/validation_only", scope.block
    for name in block.corpus.validation_only.keys() & set(block.domains):
        yield (*key.split("/"), name), "it is in `domains`, which are trained on; files of it go to `validation`."
    optima = [OPTIMUM.fullmatch(name) for names in scope.lists.values() for name in names]
    for law in dict.fromkeys([*scope.laws, *(optimum[1] for optimum in optima if optimum)]) if scope.wanted else ():
        if not LAWS[law].measured_only:
            sentence = f"{law} has losses of training domains alone; leave it out of laws/optimise and of all groups,"
            yield key, f"{sentence} or take these domains out."


def check_published(scope: Scope) -> Faults:
    """The table of published mixtures that the dataset names."""
    table = published_table(scope.block.published, f"{scope.code}/")
    try:
        header, *rows = scope.published_rows() or [[]]
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        sentence = f"the table {table} cannot be read ({why}): name pile, slimpajama or the path of a .csv table."
        yield "published", sentence
        return
    if header[:1] != ["domain"] or len(header) < 2:
        yield "published", f"the table {table} must have a column domain and one a mixture."
    elif strange := [row[0] for row in rows if row[0] not in scope.block.domains]:
        yield "published", f"the table {table} has a domain {shown(strange[0])}, which `domains` has not."


# Files


def file_fault(path: str) -> str | None:
    """Why `path` is no file, nor a link to one; a device or a pipe would be read without an end."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        return f"{shown(path)} cannot be found ({error.strerror if isinstance(error, OSError) else error})."
    if stat.S_ISREG(mode):
        return None
    kind = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
    return f"{shown(path)} is {kind}; name a file."


def check_files(scope: Scope) -> Faults:
    """Files on this machine's disks that a dataset of text names: those that are not there together,
    and those of another kind or form.
    """
    folder = f"results/{scope.name}"
    patterns = list(named_files(scope.value, folder))
    missing = missing_files(patterns, folder)
    if missing and not scope.plans_only:
        yield next(iter(missing.values())) if len(missing) == 1 else (), missing_sentence(missing)
    texts = []
    for key, pattern in patterns:
        if pattern in missing:
            continue
        of_corpus = key[0] == "corpus"
        for path in _listed(pattern) if of_corpus else [pattern]:
            if fault := file_fault(path):
                yield key, fault
            elif of_corpus:
                texts.append(path)
    if texts and (fault := unknown_endings(scope.block.corpus.formats, texts)):
        yield "corpus/formats", fault


def _listed(pattern: str) -> list[str]:
    """The local files of a path, folder, glob or list of a corpus; what a list names may yet be made."""
    if "://" in pattern:
        return []
    if has_wildcards(pattern) or os.path.isdir(pattern):
        return list(local_paths(pattern))
    if not pattern.startswith("@"):
        return [pattern]
    if file_fault(pattern[1:]):
        return [pattern[1:]]
    # faults of its lines are reported where they are read
    lines = Path(pattern[1:]).read_text(encoding="utf-8", errors="replace").split("\n")
    paths = [line.partition("\t")[0] for line in lines]
    return [path for path in paths if path and "://" not in path and os.path.exists(path)]


def check_epochs(scope: Scope) -> Faults:
    """Bounds on epochs and shares that leave no mixture by the size of the domains' files: a fault if ten
    times the text would not do, for sizes are good to a few times at worst, else a remark.
    """
    optimum, trained = scope.block.optimum, scope.block.tokenizer.train
    sources = [pattern for _, patterns in corpus_patterns(scope.block["corpus"]) for pattern in patterns]
    model = optimum.for_ or optimum.model
    recipe = scope.recipe(model)
    if not scope.wanted or recipe is None or not sources or any("://" in one or one[:1] == "@" for one in sources):
        return
    in_token = token_bytes(trained.vocabulary if trained else UNKNOWN_VOCABULARY)
    step = recipe["steps"] if optimum.for_ else optimum.step
    run = step * recipe["batch_rows"] * scope.block.sequence_length
    # the largest share of each domain, were its text as large as its files say
    most = {
        domain: optimum.max_epochs * size / in_token / run
        for domain, size in text_bytes(scope.config, scope.name).items()
    }
    upper, lower = optimum.upper or {}, optimum.lower or {}
    reads = f"a run of {model} to step {step:,} reads {run:,}"
    if (total := sum(min(share, upper.get(domain, 1)) for domain, share in most.items())) < 1:
        more = sum(min(SURE * share, upper.get(domain, 1)) for domain, share in most.items())
        sentence = (
            f"{optimum.max_epochs:g} epochs of all text are about {total * run:,.0f} tokens by the size of its files"
        )
        yield "optimum/max_epochs", f"{sentence}, and {reads}: allow more, or run for less.", more >= 1
    for domain in lower.keys() & most.keys():
        if lower[domain] > most[domain]:
            sentence = f"{optimum.max_epochs:g} epochs of its text are about {most[domain]:.2g} of the run, as {reads}:"
            remark = SURE * most[domain] >= lower[domain]
            yield ("optimum", "lower", domain), f"{sentence} allow more epochs, or lower this bound.", remark


# Trainings


def check_trainings(scope: Scope) -> Faults:
    """Rows that processes cannot share, also of a swarm and of a reweighting that set their own."""
    models = scope.config.models
    for key, recipe in scope.recipes():
        name = key[1] if key[0] == "training" else getattr(scope.block, key[0]).model
        rows, launch = recipe["batch_rows"], models[name].launch if name in models else None
        reported = key[0] != "training" and rows == scope.recipe(name)["batch_rows"]
        if launch and not reported:
            processes = max(launch.gpus, 1) * launch.nodes
            if rows < processes:
                sentence = f"{rows} rows cannot be shared by the {processes} processes of {name} (gpus times nodes);"
                yield (*key, "batch_rows"), f"{sentence} each needs one at least."


def check_commands(scope: Scope) -> Faults:
    """What is not possible of a model that a command trains: its weights are not known."""
    block, models = scope.block, scope.config.models
    commands = {name: model.command for name, model in models.items() if model.command}
    for stage in OF_OUR_OWN:
        settings = getattr(block, stage)
        if settings and settings.model in commands:
            yield (stage, "model"), f"{settings.model} is trained by a command; name a model with a `shape`."
    trained = [name for name in block.training if name in commands]
    if trained and block.simulate_epochs:
        yield "simulate_epochs", f"{trained[0]} is trained by a command, which reads all text there is: take it away."
    for name in block.seeds or ():
        if name in commands and "{seed}" not in commands[name]:
            yield ("seeds", name), "its command never says {seed}: all of its seeds would be one run."


def check_schedules(scope: Scope) -> Faults:
    """Final rates above their peaks. Losses measured once are remarked."""
    for key, recipe in scope.recipes():
        if fault := rate_fault(recipe):
            yield (*key, "final_learning_rate"), fault
        elif key[0] == "training" and len(evaluations(recipe)) == 1:
            sentence = f"with evaluate_every {recipe['evaluate_every']:,} and {recipe['steps']:,} steps the losses are"
            yield key, f"{sentence} measured once, at the end; a law over steps needs several.", True
