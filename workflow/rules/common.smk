# What all chapters share: the config checked and completed, the constraints of the wildcards, the raw files of a dataset.
import hashlib
import json
import os
import re
import sys
from glob import glob
from pathlib import Path
from types import SimpleNamespace

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from snakemake.exceptions import WorkflowError

sys.path.insert(0, str(Path(workflow.basedir, "workflow/scripts")))
from bimix.needs import LEAST_RUNS
from bimix.shards import Shard, group_files, name_file, read_shards, write_shards

MEASURES = ["se", "je", "ce", "vne"]
LAWS = ["bimix", "transfer", "exponential", "regmix"]
# Laws whose mixture comes from the swarm, where there is one; of the others {law}_swarm does.
SWARM_LAWS = ["exponential", "regmix"]
REWEIGHTING = ["doremi", "doge"]


def refuse(key, sentence):
    raise WorkflowError(f"config: {key}: {sentence}")


def check_config():
    """Stop before the first job on a config that the schema refuses, with a sentence that names the key."""
    schema = yaml.safe_load(Path(workflow.basedir, "workflow/schemas/config.schema.yaml").read_text())
    error = best_match(Draft202012Validator(schema).iter_errors(config))
    if error is not None:
        refuse(Path(*map(str, error.absolute_path)), error.message)


def known_mixtures(dataset):
    """Names that a dataset's groups may use."""
    block = config["datasets"][dataset]
    table = config["mixtures"]["published"].get(block.get("published"))
    columns = Path(workflow.basedir, table).read_text().splitlines()[0].split(",")[1:] if table else []
    published = [f"published_{column}" for column in columns]
    fitted = ["bimix", "transfer"]
    if "swarm" in block:
        fitted += [*SWARM_LAWS, *(f"{law}_swarm" for law in LAWS)]
    else:
        fitted += [law for law in SWARM_LAWS if law in config["laws"]["optimise"]]
    reweighted = REWEIGHTING if "reweighting" in block else []
    own = block.get("mixture_files", {})
    return ["baseline", "uniform", *MEASURES, *published, *own, *reweighted, *fitted]


def complete_dataset(dataset):
    """Write each model's recipe out in full and refuse names that nothing stands behind."""
    block = config["datasets"][dataset]
    if "observations" in block:
        complete_observed(dataset)
        return
    block["corpus"] = config["corpus"] | block["corpus"]
    block["entropy"] = config["entropy"] | block.get("entropy", {})
    for model, settings in block.get("training", {}).items():
        if model not in config["models"]:
            refuse(
                f"datasets/{dataset}/training/{model}", f"no such model; `models` has {', '.join(config['models'])}."
            )
        if settings["recipe"] not in config["training"]:
            refuse(
                f"datasets/{dataset}/training/{model}/recipe",
                f"no recipe {settings['recipe']!r}; `training` has {', '.join(config['training'])}.",
            )
        recipe = {**config["training"][settings["recipe"]], **settings}
        block["training"][model] = {key: value for key, value in recipe.items() if key != "recipe"}
    if block.get("published", None) not in [None, *config["mixtures"]["published"]]:
        refuse(f"datasets/{dataset}/published", f"no table {block['published']!r} in mixtures/published.")
    swarm = swarm_names(dataset)
    named = {f"groups/{group}": mixtures for group, mixtures in block["groups"].items()}
    named["compare/mixtures"] = block.get("compare", {}).get("mixtures", [])
    named["methods"] = block.get("methods", [])
    for key, mixtures in named.items():
        for mixture in mixtures:
            if mixture in REWEIGHTING and mixture not in known_mixtures(dataset):
                refuse(f"datasets/{dataset}/{key}", f"{mixture!r} needs a block `reweighting` in the dataset.")
            if mixture not in known_mixtures(dataset) and mixture not in swarm:
                known = known_mixtures(dataset) + ([f"{swarm[0]} to {swarm[-1]}"] if swarm else [])
                refuse(f"datasets/{dataset}/{key}", f"no mixture {mixture!r}; the dataset knows {', '.join(known)}.")
            check_swarm(dataset, mixture, f"datasets/{dataset}/{key}")
    # What the large model is trained on is a group like any other, and so are the swarm and the methods that have a price.
    block["groups"]["compare"] = block["compare"]["mixtures"]
    block["groups"]["methods"] = block.get("methods", [])
    if swarm:
        block["groups"]["swarm"] = swarm
    for group in [block["optimum"]["group"], *block["held_out"]]:
        if group not in block["groups"]:
            refuse(f"datasets/{dataset}", f"no group {group!r}; `groups` has {', '.join(block['groups'])}.")
    for model in block.get("seeds", {}):
        if model not in block["training"]:
            refuse(f"datasets/{dataset}/seeds/{model}", "no training settings for this model.")
    if "reweighting" in block:
        complete_reweighting(dataset)
    for key in ("optimum", "compare"):
        if block[key]["model"] not in block["training"]:
            refuse(f"datasets/{dataset}/{key}/model", f"no training settings for {block[key]['model']!r}.")
    if "downstream" in block:
        complete_downstream(dataset)


def complete_downstream(dataset):
    """Fill in what a dataset does not say about its questions and refuse what cannot be answered."""
    block = config["datasets"][dataset]
    key = f"datasets/{dataset}/downstream"
    downstream = block["downstream"] = config["downstream"] | block["downstream"]
    if downstream["model"] not in block["training"]:
        refuse(f"{key}/model", f"no training settings for {downstream['model']!r}.")
    recipe = block["training"][downstream["model"]]
    for step in downstream["steps"]:
        if step > recipe["steps"] or (step % recipe["evaluate_every"] and step != recipe["steps"]):
            refuse(
                f"{key}/steps",
                f"{step} is no evaluation of {downstream['model']}, which has one every {recipe['evaluate_every']} steps"
                f" up to {recipe['steps']}.",
            )
    if downstream["new_tokens"] >= block["sequence_length"]:
        refuse(f"{key}/new_tokens", f"no room is left for a question in {block['sequence_length']} tokens.")
    if downstream["cache_tokens"] < block["sequence_length"]:
        refuse(f"{key}/cache_tokens", f"fewer than the {block['sequence_length']} of one prompt and its answer.")


def swarm_names(dataset):
    """Mixtures of a dataset's swarm, checked against the rest of its block; none without a swarm."""
    block = config["datasets"][dataset]
    if "swarm" not in block:
        return []
    swarm = block["swarm"]
    if swarm["model"] not in block["training"]:
        refuse(f"datasets/{dataset}/swarm/model", f"no training settings for {swarm['model']!r}.")
    recipe = block["training"][swarm["model"]] | swarm.get("training", {})
    if swarm["step"] > recipe["steps"] or (
        swarm["step"] % recipe["evaluate_every"] and swarm["step"] != recipe["steps"]
    ):
        refuse(
            f"datasets/{dataset}/swarm/step",
            f"the losses of the swarm are measured every {recipe['evaluate_every']} steps and after the last,"
            f" {recipe['steps']}, not at {swarm['step']}.",
        )
    return [f"swarm_{number:04d}" for number in range(1, swarm["runs"] + 1)]


def check_swarm(dataset, mixture, key):
    """Refuse a mixture of a law that needs more runs than the swarm has."""
    if not from_swarm(dataset, mixture):
        return
    block, law = config["datasets"][dataset], mixture.removesuffix("_swarm")
    domains, runs = len(block["domains"]), block["swarm"]["runs"]
    if runs < LEAST_RUNS[law](domains):
        refuse(
            key,
            f"{mixture!r} needs a swarm of {LEAST_RUNS[law](domains)} runs at least for {domains} domains;"
            f" `swarm` has {runs} runs.",
        )


def complete_reweighting(dataset):
    """Write the settings of DoReMi and DoGE out in full and refuse names that nothing stands behind."""
    key, block = f"datasets/{dataset}/reweighting", config["datasets"][dataset]
    settings = block["reweighting"]
    settings |= {method: config[method] | settings.get(method, {}) for method in REWEIGHTING}
    if settings["model"] not in block["training"]:
        refuse(f"{key}/model", f"no training settings for {settings['model']!r}.")
    references = [name for name in known_mixtures(dataset) if name not in REWEIGHTING]
    if settings["reference"] not in references:
        refuse(f"{key}/reference", f"no mixture {settings['reference']!r}; there are {', '.join(references)}.")
    targets = settings.get("targets")
    if targets:
        other = config["datasets"].get(targets["dataset"], {})
        if "corpus" not in other:
            refuse(f"{key}/targets/dataset", f"no dataset {targets['dataset']!r} with a corpus.")
        for domain in targets["domains"]:
            if domain not in other["domains"]:
                refuse(f"{key}/targets/domains", f"no domain {domain!r} in {targets['dataset']}.")


def complete_observed(dataset):
    """A dataset of losses measured elsewhere: its one model is called observed; a group `all` takes every mixture."""
    block = config["datasets"][dataset]
    block["groups"] = {group: [] if names == "all" else names for group, names in block["groups"].items()}
    block["groups"]["compare"] = block["compare"]["mixtures"]
    block["optimum"]["model"] = block["compare"]["model"] = "observed"
    if "max_epochs" in block["optimum"] and "tokens" not in block["observations"]:
        refuse(
            f"datasets/{dataset}/optimum/max_epochs",
            "name a table of domain and tokens as `tokens` under `observations`: it is not known how many there are.",
        )
    for group in [block["optimum"]["group"], *block["held_out"]]:
        if group not in block["groups"]:
            refuse(f"datasets/{dataset}", f"no group {group!r}; `groups` has {', '.join(block['groups'])}.")


def one_of(names):
    """A wildcard constraint that takes just these names (none: matches nothing)."""
    return "|".join(map(re.escape, names)) or "(?!)"


def setting(path, default=None):
    """A function of the wildcards that gives an entry of the dataset's block.

    Beside `lookup`, whose search walks the whole config each time: 3 ms for each parameter of each of 10,000 jobs.
    """

    def find(wildcards):
        found = config["datasets"][wildcards.dataset]
        for key in path.split("/"):
            if default is not None and not (isinstance(found, dict) and key in found):
                return default
            found = found[key]
        return found

    return find


def entry(path):
    """A function of the wildcards that gives any entry of the config; the path may hold {wildcards}."""

    def find(wildcards):
        found = config
        for key in path.split("/"):
            found = found[key.format(**wildcards)]
        return found

    return find


def as_json(path):
    """A function of the wildcards that gives a slice of the config as JSON."""
    find = entry(path)
    return lambda wildcards: json.dumps(find(wildcards), sort_keys=True)


def runs_of(dataset, model, group):
    """Runs of a group as (folder name, mixture, seed): the recipe's seed first, then `seeds`, in folders mixture@seed."""
    block = config["datasets"][dataset]
    own = block["training"][model]["seed"]
    runs = []
    for mixture in block["groups"][group]:
        runs.append((mixture, mixture, own))
        runs += [(f"{mixture}@{seed}", mixture, seed) for seed in block.get("seeds", {}).get(model, []) if seed != own]
    return runs


def run_losses(wildcards):
    """Loss tables of a group's runs."""
    folder = f"results/{wildcards.dataset}/runs/{wildcards.model}"
    return [f"{folder}/{run[0]}/losses.parquet" for run in runs_of(wildcards.dataset, wildcards.model, wildcards.group)]


def run_column(column):
    """A function of the wildcards that gives one entry of `runs_of` for each run of a group."""
    return lambda wildcards: [run[column] for run in runs_of(wildcards.dataset, wildcards.model, wildcards.group)]


def searched_with(dataset, mixture):
    """Trainings that a mixture is found with, each as (what, model, recipe, name)."""
    block = config["datasets"][dataset]
    if mixture in REWEIGHTING:
        settings = block["reweighting"]
        model, recipe = settings["model"], block["training"][settings["model"]]
        proxy = (mixture, model, recipe | settings.get("training", {}), mixture)
        return [proxy, ("pretraining", model, recipe, settings["reference"])] if mixture == "doremi" else [proxy]
    if mixture.removesuffix("_swarm") not in LAWS:
        return []
    model, _, group, _ = optimum_source(SimpleNamespace(dataset=dataset, optimised=mixture))
    recipe = block["training"][model]
    if group == "swarm":
        recipe = recipe | block["swarm"].get("training", {})
        return [("swarm", model, recipe, name) for name in block["groups"]["swarm"]]
    return [("pretraining", model, recipe, run[0]) for run in runs_of(dataset, model, group)]


def trained_for(dataset, model, group):
    """Trainings that the losses of a group take, those that its mixtures are found with included."""
    block = config["datasets"][dataset]
    for mixture in block["groups"][group]:
        yield from searched_with(dataset, mixture)
    if group == "swarm":
        yield from searched_with(dataset, "transfer_swarm")
        return
    for run in runs_of(dataset, model, group):
        yield "pretraining", model, block["training"][model], run[0]


# Where the losses of a training stand that has ended.
ENDED = {
    "pretraining": "results/{dataset}/runs/{model}/{name}/losses.parquet",
    "doremi": "results/{dataset}/reweighting/{model}/doremi/1/losses.parquet",
    "doge": "results/{dataset}/reweighting/{model}/doge/losses.parquet",
    "swarm": "results/{dataset}/swarm/{model}/state/{name}/losses.parquet",
}


def planned_runs(wildcards):
    """Trainings that the summary needs, and those that the price list needs beside them, counted by kind and model; JSON."""
    dataset, block = wildcards.dataset, config["datasets"][wildcards.dataset]
    needs = {
        "summary": [(block["optimum"]["model"], group) for group in [block["optimum"]["group"], *block["held_out"]]]
    }
    needs["summary"].append((block["compare"]["model"], "compare"))
    asked, earlier = set(), 0
    if "downstream" in block:
        needs["summary"].append((block["downstream"]["model"], "compare"))
        asked = {run[0] for run in runs_of(dataset, block["downstream"]["model"], "compare")}
        last = block["training"][block["downstream"]["model"]]["steps"]
        earlier = sum(step < last for step in block["downstream"]["steps"])
    needs["methods"] = [(block["compare"]["model"], "methods")]
    seen, rows = set(), {}
    for needed_for, groups in needs.items():
        for what, model, recipe, name in (run for group in groups for run in trained_for(dataset, *group)):
            if (what, model, name) not in seen:
                seen.add((what, model, name))
                row = {
                    "needed_for": needed_for,
                    "what": what,
                    "model": model,
                    "recipe": recipe,
                    "runs": 0,
                    "done": 0,
                    "kept": 0,
                }
                row = rows.setdefault((needed_for, what, model), row)
                row["runs"] += 1
                if what == "pretraining" and name in asked and model == block["downstream"]["model"]:
                    row["kept"] += earlier
                row["done"] += Path(ENDED[what].format(dataset=dataset, model=model, name=name)).exists()
    return json.dumps(list(rows.values()), sort_keys=True)


def search_reports(wildcards):
    """{mixture: files that say what the runs cost that it was found with} for the price list."""
    dataset, files = wildcards.dataset, {}
    for mixture in DATASETS[dataset]["groups"]["methods"]:
        own = SimpleNamespace(dataset=dataset, reweighted=mixture, optimised=mixture)
        runs = searched_with(dataset, mixture)
        if mixture in REWEIGHTING:
            files[mixture] = [f"{folder}/run.json" for folder in reweighting_folders(own)]
            references = [run[3] for run in runs[1:]]
            references += [f"doremi_round{number + 1}" for number in range(len(files[mixture]) - 1)]
            files[mixture] += [
                f"results/{dataset}/runs/{runs[0][1]}/{name}/run.json" for name in references if runs[1:]
            ]
        elif runs and runs[0][0] == "swarm":
            files[mixture] = [f"results/{dataset}/swarm/{runs[0][1]}/runs.parquet"]
        else:
            files[mixture] = [f"results/{dataset}/runs/{model}/{name}/run.json" for _, model, _, name in runs]
    return files


def gpus_of(wildcards):
    """GPUs of a training on all of its nodes together, which is how schedulers count them."""
    launch = config["models"][wildcards.model]["launch"]
    return launch["gpus"] * launch["nodes"]


def recipe_json(wildcards):
    """Training settings of one run; `mixture@seed` has another seed than its model's others."""
    block = config["datasets"][wildcards.dataset]
    mixture, *seed = wildcards.run.split("@")
    recipe = dict(block["training"][wildcards.model])
    if is_swarm(wildcards) and mixture in block["groups"]["swarm"]:
        recipe |= block["swarm"].get("training", {})
    if seed:
        recipe["seed"] = int(seed[0])
    return json.dumps(recipe, sort_keys=True)


def from_swarm(dataset, mixture):
    """Whether a mixture is the optimum of a law that is fitted to the dataset's swarm."""
    if "swarm" not in config["datasets"][dataset]:
        return False
    of_law = mixture in SWARM_LAWS and mixture not in config["laws"]["optimise"]
    return of_law or mixture.removesuffix("_swarm") in LAWS and mixture.endswith("_swarm")


def is_swarm(wildcards):
    """Whether the model is the one that the dataset's swarm is trained with."""
    return config["datasets"][wildcards.dataset].get("swarm", {}).get("model") == wildcards.model


def swarm_recipe(wildcards):
    """Training settings of the runs of a swarm: those of its model, but for what the swarm says itself."""
    block = config["datasets"][wildcards.dataset]
    return json.dumps(block["training"][wildcards.model] | block["swarm"].get("training", {}), sort_keys=True)


def swarm_part(wildcards):
    """Mixtures of one part of a swarm, a job's work; parts are numbered from 1."""
    block = config["datasets"][wildcards.dataset]
    together = block["swarm"]["together"]
    return block["groups"]["swarm"][(int(wildcards.part) - 1) * together : int(wildcards.part) * together]


def swarm_tables(name):
    """A function of the wildcards that gives the tables called `name` of all parts of a swarm."""

    def find(wildcards):
        if not is_swarm(wildcards):
            swarm = config["datasets"][wildcards.dataset]["swarm"]["model"]
            refuse(
                f"datasets/{wildcards.dataset}/swarm/model",
                f"the swarm is trained with {swarm!r}, not {wildcards.model!r}.",
            )
        swarm = config["datasets"][wildcards.dataset]["swarm"]
        parts = range(1, -(-swarm["runs"] // swarm["together"]) + 1)
        return [f"results/{wildcards.dataset}/swarm/{wildcards.model}/{part}/{name}.parquet" for part in parts]

    return find


def reweighting_recipe(wildcards):
    """Training settings of a run that reweighs: the model's, with the changes that the block `reweighting` names."""
    block = config["datasets"][wildcards.dataset]
    return json.dumps(block["training"][wildcards.model] | block["reweighting"].get("training", {}), sort_keys=True)


def doremi_reference(pattern):
    """A function of the wildcards: a file of the {reference} that a round of DoReMi is measured against."""

    def find(wildcards):
        first = config["datasets"][wildcards.dataset]["reweighting"]["reference"]
        before = int(wildcards.round) - 1
        return pattern.format(reference=f"doremi_round{before}" if before else first, **wildcards)

    return find


def swarm_gpu(wildcards):
    """One device for each part of a swarm, where the model has any."""
    return min(config["models"][wildcards.model]["launch"]["gpus"], 1)


def swarm_threads(wildcards):
    """CPU threads of one part: those of one process of the model."""
    launch = config["models"][wildcards.model]["launch"]
    return max(launch["threads"] // max(launch["gpus"], 1), 1)


def optimum_source(wildcards):
    """Where an optimised mixture comes from: model, law, group and step. That of a swarm, or of the group under `optimum`."""
    block = DATASETS[wildcards.dataset]
    law = wildcards.optimised.removesuffix("_swarm")
    if from_swarm(wildcards.dataset, wildcards.optimised):
        return block["swarm"]["model"], law, "swarm", block["swarm"]["step"]
    return block["optimum"]["model"], law, block["optimum"]["group"], block["optimum"]["step"]


def optimum_coefficients(wildcards):
    model, law, group, _ = optimum_source(wildcards)
    return f"results/{wildcards.dataset}/laws/{model}/{law}/{group}/coefficients.json"


def optimum_tokens(wildcards):
    """The table of the tokens there are: RegMix simulates mixtures around their shares."""
    block = DATASETS[wildcards.dataset]
    if optimum_source(wildcards)[1] == "regmix":
        if "observations" not in block:
            return f"results/{wildcards.dataset}/tokens/train.parquet"
        return block["observations"].get("tokens", [])
    return token_counts(wildcards)


def last_round(wildcards):
    """The round of DoReMi that is the last, as far as its rounds so far can tell."""
    settings = config["datasets"][wildcards.dataset]["reweighting"]
    for number in range(1, settings["doremi"]["rounds"]):
        run = checkpoints.train_doremi.get(dataset=wildcards.dataset, model=settings["model"], round=number)
        if json.loads(Path(run.output.report).read_text())["moved"] < settings["doremi"]["settled"]:
            return number
    return settings["doremi"]["rounds"]


def reweighting_folders(wildcards):
    """Folders of the runs behind a method's mixture: DoReMi's rounds, or the one round that the name says."""
    method, _, number = wildcards.reweighted.partition("_round")
    model = config["datasets"][wildcards.dataset]["reweighting"]["model"]
    folder = f"results/{wildcards.dataset}/reweighting/{model}/{method}"
    if method == "doge":
        return [folder]
    return [f"{folder}/{number}"] if number else [f"{folder}/{k + 1}" for k in range(last_round(wildcards))]


def reweighted_mixture(wildcards):
    return f"{reweighting_folders(wildcards)[-1]}/mixture.json"


def reweighting_paths(wildcards):
    return [f"{folder}/path.parquet" for folder in reweighting_folders(wildcards)]


def doge_targets(pattern):
    """A function of the wildcards: a file of the dataset that DoGE's targets are in, where they are named."""

    def find(wildcards):
        targets = config["datasets"][wildcards.dataset]["reweighting"].get("targets")
        return pattern.format(dataset=targets["dataset"]) if targets else []

    return find


def kept_steps(wildcards):
    """Steps of a run whose weights stay, since they are to answer questions; a resource, as it changes no result."""
    downstream = config["datasets"][wildcards.dataset].get("downstream", {})
    if wildcards.model != downstream.get("model"):
        return "none"
    asked = [run[0] for run in runs_of(wildcards.dataset, wildcards.model, "compare")]
    return ",".join(map(str, downstream["steps"])) if wildcards.run in asked else "none"


def task_files(dataset):
    """Tasks of a dataset with the places of their items and shots; generated ones have none for shots."""
    folder, tasks = f"results/{dataset}/downstream/tasks", {}
    for name, task in config["datasets"][dataset]["downstream"]["tasks"].items():
        places = {"items": f"{folder}/{name}.jsonl", "shots": None} if "generate" in task else task
        tasks[name] = {key: places[key] for key in ("items", "shots")} | {"kind": task["kind"]}
    return tasks


def question_files(wildcards):
    """Inputs that stand for task files: those far away are none."""
    places = [task[key] for task in task_files(wildcards.dataset).values() for key in ("items", "shots")]
    return [place for place in places if isinstance(place, str) and not is_remote(place)]


def answers_of(column):
    """A function of the wildcards: an entry of `runs_of` (0: the table of answers) for each run that is asked."""

    def find(wildcards):
        model = config["datasets"][wildcards.dataset]["downstream"]["model"]
        runs = runs_of(wildcards.dataset, model, "compare")
        if column:
            return [run[column] for run in runs]
        return [f"results/{wildcards.dataset}/downstream/{model}/{run[0]}.parquet" for run in runs]

    return find


def raw_files(dataset, split, patterns):
    """Files that paths, globs and lists (@file: one path to a line, bytes after a tab) stand for: (name, path, bytes)."""
    target = config["datasets"][dataset]["corpus"]["shard_megabytes"] * 10**6
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        if pattern.startswith("@"):
            entries = [line.split("\t") for line in Path(pattern[1:]).read_text().splitlines() if line]
            found = [(path, int(size[0]) if size else target) for path, *size in entries]
            folder = os.path.commonprefix([os.path.dirname(path) + "/" for path, _ in found])
            folder = folder[: folder.rfind("/") + 1]
        elif not has_wildcards(pattern):
            # one file, perhaps not there yet or far away: it fills a shard
            found, folder = [(pattern, target)], pattern[: pattern.rfind("/") + 1]
        elif is_remote(pattern):
            found, folder = list_remote(dataset, split, pattern), re.split(r"[^/]*[*?\[]", pattern)[0]
        else:
            paths = sorted(glob(pattern, recursive=True))
            found, folder = [(path, os.path.getsize(path)) for path in paths if os.path.isfile(path)], re.split(
                r"[^/]*[*?\[]", pattern
            )[0]
        if not found:
            refuse(f"datasets/{dataset}/corpus/{split}", f"no file matches {pattern!r}.")
        yield from ((name_file(path, folder), path, size) for path, size in found)


def has_wildcards(pattern):
    """Whether a path is a glob; the question mark of a web address is none."""
    return bool(re.search(r"[*\[]" if re.match("https?://", pattern) else r"[*?\[]", pattern))


def list_remote(dataset, split, pattern):
    """Files (path, bytes) far away that match a glob, as their store lists them."""
    from bimix.errors import InputError  # here only: most corpora lie on a disk
    from bimix.listing import list_files

    try:
        return list_files(pattern)
    except InputError as error:
        refuse(f"datasets/{dataset}/corpus/{split}", str(error))


def validation_kind(dataset):
    """How a dataset's validation documents are found: share (by hash), tokens (so many are drawn) or files."""
    validation = config["datasets"][dataset]["corpus"]["validation"]
    keys = [
        key
        for key in ("tokens", "share")
        if isinstance(validation, dict) and isinstance(validation.get(key), (int, float))
    ]
    return keys[0] if keys else "files"


def plan_shards(dataset):
    """All shards of a dataset by name."""
    corpus = config["datasets"][dataset]["corpus"]
    by_hash = validation_kind(dataset) == "share"
    published = corpus["validation"]
    if validation_kind(dataset) == "tokens":
        published = {
            domain: f"results/{dataset}/held_out/{domain}.jsonl" for domain in config["datasets"][dataset]["domains"]
        }
    if "harvest" in corpus:
        train = {domain: f"results/{dataset}/corpus/{domain}.jsonl" for domain in corpus["harvest"]}
    else:
        train = corpus["train"]
    planned = {}
    for split, source in (("train", train), ("validation", {} if by_hash else published)):
        for domain, patterns in (source if isinstance(source, dict) else {None: source}).items():
            files = raw_files(dataset, split, patterns)
            for name, paths in group_files(files, corpus["shard_megabytes"] * 10**6):
                name = ".".join(([split] if split == "validation" else []) + ([domain] if domain else []) + [name])
                if name in planned:
                    refuse(
                        f"datasets/{dataset}/corpus/{split}",
                        f"{paths[-1]!r} and {planned[name].files[-1]!r} share a name.",
                    )
                planned[name] = Shard(name, "hash" if by_hash else split, domain, paths)
    return planned


def fitted_sizes(dataset):
    """Mixtures and evaluations of the group that laws are fitted to, known before the first job.

    Of observations they are counted in the table; one that cannot be read counts as empty: its own job says what is wrong.
    """
    block = config["datasets"][dataset]
    names = block["groups"][block["optimum"]["group"]]
    if "observations" not in block:
        recipe = block["training"][block["optimum"]["model"]]
        if block["optimum"]["group"] == "swarm":
            recipe = recipe | block["swarm"].get("training", {})
        return len(names), -(-recipe["steps"] // recipe["evaluate_every"])
    import polars as pl  # here only: it costs each call of Snakemake a quarter of a second

    path = block["observations"]["losses"]
    try:
        text = {"mixture": pl.String}
        table = (
            pl.read_csv(path, infer_schema_length=None, schema_overrides=text)
            if path.endswith(".csv")
            else pl.read_parquet(path)
        )
        wanted = table.select("step", pl.col("mixture").cast(pl.String))
        wanted = wanted.filter(pl.col("mixture").is_in(names)) if names else wanted
        return wanted["mixture"].n_unique(), wanted["step"].n_unique()
    except (pl.exceptions.PolarsError, OSError):
        return 0, 0


def token_counts(wildcards):
    """The table of the tokens there are of each domain, where the optimum keeps to a number of epochs."""
    block = config["datasets"][wildcards.dataset]
    if "max_epochs" not in block["optimum"]:
        return []
    return (
        block["observations"]["tokens"]
        if "observations" in block
        else f"results/{wildcards.dataset}/tokens/train.parquet"
    )


SIZES = {}


def has_runs(least):
    """A function of the wildcards: whether laws are fitted to so many mixtures at least."""
    return lambda wildcards: sizes_of(wildcards.dataset)[0] >= least


def has_path(wildcards):
    """Whether laws are fitted to a curve over steps: from one step there is no path of the optimum."""
    return sizes_of(wildcards.dataset)[1] > 1


def sizes_of(dataset):
    if dataset not in SIZES:
        SIZES[dataset] = fitted_sizes(dataset)
    return SIZES[dataset]


SHARDS = {}


def shards(dataset):
    """Shards of a dataset by name, as its manifest lists them.

    The manifest is written here, when Snakemake plans, so that all shards are known before the first job runs and no
    command line has to hold their names. Jobs on other machines read it, instead of asking for 10,000 files each.
    """
    if dataset not in SHARDS:
        manifest = Path(f"results/{dataset}/shards.jsonl")
        written = manifest.read_text() if manifest.exists() else ""
        if workflow.is_main_process or not written:
            SHARDS[dataset] = plan_shards(dataset)
            planned = write_shards(SHARDS[dataset].values())
            if planned != written:
                manifest.parent.mkdir(parents=True, exist_ok=True)
                temporary = manifest.with_name(f".shards.{os.getpid()}.partial")
                temporary.write_text(planned)
                os.replace(temporary, manifest)
        else:
            SHARDS[dataset] = read_shards(written.splitlines())
    return SHARDS[dataset]


def shard_folders(split):
    """A function of the wildcards that gives the folders of all shards."""
    return lambda wildcards: [
        f"results/{wildcards.dataset}/shards/{split}/{name}" for name in shards(wildcards.dataset)
    ]


def is_remote(path):
    return "://" in path


def local_files(dataset, paths):
    """Inputs that stand for raw files: those far away are none, drawn validation files are one folder."""
    drawn = Path("results", dataset, "held_out")
    return list(
        dict.fromkeys(str(drawn) if Path(path).parent == drawn else path for path in paths if not is_remote(path))
    )


def shard_files(wildcards):
    """Inputs of one shard."""
    return local_files(wildcards.dataset, shards(wildcards.dataset)[wildcards.shard].files)


def shard_hashes(wildcards):
    """Hashes of the documents that a shard of training files must leave out."""
    published = shards(wildcards.dataset)[wildcards.shard].split == "train"
    return [f"results/{wildcards.dataset}/held_out.hashes"] if published else []


def published_hashes(wildcards):
    """Those that the tokenizer must not be trained on; drawn ones are of the share that it does not read."""
    published = validation_kind(wildcards.dataset) == "files"
    return [f"results/{wildcards.dataset}/held_out.hashes"] if published else []


def shard_settings(wildcards):
    """What decides the shard's content besides its local files."""
    shard = shards(wildcards.dataset)[wildcards.shard]
    return [shard.split, shard.domain, *filter(is_remote, shard.files)]


def shard_domains(wildcards):
    """Domains that the files of a shard may hold."""
    domain = shards(wildcards.dataset)[wildcards.shard].domain
    return [domain] if domain else config["datasets"][wildcards.dataset]["domains"]


def training_files(wildcards):
    """All files that training documents come from."""
    own = [shard for shard in shards(wildcards.dataset).values() if shard.split != "validation"]
    return [path for shard in own for path in shard.files]


def corpus_files(wildcards):
    return local_files(wildcards.dataset, training_files(wildcards))


def validation_paths(wildcards):
    """All files of validation documents."""
    own = [shard for shard in shards(wildcards.dataset).values() if shard.split == "validation"]
    return [path for shard in own for path in shard.files]


def validation_files(wildcards):
    return local_files(wildcards.dataset, validation_paths(wildcards))


def digest(names):
    """A function of the wildcards that stands for a long list as a parameter: what has it runs again with the list."""
    return lambda wildcards: hashlib.sha256("\n".join(names(wildcards)).encode()).hexdigest()[:16]


def shard_names(wildcards):
    return list(shards(wildcards.dataset))


def vectors_model(wildcards):
    """The FastText model of a dataset: a file that the config names, or the one trained on the corpus."""
    vectors = config["datasets"][wildcards.dataset]["vectors"]
    return vectors.get("file", f"results/{wildcards.dataset}/vectors/model.bin")


check_config()
for dataset in config["run"]:
    if dataset not in config["datasets"]:
        refuse("run", f"no dataset {dataset!r}; `datasets` has {', '.join(config['datasets'])}.")
for dataset in config["datasets"]:
    complete_dataset(dataset)

DATASETS = config["datasets"]
CORPORA = {name: block for name, block in DATASETS.items() if "corpus" in block}
TRAINED = one_of(CORPORA)
OBSERVED = one_of(DATASETS.keys() - CORPORA.keys())
ASKED = one_of(name for name, block in CORPORA.items() if "downstream" in block)
PRICED = one_of(name for name, block in CORPORA.items() if "methods" in block)
REWEIGHTED = one_of(name for name, block in CORPORA.items() if "reweighting" in block)
TRAINED_TOKENIZERS = one_of(name for name, block in CORPORA.items() if "train" in block["tokenizer"])
FETCHED_TOKENIZERS = one_of(name for name, block in CORPORA.items() if "train" not in block["tokenizer"])
TRAINED_VECTORS = one_of(name for name, block in CORPORA.items() if "train" in block["vectors"])
# A bootstrap draws among three runs or more; a learning curve leaves three of them to predict.
INTERVAL_RUNS = 3
# A bootstrap takes hundreds of optima: of RegMix's, each the best of 100,000 simulated mixtures, that is hours.
RESAMPLED = [law for law in config["laws"]["optimise"] if law != "regmix"]
LEARNING_RUNS = min(config["laws"]["learning"]["counts"]) + 3
# A swarm's mixtures and losses come in tables of their own (swarm.smk).
GATHERED = one_of({group for block in DATASETS.values() for group in block["groups"]} - {"swarm"})
SWARMS = one_of(name for name, block in CORPORA.items() if "swarm" in block)
OWN_MIXTURES = one_of({name for block in DATASETS.values() for name in block.get("mixture_files", {})})


wildcard_constraints:
    dataset=one_of(DATASETS),
    domain=one_of({domain for block in CORPORA.values() for domain in block["domains"]}),
    model=one_of([*config["models"], "observed"]),
    group=one_of({group for block in DATASETS.values() for group in block["groups"]}),
    law=one_of(LAWS),
    optimised=one_of([*LAWS, *(f"{law}_swarm" for law in LAWS)]),
    measure=one_of(MEASURES),
    shard=r"[^/]+",
    mixture=r"[^/@]+",
    run=r"[^/@]+(@\d+)?",
    round=r"[1-9]\d*",
    reweighted=r"doremi|doge|doremi_round[1-9]\d*",
    split="train|validation",
    task=one_of({task for block in CORPORA.values() for task in block.get("downstream", {}).get("tasks", {})}),
