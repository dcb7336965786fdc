"""Which rule makes a mixture, as constraints of wildcards; entries of the config by path."""

import re
from collections.abc import Collection, Iterable, Mapping

from bimix.laws.table import is_optimum
from bimix.mixtures.names import GIVEN, SOURCES, WANTED, MixtureNames, Source, at, wanted_rule

# All mixtures of observed datasets except optima.
OBSERVED = Source("mix_observed", None, None)
OBSERVED_BY_HAND = Source("mix_by_hand", GIVEN, WANTED.pattern)


def constraint(datasets: Collection[MixtureNames], rule: str) -> str:
    """The mixtures that a rule may make for any dataset, as the constraint of its wildcard."""
    own = (source for source in SOURCES if source.rule == rule)
    return "|".join(one.pattern or one_of({name for each in datasets for name in one.known(each)}) for one in own)


def taken(dataset: MixtureNames) -> list[str]:
    """Mixtures that an observed dataset names, in groups or alone, without optima."""
    block = dataset.block
    alone = [block.get("centre"), block["optimum"].get("objective", {}).get("reference")]
    lists = (*dataset.groups.values(), dataset.compared, filter(None, alone))
    return sorted({name for names in lists for name in names if not is_optimum(name)})


def observed_names(datasets: Collection[MixtureNames]) -> list[str]:
    """Mixtures of all observed datasets."""
    return sorted({name for dataset in datasets if dataset.observed for name in taken(dataset)})


def by_hand_datasets(datasets: Collection[MixtureNames]) -> str:
    """A wildcard constraint: observed datasets, unless the rule by hand was run there."""
    named = {dataset.name: filter(wanted_rule, taken(dataset)) for dataset in datasets if dataset.observed}
    found = [re.escape(name) + rf"(?!/mixtures/(?:{one_of(names)})\.json)" for name, names in named.items()]
    return "|".join(found) or one_of(())


# Entries of the config by path, keys joined by slashes, and what a wildcard may be


def entry_at(config: dict, path: str, wildcards: Mapping[str, str], default: object = None) -> object:
    """The entry at a path that may hold {wildcards}; a `default` but None where there is none.
    Errors: KeyError. Snakemake's `lookup` walks the whole config: 3 ms for each parameter of each
    job.
    """
    found = config
    for key in path.format(**wildcards).split("/"):
        key = int(key) if isinstance(found, list) else key
        if default is not None and not (isinstance(found, dict) and key in found):
            return default
        found = found[key]
    return found


def one_of(names: Iterable[str]) -> str:
    """A wildcard constraint that takes just these names; of none it matches nothing."""
    return "|".join(map(re.escape, names)) or "(?!)"


def names_under(config: dict, path: str, but: Iterable[str] = ()) -> str:
    """A wildcard constraint: the names at a path in any dataset's block, but for some."""
    return one_of({name for block in config["datasets"].values() for name in at(block, path)} - set(but))


def datasets_with(config: dict, path: str, but: str | None = None) -> str:
    """A wildcard constraint: the datasets with an entry at a path, and none at another."""
    blocks = config["datasets"].items()
    return one_of(name for name, block in blocks if at(block, path) and not (but and at(block, but)))
