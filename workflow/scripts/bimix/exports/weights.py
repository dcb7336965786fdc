"""Converts the proportions of a mixture, which are shares of tokens, to the sampling weights of a
consumer: in its unit, of files or of domains, as decimals that sum to 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from bimix.errors import InputError
from bimix.exports.data import Data, File
from bimix.exports.formats import FORMATS, Format
from bimix.mixtures.mixture import Mixture, divided
from bimix.names import unknown
from bimix.training.recipe import first_updates

DECIMALS, MOST_DECIMALS = 9, 15  # of a domain's weight; of its files' at most
UNITS = 100  # of a file's last decimal, on average: fewer would not divide a weight by size


@dataclass(frozen=True)
class Part:
    """One file of a domain, or all its files, with a weight in the mixture and a unique label."""

    domain: str
    files: Sequence[File]
    weight: float
    label: str

    @property
    def path(self) -> str:
        return self.files[0].path

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files)


@dataclass(frozen=True)
class Export:
    """A mixture, its data, and the format of the export.

    `shares`: the proportions above 0; `dropped`: the domains of proportion 0. `run_tokens` and the
    tokens of `pools` are None where they are not known. For a stage `first` is the number of
    updates before it, and `run_tokens` are those of the stage.
    """

    format: str
    data: Data
    shares: Mapping[str, float]
    dropped: tuple[str, ...]
    run_tokens: int | None
    pools: Mapping[str, float | None]
    first: int = 0

    @property
    def form(self) -> Format:
        return FORMATS[self.format]

    @cached_property
    def drawn(self) -> dict[str, float]:
        """Weights of the domains in the format's unit, not normalised.

        Errors: the kind of record, or the number of tokens of a document, is not known.
        """
        data = self.data
        if self.form.records and data.records is None:
            raise InputError(
                f"{data.name} has no key 'records': {self.format} draws records of the files, so it must say whether they"
                " are documents or samples of equal length."
            )
        if not self.form.records or data.records == "samples":
            return dict(self.shares)
        lacking = [name for name in self.shares if data.domains[name].tokens_per_document is None]
        if lacking:
            key = f"domains/{lacking[0]}/tokens_per_document"
            raise InputError(f"{data.name} has no key {key!r}: it says how many tokens one of the documents has.")
        return {name: share / data.domains[name].tokens_per_document for name, share in self.shares.items()}

    @cached_property
    def parts(self) -> list[Part]:
        """A part per domain, or per file by its share of bytes. Errors: a file without a size."""
        domains, units = self.data.domains, divided(self.drawn, 10**DECIMALS)
        if self.form.sources == "domains":
            return [Part(name, domains[name].train, units[name] / 10**DECIMALS, name) for name in self.shares]
        parts, taken = [], set(domains)
        for name in self.shares:
            files = domains[name].train
            lacking = [file.path for file in files if file.size is None]
            if lacking and len(files) > 1:
                raise InputError(
                    f"{self.data.name}: domains/{name} has {len(files)} files and no 'size' of {lacking[0]!r}:"
                    f" {self.format} weighs each file, and they share the domain's weight by size."
                )
            digits = DECIMALS
            while units[name] * 10 ** (digits - DECIMALS) < UNITS * len(files) and digits < MOST_DECIMALS:
                digits += 1
            sizes = {number: file.size or 1 for number, file in enumerate(files)}
            own = divided(sizes, units[name] * 10 ** (digits - DECIMALS))
            for number, file in enumerate(files):
                label = name
                if len(files) > 1:
                    label = f"{name}_{number}"
                    while label in taken:
                        label += "_"
                taken.add(label)
                parts.append(Part(name, [file], own[number] / 10**digits, label))
        return parts

    @property
    def weights(self) -> dict[str, float]:
        """The weights of the parts by their labels."""
        return {part.label: part.weight for part in self.parts}

    def epochs(self, domain: str) -> float | None:
        """Epochs of a domain in the run; None if the tokens of run or pool are not known."""
        if self.run_tokens is None or self.pools[domain] is None:
            return None
        return self.shares[domain] * self.run_tokens / self.pools[domain]

    @property
    def run_records(self) -> int | None:
        """Records of the run; None if its tokens, or those of a sample, are not known."""
        tokens = self.data.sequence_length if self.data.records == "samples" else 1
        if self.run_tokens is None or tokens is None:
            return None
        return round(self.run_tokens * sum(self.drawn.values()) / tokens)


def staged(
    form: str,
    data: Data,
    mixture: Mixture,
    source: str,
    known: Mapping[str, float],
    run_tokens: float | None,
    run_steps: int | None,
) -> list[Export]:
    """An export for each stage of a mixture, which came from `source`; `known` pools, if given,
    replace those of the data.

    Errors: stages in a format without stages, or with unknown beginnings; a domain without files,
    or without known tokens.
    """
    firsts, steps = (0,), 1
    if len(mixture.stages) > 1:
        count = len(mixture.stages)
        if not FORMATS[form].stages:
            able = ", ".join(name for name, other in FORMATS.items() if other.stages)
            raise InputError(
                f"{source} has {count} stages, and --format {form} holds one mixture: take one of {able}, or export each"
                " stage's mixture."
            )
        if run_steps is None or run_steps < 1:
            either = "give --run-steps, the updates of the run; a config that has `export/run_tokens` gives none"
            raise InputError(f"{source} has {count} stages: {either}.")
        steps = run_steps
        firsts = first_updates([stage.share for stage in mixture.stages], steps, source)
    exports = []
    for (_, proportions), first, end in zip(mixture.stages, firsts, (*firsts[1:], steps), strict=True):
        shares = {name: share for name, share in proportions.items() if share > 0}
        for name, share in shares.items():
            if name not in data.domains:
                nearest = unknown("domain", name, data.domains)
                raise InputError(f"{data.name}: {nearest} {source} has {share:.4g} of it: call the domains alike.")
            if known and not known.get(name):
                raise InputError(f"--tokens has no tokens of {name!r}, which is in the mixture.")
        dropped = tuple(name for name in proportions if name not in shares)
        tokens = None if run_tokens is None else round(run_tokens * (end - first) / steps)
        pools = {name: known[name] if known else data.pool(name) for name in shares}
        exports.append(Export(form, data, shares, dropped, tokens, pools, first))
    return exports
