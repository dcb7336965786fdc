"""Laws of others that the benchmarks compare with and the workflow does not have. They are not convex, and no best
mixture is searched for by them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from types import ModuleType
from typing import Any

from laws import gaussian_process, mariner, scheffe

from bimix.laws.per_step import PerStep
from bimix.laws.table import LAWS, TEN, Law

MODULES: dict[str, ModuleType] = {"mariner": mariner, "scheffe": scheffe, "gaussian_process": gaussian_process}


class Rival(Law):
    """A law whose module lies beside the benchmarks."""

    @cached_property
    def code(self) -> Any:
        kind = mariner.OfEpochs if self.reads_pools else PerStep
        return kind(MODULES[self.module], self.settings)


RIVALS = {
    "mariner": Rival(
        "mariner",
        "floor + exp(c - b.benefit(e) + d.harm(e)), e epochs, per step",
        ("2m + 5 or fewer", "d (2m + 5) or fewer", "d n (2m + 5) or fewer"),
        "none",
        least_runs=lambda m: TEN,
        reads_pools=True,
    ),
    "scheffe": Rival(
        "scheffe",
        "c + b.r + r'Br, per step",
        ("terms kept", "terms kept", "terms kept"),
        "none",
        least_runs=lambda m: TEN,
    ),
    "gaussian_process": Rival(
        "gaussian_process",
        "Gaussian process of r, per step",
        ("4 + runs", "d (4 + runs)", "d n (4 + runs)"),
        "none",
        least_runs=lambda m: TEN,
    ),
}


@contextmanager
def entered() -> Iterator[None]:
    """They are in the table of laws, for as long as this lasts; also a decorator."""
    LAWS.update(RIVALS)
    try:
        yield
    finally:
        for name in RIVALS:
            LAWS.pop(name, None)
