"""What a check reads: a dataset's block, typed and filled, and the config around it."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bimix.blocks import Key, value_at
from bimix.mixtures.names import REWEIGHTING, MixtureNames, known_names, published_table
from bimix.settings.complete import merged_recipe, mixture_lists, reweighting_training, swarm_names
from bimix.settings.models import Config, Dataset, LikeRecipe, Observed


@dataclass
class Scope:
    """A dataset in a filled config. Published tables are found from `code`.

    `wanted`: it is to be built, so its files must be there and its laws be possible; `plans_only`:
    nothing runs, and what its files hold decides nothing of the plan. `trained`: domains of the
    mixtures, `answering`: those with losses, `measured`: mixtures in tables of losses measured
    elsewhere; None where these were not read.
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

    @cached_property
    def lists(self) -> dict[Key, list[str]]:
        """Lists of mixtures, by their keys."""
        return mixture_lists(self.block)

    @cached_property
    def known(self) -> list[str] | None:
        """All mixtures that the lists may name; None where they are not known."""
        if not self.is_text:
            return self.measured
        try:
            header = next(iter(self.published_rows()), [])
        except (OSError, ValueError):  # a fault of its own
            header = []
        published = [f"published_{column}" for column in header[1:]]
        return [*known_names(self.mixtures, published), *swarm_names(self.block)]

    def published_rows(self) -> list[list[str]]:
        """The published table that the dataset names; no rows without one. Errors: it cannot be read."""
        if self.block.published is None:
            return []
        table = Path(published_table(self.block.published, f"{self.code}/"))
        with table.open(encoding="utf-8", newline="") as lines:
            return [row for row in csv.reader(lines) if row]

    def value(self, path: str) -> object:
        """What stands at a path of the dataset's block."""
        return value_at(self.block, path.split("/"))

    def group(self, name: str | None) -> list[str] | None:
        """The mixtures of a group under `groups`; None where it is none of them."""
        found = self.block.groups.get(name)
        return None if found == "all" else found

    def recipe(self, model: str | None) -> dict | None:
        """Training settings of a model in full, None where it or its recipe is unknown."""
        settings = self.block.training.get(model)
        recipe = self.config.training.get(settings.recipe) if settings else None
        return None if recipe is None or isinstance(recipe, LikeRecipe) else merged_recipe(self.config, settings)

    def swarm_recipe(self) -> dict | None:
        """The same of the runs of the swarm."""
        swarm = self.block.swarm
        recipe = self.recipe(swarm.model) if swarm else None
        return recipe and {**recipe, **(swarm.training or {})}

    def recipes(self) -> Iterator[tuple[Key, dict]]:
        """All trainings of the dataset in full, each by the key that sets it."""
        found = {("training", model): self.recipe(model) for model in self.block.training}
        found["swarm", "training"] = self.swarm_recipe()
        settings = self.block.reweighting
        recipe = self.recipe(settings.model) if settings else None
        for method in REWEIGHTING if recipe else ():
            found["reweighting", method] = reweighting_training(self.config, settings, method, recipe)
        return ((key, recipe) for key, recipe in found.items() if recipe and "like" not in recipe)
