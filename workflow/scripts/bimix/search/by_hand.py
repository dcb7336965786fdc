"""Rules by hand: wanted domains are read some epochs, the rest by a rule. None needs a run."""

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bimix.errors import InputError, finite
from bimix.mixtures.by_hand import fit_into_bounds, mix_by_epochs, wanted_domains
from bimix.mixtures.mixture import read_proportions
from bimix.observations.prior import kin_weights
from bimix.optimum.bounds import feasible_bounds
from bimix.optimum.flags import limits_of

RULES = {"reference": "", "uniform": "_uniform", "kin": "_kin"}  # of the rest, and how names end
CAPPED = 1e-6  # a rule that bounds move by more is another mixture than its name says
EPOCHS = (4, 8)  # of the wanted domains


def allowed(epochs: Iterable[float], most: float | None) -> list[float]:
    """Epochs of rules by hand, fewest first: those up to `most`, or the fewest."""
    epochs = sorted(epochs)
    return [one for one in epochs if most is None or one <= most] or epochs[:1]


def add_rules(parser: argparse.ArgumentParser) -> None:
    """Add what rules by hand are made by, next to bounds and prior, for `Wanted.of`."""
    parser.add_argument("--hand", nargs="+", type=finite, default=EPOCHS, help="epochs of wanted domains, by hand")
    parser.add_argument("--rest", nargs="?", type=Path, help="mixture.json whose shares the rest has; else the tokens'")


@dataclass(frozen=True)
class Wanted:
    """A run of m domains of which some are wanted, and its mixtures by hand.

    `tokens` (m,) there are, 0 where not known; `run_tokens` of the run, None: not known; `own`
    (m,) whether a domain is wanted; `bounds`: lower and upper, each (m,), None: they leave no
    mixture; `reference` (m,), whose shares the rest has by the plain rule; `trained` (m,) whether some
    run trains on a domain, None: on all; `prior`: the table of
    cross-entropies, of the rule kin.
    """

    domains: tuple[str, ...]
    tokens: np.ndarray
    run_tokens: float | None
    own: np.ndarray
    bounds: tuple[np.ndarray, np.ndarray] | None
    reference: np.ndarray
    prior: Path | None = None
    trained: np.ndarray | None = None

    @classmethod
    def of(cls, options, law: Mapping, weights: Mapping, tokens: Mapping | None, run_tokens: float | None) -> "Wanted":
        """By the flags of limits, --prior and --rest, without which the rest has token shares. Of the `law`
        the names of domains and losses, and the shares that its runs had.
        """
        domains, limits = law["domains"], limits_of(options)
        most = options.max_epochs if tokens and run_tokens else None
        try:
            bounds = feasible_bounds(domains, *limits, most, tokens, run_tokens)
        except InputError:  # as of a run that is longer than the one which the optimum is for
            bounds = None

        def by_domain(numbers: Mapping[str, float]) -> np.ndarray:
            return np.array([float(numbers.get(name, 0.0)) for name in domains])

        trained = by_domain({name: law["proportions_seen"].get(name, {"max": 1})["max"] for name in domains}) > 0
        own = wanted_domains(weights, domains, law["loss_domains"])
        rest, amounts = vars(options).get("rest"), by_domain(tokens or {})
        reference = by_domain(read_proportions(rest)) if rest else amounts
        return cls(tuple(domains), amounts, run_tokens, own, bounds, reference, options.prior, trained)

    @property
    def ruled(self) -> bool:
        """Whether there are rules: not where none or all domains are wanted alike, or tokens are
        not known.
        """
        some = self.own.any() and not self.own.all()
        return bool(self.tokens.all() and self.run_tokens and some and self.bounds)

    def requested(self) -> "Wanted":
        """The run itself. Errors: it has no rules."""
        if not self.ruled:
            raise InputError(
                "rules by hand need weights of some domains that mixtures train on, the --tokens of every domain, those"
                " of the run (a column tokens of the losses, or --run-tokens), and bounds that leave a mixture."
            )
        return self

    def mixture(self, epochs: float, rule: str = "reference") -> np.ndarray:
        """Shares (m,). Errors: the bounds leave no such mixture; as of `kin_weights`."""
        return self._mixed(epochs, self._rest(rule))

    def mixtures(self, epochs: Iterable[float]) -> dict[str, np.ndarray]:
        """{name: shares (m,)} of what the bounds leave; kin with a prior. Errors: `kin_weights`."""
        rests = {ending: self._rest(rule) for rule, ending in RULES.items() if rule != "kin" or self.prior}
        found = {}
        for often in epochs:
            for ending, rest in rests.items():
                try:
                    own = self._mixed(often, rest)
                except InputError:  # the bounds leave no such mixture
                    continue
                # called by what it reads, which bounds may make less; text that is not read once is not scarce
                read = min(often, round(float(self.read(own[None])[0]), 2))
                if read >= 1:
                    found.setdefault(f"wanted_{read:g}{ending}", own)
        return found

    def every_rule(self, epochs: Iterable[float] = EPOCHS, most: float | None = None) -> dict[str, np.ndarray]:
        """{name: shares (m,)} of mixtures that need no run, each within the bounds: equal shares,
        those of the tokens where all are known, and the rules where there are any, of `allowed`
        epochs.
        """
        if self.bounds is None:
            return {}
        plain, (low, high) = (
            {"uniform": np.ones(len(self.domains)) if self.trained is None else 1.0 * self.trained},
            self.bounds,
        )
        if self.tokens.all():
            plain["baseline"] = self.tokens
        found = {}
        for name, one in plain.items():
            shares = one / one.sum()
            held = fit_into_bounds(np.maximum(shares - low, 0.0)[None], low, high)[0]
            found[name if np.abs(held - shares).max() < CAPPED else f"{name}_within_bounds"] = held
        return found | (self.mixtures(allowed(epochs, most)) if self.ruled else {})

    def read(self, shares: np.ndarray) -> np.ndarray:
        """Epochs (n,) that mixtures (n, m) read the wanted domains, all of these together."""
        return shares[:, self.own].sum(axis=1) * self.run_tokens / self.tokens[self.own].sum()

    def _mixed(self, epochs: float, rest: np.ndarray) -> np.ndarray:
        return mix_by_epochs(self.tokens, self.run_tokens, self.own, epochs, rest, *self.bounds)

    def _rest(self, rule: str) -> np.ndarray:
        if rule != "kin":
            return np.ones(len(self.domains)) if rule == "uniform" else self.reference
        names = [name for name, one in zip(self.domains, self.own, strict=True) if one]
        return kin_weights(self.prior, self.domains, names)
