"""Rules by hand: wanted domains are read some epochs, the rest by a rule. None needs a run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bimix.errors import InputError
from bimix.mixtures.by_hand import wanted, wanted_domains, within
from bimix.observations.prior import kin_weights

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

    def mixture(self, epochs: float, rule: str = "reference") -> np.ndarray:
        """Shares (m,). Errors: the bounds leave no such mixture; as of `kin_weights`."""
        return self._mixture(epochs, self._rest(rule))

    def mixtures(self, epochs: Iterable[float]) -> dict[str, np.ndarray]:
        """{name: shares (m,)} of what the bounds leave; kin with a prior. Errors: `kin_weights`."""
        rests = {ending: self._rest(rule) for rule, ending in RULES.items() if rule != "kin" or self.prior}
        found = {}
        for often in epochs:
            for ending, rest in rests.items():
                try:
                    found[f"wanted_{often:g}{ending}"] = self._mixture(often, rest)
                except InputError:  # the bounds leave no such mixture
                    continue
        return found

    def _mixture(self, epochs: float, rest: np.ndarray) -> np.ndarray:
        return wanted(self.tokens, self.run_tokens, self.own, epochs, rest, self.lower, self.upper)

    def _rest(self, rule: str) -> np.ndarray:
        if rule != "kin":
            return np.ones(len(self.domains)) if rule == "uniform" else self.reference
        names = [name for name, one in zip(self.domains, self.own, strict=True) if one]
        return kin_weights(self.prior, self.domains, names)

    def read(self, shares: np.ndarray) -> np.ndarray:
        """Epochs (n,) that mixtures (n, m) read the wanted domains, all of these together."""
        return shares[:, self.own].sum(axis=1) * self.run_tokens / self.tokens[self.own].sum()


@dataclass(frozen=True)
class Wanted:
    """A run for which some of m domains are wanted: the losses and weights of its objective, the
    tokens that there are by domain and that it reads (None: not known), its bounds, each (m,), and
    `prior` as of ByHand.
    """

    domains: Sequence[str]
    losses: Sequence[str]
    weights: Mapping[str, float]
    tokens: Mapping[str, float]
    run_tokens: float | None
    bounds: tuple[np.ndarray, np.ndarray]
    prior: Path | None = None

    def amounts(self) -> np.ndarray:
        return np.array([float(self.tokens.get(name, 0.0)) for name in self.domains])

    def rules(self) -> ByHand | None:
        """Rules with the rest in the shares of the tokens; None where no domain is wanted more than
        others, or all are, or tokens are not known.
        """
        amounts, own = self.amounts(), wanted_domains(self.weights, tuple(self.domains), list(self.losses))
        if not (amounts.all() and self.run_tokens and own.any() and not own.all()):
            return None
        return ByHand(tuple(self.domains), amounts, self.run_tokens, own, *self.bounds, amounts, self.prior)

    def requested(self) -> ByHand:
        """The `rules`. Errors: there are none."""
        rules = self.rules()
        if rules is None:
            raise InputError(
                "rules by hand need weights of some domains that mixtures train on, the --tokens of every domain, and"
                " those of the run: a column tokens of the losses, or --run-tokens."
            )
        return rules

    def every_rule(self, epochs: Iterable[float] = EPOCHS) -> dict[str, np.ndarray]:
        """{name: shares (m,)} of mixtures that need no run, each within the bounds: equal shares,
        those of the tokens where all are known, and the `rules` where there are any.
        """
        plain, amounts, (low, high) = {"uniform": np.ones(len(self.domains))}, self.amounts(), self.bounds
        if amounts.all():
            plain["baseline"] = amounts
        found = {
            name: within(np.maximum(one / one.sum() - low, 0.0)[None], low, high)[0] for name, one in plain.items()
        }
        rules = self.rules()
        return found | (rules.mixtures(epochs) if rules else {})
