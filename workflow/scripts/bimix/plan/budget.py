"""The runs that each mixture is found from, and the plan of costs."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from bimix.laws.table import JOINS
from bimix.mixtures.names import BEST, GROUP, REWEIGHTING, round_of, runs_of
from bimix.plan.dataset import Dataset


@dataclass(frozen=True)
class Training:
    """One training; `what`: pretraining, doremi or doge. Trainings of the same run are equal."""

    what: str
    model: str
    name: str
    recipe: dict = field(compare=False)


@dataclass(frozen=True)
class PlannedRuns:
    """Trainings of one kind on one model.

    `runs` in all, of which `done` have finished; `kept`: weights of earlier steps that they leave
    on the disk.
    """

    what: str
    model: str
    recipe: dict
    runs: int
    done: int
    kept: int


# Ids of tokenizers of the hub, known without it (arXiv 2204.06745 has GPT-NeoX's, padded to 50,304 as `Shape` does).
HUB_IDS = {"EleutherAI/gpt-neox-20b": 50_277}


def known_ids(dataset: Dataset) -> int:
    """Ids of a dataset's tokenizer, known before it is there; 0 where they are not."""
    tokenizer = dataset.block["tokenizer"]
    return tokenizer.get("train", {}).get("vocabulary") or HUB_IDS.get(tokenizer.get("hub"), 0)


def searched_with(dataset: Dataset, mixture: str, found_with: tuple[str, ...] = ()) -> list[Training]:
    """The trainings of a mixture's search, recursively with those of their mixtures; none for one
    in `found_with`, the mixtures on the path here: Snakemake refuses such a cycle.
    """
    if mixture in found_with:
        return []
    block, rule = dataset.block, dataset.source(mixture).rule
    searched, runs = [], []  # the mixtures and trainings that it is found with
    if mixture in REWEIGHTING:
        model, reference = block["reweighting"]["model"], block["reweighting"]["reference"]
        runs = [Training(mixture, model, mixture, block["reweighting"][mixture])]
        if mixture == "doremi":
            runs.append(Training("pretraining", model, reference, block["training"][model]))
            searched = [reference]
    elif rule == "mix_stages":
        searched = list(dict.fromkeys(dataset.staged(mixture)))
    elif rule in ("mix_round", "mix_found"):
        number = round_of(mixture)
        runs = pretrainings(dataset, block["optimum"]["model"], f"{GROUP}_{number - 1}" if number else GROUP)
        searched = block["search"]["start"]  # what rounds are found with are runs of this group
    else:
        fit = dataset.fit(mixture)
        best = dataset.searched_runs(mixture) if mixture in BEST else ("", "", 0)
        model, group = (fit.model, fit.group) if fit else best[:2]
        if group:
            runs, searched = pretrainings(dataset, model, group), dataset.groups[group]
    way = (*found_with, mixture)
    return runs + [run for name in searched for run in searched_with(dataset, name, way)]


def pretrainings(dataset: Dataset, model: str, group: str) -> list[Training]:
    """The trainings of a group's runs, for each model where several are joined."""
    runs = [run for one in model.split(JOINS) for run in dataset.runs(group, one)]
    return [Training("pretraining", run.model, run.name, dataset.recipe(run.model, run.mixture)) for run in runs]


def trained_for(dataset: Dataset, model: str, group: str) -> Iterator[Training]:
    """The trainings of a group's runs, and those of the searches of its mixtures."""
    for mixture in dataset.groups[group]:
        yield from searched_with(dataset, mixture)
    yield from pretrainings(dataset, model, group)


def planned_runs(dataset: Dataset) -> list[PlannedRuns]:
    """The trainings that the summary needs."""
    optimum, large = dataset.block["optimum"], dataset.large
    held_out = [] if "models" in optimum else dataset.block["held_out"]
    fitted = [(optimum["model"], group) for group in (optimum["group"], *held_out)]
    answering = [(dataset.block["downstream"]["model"], "compare")] if "downstream" in dataset.block else []
    groups = [*fitted, (large, "compare"), *answering]
    kinds: dict[tuple[str, str, str], list[Training]] = {}
    for training in dict.fromkeys(each for group in groups for each in trained_for(dataset, *group)):
        kinds.setdefault((training.what, training.model, str(training.recipe)), []).append(training)
    return [_counted(dataset, same) for same in kinds.values()]


def _counted(dataset: Dataset, same: list[Training]) -> PlannedRuns:
    """Trainings of one kind and recipe on one model as one row."""
    block, first = dataset.block, same[0]
    answering = {(run.model, run.name) for run in dataset.answering_runs()} if first.what == "pretraining" else set()
    last, steps = block["training"][first.model]["steps"], block["downstream"]["steps"] if answering else ()
    return PlannedRuns(
        what=first.what,
        model=first.model,
        recipe=first.recipe,
        runs=len(same),
        done=sum(os.path.exists(f"{folder_of(dataset, one)}/losses.parquet") for one in same),
        kept=sum(step < last for step in steps) * sum((one.model, one.name) in answering for one in same),
    )


def folder_of(dataset: Dataset, training: Training) -> str:
    """The folder of a training, with its losses once it has ended, and run.json with its cost."""
    kind = "runs" if training.what == "pretraining" else "reweighting"
    return f"{dataset.folder}/{kind}/{training.model}/{training.name}"


def search_reports(dataset: Dataset) -> dict[str, list[str]]:
    """{compared mixture: reports of the runs that it is found from}; empty where runs are from elsewhere."""
    reports = {}
    for mixture in [] if dataset.observed else dataset.compared:
        found = (f"{folder_of(dataset, training)}/run.json" for training in searched_with(dataset, mixture))
        reports[mixture] = list(dict.fromkeys(found))
    return reports


def report_files(dataset: Dataset) -> list[str]:
    """All of these files, in order."""
    return sorted({file for files in search_reports(dataset).values() for file in files})


def search_prices(dataset: Dataset) -> list[str]:
    """The table of what runs cost, for a search with a budget in FLOPs."""
    budget = dataset.block["search"].get("budget")
    return [] if budget is None or runs_of(budget) is not None else [f"{dataset.folder}/search/prices.csv"]


def priced_runs(dataset: Dataset) -> list[PlannedRuns]:
    """A row without runs of each model that a search looks up: the proxies and the large one."""
    recipes = dataset.block["training"]
    models = dict.fromkeys([*dataset.proxies, dataset.large])
    return [PlannedRuns("pretraining", one, recipes[one], 0, 0, 0) for one in models]


def priced_sizes(dataset: Dataset) -> dict[str, object]:
    """What decides the parameters of these models."""
    models = {row.model: dataset.config["models"][row.model] for row in priced_runs(dataset)}
    return {name: own.get("shape", own.get("parameters")) for name, own in models.items()}


def search_flags(dataset: Dataset) -> list[str]:
    """Flags of a budget in FLOPs: with the proxies and the large run."""
    if not search_prices(dataset):
        return []
    return ["--budget", str(dataset.block["search"]["budget"]), "--large", dataset.large, "--offered", *dataset.proxies]
