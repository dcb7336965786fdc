"""What the rules of all trainings share: the corpus that they read, and the command that launches
them. What a model with a command of the user's is given instead.
"""

from bimix.plan.corpora import only_measured
from bimix.plan.exports import export_data, export_tokens

TOKENS = {
    "train": "results/{dataset}/tokens/train.parquet",
    "validation": "results/{dataset}/tokens/validation.parquet",
    "tokenizer": "results/{dataset}/tokenizer.json",
}
# Keys of `launch` that every training is given as a resource and by a flag, with what holds where
# the config does not say; (): a model with a `shape` must.
LAUNCHED = {
    "micro_batch": (),
    "loss_chunk": (),
    "compile": (),
    "attention": ("auto",),
    "bucket_megabytes": ("all",),
    "gradient_compression": ("none",),
    "verify_shards": ("yes",),
}


def own_models(config: dict) -> list[str]:
    """Models that are trained here, as their `shape` says."""
    return [name for name, model in config["models"].items() if "shape" in model]


def trainer_models(config: dict) -> list[str]:
    """Models that a command of the user's trains."""
    return [name for name, model in config["models"].items() if "command" in model]


def trainer(config: dict, model: str) -> dict:
    """The command of a model and how its losses are read, without how it is launched."""
    return {key: value for key, value in config["models"][model].items() if key != "launch"}


def trainer_data(config: dict, dataset: str, model: str) -> list[str]:
    """The files of each domain, where a command reads mixtures in the format of an export."""
    form = config["models"][model].get("format")
    return [export_data(config, dataset, form)] if form else []


def trainer_tokens(config: dict, dataset: str, model: str) -> list[str]:
    """The tokens there are of each domain, likewise."""
    return export_tokens(config, dataset) if "format" in config["models"][model] else []


def trainer_text(config: dict, dataset: str) -> list[str]:
    """The tables of the text that a command reads, so that it trains again where that has changed:
    the dataset's, unless the config names files of its own for exports.
    """
    if "data" in config["datasets"][dataset].get("export", {}):
        return []
    return [TOKENS[split].format(dataset=dataset) for split in ("train", "validation")]


def measured(config: dict, dataset: str) -> list[str]:
    """Domains whose losses a run leaves."""
    return [*config["datasets"][dataset]["domains"], *only_measured(config, dataset)]
