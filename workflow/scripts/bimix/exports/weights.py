"""From the proportions of a mixture, which are shares of the tokens, to the weights that a consumer
draws by: in its unit, of files or of domains, in decimals that sum to 1.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from bimix.errors import InputError
from bimix.exports.data import Data, File
from bimix.exports.formats import FORMATS, Format
from bimix.mixtures.mixture import decimals

DECIMALS = 9  # of a weight
MARGIN = 1.01  # of the epochs that a consumer is allowed: a run ends with its last whole batch
RECORDS = ("records", "rows", "rows that are kept")  # units in which a record counts, however long

# Levanter's, and the largest power of two below its limit of 2^16.
BLOCK, MOST, LIMIT = 2048, 32768, 2**16
COUNTS = 64  # samples of the rarest domain in a block: rounding then moves its weight by 1/64 at most


@dataclass(frozen=True)
class Part:
    """One file of a domain, or all of them, with its weight among all parts of the mixture."""

    domain: str
    files: tuple[File, ...]
    weight: float
    label: str  # unlike that of every other part

    @property
    def path(self) -> str:
        return self.files[0].path

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files)


@dataclass(frozen=True)
class Export:
    """A mixture, the data that it is made of, and the format that it is exported in.

    `shares`: the proportions without those that are 0; `run_tokens` and the tokens of `pools` are
    None where they are not known. `dropped`: the domains of proportion 0. `first`: updates of the
    run before this mixture's, where it is a stage; `run_tokens` are then the stage's. `batch`: the
    sequences of an update, where they are known.
    """

    format: str
    data: Data
    shares: Mapping[str, float]
    dropped: tuple[str, ...]
    run_tokens: int | None
    pools: Mapping[str, float | None]
    first: int = 0
    batch: int | None = None

    @property
    def form(self) -> Format:
        return FORMATS[self.format]

    @cached_property
    def drawn(self) -> dict[str, float]:
        """Weights of the domains in the format's unit, of any sum. A record of samples, which are
        all alike, counts as one token.

        Errors: what a record is, how many tokens one has, or how many there are, is not known.
        """
        data = self.data
        if self.form.unit not in RECORDS:
            return dict(self.shares)
        if data.records is None:
            raise InputError(
                f"{data.name} has no key 'records': {self.format} draws records of the files, so it must say whether they"
                " are documents or samples of equal length."
            )
        documents = data.records == "documents"
        tokens = {name: data.tokens_in(name, "documents") if documents else 1.0 for name in self.shares}
        kept = self.form.unit == "rows that are kept"
        return {name: share / tokens[name] / (self._rows(name) if kept else 1) for name, share in self.shares.items()}

    @cached_property
    def parts(self) -> list[Part]:
        """A part for each domain, or for each file: those of a domain share its weight by size.

        Errors: one of several files has no size.
        """
        if self.form.sources == "domains":
            weights = decimals(self.drawn, DECIMALS)
            return [Part(name, self.data.domains[name].train, weights[name], name) for name in self.shares]
        shared, taken, parts = {}, set(self.data.domains), []
        for name in self.shares:
            files = self.data.domains[name].train
            lacking = [file.path for file in files if file.size is None]
            if lacking and len(files) > 1:
                raise InputError(
                    f"{self.data.name}: domains/{name} has {len(files)} files and no 'size' of {lacking[0]!r}:"
                    f" {self.format} weighs each file, and they share the domain's weight by size."
                )
            total = math.fsum(file.size or 1 for file in files)
            for number, file in enumerate(files):
                shared[name, number] = self.drawn[name] * (file.size or 1) / total
        for (name, number), weight in decimals(shared, DECIMALS).items():
            files = self.data.domains[name].train
            label = name if len(files) == 1 else f"{name}_{number}"
            while len(files) > 1 and label in taken:
                label += "_"
            taken.add(label)
            parts.append(Part(name, (files[number],), weight, label))
        return parts

    @property
    def weights(self) -> dict[str, float]:
        """The weights of the parts by their labels."""
        return {part.label: part.weight for part in self.parts}

    def epochs(self, domain: str) -> float | None:
        """How often the run reads a domain; None where run or pool are not known."""
        if self.run_tokens is None or self.pools[domain] is None:
            return None
        return self.shares[domain] * self.run_tokens / self.pools[domain]

    @property
    def most_epochs(self) -> float | None:
        """The epochs of the domain that is read most often; None where one's are not known."""
        epochs = [self.epochs(domain) for domain in self.shares]
        return None if None in epochs else max(epochs)

    @property
    def whole_epochs(self) -> int | None:
        """Whole epochs, with MARGIN, in which no domain ends before the run; None likewise."""
        return None if self.most_epochs is None else max(1, math.ceil(self.most_epochs * MARGIN))

    def allowed_epochs(self, domain: str) -> float:
        """The epochs of a domain with MARGIN, rounded up to two decimals; 1 at least."""
        return max(1.0, math.ceil(self.epochs(domain) * MARGIN * 100) / 100)

    @property
    def run_records(self) -> int | None:
        """Records of the run; None where its tokens, or those of a sample, are not known."""
        length = self.data.sequence_length if self.data.records == "samples" else 1
        if self.run_tokens is None or length is None:
            return None
        return round(self.run_tokens * sum(self.drawn.values()) / length)

    @property
    def kept(self) -> dict[str, float]:
        """The share of each domain's rows that is kept where rows are dropped and none repeated: 1
        of the domain that is kept most.
        """
        most = max(self.drawn.values())
        return {name: round(weight / most, DECIMALS) for name, weight in self.drawn.items()}

    @property
    def kept_tokens(self) -> float | None:
        """Tokens of all rows that are kept; None where those of a sample are not known."""
        length = self.data.sequence_length if self.data.records == "samples" else 1
        return length and length / max(self.drawn.values())

    def _rows(self, name: str) -> float:
        """Rows that there are of a domain. Errors: they are not known."""
        data, domain = self.data, self.data.domains[name]
        sizes = [file.size for file in domain.train]
        if data.records == domain.unit == "samples" and None not in sizes:
            return sum(sizes)
        known = data.tokens(name)
        if known is None:
            raise InputError(
                f"{data.name}: the path {domain.train[0].path!r} cannot be exported: {self.format} keeps a share of the"
                " rows, so it must be known how many there are: give 'size' and 'unit'."
            )
        return known / data.tokens_in(name, data.records)


def shares_of(mixture: Mapping[str, float]) -> tuple[dict[str, float], tuple[str, ...]]:
    """(the proportions above 0; the other domains)."""
    shares = {name: share for name, share in mixture.items() if share > 0}
    return shares, tuple(name for name in mixture if name not in shares)


def levanter_block(stages: Sequence[Export]) -> tuple[int, int]:
    """(sequences of a block, those that its rarest domain wants).

    In each block a domain has its weight of the sequences, rounded down, so the rarest should have
    COUNTS, as far as Levanter allows. A stage begins with a block (src/levanter/data/mixture.py at
    4ce7cf98), so the block divides the sequences until then. Of its divisors the smallest that is
    large enough is taken, else the largest there is. Errors: none has COUNTS sequences.
    """
    wanted, rarest = BLOCK, min(part.weight for stage in stages for part in stage.parts)
    while rarest * wanted < COUNTS and wanted < MOST:
        wanted *= 2
    batch = stages[0].batch
    every = math.gcd(*(stage.first for stage in stages)) * (batch or 1)  # 0, which all divide, for one stage
    fitting = [size for size in range(COUNTS, LIMIT) if every % size == 0]
    if not fitting:
        starts = ", ".join(str(stage.first) for stage in stages[1:])
        known = (
            "" if batch else "; give --run-tokens, and sequence_length in data.json, where a step has several sequences"
        )
        raise InputError(
            f"Levanter begins a stage with a block of {COUNTS} to {LIMIT - 1} sequences, and no such block ends where the"
            f" stages begin (step {starts}): take shares with rounder steps{known}."
        )
    return next((size for size in fitting if size >= wanted), fitting[-1]), wanted
