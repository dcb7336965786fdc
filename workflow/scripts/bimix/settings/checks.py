"""The config checked before the first job, in three stages, each all at once: the kinds of its values; with
its defaults the names in it; and, complete, what goes together: numbers, mixtures, files.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from bimix.blocks import Faults, Key, refusals, value_at
from bimix.corpus.files import held_by_hash
from bimix.dropped import dropped_keys
from bimix.laws.table import is_optimum
from bimix.mixtures.names import BEST, GROUP, REWEIGHTING, lack
from bimix.names import unknown
from bimix.settings import mixtures, observed, text
from bimix.settings.complete import Filled, expand, with_defaults
from bimix.settings.files import Fault
from bimix.settings.models import Config
from bimix.settings.scope import Scope

# Checks of a dataset of text, each with the key that must be set for it; "": it is always made.
OF_TEXT = (
    (text.check_domains, ""),
    (text.check_measured_only, ""),
    (text.check_trainings, ""),
    (text.check_commands, ""),
    (text.check_epochs, "optimum/max_epochs"),
    (text.check_downstream, "downstream"),
    (mixtures.check_swarm, "swarm"),
    (mixtures.check_search, "search"),
    (mixtures.check_stages, "stages"),
    (mixtures.check_staged, ""),
    (mixtures.check_found_before, ""),
    (mixtures.check_larger, "optimum/for"),
)
OF_TRAINED_MODELS = (
    "seeds/{} optimum/model optimum/models/* optimum/for compare/model swarm/model reweighting/model downstream/model"
)
OF_RECIPES = "training/*/recipe reweighting/doremi/recipe reweighting/doge/recipe"
OF_DOMAINS = "corpus/harvest/{} corpus/train/{} corpus/labels/{}"
OF_LISTS = "groups/*/* compare/mixtures/* search/start/* stages/*/*/mixture"


def check(
    config: dict, code: Path, wanted: Iterable[str] = (), plans_only: bool = False
) -> tuple[dict, dict[str, Filled], list[Fault]]:
    """A merged config made complete, what its defaults follow from, and its faults and remarks without
    lines. Where a stage finds faults, no further one is checked.

    The datasets that are `wanted` are to be built: their files must be there and their laws be
    possible; where it `plans_only`, files that decide nothing of the plan may lack. Published tables
    are found from `code`.
    """
    if faults := type_faults(config):
        return config, {}, faults
    filled, choices = with_defaults(config)
    scopes = [
        Scope(filled, name, code, name in wanted, plans_only and name not in choices) for name in filled["datasets"]
    ]
    faults = list(_names_outside(filled))
    for scope in scopes:
        faults += [_fault(("datasets", scope.name), *found) for found in _names_of(scope)]
    if not faults:
        expand(filled)
        for scope in scopes:
            faults += [_fault(("datasets", scope.name), *found) for found in _faults_of(scope)]
    return filled, choices, faults


def _fault(block: Key, key: str | Key, sentence: str, remark: bool = False) -> Fault:
    """The fault of a key in a block, a path or a tuple."""
    return Fault((*block, *(key.split("/") if isinstance(key, str) else key)), sentence, remark=remark)


# The kinds of values


def type_faults(config: Mapping) -> list[Fault]:
    """What was dropped and what the models refuse, but for what stands at, in or around a dropped key."""
    dropped = dict(dropped_keys(config))
    faults = [Fault(key, sentence) for key, sentence in dropped.items()]
    given = {key: value for key, value in config.items() if not str(key).startswith("x-")}
    try:
        Config.model_validate(given)
    except ValidationError as refused:
        for key, sentence in refusals(refused, Config, given):
            if not any(key[: len(other)] == other[: len(key)] for other in dropped):
                faults.append(Fault(key, sentence))
    return faults


# Names


def _names_outside(config: Mapping) -> Iterator[Fault]:
    """Unknown names outside the datasets, and laws of the user's own that are no files."""
    for name, path in config["laws"].get("own", {}).items():
        if fault := text.file_fault(path):
            yield Fault(("laws", "own", name), fault)
    recipes = config["training"]
    for name, recipe in recipes.items():
        if recipe.get("like") in recipes:  # which is so itself: else it would have been taken over
            yield Fault(("training", name, "like"), f"{recipe['like']} is itself like another recipe; name that one.")
    for found in [
        *unknown_names(config, "dataset", config["datasets"], "`datasets` has", "run/*"),
        *unknown_names(config, "recipe", recipes, "`training` has", "training/*/like"),
    ]:
        yield _fault((), *found)


def _names_of(scope: Scope) -> Faults:
    """Unknown names in a dataset's block, after what they are looked up in."""
    block = scope.block
    if not scope.observed and not block.get("domains"):
        yield "domains", "the key is missing: name the domains, or give files of each under `train`."
        return
    if faults := list((observed.check_tables if scope.observed else text.check_published)(scope)):
        yield from faults
        return
    for group in block["groups"] if "search" in block else ():
        if group == GROUP or group.startswith(f"{GROUP}_"):
            yield ("groups", group), "the search makes groups of this name: take another."
    for what, known, there, paths in references(scope):
        yield from unknown_names(block, what, known, there, paths)
    there = "its tables both have" if scope.observed else "the dataset knows"
    for path in OF_LISTS.split() if scope.known is not None else ():
        for key, name in named_at(block, path.split("/")):
            if name not in scope.known:
                why = "" if scope.observed else lack(scope, name)
                yield key, why or unknown("mixture", name, scope.known, there)


def references(scope: Scope) -> Iterator[tuple[str, Iterable[str], str, str]]:
    """What names in a dataset's block are of, those that there are, how a sentence lists them, and the
    paths of the names, in which * is any name or number and {} the names of a block.
    """
    block, config = scope.block, scope.config
    families = block["optimum"].get("objective", {}).get("families", {})
    if scope.domains is not None:
        losses = scope.loss_domains
        yield "domain", losses, "there are", "optimum/weights/{}"
        yield "domain", scope.domains, "there are", "optimum/lower/{} optimum/upper/{} domain_groups/{}"
        yield "loss of", losses, "there are", "optimum/objective/families/*/*"
        weighed = ("family", families) if families else ("loss of", losses)
        yield *weighed, "there are", "optimum/objective/weights/{}"
    made = [name for name in ("swarm", "search") if name in block]
    yield "group", [*block["groups"], "compare", *made], "`groups` has", "optimum/group held_out/*"
    if scope.known is not None:
        before = [name for name in scope.known if not is_optimum(name)]
        yield "mixture", before, "there are", "optimum/objective/reference"
        drawn = [name for name in before if name not in BEST and not re.fullmatch(r"swarm_\d+", name)]
        yield "mixture", drawn, "there are", "centre"
        trained = [name for name in scope.known if name not in REWEIGHTING and not re.fullmatch(r"swarm_\d+", name)]
        yield "mixture", trained, "there are", "reweighting/reference"
    if not scope.observed:
        yield "training settings for", block["training"], "`training` has", OF_TRAINED_MODELS
        yield "model", config["models"], "`models` has", "training/{}"
        yield "recipe", config["training"], "`training` has", OF_RECIPES
        paths = OF_DOMAINS if held_by_hash(block["corpus"]) else f"{OF_DOMAINS} corpus/validation/{{}}"
        yield "domain", block["domains"], "`domains` has", paths
        files = block["corpus"].get("harvest") or block["corpus"]["train"]
        if isinstance(files, dict):
            known = [*block["domains"], *files]
            yield "domain", known, "`domains` has", "corpus/held_out_characters/{}"


def unknown_names(block: Mapping, what: str, known: Iterable[str], there: str, paths: str) -> Faults:
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
    elif isinstance(value, Mapping) and first in value:
        entries = [(first, value[first])]
    for name, inner in entries:
        yield from named_at(inner, rest, (*key, name))


# What goes together


def _faults_of(scope: Scope) -> Faults:
    """Faults and remarks of a complete dataset."""
    yield from mixtures.check_optimum(scope)
    if scope.observed:
        yield from observed.check_settings(scope)
        if scope.tables is not None:
            yield from observed.check_runs(scope)
        return
    for run, key in OF_TEXT:
        if not key or value_at(scope.block, key.split("/")) is not None:
            yield from run(scope)
    yield from (mixtures.check_sizes if "models" in scope.block["optimum"] else mixtures.check_fit)(scope)
    if scope.wanted:
        yield from text.check_files(scope)
