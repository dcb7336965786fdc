"""The config checked before the first job, in two stages: the kinds of its values, all at once, then
what no model can say: names that stand elsewhere, keys that contradict each other, numbers that go
together, files.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from bimix.blocks import Block, Faults, Key, refusals
from bimix.dropped import dropped_keys
from bimix.laws.table import is_optimum
from bimix.mixtures.names import BEST, REWEIGHTING, lack
from bimix.names import unknown
from bimix.settings import mixtures, text
from bimix.settings.complete import Filled, with_defaults
from bimix.settings.files import Fault
from bimix.settings.models import Config
from bimix.settings.scope import Scope

# Checks of a dataset, each with the key that must be set for it; "": it is always made.
OF_ALL = (
    (mixtures.check_upper, "optimum/upper"),
    (mixtures.check_reference, "optimum/objective"),
)
OF_TEXT = (
    (text.check_domains, ""),
    (text.check_labels, "corpus/domain_field"),
    (text.check_lengths, "corpus/held_out_characters"),
    (text.check_measured_only, "corpus/validation_only"),
    (text.check_published, "published"),
    (text.check_trainings, ""),
    (text.check_commands, ""),
    (text.check_schedules, ""),
    (text.check_epochs, "optimum/max_epochs"),
    (mixtures.check_swarm, "swarm"),
    (mixtures.check_search, "search"),
    (mixtures.check_downstream, "downstream"),
    (mixtures.check_stages, "stages"),
    (mixtures.check_staged, ""),
    (mixtures.check_fit, "optimum/step"),
    (mixtures.check_found_before, ""),
    (mixtures.check_sizes, "optimum/models"),
    (mixtures.check_larger, "optimum/for"),
    (mixtures.check_sized_laws, "optimum/models"),
)
OF_LOSSES = (
    (mixtures.check_tables, ""),  # first: it reads the domains
    (mixtures.check_observed, ""),
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
    config: dict, code: Path, wanted: Iterable[str] = (), plans_only: bool = False
) -> tuple[dict, dict[str, Filled], list[Fault]]:
    """A merged config with its defaults, what these follow from, its faults and remarks without
    lines. Where it holds what was dropped or what is not of its kind, no more is checked.

    The datasets that are `wanted` are to be built: their files must be there and their laws be
    possible; where it `plans_only`, files that decide nothing of the plan may lack. Published tables
    are found from `code`.
    """
    dropped = dict(dropped_keys(config))
    _, faults = typed(config)
    # what stands at, in or around a dropped key is no second fault
    faults = [fault for fault in faults if not any(_on_one_path(fault.key, key) for key in dropped)]
    faults += [Fault(key, sentence) for key, sentence in dropped.items()]
    if faults:
        return config, {}, faults
    filled, choices = with_defaults(config)
    model, faults = typed(filled)
    if model is None:
        return filled, choices, faults
    faults += _of_config(model)
    for name in model.datasets:
        scope = Scope(model, name, code, name in wanted, plans_only and name not in choices)
        faults += [_fault(("datasets", name), *found) for found in _of_dataset(scope)]
    return filled, choices, faults


def _on_one_path(key: Key, other: Key) -> bool:
    return all(part == beside for part, beside in zip(key, other, strict=False))


def typed(config: dict) -> tuple[Config | None, list[Fault]]:
    """The config as its models, without its blocks of `x-...`, for anchors; or what they refuse."""
    given = {key: value for key, value in config.items() if not str(key).startswith("x-")}
    try:
        return Config.model_validate(given), []
    except ValidationError as refused:
        return None, [Fault(key, sentence) for key, sentence in refusals(refused, Config, given)]


def _fault(block: Key, key: str | Key, sentence: str, remark: bool = False) -> Fault:
    """The fault of a key in a block, a path or a tuple."""
    return Fault((*block, *(key.split("/") if isinstance(key, str) else key)), sentence, remark=remark)


def _of_config(config: Config) -> Iterator[Fault]:
    """Faults of what stands outside the datasets."""
    for name, path in (config.laws.own or {}).items():
        if fault := text.file_fault(path):
            yield Fault(("laws", "own", name), fault)
    recipes = config.training
    for name, recipe in recipes.items():
        if recipe.get("like") in recipes:  # which is so itself: else it would have been taken over
            yield Fault(("training", name, "like"), f"{recipe.like} is itself like another recipe; name that one.")
    for found in [
        *unknown_names(config, "dataset", list(config.datasets), "`datasets` has", "run/*"),
        *unknown_names(config, "recipe", list(recipes), "`training` has", "training/*/like"),
    ]:
        yield _fault((), *found)


def _of_dataset(scope: Scope) -> Faults:
    if scope.is_text and not scope.block.domains:
        yield "domains", "the key is missing: name the domains, or give files of each under `train`."
        return
    if scope.is_text:
        scope.trained = scope.block.domains
        scope.answering = [*scope.trained, *(scope.block.corpus.validation_only or ())]
    for run, key in (*(OF_TEXT if scope.is_text else OF_LOSSES), *OF_ALL):
        if not key or scope.value(key) is not None:
            yield from run(scope)
    for key, others, why in APART:
        there = [other for other in others.split() if scope.value(other)]
        if scope.value(key) and there:
            yield key, f"it does not go with `{there[0]}`: {why}. Take one of them away."
    for what, known, there, paths in references(scope):
        if known is not None:
            yield from unknown_names(scope.block, what, known, there, paths)
    yield from unknown_mixtures(scope)
    if scope.is_text and scope.wanted:
        yield from text.check_files(scope)


OF_TRAINED_MODELS = (
    "seeds/{} optimum/model optimum/models/* optimum/for compare/model swarm/model reweighting/model downstream/model"
)
OF_RECIPES = "training/*/recipe reweighting/doremi/recipe reweighting/doge/recipe"
OF_LISTS = "groups/*/* compare/mixtures/* search/start/* stages/*/*/mixture"


def references(scope: Scope) -> Iterator[tuple[str, list[str] | None, str, str]]:
    """What names in a dataset's block are of, those that there are (None: not known), how a sentence
    lists them, and the paths of the names, in which * is any name or number and {} the names of a
    block.
    """
    block, config, known, answering = scope.block, scope.config, scope.known, scope.answering
    families = list((block.optimum.objective and block.optimum.objective.families) or ())
    yield "domain", answering, "there are", "optimum/weights/{}"
    yield "domain", scope.trained, "there are", "optimum/lower/{} optimum/upper/{} domain_groups/{}"
    yield "loss of", answering, "there are", "optimum/objective/families/*/*"
    weighed = ("family", families) if families else ("loss of", answering)
    yield *weighed, "there are", "optimum/objective/weights/{}"
    made = [name for name in ("swarm", "search") if scope.is_text and getattr(block, name)]
    yield "group", [*block.groups, "compare", *made], "`groups` has", "optimum/group held_out/*"
    if known is not None:
        before = [name for name in known if not is_optimum(name)]
        yield "mixture", before, "there are", "optimum/objective/reference"
        drawn = [name for name in before if name not in BEST and not re.fullmatch(r"swarm_\d+", name)]
        yield "mixture", drawn, "there are", "centre"
        trained = [name for name in known if name not in REWEIGHTING and not re.fullmatch(r"swarm_\d+", name)]
        yield "mixture", trained, "there are", "reweighting/reference"
    if scope.is_text:
        yield "training settings for", list(block.training), "`training` has", OF_TRAINED_MODELS
        yield "model", list(config.models), "`models` has", "training/{}"
        yield "recipe", list(config.training), "`training` has", OF_RECIPES
        paths = "corpus/harvest/{} corpus/train/{} corpus/validation/{} corpus/labels/{}"
        yield "domain", block.domains, "`domains` has", paths
        files = block.corpus.harvest or block.corpus.train
        if isinstance(files, dict):
            yield "domain", [*block.domains, *files], "`domains` has", "corpus/held_out_characters/{}"


def unknown_mixtures(scope: Scope) -> Faults:
    """Mixtures in lists that the dataset does not know."""
    there = "the dataset knows" if scope.is_text else "its tables both have"
    for path in OF_LISTS.split() if scope.known is not None else ():
        for key, name in named_at(scope.block, path.split("/")):
            if name not in scope.known:
                why = lack(scope.mixtures, name) if scope.is_text else ""
                yield key, why or unknown("mixture", name, scope.known, there)


def unknown_names(block: Block, what: str, known: list[str], there: str, paths: str) -> Faults:
    """Names at paths of a block that are none of those known."""
    for path in paths.split():
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
    entries: list[tuple] = []
    if first == "*" and isinstance(value, list):
        entries = list(enumerate(value))
    elif first == "{}" and isinstance(value, Mapping):
        entries = [(name, name) for name in value]
    elif first == "*" and isinstance(value, Mapping):
        entries = list(value.items())
    elif isinstance(value, Block | Mapping) and first in value:
        entries = [(first, value[first])]
    for name, inner in entries:
        yield from named_at(inner, rest, (*key, name))
