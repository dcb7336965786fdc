"""Rules by hand for a run: wanted domains are read some epochs, the rest by a rule. None needs a
run.
"""

from collections.abc import Iterable, Mapping
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
        """{name: shares (m,)} of all rules that the bounds leave, by epochs; kin where there is a
        prior. Errors: as of `kin_weights`.
        """
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


def by_hand(
    domains: Iterable[str],
    losses: Iterable[str],
    weights: Mapping[str, float],
    tokens: Mapping[str, float],
    run_tokens: float | None,
    bounds: tuple[np.ndarray, np.ndarray],
    prior: Path | None = None,
) -> ByHand | None:
    """The rules of an objective's weights, with the rest in the shares of the tokens; None where
    it wants no domain more than others or all, or the tokens of a domain or of the run are not
    known.
    """
    domains = tuple(domains)
    amounts = np.array([float(tokens.get(name, 0.0)) for name in domains])
    own = wanted_domains(weights, domains, list(losses))
    if not (amounts.all() and run_tokens and own.any() and not own.all()):
        return None
    return ByHand(domains, amounts, run_tokens, own, *bounds, reference=amounts, prior=prior)


def every_rule(
    domains: Iterable[str],
    losses: Iterable[str],
    weights: Mapping[str, float],
    tokens: Mapping[str, float],
    run_tokens: float | None,
    bounds: tuple[np.ndarray, np.ndarray],
    epochs: Iterable[float] = EPOCHS,
    prior: Path | None = None,
) -> dict[str, np.ndarray]:
    """{name: shares (m,)} of mixtures that need no run, each within the bounds: equal shares, those
    of the tokens where all are known, and the rules of `by_hand` where there are any.
    """
    domains, (low, high) = tuple(domains), bounds
    plain = {"uniform": np.ones(len(domains))}
    amounts = np.array([float(tokens.get(name, 0.0)) for name in domains])
    if amounts.all():
        plain["baseline"] = amounts
    found = {
        name: within(np.maximum(shares / shares.sum() - low, 0.0)[None], low, high)[0] for name, shares in plain.items()
    }
    rules = by_hand(domains, losses, weights, tokens, run_tokens, bounds, prior)
    return found | (rules.mixtures(epochs) if rules else {})
