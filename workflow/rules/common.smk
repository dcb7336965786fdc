# What all chapters share: how they read the config, the constraints of the wildcards, and, in common/, functions of both.
import hashlib
import json
import os
import re
import sys
from glob import escape, glob
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


include: "common/config.smk"
include: "common/shards.smk"
include: "common/runs.smk"
include: "common/methods.smk"
include: "common/costs.smk"


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
