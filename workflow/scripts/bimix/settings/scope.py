"""What checks read of a dataset: its block with defaults, the config around it, and the tables it names."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from bimix.blocks import Key
from bimix.mixtures.names import REWEIGHTING, MixtureNames, known_names, published_table
from bimix.settings.complete import mixture_lists, swarm_names

if TYPE_CHECKING:
    from bimix.observations.tables import Tidy


@dataclass(frozen=True, eq=False)
class Scope(MixtureNames):
    """A dataset of a config with its defaults.

    Published tables are found from the folder `code`. `wanted`: it is to be built, so its files must
    be there and its laws be possible; `plans_only`: nothing runs, and what its files hold decides
    nothing of the plan.
    """

    code: Path
    wanted: bool
    plans_only: bool

    @property
    def laws(self) -> list[str]:
        """Laws that give an optimised mixture."""
        return self.config["laws"]["optimise"]

    @cached_property
    def lists(self) -> dict[Key, list[str]]:
        """Lists of mixtures, by their keys."""
        return mixture_lists(self.block)

    @cached_property
    def tables(self) -> "tuple[Tidy, Tidy] | None":
        """Losses and mixtures measured elsewhere, of a dataset that is to be built; else None. Errors
        (InputError): they cannot be read.
        """
        if not (self.observed and self.wanted):
            return None
        from bimix.observations import metrics, tables  # they bring polars, a quarter of a second of each call

        given = self.block["observations"]
        mixtures = tables.read_mixtures(given["mixtures"])
        further = given.get("metrics"), given.get("lower_is_better", ())
        return metrics.read_with_metrics(given["losses"], mixtures.names("domain"), *further), mixtures

    @cached_property
    def domains(self) -> list[str] | None:
        """Domains of the mixtures; None where tables say them that are not read."""
        if not self.observed:
            return self.block["domains"]
        return self.tables and self.tables[1].names("domain")

    @cached_property
    def loss_domains(self) -> list[str] | None:
        """Domains with losses; None as for `domains`."""
        if not self.observed:
            return [*self.domains, *self.block["corpus"].get("validation_only", ())]
        return self.tables and self.tables[0].names("domain")

    @cached_property
    def known(self) -> list[str] | None:
        """All mixtures that lists may name; None as for `domains`."""
        if not self.observed:
            header = next(iter(self.published_rows()), [])
            return [*known_names(self, [f"published_{column}" for column in header[1:]]), *swarm_names(self.block)]
        if self.tables is None:
            return None
        shares = set(self.tables[1].names("mixture"))
        return [name for name in self.tables[0].names("mixture") if name in shares]

    def published_rows(self) -> list[list[str]]:
        """The published table that the dataset names; no rows without one. Errors: it cannot be read."""
        if "published" not in self.block:
            return []
        table = Path(published_table(self.block["published"], f"{self.code}/"))
        with table.open(encoding="utf-8", newline="") as lines:
            return [row for row in csv.reader(lines) if row]

    def recipes(self) -> Iterator[tuple[Key, str, dict]]:
        """All trainings of the dataset: the key that sets each, its model and its settings in full."""
        block = self.block
        for model, recipe in block["training"].items():
            yield ("training", model), model, recipe
        if "swarm" in block:
            yield ("swarm", "training"), block["swarm"]["model"], block["swarm"]["training"]
        if "reweighting" in block:
            for method in REWEIGHTING:
                yield ("reweighting", method), block["reweighting"]["model"], block["reweighting"][method]
