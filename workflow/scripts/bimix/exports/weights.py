"""From the proportions of a mixture, which are shares of the tokens, to the weights that a consumer
draws by: in its unit, of files or of domains, in decimals that sum to 1.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from bimix.errors import InputError
from bimix.exports.data import Data, File
from bimix.mixtures.mixture import decimals

DECIMALS = 9  # of a weight
MARGIN = 1.01  # of the epochs that a consumer is allowed: a run ends with its last whole batch


@dataclass(frozen=True)
class Part:
    """One file of a domain, or all of them, with its weight among all parts of the mixture."""

    domain: str
    files: tuple[File, ...]
    weight: float
    label: str  # unlike that of every other part


@dataclass(frozen=True)
class Export:
    """A mixture and the data that it is made of.

    `shares`: the proportions without those that are 0; `run_tokens` and the tokens of `pools` are
    None where they are not known. `dropped`: the domains of proportion 0. `first`: updates of the
    run before this mixture's, where it is a stage; `run_tokens` are then the stage's.
    """

    data: Data
    shares: Mapping[str, float]
    dropped: tuple[str, ...]
    run_tokens: int | None
    pools: Mapping[str, float | None]
    first: int = 0

    def epochs(self, domain: str) -> float | None:
        """How often the run reads a domain; None where run or pool are not known."""
        if self.run_tokens is None or self.pools[domain] is None:
            return None
        return self.shares[domain] * self.run_tokens / self.pools[domain]

    def most_epochs(self) -> float | None:
        """The epochs of the domain that is read most often; None where one's are not known."""
        epochs = [self.epochs(domain) for domain in self.shares]
        return None if None in epochs else max(epochs)

    def record_tokens(self, consumer: str) -> dict[str, float]:
        """Tokens of one record of each domain, for a consumer that draws records.

        Samples, which are all alike, count as 1. Errors: what a record is, or how many tokens a
        document has, is not known.
        """
        data = self.data
        if data.records is None:
            raise InputError(
                f"{data.name} has no key 'records': {consumer} draws records of the files, so it must say whether they are"
                " documents or samples of equal length."
            )
        if data.records == "samples":
            return dict.fromkeys(self.shares, 1.0)
        return {domain: data.tokens_in(domain, "documents") for domain in self.shares}

    def by_domain(self, drawn: Mapping[str, float] | None = None) -> list[Part]:
        """A part for each domain; `drawn` are the weights where they are not the shares."""
        weights = decimals(drawn or self.shares, DECIMALS)
        return [Part(name, self.data.domains[name].train, weights[name], name) for name in self.shares]

    def by_file(self, consumer: str, drawn: Mapping[str, float] | None = None) -> list[Part]:
        """A part for each file; those of a domain share its weight by their sizes.

        Errors: one of several files has no size.
        """
        drawn, parts = drawn or self.shares, {}
        for name in self.shares:
            files = self.data.domains[name].train
            lacking = [file.path for file in files if file.size is None]
            if lacking and len(files) > 1:
                raise InputError(
                    f"{self.data.name}: domains/{name} has {len(files)} files and no 'size' of {lacking[0]!r}: {consumer}"
                    " weighs each file, and they share the domain's weight by size."
                )
            total = math.fsum(file.size or 1 for file in files)
            for number, file in enumerate(files):
                parts[name, number] = drawn[name] * (file.size or 1) / total
        weights, labels = decimals(parts, DECIMALS), self._labels()
        return [
            Part(name, (self.data.domains[name].train[number],), weight, labels[name, number])
            for (name, number), weight in weights.items()
        ]

    def _labels(self) -> dict[tuple[str, int], str]:
        """A label for each file: its domain's name, with a number where there are several."""
        taken, labels = set(self.data.domains), {}
        for name in self.shares:
            files = self.data.domains[name].train
            for number in range(len(files)):
                label = name if len(files) == 1 else f"{name}_{number}"
                while len(files) > 1 and label in taken:
                    label += "_"
                taken.add(label)
                labels[name, number] = label
        return labels

    def allowed_epochs(self, domain: str) -> float:
        """The epochs of a domain with MARGIN, rounded up to two decimals; 1 at least."""
        return max(1.0, math.ceil(self.epochs(domain) * MARGIN * 100) / 100)


def shares_of(mixture: Mapping[str, float]) -> tuple[dict[str, float], tuple[str, ...]]:
    """(the proportions above 0; the other domains)."""
    shares = {name: share for name, share in mixture.items() if share > 0}
    return shares, tuple(name for name in mixture if name not in shares)


def decimal(weight: float) -> str:
    """A weight as a decimal without an exponent: 0.25, 0.000000001."""
    text = f"{weight:.{DECIMALS}f}".rstrip("0")
    return text + "0" if text.endswith(".") else text
