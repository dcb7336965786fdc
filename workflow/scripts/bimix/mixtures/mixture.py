"""Mixtures: the proportions of the domains, for the whole run or in stages of it.

A mixture is a file {domain: proportion}, or {"stages": [{"share": s, "mixture": {domain:
proportion}}, ...]}, whose shares of the run's tokens sum to one. A stage begins at a whole update:
the sum of the shares before it times the run's updates, rounded to the nearest.

Proportions are whole millionths and sum to exactly one. Further digits, which no run can use and
which differ from one processor to another, must not define another run.
"""

import math
import re
import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import polars as pl

from bimix.errors import InputError
from bimix.outputs import write_json
from bimix.tables import EXACT, ROUNDING, is_text, read_object, read_table, renamed

DECIMALS = 6
LEAST = 1e-7  # a smaller proportion is 0; from here on it is at least one millionth
STAGE = re.compile(r"(.+) \(stage \d+ of \d+\)")  # the name of a stage in a table
FINE = 1000  # parts of the last decimal that are looked at when it is rounded

Key = TypeVar("Key", bound=Hashable)


class Stage(NamedTuple):
    """A share of the run's tokens and its {domain: proportion}."""

    share: float
    proportions: dict[str, float]


@dataclass(frozen=True)
class Mixture:
    """The stages of a run in order, mostly one; `as_mixture`, `read` and `parse` round them."""

    stages: tuple[Stage, ...]

    @classmethod
    def read(cls, path: Path | str, domains: Sequence[str] | None = None, name: str | None = None) -> "Mixture":
        """The mixture in a JSON file, in JSON text, or in a table (`of_table`). Errors: those of `parse`."""
        if not is_text(str(path)) and not str(path).endswith(".parquet"):
            return cls.parse(*read_object(path), domains)
        return cls.of_table(renamed(read_table(path), str(path)), path, domains, name)

    @classmethod
    def of_table(
        cls, table: pl.DataFrame, path: Path | str, domains: Sequence[str] | None = None, name: str | None = None
    ) -> "Mixture":
        """The mixture in a table of domain and proportion; of one with a column mixture that of `name`, which
        may be None where there is one. Errors: there is none, a domain twice, those of `parse`.
        """
        if {"mixture", "domain", "proportion"} <= set(table.columns):
            table = table.with_columns(pl.col("mixture").cast(pl.String))
            names = table["mixture"].unique(maintain_order=True).drop_nulls().to_list()
            if name is None and len(names) != 1:
                have = f"{len(names)} mixtures ({', '.join(names)})"
                raise InputError(f"{path} has {have}: say which by --name, or give a table of one.")
            name = names[0] if name is None else name
            if name not in names:
                raise InputError(f"{path} has no mixture {name!r}; it has {', '.join(names[:20])}.")
            table = table.filter(pl.col("mixture") == name).select("domain", "proportion")
        if set(table.columns) != {"domain", "proportion"}:
            raise InputError(f"{path}:1: the columns must be domain and proportion, not {', '.join(table.columns)}.")
        twice = table.filter(pl.col("domain").is_duplicated())["domain"]
        if len(twice):
            raise InputError(f"{path}: the domain {twice[0]!r} stands there twice.")
        return cls.parse(dict(table.select("domain", "proportion").iter_rows()), path, domains)

    @classmethod
    def parse(cls, document: object, source: Path | str, domains: Sequence[str] | None = None) -> "Mixture":
        """The mixture of a document, which came from `source`. Errors: neither a mixture of
        `domains` (None: of any) nor stages of such; shares that do not sum to one.
        """
        if not is_staged(document):
            return cls((Stage(1.0, _parsed(document, source, domains)),))
        if set(document) != {"stages"} or not document["stages"]:
            raise InputError(f"{source}: a mixture in stages has the key 'stages' alone, a list of one or more.")
        stages = []
        for number, stage in enumerate(document["stages"], start=1):
            place = f"{source}: stage {number}"
            if not isinstance(stage, dict) or set(stage) != {"share", "mixture"}:
                raise InputError(f"{place} must have the keys 'share' and 'mixture', and no other.")
            share = stage["share"]
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
                raise InputError(f"{place}: its share is {share!r}, not a number above 0 and up to 1.")
            if is_staged(stage["mixture"]):
                raise InputError(f"{place}: its mixture has stages itself; write all stages in one list.")
            stages.append(Stage(float(share), _parsed(stage["mixture"], place, domains)))
        total = _checked_sum((stage.share for stage in stages), f"{source}: the shares of the stages")
        scale = total if abs(total - 1) > EXACT else 1.0
        return cls(tuple(Stage(stage.share / scale, stage.proportions) for stage in stages))

    def write(self, path: Path | str) -> None:
        """Write the mixture as JSON, for `read`."""
        write_json(path, self.document())

    def document(self) -> dict:
        """The mixture as written; of a single stage only its proportions."""
        if len(self.stages) == 1:
            return self.stages[0].proportions
        return {"stages": [{"share": stage.share, "mixture": stage.proportions} for stage in self.stages]}

    def flat(self) -> dict[str, float]:
        """A flat dict {domain: proportion}; with stages the keys hold their numbers and shares."""
        if len(self.stages) == 1:
            return self.stages[0].proportions
        return {
            f"stage_{number}.{key}": value
            for number, (share, proportions) in enumerate(self.stages, start=1)
            for key, value in [("share", share), *((f"mixture.{domain}", part) for domain, part in proportions.items())]
        }

    def only(self, source: Path | str) -> dict[str, float]:
        """The {domain: proportion} of a mixture of one stage. Errors: `source` has more stages."""
        if len(self.stages) > 1:
            raise InputError(f"{source} is a mixture in {len(self.stages)} stages; one for the whole run is needed.")
        return self.stages[0].proportions

    def naming(self, domains: Sequence[str]) -> "Mixture":
        """The same mixture with these domains added at proportion 0."""
        complete = ((share, dict.fromkeys(domains, 0.0) | own) for share, own in self.stages)
        return Mixture(tuple(Stage(share, dict(sorted(own.items()))) for share, own in complete))

    def over(self, domains: Sequence[str]) -> np.ndarray:
        """Proportions (stages, m) of these domains; 0 where one is not named."""
        return np.array([[stage.proportions.get(domain, 0.0) for domain in domains] for stage in self.stages])


def stage_name(name: str, number: int, count: int) -> str:
    """What a table of mixtures calls a stage of one."""
    return f"{name} (stage {number} of {count})"


def whole_runs(table: pl.DataFrame) -> dict[str, dict[str, float]]:
    """{mixture: {domain: proportion}} over the whole run, of mixtures that a table has by their stages."""
    if "share" not in table.columns:
        return {}
    found: dict[str, dict[str, float]] = {}
    for name, domain, proportion, share in table.select("mixture", "domain", "proportion", "share").iter_rows():
        if stage := STAGE.fullmatch(name):
            run = found.setdefault(stage[1], {})
            run[domain] = run.get(domain, 0.0) + share * proportion
    return found


def is_staged(document: object) -> bool:
    """Whether a document has stages; `stages` may also be the name of a domain."""
    return isinstance(document, dict) and isinstance(document.get("stages"), list)


def read_proportions(path: Path | str, domains: Sequence[str] | None = None) -> dict[str, float]:
    """The {domain: proportion} in a file. Errors: those of `Mixture.read`; several stages."""
    return Mixture.read(path, domains).only(path)


def farthest(one: Mapping[str, float], other: Mapping[str, float]) -> tuple[str, float]:
    """The domain whose proportions differ most, and by how much; a missing domain has 0."""
    apart = {domain: abs(one.get(domain, 0.0) - other.get(domain, 0.0)) for domain in {**one, **other}}
    domain = max(apart, key=apart.__getitem__)
    return domain, apart[domain]


def as_mixture(domains: Sequence[str], weights: np.ndarray) -> Mixture:
    """A mixture of one stage with proportions from weights (m,) of 0 or more, sorted by domain."""
    total = math.fsum(weights)
    shares = sorted((domain, float(weight) / total) for domain, weight in zip(domains, weights, strict=True))
    kept = decimals({domain: share for domain, share in shares if share >= LEAST}, DECIMALS)
    return Mixture((Stage(1.0, {domain: kept.get(domain, 0.0) for domain, _ in shares}),))


def decimals(weights: Mapping[Key, float], digits: int) -> dict[Key, float]:
    """Positive weights scaled to sum to 1 and rounded to so many decimals, which sum to exactly 1;
    none becomes 0.

    The largest remainders are rounded up, the first of equal ones. Remainders within a thousandth
    of the last decimal count as equal, so that rounding errors in the weights decide nothing. Each
    result is a neighbour of its exact value, except that the largest weight pays where weights
    below one unit are raised to it.
    """
    units = 10**digits
    return {key: part / units for key, part in divided(weights, units).items()}


def divided(weights: Mapping[Key, float], units: int) -> dict[Key, int]:
    """So many units by positive weights, as `decimals` rounds them."""
    total = math.fsum(weights.values())
    fine = {key: round(weight / total * units * FINE) for key, weight in weights.items()}
    whole = {key: max(1, part // FINE) for key, part in fine.items()}
    rest = units - sum(whole.values())
    if rest < 0:
        whole[max(whole, key=whole.__getitem__)] += rest
    for key in sorted(fine, key=lambda key: whole[key] * FINE - fine[key])[: max(rest, 0)]:
        whole[key] += 1
    return whole


def softmax(entropies: np.ndarray) -> np.ndarray:
    """r_i = exp(H_i) / sum_j exp(H_j) of entropies in nats, both (m,) (paper Sec. 4, Eq. 13)."""
    weights = np.exp(entropies - entropies.max())
    return weights / weights.sum()


def _checked_sum(shares: Iterable[float], what: str) -> float:
    """The sum of shares, with a remark where they are rescaled. Errors: it is not 1 within ROUNDING."""
    total = math.fsum(shares)
    if abs(total - 1) > ROUNDING:
        raise InputError(f"{what} sum to {total:.9g}, not to 1: divide each by their sum.")
    if abs(total - 1) > EXACT:
        print(f"Remark: {what} sum to {total:.9g} and are rescaled to 1.", file=sys.stderr)
    return total


def _parsed(mixture: object, source: Path | str, domains: Sequence[str] | None) -> dict[str, float]:
    """{domain: proportion} of one stage, rounded, 0 where not named. Errors: it is no mixture."""
    if not isinstance(mixture, dict) or not mixture:
        raise InputError(f"{source}: a mixture is an object of domains and their proportions.")
    unknown = sorted(set(mixture) - set(mixture if domains is None else domains))
    if unknown:
        raise InputError(f"{source}: unknown domain {unknown[0]!r}; the dataset has {', '.join(sorted(domains))}.")
    for domain, share in mixture.items():
        number = isinstance(share, int | float) and not isinstance(share, bool) and math.isfinite(share)
        if not number or share < 0:
            found = "empty" if share is None else repr(share)
            raise InputError(f"{source}: the proportion of {domain!r} is {found}, not a number from 0 to 1.")
    _checked_sum(mixture.values(), f"{source}: the proportions")
    return as_mixture(list(mixture), list(mixture.values())).stages[0].proportions
