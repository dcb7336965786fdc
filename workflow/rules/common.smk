# What all chapters share: readers of the config for params and inputs, outputs that the report
# shows, the constraints of the wildcards. What is planned by the config is in bimix/plan.
import functools
import json
from dataclasses import asdict
from pathlib import Path

from bimix.settings.complete import SAMPLED
from bimix.settings.ladder import keep
from bimix.errors import InputError
from bimix.mixtures.names import RIVALS, published_table, rounds
from bimix.plan import budget, inputs, sources
from bimix.settings.models import LAUNCHED
from bimix.plan.dataset import Dataset, joined_models
from bimix.laws.table import JOINS, LAWS
from bimix.corpus.files import missing_sentence
from bimix.plan.shards import Shards, digest, file_version, held_out_length, missing, open_shards, reading
from bimix.plan.shards import table_versions, task_versions, vectors_version, versions_of
from bimix.plan.targets import all_targets, summarised
from bimix.plan.sources import entry_at, one_of
from bimix.corpus.tasks import task_folders

DATASETS = {name: Dataset(config, name) for name in config["datasets"]}
names_under = functools.partial(sources.names_under, config)
datasets_with = functools.partial(sources.datasets_with, config)
made_by = functools.partial(sources.constraint, DATASETS.values())


@functools.cache
def hold_results(dataset):
    """Keep the calls of other checkouts off a dataset's results until this one ends; the cache
    keeps the lock open.
    """
    # Jobs of this call run under its lock.
    if not (PLANS and runs_jobs() and holds_locks()):
        return None
    from bimix.settings import lock  # here only: a dry run locks nothing

    try:
        held, remark = lock.hold(dataset)
    except InputError as error:
        end_planning(error)
    if remark:
        logger.warning(f"Remark: {remark}")
    return held


def writes_into(folder):
    """Whether planning notes what it has found in a dataset's folder: one that is read-only can be
    read where there is nothing to make, and any job would hold it.
    """
    return PLANS and runs_jobs() and (not os.path.exists(folder) or os.access(folder, os.W_OK))


@functools.cache
def shards(dataset):
    """The shards of a dataset; the call that plans writes their manifest."""
    own = DATASETS[dataset]
    writes = writes_into(own.folder)
    if writes:
        hold_results(dataset)
        if dataset in filled:
            keep(dataset, filled[dataset].basis, filled[dataset].choice)
    opened = open_shards(own, PLANS, writes, plans_without_files(own))
    return Shards(own, opened, versions_of(own, PLANS, writes))


def plans_without_files(dataset):
    """Whether a dataset is planned though files are not there: nothing runs, and no model is chosen
    by the size of its text.
    """
    return PLANS and not runs_jobs() and dataset.name not in filled


def there(dataset, paths, made):
    """Files that a job reads, which makes `made`. A plan alone leaves out those that are not there,
    and says so; what is made needs them no more.
    """
    if not plans_without_files(dataset) or lacking(dataset).keys().isdisjoint(paths) or os.path.exists(made):
        return paths
    remark_missing(dataset)
    return [path for path in paths if path not in lacking(dataset)]


lacking = functools.cache(missing)


@functools.cache
def remark_missing(dataset):
    """Say once what a dataset lacks."""
    logger.warning(f"Remark: {dataset.name}: {missing_sentence(lacking(dataset))} The plan goes on without them.")


# What a function of the plan may take besides wildcards, by the name of its parameter.
GIVEN = {"config": lambda _: config, "dataset": DATASETS.get, "shards": shards}


def planned(function):
    """A function of the wildcards: what `function` gives for them.

    Its parameters are `dataset`, `config`, the dataset's `shards`, and wildcards by their names;
    one with a default may be no wildcard of the rule.
    """
    parameters = inspect.signature(function).parameters.values()
    names = [(one.name, one.default is not one.empty) for one in parameters]

    def find(wildcards):
        dataset = wildcards.get("dataset")
        try:
            return function(
                **{
                    name: GIVEN[name](dataset) if name in GIVEN else wildcards[name]
                    for name, may_lack in names
                    if name in GIVEN or not may_lack or name in wildcards.keys()
                }
            )
        except InputError as error:
            end_planning(error)

    return of_wildcards(find)


def setting(path, default=None):
    """A function of the wildcards: an entry of the dataset's block."""
    return entry(f"datasets/{{dataset}}/{path}", default)


def entry(path, default=None):
    """A function of the wildcards: an entry of the config, whose path may hold {wildcards}."""
    return of_wildcards(lambda wildcards: entry_at(config, path, wildcards, default))


def when(key, path):
    """A function of the wildcards: a path with the {entry} at a key of the dataset's block; none
    where there is no entry.
    """
    return planned(lambda dataset: dataset.when(key, path))


def as_json(find, default=None, sort_keys=True):
    """A function of the wildcards: JSON of what another gives, or of an entry of the config."""
    find = entry(find, default) if isinstance(find, str) else find
    return of_wildcards(lambda wildcards: json.dumps(find(wildcards), sort_keys=sort_keys, default=asdict))


def uncompared(find):
    """What another function of the wildcards gives, as a param whose change runs no job again:
    Snakemake takes it for one that follows from the output.
    """
    return lambda wildcards, output: find(wildcards)


def bound(key):
    """A function of the wildcards: weights or bounds of the optimum, in the order of the config."""
    return as_json(f"datasets/{{dataset}}/optimum/{key}", default={}, sort_keys=False)


def brought(like):
    """A function of the wildcards: the versions of the tables that a dataset of losses names, since
    `cp -p`, rsync and unzip bring older times. Of a dataset of text what `like` gives, another
    param of the rule, so that no older result is made again.
    """

    def find(wildcards):
        dataset = DATASETS[wildcards.dataset]
        return digest(map(str, table_versions(dataset))) if dataset.observed else like(wildcards)

    return of_wildcards(find)


# Options of an optimum besides its step, and their flags with those of its files. Rules put such
# flags in parentheses: Snakemake's linter takes a string + NAME for a path.
SOUGHT = {key: bound(key) for key in ("weights", "objective", "lower", "upper")}
# What Snakemake compares are values without names: a bound that went from `lower` to `upper` would be
# no change. Where there is no lower one this adds nothing, so that no older result is made again.
SOUGHT["limits"] = of_wildcards(lambda wildcards: lower if (lower := bound("lower")(wildcards)) == "{}" else [lower])
SOUGHT["brought"] = brought(SOUGHT["upper"])
SOUGHT["max_epochs"] = setting("optimum/max_epochs", default="none")
SOUGHT["strengths"] = setting("strengths", default=())
SOUGHT_FLAGS = r"""--weights {params.weights:q} \
            --objective {params.objective:q} \
            --lower {params.lower:q} \
            --upper {params.upper:q} \
            --max-epochs {params.max_epochs:q} \
            --tokens {input.tokens:q} \
            --reference {input.reference:q} \
            """


# Options of a search, and their flags with those of its tables.
SEARCHED = {key: SOUGHT[key] for key in SOUGHT if key != "strengths"} | {
    "domain_groups": as_json("datasets/{dataset}/domain_groups", {}),
    "law": setting("search/law"),
    "least": setting("search/least"),
    "step": setting("optimum/step"),
    "run_tokens": planned(lambda dataset: inputs.epoch_run_tokens(dataset, dataset.block["search"]["law"])),
}
SEARCH_FLAGS = SOUGHT_FLAGS + r"""--losses {input.losses:q} \
            --mixtures {input.mixtures:q} \
            --prior {input.prior:q} \
            --domain-groups {params.domain_groups:q} \
            --law {params.law:q} \
            --step {params.step:q} \
            --asked {input.asked:q} \
            --run-tokens {params.run_tokens:q} \
            --least {params.least:q} \
            """


def fitted(pattern, **more):
    """Files of the model and the group that the dataset's laws are fitted to."""
    return collect(pattern, model=setting("optimum/model"), group=setting("optimum/group"), **more)


# How a training is launched: resources, since no run is repeated because of them. `runtime` in
# minutes, 0: no limit; a profile says how long (set-resources).
LAUNCH = {"runtime": 0} | {name: entry(f"models/{{model}}/launch/{name}", *usual) for name, usual in LAUNCHED.items()}
# On all nodes together, which is how schedulers count GPUs.
GPUS = planned(
    lambda config, model: config["models"][model]["launch"]["gpus"] * config["models"][model]["launch"]["nodes"]
)
# The text that every training reads, and the flags that all trainings here have.
TOKENS = {
    "train": "results/{dataset}/tokens/train.parquet",
    "validation": "results/{dataset}/tokens/validation.parquet",
    "tokenizer": "results/{dataset}/tokenizer.json",
}
TRAINING_FLAGS = r"""--micro-batch {resources.micro_batch} \
            --loss-chunk {resources.loss_chunk} \
            --compile {resources.compile} \
            --train {input.train:q} \
            --validation {input.validation:q} \
            --tokenizer {input.tokenizer:q} \
            --shape {params.shape:q} \
            --recipe {params.recipe:q} \
            --state {params.state:q} \
            """


def models_with(key):
    """Models of the config with a `shape`, which are trained here, or a `command` of the user's."""
    return [name for name, model in config["models"].items() if key in model]


IN_FRONT = ("recommended", "perplexity", "proportions", "cross_entropy", "rounds")  # figures, in the report's order
TABLES = {}  # what the report shows of each table, by name; show_table writes its page


def shown(path, caption, category, shows):
    """An output that the report shows, among those of its dataset; of a table in csv its page of
    html. The summary and the figures in front come first, all else is an appendix.

    The report's own table of entries has a column for each wildcard of the path.
    """
    title = shows.partition(": {")[0].replace(" (csv)", " (table)")
    if path.endswith(".csv"):
        TABLES[Path(path).stem] = (caption, category, title)
        return path
    if path.endswith(".svg") and Path(path).stem.split("_{")[0] in IN_FRONT:
        category = "2 Findings"
    elif category[0] > "1":
        category = f"Appendix, {category[2:].lower()}"  # a colon would end its name as a link in RST
    columns = {name: f"{{{name}}}" for name in ("reweighted", "model", "group", "law") if f"{{{name}}}" in path}
    sort = {"category": category, "subcategory": "{dataset}", "labels": {"figure": title} | columns}
    return report(path, caption=f"../report/{caption}.rst", **sort)


def figure(name, category, shows, caption=None):
    """The output figures/{name}.svg, shown; its caption has its name but for the wildcards."""
    return shown(f"results/{{dataset}}/figures/{name}.svg", caption or name.split("_{")[0], category, shows)


def table(name, category, shows, caption=None):
    """The output tables/{name}.csv, shown; its caption has its name unless another is given."""
    return shown(f"results/{{dataset}}/tables/{name}.csv", caption or name, category, shows)


def script(name, *modules):
    """A rule's script and modules of bimix: a change of them makes its outputs again."""
    paths = [f"{name}.py", *(f"bimix/{module}.py" for module in modules)]
    return [code(f"workflow/scripts/{path}") for path in paths]


# What decides how runs are compared.
JUDGE = [f"judge/{name}" for name in ("measured", "comparison", "noise")]


wildcard_constraints:
    dataset=one_of(config["datasets"]),
    domain=names_under("domains"),
    model=one_of([*config["models"], "observed", *joined_models(config)]),
    group=names_under("groups"),
    law=one_of(LAWS),
    shard=r"[^/]+",
    mixture=r"[^/@]+",
    run=r"[^/@]+(@\d+)?",
    round=r"[1-9]\d*",
    part=r"\d+",
    split="train|validation",
    step=r"[1-9]\d*",
