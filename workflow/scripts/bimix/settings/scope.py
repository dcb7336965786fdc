"""What a check reads: a dataset's block, typed and filled, and the config around it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bimix.blocks import Block, Key
from bimix.mixtures.names import REWEIGHTING, MixtureNames
from bimix.settings.complete import known_mixtures, merged_recipe, mixture_lists, reweighting_training, swarm_names
from bimix.settings.models import Config, Dataset, LikeRecipe, Observed


@dataclass
class Scope:
    """A dataset in a filled config. Published tables are found from `code`.

    `wanted`: it is to be built, so its files must be there and its laws be possible; `plans_only`:
    nothing runs, and what its files hold decides nothing of the plan. `trained`: domains of the
    mixtures, `answering`: those with losses, `measured`: mixtures in tables of losses measured
    elsewhere; None where they are not known.
    """

    config: Config
    name: str
    code: Path
    wanted: bool
    plans_only: bool = False
    trained: list[str] | None = None
    answering: list[str] | None = None
    measured: list[str] | None = None

    @property
    def block(self) -> Dataset | Observed:
        return self.config.datasets[self.name]

    @cached_property
    def mixtures(self) -> MixtureNames:
        return MixtureNames(self.config, self.name)

    @property
    def is_text(self) -> bool:
        return isinstance(self.block, Dataset)

    @property
    def laws(self) -> list[str]:
        """Laws that give an optimised mixture."""
        return self.config.laws.optimise

    def value(self, path: str) -> object:
        """What stands at a path of the dataset's block, or of the config where it begins with a slash."""
        found: object = self.config if path.startswith("/") else self.block
        for part in path.strip("/").split("/"):
            found = found.get(part) if isinstance(found, Mapping | Block) else None
        return found

    @cached_property
    def known(self) -> list[str] | None:
        """All mixtures that the lists may name; None where they are not known."""
        if not self.is_text:
            return self.measured
        return [*known_mixtures(self.config, self.name, self.code), *swarm_names(self.config, self.name)]

    def lists(self) -> Iterator[tuple[Key, list[str]]]:
        """Lists of mixtures, by their keys."""
        return mixture_lists(self.block)

    def group(self, name: str | None) -> list[str] | None:
        """The mixtures of a group under `groups`; None where it is none of them."""
        found = self.block.groups.get(name)
        return None if found == "all" else found

    def recipe(self, model: str | None) -> dict | None:
        """Training settings of a model in full, None where it or its recipe is unknown."""
        own = self.block.training.get(model)
        whole = self.config.training.get(own.recipe) if own else None
        return None if whole is None or isinstance(whole, LikeRecipe) else merged_recipe(self.config, own)

    def swarm_recipe(self) -> dict | None:
        """The same of the runs of the swarm."""
        swarm = self.block.swarm
        recipe = self.recipe(swarm.model) if swarm else None
        return recipe and {**recipe, **(swarm.training or {})}

    def recipes(self) -> Iterator[tuple[Key, dict]]:
        """All trainings of the dataset in full, each by the key that sets it."""
        found = {("training", model): self.recipe(model) for model in self.block.training}
        found["swarm", "training"] = self.swarm_recipe()
        own = self.recipe(self.block.reweighting.model) if self.block.reweighting else None
        for method in REWEIGHTING if own else ():
            found["reweighting", method] = reweighting_training(self.config, self.name, method, own)
        return ((key, recipe) for key, recipe in found.items() if recipe and "like" not in recipe)
