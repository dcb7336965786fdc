"""The runs of a group, what each is trained with, and the questions that it is asked.

All functions take the checked and completed config. Paths are relative to the folder of `results`.
"""

import functools
import math
import os
from collections.abc import Sequence
from typing import NamedTuple

from bimix.errors import InputError
from bimix.laws.table import JOINS, is_optimum
from bimix.plan.settings import evaluations

INTERVAL_RUNS = 3  # a bootstrap draws among so many runs or more


class Run(NamedTuple):
    """A training on a mixture: the folder below runs/{model}, the mixture, the seed."""

    folder: str
    mixture: str
    seed: int


def runs_of(config: dict, dataset: str, model: str, group: str) -> list[Run]:
    """Runs of a group: of each mixture the recipe's seed first, then `seeds` in mixture@seed."""
    block = config["datasets"][dataset]
    usual = block["training"][model]["seed"]
    more = [seed for seed in block.get("seeds", {}).get(model, []) if seed != usual]
    return [
        run
        for mixture in block["groups"][group]
        for run in (Run(mixture, mixture, usual), *(Run(f"{mixture}@{seed}", mixture, seed) for seed in more))
    ]


def run_losses(config: dict, dataset: str, model: str, group: str) -> list[str]:
    """Loss tables of a group's runs."""
    folder = f"results/{dataset}/runs/{model}"
    return [f"{folder}/{run.folder}/losses.parquet" for run in runs_of(config, dataset, model, group)]


def run_mixtures(config: dict, dataset: str, model: str, group: str) -> list[str]:
    """The mixture of each of a group's runs."""
    return [run.mixture for run in runs_of(config, dataset, model, group)]


def run_seeds(config: dict, dataset: str, model: str, group: str) -> list[int]:
    """The seed of each of a group's runs."""
    return [run.seed for run in runs_of(config, dataset, model, group)]


def recipe(config: dict, dataset: str, model: str, run: str) -> dict:
    """Training settings of one run: the model's or the swarm's, with the seed of `mixture@seed`."""
    block = config["datasets"][dataset]
    mixture, _, seed = run.partition("@")
    of_swarm = block.get("swarm", {}).get("model") == model and mixture in block["groups"]["swarm"]
    settings = swarm_recipe(config, dataset, model) if of_swarm else block["training"][model]
    return settings | ({"seed": int(seed)} if seed else {})


def byte_counts(config: dict, dataset: str) -> list[str]:
    """The bytes behind the losses of the compared runs; of losses measured elsewhere, or by a
    command on text of its own, none are known.
    """
    block = config["datasets"][dataset]
    model = block["compare"]["model"]
    counted = "corpus" in block and "shape" in config["models"][model]
    return [f"results/{dataset}/tokens/bytes/{model}.csv"] if counted else []


def swarm_recipe(config: dict, dataset: str, model: str) -> dict:
    """Training settings of the runs of a swarm: the model's, but for what `swarm` says itself."""
    block = config["datasets"][dataset]
    return block["training"][model] | block["swarm"].get("training", {})


def pool_share(config: dict, dataset: str, group: str) -> float:
    """The share of every domain's rows that the runs have to which laws are fitted: those of a
    swarm, or of `optimum`. Runs that were trained elsewhere had all.
    """
    block = config["datasets"][dataset]
    if "observations" in block:
        return 1.0
    model = block["optimum"]["model"].split(JOINS)[0]
    settings = swarm_recipe(config, dataset, block["swarm"]["model"]) if group == "swarm" else block["training"][model]
    return settings.get("pool_share", 1.0)


def optimum_pool_share(config: dict, dataset: str) -> float:
    """That share of the runs under `optimum`."""
    return pool_share(config, dataset, config["datasets"][dataset]["optimum"]["group"])


def swarm_part(config: dict, dataset: str, part: str) -> list[str]:
    """Mixtures of one part of a swarm, a job's work; parts are numbered from 1."""
    block = config["datasets"][dataset]
    together = block["swarm"]["together"]
    return block["groups"]["swarm"][(int(part) - 1) * together : int(part) * together]


def swarm_parts(config: dict, dataset: str, model: str) -> range:
    """The numbers of the parts of a swarm. Errors: the swarm is trained with another model."""
    swarm = config["datasets"][dataset]["swarm"]
    if model != swarm["model"]:
        raise InputError(
            f"config: datasets/{dataset}/swarm/model: the swarm is trained with {swarm['model']!r}, not {model!r}."
        )
    return range(1, -(-swarm["runs"] // swarm["together"]) + 1)


def gpus(config: dict, model: str) -> int:
    """GPUs of a training on all of its nodes together, which is how schedulers count them."""
    launch = config["models"][model]["launch"]
    return launch["gpus"] * launch["nodes"]


def swarm_gpu(config: dict, model: str) -> int:
    """GPUs of a part of a swarm: one where the model has any."""
    return min(config["models"][model]["launch"]["gpus"], 1)


def swarm_threads(config: dict, model: str) -> int:
    """CPU threads of a part of a swarm: those of one process of the model."""
    launch = config["models"][model]["launch"]
    return max(launch["threads"] // max(launch["gpus"], 1), 1)


def kept_steps(config: dict, dataset: str, model: str, run: str) -> str:
    """Steps of a run whose weights are to answer questions, as 200,400; `none` of other runs."""
    downstream = config["datasets"][dataset].get("downstream", {})
    asked = run in answering_runs(config, dataset) if model == downstream.get("model") else False
    return ",".join(map(str, downstream["steps"])) if asked else "none"


def answering_runs(config: dict, dataset: str) -> list[str]:
    """Folders of the runs that are asked questions, those of `compare`, or none."""
    downstream = config["datasets"][dataset].get("downstream")
    runs = runs_of(config, dataset, downstream["model"], "compare") if downstream else []
    return [run.folder for run in runs]


def answering_mixtures(config: dict, dataset: str) -> list[str]:
    """The mixture of each of these runs."""
    return run_mixtures(config, dataset, config["datasets"][dataset]["downstream"]["model"], "compare")


def answering_seeds(config: dict, dataset: str) -> list[int]:
    """The seed of each of these runs."""
    return run_seeds(config, dataset, config["datasets"][dataset]["downstream"]["model"], "compare")


def fitted_size(config: dict, dataset: str) -> tuple[int, int]:
    """Mixtures and evaluations of the group that laws are fitted to, known before the first job.

    Of observations they are counted in the table; of one that cannot be read both are 0: its own
    job says what is wrong. Of models of several sizes each run counts once, with its end.
    """
    block = config["datasets"][dataset]
    model, group = block["optimum"]["model"], block["optimum"]["group"]
    names = block["groups"][group]
    if "observations" in block:
        return _observed(block)[:2]
    if JOINS in model:
        return len(names), 1
    settings = swarm_recipe(config, dataset, model) if group == "swarm" else block["training"][model]
    return len(names), len(evaluations(settings))


def observes_sizes(config: dict, dataset: str) -> bool:
    """Whether the losses that laws are fitted to are observations of models of several sizes."""
    block = config["datasets"][dataset]
    return "observations" in block and _observed(block)[2] > 1


def check_compared(config: dict, dataset: str) -> None:
    """Errors: observed mixtures under `compare` or `methods` of which no size of model has all."""
    block = config["datasets"][dataset]
    if "observations" not in block:
        return
    rows = _rows(*_stamped(block["observations"]["losses"]))
    for key, names in (("compare/mixtures", block["compare"]["mixtures"]), ("methods", block.get("methods", []))):
        of = {name: {size for one, _, size in rows if one == name} for name in names}
        known = [own for own in of.values() if own]  # what has no losses is another fault
        if known and not set.intersection(*known):
            lacking = min((name for name in names if of[name]), key=lambda name: len(of[name]))
            raise InputError(
                f"config: datasets/{dataset}/{key}: the losses are of models of several sizes, and none of them has runs of"
                f" all of {', '.join(names)}: compare mixtures of one size ({lacking} was run with the fewest)."
            )


def _observed(block: dict) -> tuple[int, int, int]:
    """Mixtures, steps and sizes of models of the fitted group in a table of losses, in which a
    group of no names has all but what laws proposed; 0 of what cannot be read.
    """
    names = block["groups"][block["optimum"]["group"]]
    rows = [
        row
        for row in _rows(*_stamped(block["observations"]["losses"]))
        if (row[0] in names if names else not is_optimum(str(row[0])))
    ]
    mixtures, steps, sizes = (len({row[place] for row in rows if row[place] is not None}) for place in range(3))
    return mixtures, steps, sizes or min(mixtures, 1)


def _stamped(path: str) -> tuple[str, int | None]:
    return path, os.stat(path).st_mtime_ns if os.path.exists(path) else None


@functools.cache
def _rows(path: str, stamp: int | None) -> frozenset[tuple]:
    """(mixture, step, parameters) of a table of losses, the last None without that column; none of
    one that cannot be read.
    """
    import polars as pl  # here only: it costs each call of Snakemake a quarter of a second

    from bimix.tables import read_table, renamed

    try:
        table = renamed(read_table(path), path)
        size = pl.col("parameters") if "parameters" in table.columns else pl.lit(None).alias("parameters")
        return frozenset(table.select(pl.col("mixture").cast(pl.String), "step", size).unique().iter_rows())
    except (InputError, pl.exceptions.PolarsError):
        return frozenset()


def has_intervals(config: dict, dataset: str) -> bool:
    """Whether laws are fitted to enough mixtures for a bootstrap."""
    return fitted_size(config, dataset)[0] >= INTERVAL_RUNS


def joined_models(config: dict) -> list[str]:
    """Names that stand in paths for the models of several sizes to which a dataset's laws are
    fitted.
    """
    names = (block["optimum"]["model"] for block in config["datasets"].values())
    return sorted({name for name in names if JOINS in name})


def size_losses(dataset: str, model: str, group: str) -> list[str]:
    """Loss tables of a group by each of several models."""
    return [f"results/{dataset}/losses/{one}/{group}.parquet" for one in model.split(JOINS)]


def weights_of(model: dict) -> float:
    """By which models are ordered by size: parameters, of a shape those of its blocks (12 layers
    width^2), as the tokenizer alone says how many its embeddings have.
    """
    shape = model.get("shape", {})
    return model.get("parameters") or 12 * shape.get("layers", 0) * shape.get("width", 0) ** 2


def size_files(dataset: str, model: str) -> list[str]:
    """What says the parameters and tokens of each of several models."""
    return [f"results/{dataset}/sizes/{one}.json" for one in model.split(JOINS)]


def schedule_tokens(config: dict, dataset: str, model: str) -> int:
    """Tokens of a model's whole run."""
    block = config["datasets"][dataset]
    settings = block["training"][model]
    return settings["steps"] * settings["batch_rows"] * block["sequence_length"]


def first_updates(shares: Sequence[float], steps: int, source: str) -> tuple[int, ...]:
    """The updates, counted from 0, that the stages of a run of `steps` begin with.

    Errors: a stage would have no update.
    """
    starts = [round(math.fsum(shares[:number]) * steps) for number in range(len(shares))]
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], steps], strict=True), start=1):
        if end <= start:
            raise InputError(
                f"{source}: stage {number} has a share of {shares[number - 1]:g}, which of {steps} updates is none."
            )
    return tuple(starts)


def asked_size(config: dict, dataset: str, model: str) -> list[str]:
    """The size at which a law over several is read, that of the model to be optimised for; none of
    a law of one.
    """
    return size_files(dataset, config["datasets"][dataset]["optimum"]["for"]) if JOINS in model else []


def large_runs(config: dict, dataset: str) -> bool:
    """Whether a law over sizes can be scored on runs of the model that it is asked for: one that
    is compared, and of a size of its own.
    """
    block = config["datasets"][dataset]
    if "models" not in block["optimum"] or block["optimum"]["for"] != block["compare"]["model"]:
        return False
    sizes = {name: model.get("shape", model.get("parameters")) for name, model in config["models"].items()}
    asked = sizes[block["optimum"]["for"]]
    return len(block["compare"]["mixtures"]) > 2 and all(sizes[model] != asked for model in block["optimum"]["models"])


def prior_table(config: dict, dataset: str) -> list[str]:
    """Who speaks like whom, the prior of the law transfer: where text was counted or observations
    name a table, and the config does not turn it off.
    """
    block = config["datasets"][dataset]
    if not config["laws"].get("prior", True):
        return []
    if "corpus" in block:
        return [f"results/{dataset}/cross_entropy.csv"]
    brought = block.get("observations", {})
    return [brought["cross_entropy"]] if "cross_entropy" in brought else []


def prior_of(config: dict, dataset: str, law: str) -> list[str]:
    """The prior of a law, where it takes one."""
    return prior_table(config, dataset) if law == "transfer" else []


def interval_tables(config: dict, dataset: str, model: str, law: str, group: str) -> list[str]:
    """The intervals of a fitted law, where there are enough mixtures for them."""
    folder = f"results/{dataset}/laws/{model}/{law}/{group}"
    return [f"{folder}/intervals.csv"] if has_intervals(config, dataset) else []
