"""What other blocks say for a dataset: the mixtures that it knows, its trainings in full, and the
config as rules read it (`expanded`). All functions take a filled config as plain blocks.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

from bimix.laws.table import JOINS, is_optimum
from bimix.plan.dataset import Dataset, weights_of
from bimix.plan.sources import BEST, GROUP, REWEIGHTING, groups_of, known_names, wanted_rivals
from bimix.settings.faults import Key

GROUPS = ("compare", "methods", "swarm", GROUP)  # that other blocks than `groups` name


# The mixtures of a dataset by name


def mixture_lists(block: dict) -> Iterator[tuple[Key, list[str]]]:
    """All lists of mixtures in a dataset's block, by their keys."""
    for group, names in block.get("groups", {}).items():
        if names != "all" and group not in GROUPS:
            yield ("groups", group), names
    for key in (("compare", "mixtures"), ("methods",), ("search", "start")):
        own = block.get(key[0], {})
        names = own.get(key[1]) if key[1:] else own
        if names:
            yield key, names


def published_names(config: dict, dataset: str, code: Path) -> list[str]:
    """Mixtures of the published table that a dataset names; none where it names none, or one that
    cannot be read.
    """
    table = config["mixtures"]["published"].get(config["datasets"][dataset].get("published"))
    if table is None:
        return []
    try:
        with Path(code, table).open(encoding="utf-8", newline="") as lines:
            return [f"published_{column}" for column in next(csv.reader(lines), [])[1:]]
    except (OSError, ValueError):
        return []


def known_mixtures(config: dict, dataset: str, code: Path) -> list[str]:
    """Names that a dataset's groups may use, those of its swarm aside."""
    return known_names(Dataset(config, dataset), published_names(config, dataset, code))


def swarm_names(config: dict, dataset: str) -> list[str]:
    """Mixtures of a dataset's swarm; none without a swarm."""
    runs = config["datasets"][dataset].get("swarm", {}).get("runs", 0)
    return [f"swarm_{number:04d}" for number in range(1, runs + 1)]


def unsearched(config: dict, dataset: str) -> list[str]:
    """Mixtures that a dataset's methods are always compared with and that are not among them: the
    rules that anyone would try, those by hand for wanted domains, and the best mixtures of the
    searches themselves, where their runs say which that is.
    """
    planned = Dataset(config, dataset)
    methods = planned.block["methods"]
    searched = {"best_swarm" if planned.from_swarm(name) else "best" for name in methods if is_optimum(name)}
    rivals = ["baseline", "uniform", "unimax", *wanted_rivals(planned)]
    rivals += [name for name in BEST if name in searched and not planned.unjudged(name)]
    return [name for name in rivals if name not in methods]


# Trainings in full


def merged_recipe(config: dict, settings: dict) -> dict:
    """Training settings in full: those of the recipe that `settings` names, with its changes."""
    recipe = {**config["training"].get(settings.get("recipe"), {}), **settings}
    return {key: value for key, value in recipe.items() if key != "recipe"}


def reweighting_changes(config: dict, dataset: str, method: str) -> list[dict]:
    """The training settings of a method that reweighs, the last one decides: the method's, the
    dataset's, the dataset's for the method.
    """
    settings = config["datasets"][dataset]["reweighting"]
    own = settings.get(method, {}).get("training", {})
    return [config[method].get("training", {}), settings.get("training", {}), own]


def reweighting_training(config: dict, dataset: str, method: str, recipe: dict) -> dict:
    """Training settings of a method in full: of the recipe that is named last, else `recipe`, the
    model's, with all changes.
    """
    changes = reweighting_changes(config, dataset, method)
    named = [config["training"][change["recipe"]] for change in changes if "recipe" in change]
    full = dict((named or [recipe])[-1])
    for change in changes:
        full |= {name: value for name, value in change.items() if name != "recipe"}
    return full


# What other blocks say for a dataset


def expanded(config: dict) -> dict:
    """The config as rules read it: in each dataset all that holds for it, with the groups compare,
    methods and swarm, and those of its search.
    """
    datasets = {}
    for name, block in config["datasets"].items():
        block = block | {"optimum": _with_weights(block)}
        if "observations" in block:
            datasets[name] = _expanded_losses(block)
        else:
            datasets[name] = _expanded_text(config | {"datasets": config["datasets"] | {name: block}}, name)
    return config | {"datasets": datasets}


def _with_weights(block: dict) -> dict:
    """A dataset's optimum with the reference of its objective, where there may be one, and the
    weights of its families by loss domain, as all that averages losses reads them.
    """
    optimum, first = dict(block["optimum"]), block["compare"]["mixtures"][0]
    if "objective" in optimum:
        objective = dict(optimum["objective"])
        if not is_optimum(first):
            objective.setdefault("reference", first)
        from bimix.optimum.families import by_domain  # here only: most datasets have no objective

        optimum["objective"] = objective
        weights = by_domain(objective.get("weights", {}), objective.get("families", {}))
        optimum |= {"weights": weights} if weights else {}
    return optimum


def _expanded_losses(block: dict) -> dict:
    """A group `all` takes every mixture; the one model is called observed."""
    groups = {group: [] if names == "all" else names for group, names in block["groups"].items()}
    groups |= {"compare": block["compare"]["mixtures"], "methods": block.get("methods", [])}
    model = {"model": "observed"}
    return block | {"groups": groups, "optimum": block["optimum"] | model, "compare": block["compare"] | model}


def _expanded_text(config: dict, name: str) -> dict:
    block = config["datasets"][name]
    block["domains"] = sorted(block["domains"])  # no parameter of a job changes with their order in the file
    block["training"] = {model: merged_recipe(config, own) for model, own in block["training"].items()}
    block["groups"] = block["groups"] | {"compare": block["compare"]["mixtures"]}
    if "methods" in block:
        block["methods"] = block["methods"] + unsearched(config, name)
    block["groups"] |= {"methods": block.get("methods", [])} | groups_of(block)
    optimum = block["optimum"]
    if "models" in optimum:
        # one name for all, the smallest first, and the end of the run that is optimised for
        optimum["models"] = sorted(optimum["models"], key=lambda model: weights_of(config["models"][model]))
        optimum["model"] = JOINS.join(optimum["models"])
        optimum["step"] = block["training"][optimum["for"]]["steps"]
    if "swarm" in block:
        block["groups"]["swarm"] = swarm_names(config, name)
    if "reweighting" in block:
        own = block["reweighting"]
        block["reweighting"] = own | {
            method: config[method]
            | own.get(method, {})
            | {"training": reweighting_training(config, name, method, block["training"][own["model"]])}
            for method in REWEIGHTING
        }
    if block.get("simulate_epochs"):
        _match_epochs(block)
    return block


def _match_epochs(block: dict) -> None:
    """Give each small run of a dataset the share of every domain at which it repeats as often as
    the large one.

    That is the tokens that it reads over those that the model under `compare` reads; a run that
    reads as many has the whole (matched repetition, arXiv 2606.07597).
    """
    large = _rows_read(block["training"][block["compare"]["model"]])
    small = list(block["training"].values())
    if "swarm" in block:
        changes = block["swarm"].get("training", {})
        read = _rows_read(block["training"][block["swarm"]["model"]] | changes)
        block["swarm"] = block["swarm"] | {"training": changes | {"pool_share": min(1.0, read / large)}}
    if "reweighting" in block:
        small += [block["reweighting"][method]["training"] for method in REWEIGHTING]
    for recipe in small:
        recipe["pool_share"] = min(1.0, _rows_read(recipe) / large)


def _rows_read(recipe: dict) -> int:
    return recipe["steps"] * recipe["batch_rows"]
