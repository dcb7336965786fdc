"""The checks of what is measured: domains that nothing trains on, and the steps."""

from collections.abc import Iterator

from bimix.plan.laws import LAWS
from bimix.plan.settings import evaluations
from bimix.plan.sources import REWEIGHTING
from bimix.settings.block import BlockChecker
from bimix.settings.complete import Key, is_evaluated, measurements, merged_recipe, mixture_lists, reweighting_changes
from bimix.training.recipe import schedule_fault


def check_measured(checker: BlockChecker) -> list[str] | None:
    """Domains with losses, of a block whose domains are sound; None where they are not known.

    Faults: a domain that is trained on, too; a law that has no loss but of training domains; a
    tokenizer that would be trained before the text is drawn that it must leave out.
    """
    block = checker.block
    corpus = block.get("corpus")
    if not isinstance(corpus, dict) or "validation_only" not in corpus:
        return block["domains"]
    if not checker.sound("corpus/validation_only"):
        return None
    own, domains = list(corpus["validation_only"]), block["domains"]
    key = ("corpus", "validation_only")
    for name in (name for name in own if name in domains):
        checker.fault(*key, name, sentence="it is in `domains`, which are trained on; files of it go to `validation`.")
    laws = [*checker.config["laws"]["optimise"]] if checker.sound_elsewhere("laws/optimise") else []
    named = [name for _, names in mixture_lists(block) for name in names if isinstance(name, str)]
    laws += [name.removesuffix("_swarm") for name in named if name.removesuffix("_swarm") in LAWS]
    for law in dict.fromkeys(laws) if checker.dataset in checker.checker.wanted else []:
        if not LAWS[law].measured_only:
            checker.fault(
                *key,
                sentence=f"{law} has losses of training domains alone; leave it out of laws/optimise, as in"
                " `laws: {optimise: [transfer]}`, and of all groups, or take these domains out.",
            )
    if checker.sound("corpus/validation", "tokenizer") and "train" in block["tokenizer"]:
        validation = corpus["validation"]
        if isinstance(validation, dict) and isinstance(validation.get("tokens"), (int, float)):
            checker.fault(
                *key,
                sentence="beside validation `tokens`, which are drawn with the tokenizer, the tokenizer would be trained"
                " on text of these domains; hold out a `share` alone, or give a tokenizer.",
            )
    return [*domains, *own]


def check_schedules(checker: BlockChecker) -> None:
    """Of a block that trains, and is sound where it is read.

    Faults: what does not go together in a schedule; an optimum at a step at which a run's rate has
    not decayed, to whose losses none of the same length compares. Remarks: losses measured once.
    """
    for key, recipe in recipes(checker):
        found = schedule_fault(recipe)
        if found is not None:
            entry, sentence = found
            checker.fault(*key, entry, sentence=sentence)
            continue
        if recipe["schedule"] == "wsds":
            _annealed(checker, key, recipe)
        if key[0] == "training" and len(evaluations(recipe)) == 1:
            checker.remark(
                *key,
                sentence=f"with {_interval(recipe)} and {recipe['steps']:,} steps the losses are measured once, at the"
                " end; a law over steps needs several.",
            )


def _annealed(checker: BlockChecker, key: Key, recipe: dict) -> None:
    """The optimum's step, and the model, of a training on the schedule wsds."""
    model = checker.config["models"].get(key[1]) if key[0] == "training" else None
    if isinstance(model, dict) and "command" in model:
        sentence = f"{key[1]} is trained by a command, which has its own schedule; wsds is none for it."
        checker.fault(*key, "schedule", sentence=sentence)
    if not checker.sound("optimum/step", "optimum/model", "optimum/group"):
        return
    optimum = checker.block["optimum"]
    own = ("swarm", "training") if optimum["group"] == "swarm" else ("training", optimum["model"])
    if key == own and not is_evaluated(recipe, optimum["step"]):
        checker.fault(
            *("optimum", "step"),
            sentence=f"the losses of {optimum['model']} are measured {measurements(recipe)}, not at {optimum['step']:,}:"
            " name one of these steps, or make it a horizon.",
        )


def _interval(recipe: dict) -> str:
    """The setting by which losses are measured once."""
    return "no horizons" if recipe["schedule"] == "wsds" else f"evaluate_every {recipe['evaluate_every']:,}"


def recipes(checker: BlockChecker) -> Iterator[tuple[Key, dict]]:
    """The recipes in full of all trainings of a dataset, each with the key that says it, as far as
    they are sound.
    """
    block, config = checker.block, checker.config
    training = block.get("training")
    if not checker.sound_elsewhere("training") or not isinstance(training, dict):
        return
    named = {}
    for model, own in training.items():
        if checker.sound(f"training/{model}") and own["recipe"] in config["training"]:
            named[model] = merged_recipe(config, own)
            yield ("training", model), named[model]
    if checker.sound("swarm") and block["swarm"]["model"] in named:
        yield ("swarm", "training"), named[block["swarm"]["model"]] | block["swarm"].get("training", {})
    if checker.sound("reweighting") and block["reweighting"]["model"] in named:
        for method in REWEIGHTING:
            recipe = named[block["reweighting"]["model"]]
            changes = reweighting_changes(config, checker.dataset, method) if checker.checker.sound((method,)) else []
            if any(change.get("recipe", "") not in ["", *config["training"]] for change in changes):
                continue  # said elsewhere
            for change in changes:
                recipe = recipe | config["training"].get(change.get("recipe"), {})
            for change in changes:
                recipe = recipe | {name: value for name, value in change.items() if name != "recipe"}
            if recipe["schedule"] == "wsds":  # the model's horizons are nothing to another schedule
                yield ("reweighting", method, "training"), recipe
