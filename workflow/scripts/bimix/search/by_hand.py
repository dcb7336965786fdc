"""Rules by hand: wanted domains are read some epochs, the rest by a rule. None needs a run."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bimix.errors import InputError
from bimix.mixtures.by_hand import wanted, wanted_domains, within
from bimix.mixtures.mixture import read_proportions
from bimix.observations.prior import kin_weights
from bimix.optimum.bounds import feasible_bounds
from bimix.tables import read_numbers

RULES = {"reference": "", "uniform": "_uniform", "kin": "_kin"}  # of the rest, and how names end
EPOCHS = (4, 8)  # of the wanted domains


@dataclass(frozen=True)
class ByHand:
    """Inputs of rules by hand for m domains.

    `tokens` (m,) there are; `run_tokens` of the run; `own` (m,) whether a domain is wanted; the
    bounds (m,); `reference` (m,), whose shares the rest has by the plain rule; `prior`: the table
    of cross-entropies, of the rule kin.
    """

    domains: tuple[str, ...]
    tokens: np.ndarray
    run_tokens: float
    own: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    reference: np.ndarray
    prior: Path | None = None

    def mixture(self, epochs: float, rule: str = "reference", rest: np.ndarray | None = None) -> np.ndarray:
        """Shares (m,). Errors: the bounds leave no such mixture; as of `kin_weights`."""
        rest = self._rest(rule) if rest is None else rest
        return wanted(self.tokens, self.run_tokens, self.own, epochs, rest, self.lower, self.upper)

    def mixtures(self, epochs: Iterable[float]) -> dict[str, np.ndarray]:
        """{name: shares (m,)} of what the bounds leave; kin with a prior. Errors: `kin_weights`."""
        rests = {ending: self._rest(rule) for rule, ending in RULES.items() if rule != "kin" or self.prior}
        found = {}
        for often in epochs:
            for ending, rest in rests.items():
                try:
                    found[f"wanted_{often:g}{ending}"] = self.mixture(often, rest=rest)
                except InputError:  # the bounds leave no such mixture
                    continue
        return found

    def _rest(self, rule: str) -> np.ndarray:
        if rule != "kin":
            return np.ones(len(self.domains)) if rule == "uniform" else self.reference
        names = [name for name, one in zip(self.domains, self.own, strict=True) if one]
        return kin_weights(self.prior, self.domains, names)

    def read(self, shares: np.ndarray) -> np.ndarray:
        """Epochs (n,) that mixtures (n, m) read the wanted domains, all of these together."""
        return shares[:, self.own].sum(axis=1) * self.run_tokens / self.tokens[self.own].sum()


def allowed(epochs: Iterable[float], most: float | None) -> list[float]:
    """Epochs of rules by hand, fewest first: those up to `most`, or the fewest."""
    epochs = sorted(epochs)
    return [one for one in epochs if most is None or one <= most] or epochs[:1]


def add_rules(parser: argparse.ArgumentParser) -> None:
    """Add what rules by hand are made by, next to bounds and prior, for `Wanted.of`."""
    parser.add_argument("--hand", nargs="+", type=float, default=EPOCHS, help="epochs of wanted domains, by hand")
    parser.add_argument("--rest", nargs="?", type=Path, help="mixture.json whose shares the rest has; else the tokens'")


@dataclass(frozen=True)
class Wanted:
    """A run for which some of m domains are wanted: the losses and weights of its objective, the
    tokens that there are by domain and that it reads (None: not known), its bounds, each (m,),
    `prior` as of ByHand, and the shares of the `rest`; None: those of the tokens.
    """

    domains: Sequence[str]
    losses: Sequence[str]
    weights: Mapping[str, float]
    tokens: Mapping[str, float]
    run_tokens: float | None
    bounds: tuple[np.ndarray, np.ndarray] | None  # None: they leave no mixture
    prior: Path | None = None
    rest: Mapping[str, float] | None = None

    @classmethod
    def of(cls, options, law: Mapping, weights: Mapping, tokens: Mapping | None, run_tokens: float | None) -> "Wanted":
        """By the flags of limits, --prior and --rest."""
        limits = [given and read_numbers(given) for given in (options.lower, options.upper)]
        most = options.max_epochs if tokens and run_tokens else None
        try:
            bounds = feasible_bounds(law["domains"], *limits, most, tokens, run_tokens)
        except InputError:  # as of a run that is longer than the one which the optimum is for
            bounds = None
        rest, names = getattr(options, "rest", None), (law["domains"], law["loss_domains"])
        return cls(*names, weights, tokens or {}, run_tokens, bounds, options.prior, rest and read_proportions(rest))

    def _by_domain(self, numbers: Mapping[str, float]) -> np.ndarray:
        return np.array([float(numbers.get(name, 0.0)) for name in self.domains])

    def rules(self) -> ByHand | None:
        """The rules; None where none or all domains are wanted alike, or tokens are not known."""
        amounts = self._by_domain(self.tokens)
        own = wanted_domains(self.weights, tuple(self.domains), list(self.losses))
        if not (amounts.all() and self.run_tokens and own.any() and not own.all() and self.bounds):
            return None
        rest = amounts if self.rest is None else self._by_domain(self.rest)
        return ByHand(tuple(self.domains), amounts, self.run_tokens, own, *self.bounds, rest, self.prior)

    def requested(self) -> ByHand:
        """The `rules`. Errors: there are none."""
        rules = self.rules()
        if rules is None:
            raise InputError(
                "rules by hand need weights of some domains that mixtures train on, the --tokens of every domain, and"
                " those of the run: a column tokens of the losses, or --run-tokens."
            )
        return rules

    def every_rule(self, epochs: Iterable[float] = EPOCHS, most: float | None = None) -> dict[str, np.ndarray]:
        """{name: shares (m,)} of mixtures that need no run, each within the bounds: equal shares,
        those of the tokens where all are known, and the `rules` where there are any, of `allowed`
        epochs.
        """
        if self.bounds is None:
            return {}
        plain, amounts, (low, high) = {"uniform": np.ones(len(self.domains))}, self._by_domain(self.tokens), self.bounds
        if amounts.all():
            plain["baseline"] = amounts
        found = {
            name: within(np.maximum(one / one.sum() - low, 0.0)[None], low, high)[0] for name, one in plain.items()
        }
        rules = self.rules()
        return found | (rules.mixtures(allowed(epochs, most)) if rules else {})
