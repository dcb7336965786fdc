"""What a check reads: a dataset's block as its models have it, filled, and the config around it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bimix.mixtures.names import REWEIGHTING, MixtureNames
from bimix.settings.complete import known_mixtures, merged_recipe, mixture_lists, reweighting_training, swarm_names
from bimix.settings.files import Key
from bimix.settings.models import Config, Dataset, Observed

# What decides which mixtures a dataset of text knows; `?`: may be unset; `/`: outside its block.
KNOWN = "/laws/optimise ?mixture_files ?stages ?search ?swarm ?reweighting ?published"


def names_at(config: dict, key: Key, broken: Sequence[Key]) -> list[str] | None:
    """Names in the block at a key, those taken out as refused too; None where the block was."""
    if any(key[: len(bad)] == bad for bad in broken):
        return None
    for part in key:
        config = config.get(part, {})
    return [*config, *(bad[len(key)] for bad in broken if bad[: len(key)] == key)]


@dataclass
class Scope:
    """A dataset in a filled config, which is there twice: typed, and as plain blocks for functions
    of planning. Published tables are found from `code`.

    `wanted`: it is to be built, so its files must be there and its laws be possible; `plans_only`:
    nothing runs, and what its files hold decides nothing of the plan. `broken`: keys
    that the models refuse, and those whose defaults come of what they refuse. `trained`: domains of
    the mixtures, `answering`: those with losses, None where they are not known; `measured`:
    mixtures in tables of losses measured elsewhere.
    """

    config: Config
    plain: dict
    name: str
    code: Path
    wanted: bool
    broken: Sequence[Key]
    plans_only: bool = False
    trained: list[str] | None = None
    answering: list[str] | None = None
    measured: list[str] | None = None

    @property
    def block(self) -> Dataset | Observed:
        return self.config.datasets[self.name]

    @property
    def own(self) -> dict:
        """The block, plain."""
        return self.plain["datasets"][self.name]

    @cached_property
    def planned(self) -> MixtureNames:
        return MixtureNames(self.plain, self.name)

    @property
    def is_text(self) -> bool:
        return isinstance(self.block, Dataset)

    @property
    def laws(self) -> list[str]:
        """Laws that give an optimised mixture."""
        return self.config.laws.optimise or []

    def _key(self, path: str) -> Key:
        return tuple(path[1:].split("/")) if path.startswith("/") else ("datasets", self.name, *path.split("/"))

    def refused(self, path: str) -> bool:
        """Whether the models refuse something in, around or below a path of the dataset's block, or
        of the config where it begins with a slash.
        """
        key = self._key(path)
        return any(key[: len(bad)] == bad[: len(key)] for bad in self.broken)

    def value(self, path: str) -> object:
        """What stands at such a path; None where nothing does or it is refused."""
        found: object = None if self.refused(path) else self.plain
        for part in self._key(path):
            found = found.get(part) if isinstance(found, dict) else None
        return found

    def sound(self, *paths: str) -> bool:
        """Whether nothing is refused at these paths, and each without a question mark is set."""
        return all(
            not self.refused(path[1:]) if path.startswith("?") else self.value(path) is not None for path in paths
        )

    def names(self, path: str) -> list[str] | None:
        """The names in a block, refused ones too; None where the block itself is refused."""
        return names_at(self.plain, self._key(path), self.broken)

    @cached_property
    def known(self) -> list[str] | None:
        """All mixtures that the lists may name; None where they are not known."""
        if not self.is_text:
            return self.measured
        if not self.sound(*KNOWN.split()):
            return None
        return [*known_mixtures(self.plain, self.name, self.code), *swarm_names(self.plain, self.name)]

    def lists(self) -> Iterator[tuple[Key, list[str]]]:
        """Lists of mixtures, by their keys, in which nothing is refused."""
        return ((key, names) for key, names in mixture_lists(self.own) if self.sound("/".join(key)))

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

    def swarm_recipe(self) -> dict | None:
        """The same of the runs of the swarm."""
        recipe = self.recipe(self.own["swarm"].get("model")) if self.sound("swarm") else None
        return recipe and recipe | self.own["swarm"].get("training", {})

    def recipes(self) -> Iterator[tuple[Key, dict]]:
        """All trainings of the dataset in full, each by the key that sets it."""
        found = {("training", model): self.recipe(model) for model in self.own.get("training", {})}
        found["swarm", "training"] = self.swarm_recipe()
        own = self.recipe(self.own["reweighting"].get("model")) if self.sound("reweighting") else None
        for method in REWEIGHTING if own else ():
            found["reweighting", method] = reweighting_training(self.plain, self.name, method, own)
        return ((key, recipe) for key, recipe in found.items() if recipe and "like" not in recipe)
