"""What a check reads: a dataset's block as its models have it, filled, and the config around it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bimix.plan import dataset
from bimix.plan.sources import REWEIGHTING, search_names
from bimix.settings.complete import (
    known_mixtures,
    merged_recipe,
    mixture_lists,
    reweighting_changes,
    reweighting_training,
    swarm_names,
)
from bimix.settings.faults import Key
from bimix.settings.models import Config, Dataset, Observed

# What decides which mixtures a dataset of text knows; `?`: may be unset; `/`: outside its block.
KNOWN = "/mixtures /laws/optimise ?mixture_files ?stages ?search ?swarm ?reweighting ?published"


def names_at(config: dict, key: Key, broken: Sequence[Key]) -> list[str] | None:
    """The names in the block at a key of a config, and those that were taken out as they were
    refused; None where the block itself was.
    """
    if any(key[: len(bad)] == bad for bad in broken):
        return None
    for part in key:
        config = config.get(part, {})
    return [*config, *(bad[len(key)] for bad in broken if bad[: len(key)] == key)]


@dataclass
class Scope:
    """A dataset in a filled config, which is there twice: typed, and as plain blocks for functions
    of planning. Published tables are found from `code`.

    `wanted`: it is to be built, so its files must be there and its laws be possible. `broken`: keys
    that the models refuse, and those whose defaults come of what they refuse. `trained`: domains of
    the mixtures, `answering`: those with losses, None where they are not known.
    """

    config: Config
    plain: dict
    name: str
    code: Path
    wanted: bool
    broken: Sequence[Key]
    trained: list[str] | None = None
    answering: list[str] | None = None

    @property
    def block(self) -> Dataset | Observed:
        return self.config.datasets[self.name]

    @property
    def own(self) -> dict:
        """The block, plain."""
        return self.plain["datasets"][self.name]

    @cached_property
    def planned(self) -> dataset.Dataset:
        return dataset.Dataset(self.plain, self.name)

    @property
    def is_text(self) -> bool:
        return isinstance(self.block, Dataset)

    @property
    def laws(self) -> list[str]:
        """Laws that give an optimised mixture."""
        return self.config.laws.optimise or []

    def sound(self, *paths: str) -> bool:
        """Whether the models refuse nothing in, around or below these paths. `/laws/optimise` lies
        outside the dataset's block; a path without a question mark before it must be set, too.
        """
        return all(map(self._sound, paths))

    def names(self, path: str) -> list[str] | None:
        """The names in a block, refused ones too; None where the block itself is refused."""
        key = tuple(path[1:].split("/")) if path.startswith("/") else ("datasets", self.name, *path.split("/"))
        return names_at(self.plain, key, self.broken)

    def _sound(self, path: str) -> bool:
        outside, optional = path.lstrip("?").startswith("/"), path.startswith("?")
        parts = tuple(path.strip("/?").split("/"))
        key = parts if outside else ("datasets", self.name, *parts)
        if any(key[: len(bad)] == bad[: len(key)] for bad in self.broken):
            return False
        found: object = self.plain if outside else self.own
        for part in () if optional else parts:
            if not isinstance(found, dict) or part not in found:
                return False
            found = found[part]
        return True

    @cached_property
    def known(self) -> list[str]:
        """Mixtures that the dataset knows, without its swarm's."""
        return known_mixtures(self.plain, self.name, self.code)

    @cached_property
    def swarm(self) -> list[str]:
        return swarm_names(self.plain, self.name)

    @cached_property
    def searched(self) -> list[str]:
        return search_names(self.own)

    def any_mixture(self) -> list[str] | None:
        """All mixtures that the dataset's lists may name; None where what makes them is refused."""
        if self.is_text:
            return [*self.known, *self.swarm] if self.sound(*KNOWN.split()) else None
        if not self.sound("groups", "compare/mixtures"):
            return None
        lists = [self.group(group) or [] for group in self.block.groups]
        return list(dict.fromkeys(one for names in (*lists, self.block.compare.mixtures) for one in names))

    def lists(self) -> Iterator[tuple[Key, list[str]]]:
        """Lists of mixtures, by their keys, in which nothing is refused."""
        for key, names in mixture_lists(self.own):
            if self.sound("/".join(key)):
                yield key, names

    def group(self, name: str | None) -> list[str] | None:
        """The mixtures of a group under `groups`; None where it is none of them."""
        found = (self.block.groups or {}).get(name)
        return None if found == "all" else found

    def recipe(self, model: str | None) -> dict | None:
        """Training settings of a model in full, None where something is wrong with them."""
        own = self.own.get("training", {}).get(model)
        if own is None or not self.sound(f"training/{model}", "/training"):
            return None
        whole = self.plain["training"].get(own.get("recipe"))
        return None if whole is None or "like" in whole else merged_recipe(self.plain, own)

    def recipes(self) -> Iterator[tuple[Key, dict]]:
        """All trainings of the dataset in full, each by the key that sets it."""
        block = self.own
        for model in block.get("training", {}):
            if recipe := self.recipe(model):
                yield ("training", model), recipe
        if self.sound("swarm") and (recipe := self.recipe(block["swarm"].get("model"))):
            yield ("swarm", "training"), recipe | block["swarm"].get("training", {})
        own = self.recipe(block["reweighting"].get("model")) if self.sound("reweighting") else None
        for method in REWEIGHTING if own else ():
            changes = (
                reweighting_changes(self.plain, self.name, method) if self.sound(f"/{method}") else [{"recipe": ""}]
            )
            if all(change["recipe"] in self.plain["training"] for change in changes if "recipe" in change):
                yield ("reweighting", method, "training"), reweighting_training(self.plain, self.name, method, own)
