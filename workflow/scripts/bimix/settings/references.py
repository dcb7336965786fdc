"""Names in a config that must stand elsewhere in it, as one table."""

from collections.abc import Callable, Iterable, Iterator

from pydantic import BaseModel

from bimix.laws.table import is_optimum
from bimix.names import unknown
from bimix.plan.sources import BEST, REWEIGHTING
from bimix.settings.faults import Fault, Key
from bimix.settings.models import Config
from bimix.settings.scope import Scope

# What names are of, those that there are (None: not known, as they are refused), how a sentence
# lists them, and the paths of names, in which * is any name or number.
Row = tuple[str, list[str] | None, str, str]


def references(scope: Scope) -> Iterator[Fault]:
    """Names in a dataset's block that nothing stands behind."""
    rows = [
        ("training settings for", scope.names("training"), "`training` has", "seeds/* optimum/model optimum/models/*"),
        ("training settings for", scope.names("training"), "`training` has", "optimum/for compare/model swarm/model"),
        ("training settings for", scope.names("training"), "`training` has", "reweighting/model downstream/model"),
        ("training settings for", scope.names("training"), "`training` has", "design/models/*"),
        ("model", scope.names("/models"), "`models` has", "training/*"),
        ("recipe", scope.names("/training"), "`training` has", "training/*/recipe"),
        ("recipe", scope.names("/training"), "`training` has", "reweighting/doremi/training/recipe"),
        ("recipe", scope.names("/training"), "`training` has", "reweighting/doge/training/recipe"),
        ("table", scope.names("/mixtures/published"), "mixtures/published has", "published"),
        ("domain", scope.answering, "there are", "optimum/weights/*"),
        ("domain", scope.trained, "there are", "optimum/lower/* optimum/upper/*"),
        ("loss of", scope.answering, "there are", "optimum/objective/families/*/* optimum/pareto/*/*"),
    ]
    yield from named_nowhere(scope.block, [*rows, *_of_mixtures(scope), *(_of_text(scope) if scope.is_text else ())])


def _of_mixtures(scope: Scope) -> Iterator[Row]:
    block = scope.block
    if block.optimum and block.optimum.objective:
        families = list(block.optimum.objective.families or ())
        known = families or scope.answering
        yield "family" if families else "loss of", known, "there are", "optimum/objective/weights/*"
    made_by_runs = ["methods", *(name for name in ("swarm", "search") if getattr(block, name, None))]
    groups = scope.names("groups")
    if groups is not None:
        yield "group", [*groups, "compare", *made_by_runs * scope.is_text], "`groups` has", "optimum/group held_out/*"
    if (mixtures := scope.any_mixture()) is not None:
        there = [one for one in mixtures if not is_optimum(one)]
        yield "mixture", there, "there are", "optimum/objective/reference"
        before_runs = [one for one in there if one not in (*scope.swarm, *BEST)]
        yield "mixture", before_runs, "there are", "centre"
        plain = [one for one in mixtures if one not in (*scope.swarm, *REWEIGHTING)]
        yield "mixture", plain, "there are", "reweighting/reference"


def _of_text(scope: Scope) -> Iterator[Row]:
    block, datasets = scope.block, scope.config.datasets
    if scope.sound("domains"):
        paths = "corpus/harvest/* corpus/train/* corpus/validation/* corpus/labels/*"
        yield "domain", block.domains, "`domains` has", paths
        files = block.corpus.harvest or block.corpus.train
        if isinstance(files, dict):
            yield "domain", [*block.domains, *files], "`domains` has", "corpus/held_out_characters/*"
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
    """The names that stand at a path, by their keys: values, or the names of entries where it ends
    in *.
    """
    if not path:
        if isinstance(value, str):
            yield key, value
        return
    first, *rest = path
    if isinstance(value, BaseModel):
        entries = [(first, getattr(value, {"for": "for_"}.get(first, first), None))]
    elif isinstance(value, dict):
        entries = [(name, one if rest else name) for name, one in value.items() if first in ("*", name)]
    else:
        entries = list(enumerate(value)) if isinstance(value, list) else []
    for name, one in entries:
        yield from named_at(one, rest, (*key, name))
