"""What mixtures are found with, for the plan of costs before and the price list after.

All functions take the checked and completed config. Paths are relative to the folder of `results`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from glob import escape, iglob

from bimix.laws.table import JOINS
from bimix.plan.rounds import Moved, reweighting_folders
from bimix.plan.runs import answering_runs, runs_of, swarm_recipe
from bimix.plan.search import FOUND, GROUP, round_of
from bimix.plan.sources import BEST, REWEIGHTING, searched_runs, source_of, staged_names


@dataclass(frozen=True)
class Training:
    """One training: what it is for, its model, the name of its run, its recipe.

    `what` is a key of ENDED. Two with one run are equal, whatever asked for them.
    """

    what: str
    model: str
    name: str
    recipe: dict = field(compare=False)


@dataclass(frozen=True)
class PlannedRuns:
    """Trainings of one kind on one model that a table needs and that no table before it did.

    `runs` in all, `done` of them that have ended, `kept` weights of earlier steps that
    they leave on the disk, `targets` domains that DoGE helps, `mixed` where without them
    it is to help a mix of all.
    """

    needed_for: str
    what: str
    model: str
    recipe: dict
    runs: int
    done: int
    kept: int
    targets: int
    mixed: bool


# Where the losses of a training are once it has ended; of a run of a swarm: in the folder of
# any of its configurations.
ENDED = {
    "pretraining": "results/{dataset}/runs/{model}/{name}/losses.parquet",
    "doremi": "results/{dataset}/reweighting/{model}/doremi/1/losses.parquet",
    "doge": "results/{dataset}/reweighting/{model}/doge/losses.parquet",
    "swarm": "results/{dataset}/swarm/{model}/state/{name}/*/losses.parquet",
}


def searched_with(config: dict, dataset: str, mixture: str, found_with: tuple[str, ...] = ()) -> list[Training]:
    """Trainings that a mixture is found with, and those that their mixtures are found with in turn.

    `found_with`: the mixtures on the way here. One that is found with itself adds nothing:
    Snakemake refuses it.
    """
    if mixture in found_with:
        return []
    way, block = (*found_with, mixture), config["datasets"][dataset]
    if mixture in REWEIGHTING:
        model, reference = block["reweighting"]["model"], block["reweighting"]["reference"]
        search = [Training(mixture, model, mixture, block["reweighting"][mixture]["training"])]
        if mixture == "doremi":
            search.append(Training("pretraining", model, reference, block["training"][model]))
            search += searched_with(config, dataset, reference, way)
        return search
    if mixture == "chameleon":
        model = block["optimum"].get("models", [block["optimum"]["model"]])[0]
        return [Training("pretraining", model, "uniform", block["training"][model])]
    if mixture in block.get("stages", {}):
        names = dict.fromkeys(staged_names(config, dataset, mixture))
        return [run for name in names for run in searched_with(config, dataset, name, way)]
    if (number := round_of(mixture)) or mixture == FOUND:
        if "search" not in block:
            return []
        model, group = block["optimum"]["model"], f"{GROUP}_{number - 1}" if number else GROUP
        runs = pretrainings(config, dataset, model, group)
        start = block["search"]["start"]  # what rounds are found with are runs of this group
        return runs + [run for name in start for run in searched_with(config, dataset, name, way)]
    if mixture in BEST:
        model, group, _ = searched_runs(config, dataset, mixture)
    elif fit := source_of(config, dataset, mixture).fit:
        model, group = fit.model, fit.group
    else:
        return []
    if group == "swarm":
        return swarm_trainings(config, dataset)
    runs = pretrainings(config, dataset, model, group)
    return runs + [run for name in block["groups"][group] for run in searched_with(config, dataset, name, way)]


def pretrainings(config: dict, dataset: str, model: str, group: str) -> list[Training]:
    """The trainings of a group's runs, of each of the models where several are joined."""
    recipes = config["datasets"][dataset]["training"]
    return [
        Training("pretraining", one, run.folder, recipes[one])
        for one in model.split(JOINS)
        for run in runs_of(config, dataset, one, group)
    ]


def swarm_trainings(config: dict, dataset: str) -> list[Training]:
    """The trainings of a swarm."""
    block = config["datasets"][dataset]
    model = block["swarm"]["model"]
    recipe = swarm_recipe(config, dataset, model)
    return [Training("swarm", model, name, recipe) for name in block["groups"]["swarm"]]


def trained_for(config: dict, dataset: str, model: str, group: str) -> Iterator[Training]:
    """Trainings that the losses of a group take, and those that its mixtures are found with."""
    if group == "swarm":
        yield from swarm_trainings(config, dataset)
        return
    for mixture in config["datasets"][dataset]["groups"][group]:
        yield from searched_with(config, dataset, mixture)
    yield from pretrainings(config, dataset, model, group)


def planned_runs(config: dict, dataset: str) -> list[PlannedRuns]:
    """Trainings that the summary needs, and those that the price list needs beside them."""
    block = config["datasets"][dataset]
    compared = block["compare"]["model"]
    held_out = [] if "models" in block["optimum"] else block["held_out"]
    fitted = [(block["optimum"]["model"], group) for group in (block["optimum"]["group"], *held_out)]
    asked = [(block["downstream"]["model"], "compare")] if "downstream" in block else []
    tables = {"summary": [*fitted, (compared, "compare"), *asked], "methods": [(compared, "methods")]}
    kinds: dict[tuple[str, str, str], list[Training]] = {}
    seen: set[Training] = set()
    for needed_for, groups in tables.items():
        for training in (each for group in groups for each in trained_for(config, dataset, *group)):
            if training not in seen:
                seen.add(training)
                kinds.setdefault((needed_for, training.what, training.model), []).append(training)
    return [_counted(config, dataset, needed_for, same) for (needed_for, _, _), same in kinds.items()]


def _counted(config: dict, dataset: str, needed_for: str, same: list[Training]) -> PlannedRuns:
    """Trainings of one kind on one model as one row."""
    block, first = config["datasets"][dataset], same[0]
    targets = block.get("reweighting", {}).get("targets", {}).get("domains", [])
    answering = set(answering_runs(config, dataset)) if first.what == "pretraining" else set()
    earlier = 0
    if "downstream" in block and first.model == block["downstream"]["model"]:
        last = block["training"][first.model]["steps"]
        earlier = sum(step < last for step in block["downstream"]["steps"])
    return PlannedRuns(
        needed_for=needed_for,
        what=first.what,
        model=first.model,
        recipe=first.recipe,
        runs=len(same),
        done=sum(has_ended(dataset, training) for training in same),
        kept=earlier * sum(training.name in answering for training in same),
        targets=len(targets) if first.what == "doge" else 0,
        mixed=first.what == "doge" and block["reweighting"]["doge"]["target"] == "mix",
    )


def has_ended(dataset: str, training: Training) -> bool:
    """Whether a training's losses are there."""
    names = {"dataset": dataset, "model": training.model, "name": training.name}
    return any(iglob(ENDED[training.what].format(**{key: escape(name) for key, name in names.items()})))


def reports_of(config: dict, dataset: str, training: Training, moved: Moved) -> list[str]:
    """Files that say what a training cost; of DoReMi all rounds and their references."""
    folder, model = f"results/{dataset}", training.model
    if training.what == "swarm":
        return [f"{folder}/swarm/{model}/runs.parquet"]
    if training.what == "pretraining":
        return [f"{folder}/runs/{model}/{training.name}/run.json"]
    rounds = reweighting_folders(config, dataset, training.name, moved)
    references = [f"{folder}/runs/{model}/doremi_round{number}/run.json" for number in range(1, len(rounds))]
    return [f"{each}/run.json" for each in rounds] + references


def search_reports(config: dict, dataset: str, moved: Moved) -> dict[str, list[str]]:
    """{mixture: files that say what the runs cost that it was found with}; no file twice.

    Nothing of runs that were trained elsewhere.
    """
    files: dict[str, list[str]] = {}
    if "observations" in config["datasets"][dataset]:
        return files
    for mixture in config["datasets"][dataset]["groups"]["methods"]:
        trainings = dict.fromkeys(searched_with(config, dataset, mixture))
        reports = [file for training in trainings for file in reports_of(config, dataset, training, moved)]
        files[mixture] = list(dict.fromkeys(reports))
    return files


def report_files(config: dict, dataset: str, moved: Moved) -> list[str]:
    """All of these files, in order."""
    return sorted({file for files in search_reports(config, dataset, moved).values() for file in files})


def large_report(config: dict, dataset: str) -> list[str]:
    """What the large run on the reference cost; of runs that were trained elsewhere none."""
    block = config["datasets"][dataset]
    if "observations" in block:
        return []
    return [f"results/{dataset}/runs/{block['compare']['model']}/{block['methods'][0]}/run.json"]


def design_models(config: dict, dataset: str) -> list[str]:
    """The table of the models that runs may be proposed of: the plan of costs; a dataset of losses
    measured elsewhere names one or none.
    """
    block = config["datasets"][dataset]
    if "observations" in block:
        return [block["design"]["models"]] if "models" in block["design"] else []
    return [f"results/{dataset}/plan.csv"]


def design_flags(config: dict, dataset: str) -> list[str]:
    """What the next runs are asked for, as words of a command.

    The large run is that of `compare`, and the proxy is offered unless other models are named.
    """
    block = config["datasets"][dataset]
    design = block["design"]
    words = ["--criterion", design["criterion"], "--count", str(design["count"])]
    if "observations" not in block:
        offered = design.get("models", [block["optimum"]["model"]])
        words += ["--budget", str(design["budget"]), "--large", block["compare"]["model"], "--offered", *offered]
    elif "models" in design:
        words += ["--budget", str(design["budget"]), *(["--large", design["large"]] if "large" in design else [])]
    return [*words, "--match-epochs"] if block.get("simulate_epochs") else words
