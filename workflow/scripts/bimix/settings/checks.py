"""The config checked before the first job: all of its faults at once.

The models say what kind of value each key takes. The checks of the tables below, generators of
faults over the typed and filled config, say what no model can: names that stand elsewhere, numbers
that go together, files. With each check stand the keys that it reads; it is left out where the
models refuse any of them.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel

from bimix.errors import InputError
from bimix.laws.table import is_optimum
from bimix.names import unknown
from bimix.plan.sources import BEST, REWEIGHTING
from bimix.settings import disk, mixtures, observed, optima, text, typed
from bimix.settings.complete import Filled, with_defaults
from bimix.settings.faults import Fault, Key
from bimix.settings.files import over
from bimix.settings.models import Config
from bimix.settings.scope import KNOWN, Scope, names_at

Check = tuple[Callable[[Scope], Iterator[Fault]], str]
# `?`: the key may be unset; `/`: it stands outside the dataset's block.
OF_TEXT: tuple[Check, ...] = (
    (text.check_domains, "domains ?corpus/harvest ?corpus/train ?corpus/validation ?corpus/labels"),
    (text.check_records, "domains ?corpus/train ?corpus/validation ?corpus/labels ?corpus/domain_field"),
    (text.check_lengths, "domains corpus/held_out_characters ?corpus/train ?corpus/harvest"),
    (text.check_measured_only, "domains corpus/validation_only ?corpus/validation ?/laws/optimise"),
    (text.check_published, "published /mixtures/published ?domains"),
    (text.check_trainings, "training ?models"),
    (text.check_commands, "/models ?training ?simulate_epochs ?optimum/model ?optimum/models"),
    (text.check_schedules, "training /training"),
    (mixtures.check_mixtures, KNOWN),
    (mixtures.check_search, "search groups held_out optimum"),
    (mixtures.check_downstream, "downstream/model downstream/steps /downstream sequence_length"),
    (mixtures.check_stages, f"{KNOWN} stages"),
    (mixtures.check_staged_references, "?stages ?mixture_files ?methods ?centre ?reweighting optimum compare"),
    (mixtures.check_staged_formats, "stages /models optimum groups compare held_out ?methods"),
    (mixtures.check_fitted_stages, "groups optimum held_out compare ?stages"),
    (optima.check_bounds, "?optimum/weights ?optimum/lower ?optimum/upper optimum"),
    (optima.check_domain_groups, "?domain_groups"),
    (optima.check_objective, "optimum/objective"),
    (optima.check_reference, "optimum/objective compare/mixtures"),
    (optima.check_strengths, "strengths"),
    (optima.check_pareto, "optimum/pareto ?optimum/objective"),
    (optima.check_swarm_step, "swarm /training training"),
    (optima.check_fit, "optimum/step optimum/model optimum/group /laws/optimise"),
    (optima.check_reuse, "reuse domains optimum"),
    (optima.check_one_size, "optimum/for"),
    (optima.check_sizes, "optimum/models optimum ?groups ?compare ?training /models"),
    (optima.check_sized_laws, "optimum/models /laws/optimise"),
)
OF_LOSSES: tuple[Check, ...] = (
    (observed.check_tables, "observations/losses observations/mixtures ?observations"),  # first: it says the domains
    (observed.check_first, "compare/mixtures"),
    (observed.check_metrics, "observations/metrics optimum /laws"),
    (observed.check_epochs, "optimum/max_epochs ?observations"),
    (optima.check_bounds, "?optimum/weights ?optimum/lower ?optimum/upper optimum"),
    (optima.check_domain_groups, "?domain_groups"),
    (optima.check_objective, "optimum/objective ?observations"),
    (optima.check_reference, "optimum/objective compare/mixtures"),
    (optima.check_strengths, "strengths"),
    (optima.check_pareto, "optimum/pareto ?optimum/objective"),
)


@dataclass(frozen=True)
class Checked:
    """A config with its defaults, what these follow from, its faults and remarks without lines."""

    config: dict
    filled: dict[str, Filled]
    found: list[Fault]


def check(config: dict, defaults: dict, code: Path, wanted: Iterable[str] = (), named: Iterable[str] = ()) -> Checked:
    """A merged config, filled and checked. `defaults`: the workflow's own, which lie beneath.

    The datasets that are `wanted` are to be built: their files must be there and their laws be
    possible. Of those that are `named` by single targets, which may need no raw files, missing ones
    are remarked. Published tables are found from `code`.
    """
    faults, strange = _of_no_kind(config)
    if strange:
        kept = {name: block for name, block in config["datasets"].items() if name not in strange}
        config = config | {"datasets": kept}
    sound, refused = typed.accepted(config)
    # instead of what is refused the workflow's own defaults, but for datasets
    settled = over({key: own for key, own in defaults.items() if key != "datasets"}, sound)
    try:
        filled, choices = with_defaults(settled)
    except InputError:
        if not refused:
            raise
        return Checked(settled, {}, faults + refused)
    broken = [*(fault.key for fault in refused), *_derived([fault.key for fault in refused], config)]
    whole, further = typed.accepted(filled)  # what the defaults make of what is refused is no fault
    faults += refused + [fault for fault in further if not refused]
    model = typed.validated(whole)
    incomplete = list(typed.incomplete(model, broken))
    faults, broken = faults + incomplete, [*broken, *(fault.key for fault in incomplete)]
    faults += _of_config(model, broken)
    refused_names = [*broken, *(("datasets", name, "") for name in strange)]
    faults += references_of_config(model, lambda key: names_at(whole, (key,), refused_names))
    for name in model.datasets or {}:
        scope = Scope(model, whole, name, code, name in wanted, broken)
        faults += (replace(one, key=("datasets", name, *one.key)) for one in _of_dataset(scope, name in named))
    return Checked(filled, choices, faults)


def _of_no_kind(config: dict) -> tuple[list[Fault], list[str]]:
    """Blocks that are neither text nor losses as the key that says so is misspelt, and their names:
    they have no other faults, as all of their keys would be.
    """
    datasets = config.get("datasets")
    found = [
        Fault(("datasets", name, key), "unknown key; did you mean observations?")
        for name, block in (datasets.items() if isinstance(datasets, dict) else ())
        if isinstance(block, dict) and not {"observations", "corpus"} & block.keys()
        for key in block
        if re.fullmatch("obs.*", str(key))
    ]
    return found, [fault.key[1] for fault in found]


def _derived(refused: list[Key], config: dict) -> Iterator[Key]:
    """Keys that the config does not set, whose defaults come of what is refused."""
    for name, block in config["datasets"].items() if isinstance(config.get("datasets"), dict) else ():
        own = ("datasets", name)
        block = block if isinstance(block, dict) else {}
        origins = {("domains",): [(*own, "corpus")], ("optimum", "step"): [(*own, "training"), ("training",)]}
        origins[("optimum", "step")].append((*own, "optimum", "model"))
        for key, of in origins.items():
            outer = block if len(key) == 1 else block.get(key[0], {})
            given = isinstance(outer, dict) and key[-1] in outer
            if not given and any(bad[: len(one)] == one for bad in refused for one in of):
                yield *own, *key


def _of_config(config: Config, broken: list[Key]) -> Iterator[Fault]:
    """Faults of what stands outside the datasets."""

    def sound(*key: str) -> bool:
        return not any(key[: len(bad)] == bad[: len(key)] for bad in broken)

    for name, model in (config.models or {}).items():
        if sound("models", name) and model.launch:
            yield from (replace(one, key=("models", name, *one.key)) for one in text.check_model(model))
    recipes = config.training or {}
    for name, recipe in recipes.items():
        if recipe.like in recipes:  # which is so itself: else it would have been taken over
            yield Fault(("training", name, "like"), f"{recipe.like} is itself like another recipe; name that one.")


def _of_dataset(scope: Scope, named: bool) -> Iterator[Fault]:
    is_text = scope.is_text
    if is_text and scope.sound("domains", "?corpus/validation_only"):
        scope.trained = scope.block.domains
        scope.answering = [*scope.trained, *(scope.block.corpus.validation_only or ())]
    for run, reads in OF_TEXT if is_text else OF_LOSSES:
        if scope.sound(*reads.split()):
            yield from run(scope)
    yield from references(scope)
    if is_text and scope.wanted:
        yield from disk.check_files(scope)
    elif is_text and named and not Path("results", scope.name, "tokens/train.parquet").exists():
        # Single targets may need them, and Snakemake's words for what is missing name no key.
        yield from (replace(one, remark=True) for one in disk.check_files(scope))


# What names are of, those that there are (None: not known, as they are refused), how a sentence
# lists them, and the paths of names, in which * is any name or number and {} the names of a block.
Row = tuple[str, list[str] | None, str, str]
OF_TRAINED_MODELS = (
    "seeds/{} design/models/* optimum/model optimum/models/* optimum/for compare/model swarm/model reweighting/model"
    " downstream/model"
)
OF_RECIPES = "training/*/recipe reweighting/doremi/training/recipe reweighting/doge/training/recipe"


def references(scope: Scope) -> Iterator[Fault]:
    """Names in a dataset's block that nothing stands behind."""
    rows = [
        ("training settings for", scope.names("training"), "`training` has", OF_TRAINED_MODELS),
        ("model", scope.names("/models"), "`models` has", "training/{}"),
        ("recipe", scope.names("/training"), "`training` has", OF_RECIPES),
        ("table", scope.names("/mixtures/published"), "mixtures/published has", "published"),
        ("domain", scope.answering, "there are", "optimum/weights/{}"),
        ("domain", scope.trained, "there are", "optimum/lower/{} optimum/upper/{}"),
        ("loss of", scope.answering, "there are", "optimum/objective/families/*/* optimum/pareto/*/{}"),
    ]
    yield from named_nowhere(scope.block, [*rows, *_of_mixtures(scope), *(_of_text(scope) if scope.is_text else ())])


def _of_mixtures(scope: Scope) -> Iterator[Row]:
    block = scope.block
    if block.optimum and block.optimum.objective:
        families = list(block.optimum.objective.families or ())
        known = families or scope.answering
        yield "family" if families else "loss of", known, "there are", "optimum/objective/weights/{}"
    made_by_runs = ["methods", *(name for name in ("swarm", "search") if getattr(block, name, None))]
    groups = scope.names("groups")
    if groups is not None:
        yield "group", [*groups, "compare", *made_by_runs * scope.is_text], "`groups` has", "optimum/group held_out/*"
    if (known := scope.any_mixture()) is not None:
        there = [one for one in known if not is_optimum(one)]
        yield "mixture", there, "there are", "optimum/objective/reference"
        before_runs = [one for one in there if one not in (*scope.swarm, *BEST)]
        yield "mixture", before_runs, "there are", "centre"
        plain = [one for one in known if one not in (*scope.swarm, *REWEIGHTING)]
        yield "mixture", plain, "there are", "reweighting/reference"


def _of_text(scope: Scope) -> Iterator[Row]:
    block, datasets = scope.block, scope.config.datasets
    if scope.sound("domains"):
        paths = "corpus/harvest/{} corpus/train/{} corpus/validation/{} corpus/labels/{}"
        yield "domain", block.domains, "`domains` has", paths
        files = block.corpus.harvest or block.corpus.train
        if isinstance(files, dict):
            yield "domain", [*block.domains, *files], "`domains` has", "corpus/held_out_characters/{}"
    if block.reweighting and (targets := block.reweighting.targets):
        texts = [name for name, one in datasets.items() if getattr(one, "corpus", None)]
        yield "dataset", texts, "with a corpus there are", "reweighting/targets/dataset"
        if targets.dataset in texts and scope.sound(f"/datasets/{targets.dataset}/domains"):
            known = datasets[targets.dataset].domains
            yield "domain", known, f"{targets.dataset} has", "reweighting/targets/domains/*"


def references_of_config(config: Config, names: Callable[[str], list[str] | None]) -> Iterator[Fault]:
    """The same outside the datasets; `names` gives those that stand at a key."""
    paths = "training/*/like ladder/recipe doremi/training/recipe doge/training/recipe"
    rows = [
        ("dataset", names("datasets"), "`datasets` has", "run/*"),
        ("recipe", names("training"), "`training` has", paths),
    ]
    yield from named_nowhere(config, rows)


def named_nowhere(block: BaseModel, rows: Iterable[Row]) -> Iterator[Fault]:
    for what, known, there, paths in rows:
        for path in paths.split() if known is not None else ():
            for key, name in named_at(block, path.split("/")):
                if name not in known:
                    yield Fault(key, unknown(what, name, known, there))


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
