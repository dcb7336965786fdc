"""The objective of an optimum and its reference; weighted averages of losses."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bimix.blocks import checked
from bimix.errors import InputError
from bimix.mixtures.mixture import read_proportions
from bimix.names import check_weights
from bimix.optimum.config import ObjectiveKeys
from bimix.optimum.families import by_domain, check_known
from bimix.tables import parsed_json, read_json

MOST_NAMED = 6  # weights that are named to a person
CONFIDENCE = 0.5  # of the one-sided 90 % width of the law's error, kept as a margin
ONE_SIDED, MEAN_ERROR = 1.2816, 1.2533  # of a normal: 90 % lie below; standard deviation over mean |error|


class Objective(ObjectiveKeys):
    """weighted: minimise the weighted average of losses. minimax: minimise the worst ratio to the
    reference's losses. no_worse_than: weighted, with no loss above (1 + margin) times the
    reference's.

    The constraint is for a model whose log effects are `effect_growth` times those of the law, and
    includes the law's error as a width: effect_growth (log L(r) - log L(q)) + width <= log(1 +
    margin), see `limits`. `reference` is {domain: proportion}.
    """

    reference: dict[str, float] | None = None

    @property
    def plain(self) -> bool:
        """Whether it is a weighted average without constraints."""
        return self.kind == "weighted"

    def limits(self, fitted: dict, names: Sequence[str]) -> np.ndarray:
        """Allowed ratios (d,) to the reference's losses; 1, which the reference satisfies, where
        the margin is smaller than the width.

        The width is CONFIDENCE times the 90 % quantile of the error of a difference of two
        left-out mixtures; 0 for a law that does not record its errors.
        """
        width = CONFIDENCE * ONE_SIDED * np.sqrt(2) * MEAN_ERROR * left_out_errors(fitted, names)
        return np.exp(np.maximum(np.log1p(self.margin) - width, 0.0) / self.effect_growth)

    @property
    def allowed(self) -> float:
        """The ratio that a measured loss may have to the reference's: `limits` without a width."""
        return float((1 + self.margin) ** (1 / self.effect_growth))

    def domain_weights(self) -> dict[str, float]:
        """Weights by loss domain; empty where all are equal."""
        return by_domain(self.weights, self.families)

    def target(self, fitted: dict) -> np.ndarray:
        """Weights (d,) of the law's loss domains. Errors: unknown names, nothing above 0."""
        check_known(self.families, fitted["loss_domains"])
        return target_weights(fitted, self.domain_weights())

    def groups(self, fitted: dict) -> dict[str, list[str]]:
        """The loss domains of each part of minimax: families, or domains with weights above 0."""
        target = dict(zip(fitted["loss_domains"], self.target(fitted), strict=True))
        parts = self.families or {name: [name] for name in fitted["loss_domains"]}
        return {name: list(members) for name, members in parts.items() if target[members[0]] > 0}

    def shares(self, fitted: dict) -> np.ndarray | None:
        """The reference (m,) by the law's domains. Errors: those of `mixture_of`."""
        if self.reference is None:
            return None
        return mixture_of(self.reference, fitted["domains"], "the reference mixture")


def mixture_of(shares: Mapping[str, float], domains: Sequence[str], what: str) -> np.ndarray:
    """Proportions (m,) in the order of `domains`; missing domains have 0."""
    strange = [name for name, share in shares.items() if share > 0 and name not in domains]
    if strange:
        raise InputError(f"{what} trains on {strange[0]!r}, which the law does not know: {', '.join(domains)}.")
    found = np.array([float(shares.get(name, 0.0)) for name in domains])
    if abs(found.sum() - 1) > 1e-6:
        raise InputError(f"{what} sums to {found.sum():.6g}: a mixture must sum to 1.")
    return found / found.sum()


def objective_of(
    given: str | None, weights: Mapping[str, float] | None = None, reference: Path | str | None = None
) -> Objective:
    """The objective of `--objective`, a kind or the JSON of a config's block. Its weights override
    `--weights`; `--reference` overrides its reference.

    Errors: an unknown kind or key, an invalid value, no reference where one is needed.
    """
    block = objective_block(given or "weighted")
    reference = reference or block.reference
    if block.kind != "weighted" and reference is None:
        raise InputError(
            f"the objective {block.kind} needs --reference, the mixture whose losses it is measured against."
        )
    whole = dict(block) | {"reference": None if reference is None else read_proportions(reference)}
    if not block.weights and not block.families:  # a workflow gives the weights of domains next to those of families
        whole["weights"] = dict(weights or {})
    return Objective.model_construct(**whole)


def left_out_errors(fitted: dict, names: Sequence[str]) -> np.ndarray:
    """Mean |error| (d,) of log losses of left-out mixtures as the law records it; 0 without."""
    metrics, errors = set(fitted.get("metrics", ())), {}
    kinds = [[name for name in fitted["loss_domains"] if (name in metrics) is kind] for kind in (False, True)]
    for of, choice in zip([kind for kind in kinds if kind], ("choice", "choice_of_metrics"), strict=False):
        errors |= dict(zip(of, fitted.get(choice, {}).get("errors", ()), strict=False))
    return np.nan_to_num(np.array([errors.get(name, 0.0) for name in names], dtype=float))


def objective_block(text: str) -> ObjectiveKeys:
    """The block from a kind, from JSON, or from a JSON file."""
    if text.lstrip().startswith("{"):
        block = parsed_json(text, "--objective")
    elif text.endswith(".json"):
        block = read_json(text)
    else:
        block = {"kind": text}
    return checked(ObjectiveKeys, block, "--objective")


def defined(number: float) -> float | None:
    """The number; None where it is not finite."""
    return float(number) if np.isfinite(number) else None


def target_weights(fitted: dict, weights: dict[str, float] | None) -> np.ndarray:
    """Weights (d,) of the loss domains: all 1 by default; a domain missing in `weights` has 0.

    Errors: a weight of an unknown domain, no weight above 0; no weights where there are metrics
    among losses.
    """
    names, metrics = fitted["loss_domains"], fitted.get("metrics", [])
    if weights:
        check_weights(weights, names)
        return np.array([float(weights.get(name, 0.0)) for name in names])
    if metrics and len(metrics) < len(names):
        raise InputError(
            f"the law is of losses and of metrics ({', '.join(metrics[:3])}), whose units have no common average: say by"
            " --weights, or by families with --objective, what is to be low."
        )
    return np.ones(len(names))


def average(losses: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The average (...) of losses (..., d) by weights (d,); those of weight 0 may be NaN."""
    return np.where(target > 0, losses, 0.0) @ (target / target.sum())


def weighed(fitted: dict, weights: dict[str, float] | None) -> str:
    """The weights as text: "python 1", "web 2, books 1, and 3 more"; empty if all are equal."""
    target = target_weights(fitted, weights)
    if target.min() == target.max():
        return ""
    parts = [f"{name} {one:g}" for name, one in zip(fitted["loss_domains"], target, strict=True) if one > 0]
    return ", ".join(
        parts if len(parts) <= MOST_NAMED else [*parts[:MOST_NAMED], f"and {len(parts) - MOST_NAMED} more"]
    )
