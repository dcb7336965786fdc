"""What a dataset's block means: the mixtures it knows, its trainings in full, every default in its
place.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

from bimix.names import named, unknown
from bimix.optimum.families import by_domain
from bimix.plan.laws import JOINS, LAWS, SWARM_LAWS, is_optimum
from bimix.plan.runs import weights_of
from bimix.plan.search import GROUP, groups_of, search_names
from bimix.plan.settings import evaluations
from bimix.plan.sources import (
    BEST,
    MEASURES,
    REWEIGHTING,
    SIMPLE,
    from_swarm,
    unjudged,
    wanted_names,
    wanted_rivals,
)
from bimix.settings.fault import Fault

# Groups that are named by other blocks than `groups`.
GROUPS = ("compare", "methods", "swarm", GROUP)
Key = tuple[str | int, ...]


def mixture_lists(block: object) -> Iterator[tuple[Key, list]]:
    """All lists of mixtures in a dataset's block, by their keys."""
    if not isinstance(block, dict):
        return
    groups = block.get("groups")
    for group, names in groups.items() if isinstance(groups, dict) else ():
        if isinstance(names, list) and group not in GROUPS:
            yield ("groups", group), names
    compare = block.get("compare")
    if isinstance(compare, dict) and isinstance(compare.get("mixtures"), list):
        yield ("compare", "mixtures"), compare["mixtures"]
    if isinstance(block.get("methods"), list):
        yield ("methods",), block["methods"]
    search = block.get("search")
    if isinstance(search, dict) and isinstance(search.get("start"), list):
        yield ("search", "start"), search["start"]


def published_names(config: dict, dataset: str, code: Path) -> list[str]:
    """Mixtures of the published table that a dataset names; none where it names none, or one that
    cannot be read.
    """
    try:
        table = config["mixtures"]["published"].get(config["datasets"][dataset].get("published"))
        with Path(code, table).open(encoding="utf-8", newline="") as lines:
            return [f"published_{column}" for column in next(csv.reader(lines), [])[1:]]
    except (OSError, TypeError, ValueError):
        return []


def known_mixtures(config: dict, dataset: str, code: Path) -> list[str]:
    """Names that a dataset's groups may use, those of its swarm aside."""
    block = config["datasets"][dataset]
    fitted = [law for law in LAWS if law not in SWARM_LAWS]
    if "swarm" in block:
        fitted += [*SWARM_LAWS, *(f"{law}_swarm" for law in LAWS)]
    else:
        fitted += [law for law in SWARM_LAWS if law in config["laws"]["optimise"]]
    reweighted = REWEIGHTING if "reweighting" in block else []
    own = block.get("mixture_files", {})
    own = own if isinstance(own, dict) else {}  # wrong, and said elsewhere
    staged = block.get("stages", {})
    staged = staged if isinstance(staged, dict) else {}
    return [
        "baseline",
        "uniform",
        *SIMPLE,
        *wanted_names(config, dataset),
        *search_names(block),
        *MEASURES,
        *published_names(config, dataset, code),
        *own,
        *staged,
        *reweighted,
        *fitted,
    ]


def swarm_names(config: dict, dataset: str) -> list[str]:
    """Mixtures of a dataset's swarm; none without a swarm."""
    runs = config["datasets"][dataset].get("swarm", {}).get("runs", 0)
    return [f"swarm_{number:04d}" for number in range(1, runs + 1)]


def write_out_recipes(config: dict) -> list[Fault]:
    """Put what a recipe takes over from another in its place, in the config itself; the faults of
    `like`.

    A recipe with a fault stays as it is. Settings stand in the order of the recipe that is named.
    """
    recipes, faults = config.get("training"), []
    if not isinstance(recipes, dict):
        return []
    named = {name: own["like"] for name, own in recipes.items() if isinstance(own, dict) and "like" in own}
    whole = [name for name, own in recipes.items() if isinstance(own, dict) and name not in named]
    for name, like in named.items():
        if like in whole:
            own = {key: value for key, value in recipes[name].items() if key != "like"}
            recipes[name] = {**recipes[like], **own}
        elif isinstance(like, str) and like in named:
            sentence = f"{like} is itself like another recipe; name that one."
            faults.append(Fault(("training", name, "like"), sentence))
        else:
            sentence = unknown("recipe", str(like), whole, "written out in full are")
            faults.append(Fault(("training", name, "like"), sentence))
    return faults


def merged_recipe(config: dict, settings: dict) -> dict:
    """Training settings in full: those of the recipe that `settings` names, with its changes."""
    recipe = {**config["training"].get(settings.get("recipe"), {}), **settings}
    return {key: value for key, value in recipe.items() if key != "recipe"}


def reweighting_changes(config: dict, dataset: str, method: str) -> list[dict]:
    """What says how a method that reweighs is trained, the last word last: the method, the dataset,
    the dataset's method.
    """
    settings = config["datasets"][dataset]["reweighting"]
    own = settings.get(method, {}).get("training", {})
    return [config[method].get("training", {}), settings.get("training", {}), own]


def reweighting_training(config: dict, dataset: str, method: str) -> dict:
    """Training settings of a method in full: of the recipe that is named last, else the model's,
    with all changes.
    """
    block, changes = config["datasets"][dataset], reweighting_changes(config, dataset, method)
    recipe = next((change["recipe"] for change in reversed(changes) if "recipe" in change), None)
    full = dict(config["training"][recipe] if recipe else block["training"][block["reweighting"]["model"]])
    for change in changes:
        full |= {name: value for name, value in change.items() if name != "recipe"}
    return full


def complete_objective(block: dict) -> None:
    """Write out the reference of a dataset's objective, where there may be one, and the weights of
    its families by loss domain, as all that averages losses reads them.
    """
    optimum = block["optimum"]
    if "objective" not in optimum:
        return
    objective = optimum["objective"]
    first = block["compare"]["mixtures"][0]
    if "reference" not in objective and not is_optimum(first):
        optimum["objective"] = objective = {**objective, "reference": first}
    weights = by_domain(objective.get("weights", {}), objective.get("families", {}))
    if weights:
        optimum["weights"] = weights


def match_epochs(block: dict) -> None:
    """Give each small run of a dataset the share of every domain at which it repeats as often as
    the large one.

    That is the tokens that it reads over those that the model under `compare` reads; a run that
    reads as many has the whole (matched repetition, arXiv 2606.07597).
    """
    large = _rows_read(block["training"][block["compare"]["model"]])
    small = list(block["training"].values())
    if "swarm" in block:
        usual = block["training"][block["swarm"]["model"]]
        changes = block["swarm"]["training"] = {**block["swarm"].get("training", {})}
        changes["pool_share"] = min(1.0, _rows_read(usual | changes) / large)
    if "reweighting" in block:
        small += [block["reweighting"][method]["training"] for method in REWEIGHTING]
    for recipe in small:
        recipe["pool_share"] = min(1.0, _rows_read(recipe) / large)


def unsearched(config: dict, dataset: str) -> list[str]:
    """What a dataset's methods are always judged beside and is not among them: the rules that
    anyone would try, those by hand for wanted domains, and the best mixtures of the searches
    themselves, where their runs say which that is.
    """
    methods = config["datasets"][dataset]["methods"]
    searched = {"best_swarm" if from_swarm(config, dataset, name) else "best" for name in methods if is_optimum(name)}
    beside = ["baseline", "uniform", "unimax", *wanted_rivals(config, dataset)]
    beside += [name for name in BEST if name in searched and not unjudged(config, dataset, name)]
    return [name for name in beside if name not in methods]


def _rows_read(recipe: dict) -> int:
    return recipe["steps"] * recipe["batch_rows"]


def complete(config: dict) -> None:
    """Write out, in each dataset, what other blocks say for all of them; the groups compare,
    methods and swarm as groups.
    """
    write_out_recipes(config)
    for dataset, block in config["datasets"].items():
        complete_objective(block)
        block["design"] = config["design"] | block.get("design", {})
        if "observations" in block:
            # a group `all` takes every mixture; the one model is called observed
            block["groups"] = {group: [] if names == "all" else names for group, names in block["groups"].items()}
            block["groups"]["compare"] = block["compare"]["mixtures"]
            block["groups"]["methods"] = block.get("methods", [])
            block["optimum"]["model"] = block["compare"]["model"] = "observed"
            continue
        # in one order, which is then no parameter of a job: another in the config moves no result
        block["domains"] = sorted(block["domains"])
        block["corpus"] = config["corpus"] | block["corpus"]
        block["entropy"] = config["entropy"] | block.get("entropy", {})
        block["training"] = {model: merged_recipe(config, own) for model, own in block["training"].items()}
        block["groups"]["compare"] = block["compare"]["mixtures"]
        if "methods" in block:
            block["methods"] = block["methods"] + unsearched(config, dataset)
        block["groups"]["methods"] = block.get("methods", [])
        block["groups"] |= groups_of(block)
        optimum = block["optimum"]
        if "models" in optimum:
            # one name for all, the smallest first, and the end of the run that is optimised for
            optimum["models"] = sorted(optimum["models"], key=lambda model: weights_of(config["models"][model]))
            optimum["model"] = JOINS.join(optimum["models"])
            optimum["step"] = block["training"][optimum["for"]]["steps"]
        if "swarm" in block:
            block["groups"]["swarm"] = swarm_names(config, dataset)
        if "reweighting" in block:
            settings = block["reweighting"]
            for method in REWEIGHTING:
                full = reweighting_training(config, dataset, method)
                settings[method] = config[method] | settings.get(method, {}) | {"training": full}
        if block.get("simulate_epochs"):
            match_epochs(block)
        if "downstream" in block:
            block["downstream"] = config["downstream"] | block["downstream"]


def is_evaluated(recipe: dict, step: int) -> bool:
    """Whether a training measures its losses at a step."""
    return step in evaluations(recipe)


def measurements(recipe: dict) -> str:
    """When a training measures its losses, in words."""
    if recipe["schedule"] == "wsds":
        return f"at the ends of its decays alone, {named(f'{step:,}' for step in evaluations(recipe))}"
    return f"every {recipe['evaluate_every']} steps and after the last, {recipe['steps']}"
