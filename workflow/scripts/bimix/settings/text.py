"""Checks of a dataset of text: its domains, files and trainings."""

import os
import stat

from bimix.blocks import Faults
from bimix.corpus.files import (
    corpus_patterns,
    expand,
    held_by_hash,
    missing_files,
    missing_sentence,
    named_files,
    unknown_endings,
)
from bimix.errors import InputError
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
    corpus, domains = scope.block["corpus"], scope.block["domains"]
    for name in ("harvest", "train", "validation"):
        part = corpus.get(name, {})
        if isinstance(part, str | list) and corpus["domain_field"] is None:
            sentence = "files without a domain: name the field of the records that says it as `domain_field`, or"
            yield ("corpus", name), f"{sentence} map domains to their files, as in `train: {{web: web/*.jsonl}}`."
        by_domain = {} if name == "validation" and held_by_hash(corpus) else part
        if (
            isinstance(by_domain, dict)
            and by_domain
            and (lacking := [domain for domain in domains if domain not in by_domain])
        ):
            yield ("corpus", name), f"no files for {named(lacking)}; name some, or take it out of `domains`."
    labels: dict[str, str] = {}
    for domain in domains if corpus["domain_field"] else ():
        label = corpus["labels"].get(domain, domain)
        if labels.setdefault(label, domain) != domain:
            yield "corpus/labels", f"{labels[label]!r} and {domain!r} have the same label {label!r}."
    # the lengths above which documents of each domain give their ends to validation
    lengths, files = corpus["held_out_characters"], corpus.get("harvest") or corpus["train"]
    key = "corpus/held_out_characters"
    if isinstance(lengths, dict) and not isinstance(files, dict):
        yield key, "a number for each domain needs files for each domain under `train`; give one number for all."
    elif isinstance(lengths, dict) and (lacking := [domain for domain in files if domain not in lengths]):
        yield key, f"no number for {named(lacking)}; name some, or give one number for all."


def check_measured_only(scope: Scope) -> Faults:
    """Domains that nothing trains on: laws without losses of them."""
    key, measured = ("corpus", "validation_only"), scope.block["corpus"].get("validation_only", {})
    for name in measured.keys() & set(scope.block["domains"]):
        yield (*key, name), "it is in `domains`, which are trained on; files of it go to `validation`."
    if not (measured and scope.wanted):
        return
    optima = [OPTIMUM.fullmatch(name) for names in scope.lists.values() for name in names]
    for law in dict.fromkeys([*scope.laws, *(optimum[1] for optimum in optima if optimum)]):
        if not LAWS[law].measured_only:
            sentence = f"{law} has losses of training domains alone; leave it out of laws/optimise and of all groups,"
            yield key, f"{sentence} or take these domains out."


def check_published(scope: Scope) -> Faults:
    """The table of published mixtures that the dataset names."""
    if "published" not in scope.block:
        return
    table = published_table(scope.block["published"], f"{scope.code}/")
    try:
        header, *rows = scope.published_rows() or [[]]
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        sentence = f"the table {table} cannot be read ({why}): name pile, slimpajama or the path of a .csv table."
        yield "published", sentence
        return
    if header[:1] != ["domain"] or len(header) < 2:
        yield "published", f"the table {table} must have a column domain and one a mixture."
    elif strange := [row[0] for row in rows if row[0] not in scope.block["domains"]]:
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
    patterns = list(named_files(scope.block, folder))
    missing = missing_files(patterns, folder)
    if missing and not scope.plans_only:
        yield next(iter(missing.values())) if len(missing) == 1 else (), missing_sentence(missing)
    texts = []
    for key, pattern in patterns:
        of_corpus = key[0] == "corpus"
        if pattern in missing or ("://" in pattern and key[0] in ("corpus", "downstream")):
            continue
        try:
            paths = [path for path, _ in expand(pattern, 0)[1]] if of_corpus else [pattern]
        except InputError as error:
            yield key, str(error)
            continue
        if pattern.startswith("@"):  # what a list names may be far away, or yet be made
            paths = [path for path in paths if "://" not in path and os.path.exists(path)]
        for path in paths:
            if fault := file_fault(path):
                yield key, fault
            elif of_corpus:
                texts.append(path)
    if texts and (fault := unknown_endings(scope.block["corpus"]["formats"], texts)):
        yield "corpus/formats", fault


def check_epochs(scope: Scope) -> Faults:
    """Bounds on epochs and shares that leave no mixture by the size of the domains' files: a fault if ten
    times the text would not do, for sizes are good to a few times at worst, else a remark.
    """
    block, optimum = scope.block, scope.block["optimum"]
    sources = [pattern for _, patterns in corpus_patterns(block["corpus"]) for pattern in patterns]
    if not scope.wanted or not sources or any("://" in one or one[:1] == "@" for one in sources):
        return
    model = optimum.get("for", optimum["model"])
    recipe, epochs = block["training"][model], optimum["max_epochs"]
    step = recipe["steps"] if "for" in optimum else optimum["step"]
    run = step * recipe["batch_rows"] * block["sequence_length"]
    in_token = token_bytes(block["tokenizer"].get("train", {}).get("vocabulary", UNKNOWN_VOCABULARY))
    # the largest share of each domain, were its text as large as its files say
    most = {domain: epochs * size / in_token / run for domain, size in text_bytes(scope.config, scope.name).items()}
    upper, lower = optimum.get("upper", {}), optimum.get("lower", {})
    reads = f"a run of {model} to step {step:,} reads {run:,}"
    if (total := sum(min(share, upper.get(domain, 1)) for domain, share in most.items())) < 1:
        more = sum(min(SURE * share, upper.get(domain, 1)) for domain, share in most.items())
        sentence = f"{epochs:g} epochs of all text are about {total * run:,.0f} tokens by the size of its files"
        yield "optimum/max_epochs", f"{sentence}, and {reads}: allow more, or run for less.", more >= 1
    for domain in lower.keys() & most.keys():
        if lower[domain] > most[domain]:
            sentence = f"{epochs:g} epochs of its text are about {most[domain]:.2g} of the run, as {reads}:"
            remark = SURE * most[domain] >= lower[domain]
            yield ("optimum", "lower", domain), f"{sentence} allow more epochs, or lower this bound.", remark


# Trainings


def check_trainings(scope: Scope) -> Faults:
    """Rows that processes cannot share, final rates above their peaks; losses measured once are remarked."""
    for key, model, recipe in scope.recipes():
        launch, of_model = scope.config["models"][model]["launch"], key[0] == "training"
        rows, processes = recipe["batch_rows"], max(launch["gpus"], 1) * launch["nodes"]
        if rows < processes and (of_model or rows != scope.block["training"][model]["batch_rows"]):
            sentence = f"{rows} rows cannot be shared by the {processes} processes of {model} (gpus times nodes);"
            yield (*key, "batch_rows"), f"{sentence} each needs one at least."
        if fault := rate_fault(recipe):
            yield (*key, "final_learning_rate"), fault
        elif of_model and len(evaluations(recipe)) == 1:
            sentence = f"with evaluate_every {recipe['evaluate_every']:,} and {recipe['steps']:,} steps the losses are"
            yield key, f"{sentence} measured once, at the end; a law over steps needs several.", True


def check_commands(scope: Scope) -> Faults:
    """What is not possible of a model that a command trains: its weights are not known."""
    block, models = scope.block, scope.config["models"]
    commands = {name: model["command"] for name, model in models.items() if "command" in model}
    for stage in OF_OUR_OWN:
        if stage in block and (model := block[stage]["model"]) in commands:
            yield (stage, "model"), f"{model} is trained by a command; name a model with a `shape`."
    trained = [name for name in block["training"] if name in commands]
    if trained and block.get("simulate_epochs"):
        yield "simulate_epochs", f"{trained[0]} is trained by a command, which reads all text there is: take it away."
    for name in block.get("seeds", ()):
        if name in commands and "{seed}" not in commands[name]:
            yield ("seeds", name), "its command never says {seed}: all of its seeds would be one run."


def check_downstream(scope: Scope) -> Faults:
    """Steps whose weights are to answer, and at which a run is not evaluated."""
    downstream = scope.block["downstream"]
    recipe = scope.block["training"][downstream["model"]]
    for number, step in enumerate(downstream["steps"]):
        if step not in evaluations(recipe):
            every = f"one every {recipe['evaluate_every']} steps up to {recipe['steps']}"
            sentence = f"{step} is no evaluation of {downstream['model']}, which has {every}."
            yield ("downstream", "steps", number), sentence
