"""Entries of the config by path that may hold {wildcards}, and the names that a wildcard may take.

A path is keys joined by slashes.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping


def of_wildcards(find: Callable) -> Callable:
    """The same function of the wildcards with its signature written down.

    Snakemake inspects it several times for each parameter of each job; working it out was a sixth
    of the time of planning 10,000.
    """
    find.__signature__ = inspect.signature(find)
    return find


def entry_at(config: dict, path: str, wildcards: Mapping[str, str], default: object = None) -> object:
    """The entry at a path that may hold {wildcards}; `default`, unless it is
    None, where there is none.

    Snakemake's `lookup` walks the whole config each time: 3 ms for each parameter of each of 10,000
    jobs. Errors (KeyError): no entry and no default.
    """
    found = config
    for key in path.split("/"):
        key = int(key) if isinstance(found, list) else key.format(**wildcards)
        if default is not None and not (isinstance(found, dict) and key in found):
            return default
        found = found[key]
    return found


def at(block: dict, path: str) -> dict:
    """An entry of a dataset's block; an empty one where there is none."""
    for key in path.split("/"):
        block = block.get(key, {})
    return block


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
