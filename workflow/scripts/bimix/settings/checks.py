"""The config checked before the first job, in two stages: the kinds of its values, all at once, then
what no model can say: names that stand elsewhere, keys that contradict each other, numbers that go
together, files.
"""

import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import BaseModel, ValidationError

from bimix.blocks import Faults, Key, refusals
from bimix.dropped import dropped_keys, without
from bimix.laws.table import is_optimum
from bimix.mixtures.names import BEST, REWEIGHTING, lack
from bimix.names import unknown
from bimix.settings import mixtures, text
from bimix.settings.complete import Filled, with_defaults
from bimix.settings.files import Fault, located
from bimix.settings.models import Config
from bimix.settings.scope import Scope

# What decides which mixtures a dataset of text knows.
KNOWN = "/laws/optimise mixture_files stages search swarm reweighting published"
# Checks of a dataset, each with the key that must be set for it and others that it reads: `/` is outside
# the dataset's block. A fault is reported at the one of these that a later file sets.
OF_ALL = (
    (mixtures.check_upper, "optimum/upper optimum"),
    (mixtures.check_reference, "optimum/objective compare/mixtures"),
)
OF_TEXT = (
    (text.check_domains, "domains corpus/harvest corpus/train corpus/validation corpus/domain_field"),
    (text.check_labels, "corpus/domain_field domains corpus/labels"),
    (text.check_lengths, "corpus/held_out_characters domains corpus/train corpus/harvest"),
    (text.check_measured_only, "corpus/validation_only domains corpus/validation /laws/optimise"),
    (text.check_published, "published domains"),
    (text.check_trainings, "training /training"),
    (text.check_commands, "training /models simulate_epochs"),
    (text.check_schedules, "training /training"),
    (text.check_epochs, "optimum/max_epochs optimum corpus /corpus tokenizer sequence_length training /training"),
    (mixtures.check_swarms, f"swarm domains {KNOWN}"),
    (mixtures.check_swarm_runs, "swarm search groups held_out optimum compare"),
    (mixtures.check_search, "search groups held_out optimum training domains"),
    (mixtures.check_downstream, "downstream/steps downstream/model"),
    (mixtures.check_stages, "stages mixture_files"),
    (mixtures.check_staged_references, "optimum stages mixture_files centre reweighting compare"),
    (mixtures.check_staged_commands, "optimum /models stages mixture_files search groups held_out compare"),
    (mixtures.check_fitted_stages, "groups optimum held_out compare stages"),
    (mixtures.check_swarm_step, "swarm /training training"),
    (mixtures.check_fit, "optimum/step optimum/model optimum/group /laws/optimise training groups domains swarm"),
    (mixtures.check_found_before, "optimum/group /laws/optimise groups compare stages swarm"),
    (mixtures.check_sizes, "optimum/models optimum groups compare training /models"),
    (mixtures.check_sized_laws, "optimum/models /laws/optimise"),
)
OF_LOSSES = (
    (mixtures.check_tables, "observations/losses observations/mixtures observations"),  # first: it says the domains
    (mixtures.check_first, "compare/mixtures"),
    (mixtures.check_metrics, "observations/metrics optimum /laws"),
    (mixtures.check_tokens, "optimum/max_epochs observations"),
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
    _, faults = typed(functools.reduce(without, dropped, config))
    if dropped or faults:
        return config, {}, [*(Fault(key, sentence) for key, sentence in dropped.items()), *faults]
    filled, choices = with_defaults(config)
    model, faults = typed(filled)
    if model is None:
        return filled, choices, faults
    faults = list(_of_config(model))
    for name in model.datasets:
        faults += _of_dataset(Scope(model, name, code, name in wanted, plans_only and name not in choices))
    return filled, choices, faults


def typed(config: dict) -> tuple[Config | None, list[Fault]]:
    """The config as its models, without its blocks of `x-...`, for anchors; or what they refuse."""
    given = {key: value for key, value in config.items() if not key.startswith("x-")}
    try:
        return Config.model_validate(given), []
    except ValidationError as refused:
        return None, [Fault(key, sentence) for key, sentence in refusals(refused, Config, given)]


def _of_config(config: Config) -> Iterator[Fault]:
    """Faults of what stands outside the datasets."""
    recipes = config.training
    for name, recipe in recipes.items():
        if recipe.get("like") in recipes:  # which is so itself: else it would have been taken over
            yield Fault(("training", name, "like"), f"{recipe.like} is itself like another recipe; name that one.")
    rows = [("dataset", list(config.datasets), "`datasets` has", "run/*", "")]
    rows.append(("recipe", list(recipes), "`training` has", "training/*/like", ""))
    yield from located((), named_nowhere(config, rows))


def _of_dataset(scope: Scope) -> Iterator[Fault]:
    is_text, own = scope.is_text, ("datasets", scope.name)
    if is_text and not scope.block.domains:
        yield Fault((*own, "domains"), "the key is missing: name the domains, or give files of each under `train`.")
        return
    if is_text:
        scope.trained = scope.block.domains
        scope.answering = [*scope.trained, *(scope.block.corpus.validation_only or ())]
    for run, reads in (*(OF_TEXT if is_text else OF_LOSSES), *OF_ALL):
        if scope.value(reads.split()[0]) is not None:
            yield from located(own, run(scope), reads)
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

    def names(path: str) -> list[str] | None:
        found = scope.value(path)
        return None if found is None else list(found)

    families = list((block.optimum and block.optimum.objective and block.optimum.objective.families) or ())
    yield "training settings for", names("training"), "`training` has", OF_TRAINED_MODELS, "training"
    yield "model", names("/models"), "`models` has", "training/{}", "/models"
    yield "recipe", names("/training"), "`training` has", OF_RECIPES, "/training"
    yield "domain", answering, "there are", "optimum/weights/{}", "domains"
    bounds = "optimum/lower/{} optimum/upper/{} domain_groups/{}"
    yield "domain", scope.trained, "there are", bounds, "domains"
    yield "loss of", answering, "there are", "optimum/objective/families/*/*", "domains"
    weighted = "optimum/objective/weights/{}"
    yield "family" if families else "loss of", families or answering, "there are", weighted, "domains"
    if (groups := names("groups")) is not None:
        made = [one for one in ("swarm", "search") if scope.is_text and getattr(block, one, None)]
        yield "group", [*groups, "compare", *made], "`groups` has", "optimum/group held_out/*", "groups search swarm"
    if known is not None:
        before = [name for name in known if not is_optimum(name)]
        yield "mixture", before, "there are", "optimum/objective/reference", ""
        drawn = [name for name in before if name not in BEST and not re.fullmatch(r"swarm_\d+", name)]
        yield "mixture", drawn, "there are", "centre", ""
        trained = [name for name in known if name not in REWEIGHTING and not re.fullmatch(r"swarm_\d+", name)]
        yield "mixture", trained, "there are", "reweighting/reference", ""
    if scope.is_text:
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
                causes, why = lack(scope.mixtures, name) if scope.is_text else ("", "")
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
