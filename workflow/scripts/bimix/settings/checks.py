"""The config checked before the first job: all of its faults at once.

The models say what kind of value each key takes. The checks of the tables below, generators of
faults over the typed and filled config, say what no model can: names that stand elsewhere, keys
that contradict each other, numbers that go together, files. With each check stand the keys that it
reads; it is left out where the models refuse any of them.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pydantic import BaseModel

from bimix.dropped import dropped_keys, without
from bimix.errors import InputError
from bimix.laws.table import is_optimum
from bimix.mixtures.names import BEST, REWEIGHTING, lack
from bimix.names import unknown
from bimix.settings import mixtures, text, typed
from bimix.settings.complete import Filled, with_defaults
from bimix.settings.files import Fault, Key, located
from bimix.settings.layers import over
from bimix.settings.models import Config, Faults
from bimix.settings.scope import KNOWN, Scope, names_at

Check = tuple[Callable[[Scope], Faults], str]
OF_ALL: tuple[Check, ...] = (
    (mixtures.check_upper, "optimum/upper optimum"),
    (mixtures.check_reference, "optimum/objective compare/mixtures"),
)
# `?`: the key may be unset; `/`: it stands outside the dataset's block.
OF_TEXT: tuple[Check, ...] = (
    (text.check_domains, "domains ?corpus/harvest ?corpus/train ?corpus/validation ?corpus/domain_field"),
    (text.check_labels, "domains corpus/domain_field ?corpus/labels"),
    (text.check_lengths, "domains corpus/held_out_characters ?corpus/train ?corpus/harvest"),
    (text.check_measured_only, "domains corpus/validation_only ?corpus/validation ?/laws/optimise"),
    (text.check_published, "published ?domains"),
    (text.check_trainings, "training /training"),
    (text.check_commands, "/models ?training ?simulate_epochs"),
    (text.check_schedules, "training /training"),
    (text.check_epochs, "optimum/max_epochs optimum corpus /corpus tokenizer sequence_length training /training"),
    (mixtures.check_swarms, f"{KNOWN} swarm domains"),
    (mixtures.check_swarm_runs, "swarm ?search groups held_out optimum compare"),
    (mixtures.check_search, "search groups held_out optimum ?training ?domains"),
    (mixtures.check_downstream, "downstream/model downstream/steps"),
    (mixtures.check_stages, "stages ?mixture_files"),
    (mixtures.check_staged_references, "?stages ?mixture_files ?centre ?reweighting optimum compare"),
    (mixtures.check_staged_commands, "/models ?stages ?mixture_files ?search groups held_out optimum compare"),
    (mixtures.check_fitted_stages, "groups optimum held_out compare ?stages"),
    (mixtures.check_swarm_step, "swarm /training training"),
    (mixtures.check_fit, "optimum/step optimum/model optimum/group /laws/optimise ?training ?groups ?domains ?swarm"),
    (mixtures.check_found_before, "optimum/group /laws/optimise ?groups compare ?stages ?swarm"),
    (mixtures.check_sizes, "optimum/models optimum ?groups ?compare ?training /models"),
    (mixtures.check_sized_laws, "optimum/models /laws/optimise"),
)
OF_LOSSES: tuple[Check, ...] = (
    (mixtures.check_tables, "observations/losses observations/mixtures ?observations"),  # first: it says the domains
    (mixtures.check_first, "compare/mixtures"),
    (mixtures.check_metrics, "observations/metrics optimum /laws"),
    (mixtures.check_tokens, "optimum/max_epochs ?observations"),
)
# A key at fault where one of the others stands, too, and why.
APART = (
    ("models", "training", "auto chooses what the other names"),
    ("optimum/model", "optimum/models", "both name what the laws are fitted to"),
    ("optimum/step", "optimum/models", "a law over sizes predicts the end of the run of `for`"),
    ("simulate_epochs", "optimum/models", "each model would have pools of its own, and the law reads one of a domain"),
    ("optimum/weights", "optimum/objective/weights optimum/objective/families", "the objective has weights of its own"),
)


def check(
    config: dict, defaults: dict, code: Path, wanted: Iterable[str] = (), plans_only: bool = False
) -> tuple[dict, dict[str, Filled], list[Fault]]:
    """A merged config with its defaults, what these follow from, its faults and remarks without
    lines. `defaults`: the workflow's own, which lie beneath.

    The datasets that are `wanted` are to be built: their files must be there and their laws be
    possible; where it `plans_only`, files that decide nothing of the plan may lack. Published tables
    are found from `code`.
    """
    faults = []
    for key, sentence in dropped_keys(config):
        faults.append(Fault(key, sentence))
        config = without(config, key)
    faults += _of_no_kind(config)
    strange = {fault.key[1] for fault in _of_no_kind(config)}
    if strange:
        config = config | {"datasets": {name: one for name, one in config["datasets"].items() if name not in strange}}
    sound, refused, model = typed.accepted(config)
    # datasets are complete once they have their defaults, the rest must be so now
    missing = [one for one in typed.incomplete(model, [one.key for one in refused]) if one.key[0] != "datasets"]
    # instead of what is refused or missing the workflow's own defaults, but for datasets
    restored = {key: own for key, own in defaults.items() if key != "datasets"} if refused or missing else {}
    settled = over(restored, sound)
    try:
        filled, choices = with_defaults(settled)
    except InputError:
        if not refused and not missing:
            raise
        return settled, {}, faults + refused + missing
    whole, further, model = typed.accepted(filled)  # what the defaults make of what is refused is no fault
    faults += [*(refused or further), *missing]
    broken = [fault.key for fault in (*refused, *missing)]
    broken += _derived(broken, config)
    incomplete = [one for one in typed.incomplete(model, broken) if one.key[0] == "datasets"]
    faults += incomplete
    broken += [fault.key for fault in incomplete]
    faults += [*typed.contradictory(model, broken), *_of_config(model, whole, broken, strange)]
    for name in model.datasets or {}:
        scope = Scope(model, whole, name, code, name in wanted, broken, plans_only and name not in choices)
        faults += _of_dataset(scope)
    return filled, choices, faults


def _of_no_kind(config: dict) -> Iterator[Fault]:
    """Blocks whose key `observations` is misspelt: all of their keys would be faults otherwise."""
    datasets = config.get("datasets")
    for name, block in datasets.items() if isinstance(datasets, dict) else ():
        if isinstance(block, dict) and not {"observations", "corpus"} & block.keys():
            for key in (key for key in block if re.fullmatch("obs.*", str(key))):
                yield Fault(("datasets", name, key), "unknown key; did you mean observations?")


def _derived(refused: list[Key], config: dict) -> list[Key]:
    """Keys that the config does not set, whose defaults come of what is refused."""
    found = []
    for name, block in config["datasets"].items() if isinstance(config.get("datasets"), dict) else ():
        own, block = ("datasets", name), block if isinstance(block, dict) else {}
        optimum = block.get("optimum", {})
        origins = [] if "domains" in block else [((*own, "domains"), [(*own, "corpus")])]
        if isinstance(optimum, dict) and "step" not in optimum:
            origins.append(((*own, "optimum", "step"), [(*own, "training"), ("training",), (*own, "optimum", "model")]))
        found += [key for key, of in origins if any(bad[: len(one)] == one for bad in refused for one in of)]
    return found


def _of_config(config: Config, whole: dict, broken: list[Key], strange: Iterable[str]) -> Iterator[Fault]:
    """Faults of what stands outside the datasets, of which some are `strange`."""
    recipes = config.training or {}
    for name, recipe in recipes.items():
        if recipe.like in recipes:  # which is so itself: else it would have been taken over
            yield Fault(("training", name, "like"), f"{recipe.like} is itself like another recipe; name that one.")
    datasets = names_at(whole, ("datasets",), [*broken, *(("datasets", name) for name in strange)])
    own = "training/*/like"
    rows = [("dataset", datasets, "`datasets` has", "run/*", "")]
    rows.append(("recipe", names_at(whole, ("training",), broken), "`training` has", own, ""))
    yield from located((), named_nowhere(config, rows))


def _of_dataset(scope: Scope) -> Iterator[Fault]:
    is_text = scope.is_text
    if is_text and scope.sound("domains", "?corpus/validation_only"):
        scope.trained = scope.block.domains
        scope.answering = [*scope.trained, *(scope.block.corpus.validation_only or ())]
    own = ("datasets", scope.name)
    for run, reads in (*(OF_TEXT if is_text else OF_LOSSES), *OF_ALL):
        if scope.sound(*reads.split()):
            yield from located(own, run(scope), reads.replace("?", ""))
    for key, others, why in APART:
        if scope.value(key) and (there := [one for one in others.split() if scope.value(one)]):
            sentence = f"it does not go with `{there[0]}`: {why}. Take one of them away."
            yield from located(own, [(key, sentence)], there[0])
    for row in references(scope):
        yield from located(own, named_nowhere(scope.block, [row]), row[-1])
    yield from unknown_mixtures(scope)
    if is_text and scope.wanted:
        yield from located(own, text.check_files(scope))


# What names are of, those that there are (None: not known, as they are refused), how a sentence
# lists them, the paths of names, in which * is any name or number and {} the names of a block, and
# the keys that they may be unknown by.
Row = tuple[str, list[str] | None, str, str, str]
OF_TRAINED_MODELS = (
    "seeds/{} optimum/model optimum/models/* optimum/for compare/model swarm/model reweighting/model downstream/model"
)
OF_RECIPES = "training/*/recipe reweighting/doremi/recipe reweighting/doge/recipe"
OF_LISTS = "groups/*/* compare/mixtures/* search/start/* stages/*/*/mixture"


def references(scope: Scope) -> Iterator[Row]:
    """Names in a dataset's block that something must stand behind."""
    block, known, answering = scope.block, scope.known, scope.answering
    families = list((block.optimum and block.optimum.objective and block.optimum.objective.families) or ())
    yield "training settings for", scope.names("training"), "`training` has", OF_TRAINED_MODELS, "training"
    yield "model", scope.names("/models"), "`models` has", "training/{}", "/models"
    yield "recipe", scope.names("/training"), "`training` has", OF_RECIPES, "/training"
    yield "domain", answering, "there are", "optimum/weights/{}", "domains"
    bounds = "optimum/lower/{} optimum/upper/{} domain_groups/{}"
    yield "domain", scope.trained, "there are", bounds, "domains"
    yield "loss of", answering, "there are", "optimum/objective/families/*/*", "domains"
    weighted = "optimum/objective/weights/{}"
    yield "family" if families else "loss of", families or answering, "there are", weighted, "domains"
    if (groups := scope.names("groups")) is not None:
        made = [one for one in ("swarm", "search") if scope.is_text and getattr(block, one, None)]
        yield "group", [*groups, "compare", *made], "`groups` has", "optimum/group held_out/*", "groups search swarm"
    if known is not None:
        before = [name for name in known if not is_optimum(name)]
        yield "mixture", before, "there are", "optimum/objective/reference", ""
        drawn = [name for name in before if name not in BEST and not re.fullmatch(r"swarm_\d+", name)]
        yield "mixture", drawn, "there are", "centre", ""
        trained = [name for name in known if name not in REWEIGHTING and not re.fullmatch(r"swarm_\d+", name)]
        yield "mixture", trained, "there are", "reweighting/reference", ""
    if scope.is_text and scope.sound("domains"):
        paths = "corpus/harvest/{} corpus/train/{} corpus/validation/{} corpus/labels/{}"
        yield "domain", block.domains, "`domains` has", paths, "domains"
        files = block.corpus.harvest or block.corpus.train
        if isinstance(files, dict):
            yield "domain", [*block.domains, *files], "`domains` has", "corpus/held_out_characters/{}", ""


def unknown_mixtures(scope: Scope) -> Iterator[Fault]:
    """Mixtures in lists that the dataset does not know, with the key that they depend on."""
    there = "the dataset knows" if scope.is_text else "its tables both have"
    for path in OF_LISTS.split() if scope.known is not None else ():
        for key, name in named_at(scope.block, path.split("/")):
            if name not in scope.known:
                causes, why = lack(scope.planned, name) if scope.is_text else ("", "")
                sentence = why or unknown("mixture", name, scope.known, there)
                yield from located(("datasets", scope.name), [(key, sentence)], causes)


def named_nowhere(block: BaseModel, rows: Iterable[Row]) -> Faults:
    for what, known, there, paths, _ in rows:
        for path in paths.split() if known is not None else ():
            for key, name in named_at(block, path.split("/")):
                if name not in known:
                    yield key, unknown(what, name, known, there)


def named_at(value: object, path: list[str], key: Key = ()) -> Iterator[tuple[Key, str]]:
    """The names that stand at a path, by their keys."""
    if not path:
        if isinstance(value, str):
            yield key, value
        return
    first, *rest = path
    if isinstance(value, BaseModel):
        entries = [(first, getattr(value, {"for": "for_"}.get(first, first), None))]
    elif isinstance(value, dict):
        entries = [(name, name if first == "{}" else one) for name, one in value.items() if first in ("*", "{}", name)]
    else:
        entries = list(enumerate(value)) if isinstance(value, list) and first == "*" else []
    for name, one in entries:
        yield from named_at(one, rest, (*key, name))
