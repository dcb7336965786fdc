"""The layers of a config, each put over the one before: the workflow's defaults, files, --config.

Snakemake's own merge keeps of two exclusive keys both, and does not know which came later.
"""

import copy
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from bimix.blocks import Key, entry_kind, is_block, one_kind, value_at
from bimix.settings.files import Fault, read_layer
from bimix.settings.models import Config


def command_line_layer(given: Mapping) -> dict:
    """What --config gives, in whose blocks Snakemake leaves every value text, also null."""
    return {
        key: command_line_layer(value) if isinstance(value, Mapping) else None if value == "null" else value
        for key, value in given.items()
    }


def over(lower: Mapping, upper: Mapping, kind: Any = Config) -> dict:
    """A new block: `upper` over `lower`, blocks within blocks; `kind` is its model.

    Of exclusive keys (EITHER, REPLACES) those of `upper` replace those of `lower`, with what belongs to them.
    A null stays, so that a block of a third layer is not put over one that it has taken away.
    """
    both = copy.deepcopy(dict(lower))
    for key in _replaced(one_kind(kind, {**lower, **upper}), lower, upper):
        del both[key]
    for key, value in upper.items():
        below = both.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            both[key] = over(below, value, entry_kind(kind, {**lower, **upper}, key))
        else:
            both[key] = copy.deepcopy(value)
    return both


def merged(files: Iterable[Path | str]) -> dict:
    """The files as one config, later ones over earlier ones; nulls have taken their keys away."""
    return without_nulls(functools.reduce(over, map(read_layer, files), {}))[0]


def without_nulls(block: Mapping, kind: Any = Config, key: Key = ()) -> tuple[dict, list[Key]]:
    """A block without the keys that null takes away, and these keys. It is a value where the key
    takes it, and left to the models where they do not know the key.
    """
    left, taken = {}, []
    for name, value in block.items():
        entry = entry_kind(kind, block, name)
        if value is None and not _takes_null(entry):
            taken.append((*key, name))
        elif isinstance(value, Mapping):
            left[name], below = without_nulls(value, entry, (*key, name))
            taken += below
        else:
            left[name] = value
    return left, taken


def idle_nulls(taken: Iterable[Key], layers: Sequence[Mapping]) -> Iterator[Fault]:
    """A remark for each null that takes away what no layer sets: a value may have been forgotten."""
    for key in taken:
        if all(value_at(layer, key) is None for layer in layers):
            yield Fault(key, "null takes away what an earlier file sets, and none sets it.", remark=True)


def _replaced(model: Any, lower: Mapping, upper: Mapping) -> set[str]:
    """Keys of the lower layer that an exclusive one of the upper replaces."""
    if not is_block(model):
        return set()
    rivals = model.EITHER.split(", ")
    given = {one for one in rivals if upper.get(one) is not None}
    gone = set(rivals) - given if given else set()
    # what belongs to a key that goes
    gone |= {key for key, needed in model.BESIDE.items() if gone & set(needed.split())}
    for key, others in model.REPLACES.items():
        if upper.get(key) is not None:
            gone |= set(others.split())
    return gone & lower.keys()


def _takes_null(kind: Any) -> bool:
    """Whether null is a value of a type; so it is of a key that the models do not know."""
    kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    return kind in (None, Any) or type(None) in get_args(kind)
