"""The report on an optimum: its objective value and the reference's, its certificate, and its
distance from the runs: by domain, from the nearest run, from their convex hull.

Distances are total variations, half the sum of absolute differences: the share of the mixture that
would have to move.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import linprog

from bimix.laws.fitted import predict_defined
from bimix.observations.observations import proportions_of
from bimix.optimum.config import KINDS
from bimix.optimum.objective import average, defined, weighed
from bimix.optimum.optimum import Best, Sought
from bimix.tables import read_table
from bimix.transfer.run import size_read

SAME_EPOCHS = 1.05  # numbers of epochs within this factor are the same
OUTSIDE = 1e-6  # of a total variation: below it a mixture lies on the hull
NO_BETTER = 1e-4  # of the reference's losses: below it minimax has found nothing


@dataclass(frozen=True)
class Support:
    """outside: {domain: share above the largest, or below the least, of any run}."""

    outside: dict[str, float]
    nearest: str
    nearest_distance: float
    hull_distance: float

    def sentence(self) -> str:
        """A warning where the mixture is outside the hull of the runs; else nothing."""
        if self.hull_distance <= OUTSIDE:
            return ""
        beyond = ", ".join(f"{name} {share:+.4f}" for name, share in self.outside.items())
        return (
            f"the mixture lies outside the runs that the law was fitted to: {self.hull_distance:.4f} of it would have to be"
            f" moved to be a mean of them, {self.nearest_distance:.4f} to be the nearest, {self.nearest}"
            + (f"; outside the shares seen: {beyond}." if beyond else ".")
        )


def support(shares: np.ndarray, runs: np.ndarray, domains: Sequence[str], names: Sequence[str]) -> Support:
    """The support of a mixture (m,) by runs (n, m), called `names`."""
    above, below = shares - runs.max(axis=0), shares - runs.min(axis=0)
    beyond = np.maximum(above, 0) + np.minimum(below, 0)
    distances = 0.5 * np.abs(runs - shares).sum(axis=1)
    nearest = int(distances.argmin())
    outside = {name: float(one) for name, one in zip(domains, beyond, strict=True) if abs(one) > OUTSIDE}
    return Support(outside, str(names[nearest]), float(distances[nearest]), hull_distance(shares, runs))


def hull_distance(shares: np.ndarray, runs: np.ndarray) -> float:
    """The distance of a mixture (m,) from the hull of runs (n, m), by a linear program.

    min 1/2 sum_j s_j where -s <= runs' w - r <= s, w >= 0, sum w = 1.
    """
    n, m = runs.shape
    cost = np.concatenate([np.zeros(n), np.full(m, 0.5)])
    eye = np.eye(m)
    within = np.block([[runs.T, -eye], [-runs.T, -eye]])
    found = linprog(
        cost,
        A_ub=within,
        b_ub=np.concatenate([shares, -shares]),
        A_eq=np.concatenate([np.ones(n), np.zeros(m)])[None],
        b_eq=[1.0],
        method="highs",
    )
    if found.status != 0:
        raise RuntimeError(f"the distance to the runs could not be found: {found.message}")
    return max(0.0, float(found.fun))


def fitted_support(fitted: dict, shares: np.ndarray, table: Path) -> Support:
    """The support of a mixture by the fitted mixtures in a tidy table."""
    names, runs = proportions_of(read_table(table), tuple(fitted["domains"]), str(table))
    used = [number for number, name in enumerate(names) if name in set(fitted["mixtures"])]
    return support(shares, runs[used], fitted["domains"], [names[number] for number in used])


def epochs_of(
    shares: Mapping[str, float], pools: Mapping[str, float] | None, run_tokens: float | None
) -> dict[str, float]:
    """How often a run reads the text of each domain, of those whose tokens are known."""
    there = pools or {}
    return {name: one * run_tokens / there[name] for name, one in shares.items() if run_tokens and there.get(name)}


def further_epochs(
    fitted: dict, shares: np.ndarray, pools: Mapping[str, float] | None, run_tokens: float | None
) -> dict[str, dict[str, float | None]]:
    """{domain: {"epochs", "most_fitted"}} where a mixture (m,) reads a domain for more than one
    epoch and for more than any fitted run did; most_fitted None where that is not known.

    There the law extrapolates, even if it models repetition.
    """
    found = {}
    for domain, epochs in epochs_of(
        dict(zip(fitted["domains"], shares.tolist(), strict=True)), pools, run_tokens
    ).items():
        seen = fitted.get("epochs_seen", {}).get(domain)
        if epochs > SAME_EPOCHS * max(1.0, seen or 0.0):
            found[domain] = {"epochs": epochs, "most_fitted": seen}
    return found


def epochs_sentence(further: Mapping[str, Mapping[str, float | None]]) -> str:
    """A warning about `further_epochs`; nothing where there are none."""
    if not further:
        return ""
    parts = [
        f"{domain} {one['epochs']:.3g} times"
        + ("" if one["most_fitted"] is None else f" (fitted runs {one['most_fitted']:.3g} at most)")
        for domain, one in further.items()
    ]
    return f"the mixture reads text more often than any fitted run is known to have done: {', '.join(parts)}."


def report(
    sought: Sought, found: Best, where: Support | None, further: Mapping[str, Mapping[str, float | None]]
) -> dict:
    """The JSON next to an optimum, null where unknown; `further` are epochs beyond the fit."""
    fitted, objective, goal = sought.fitted, sought.objective, sought.goal
    before = objective.shares(fitted)
    both = [found.shares] if before is None else [found.shares, before]
    losses = predict_defined(fitted, np.array(both), np.array([sought.step]))[:, 0]
    averages = average(losses, goal.target)
    of_losses = {name: {"optimum": defined(losses[0, i])} for i, name in enumerate(fitted["loss_domains"])}
    of_reference = {}
    if before is not None:
        of_reference["reference_objective"] = defined(goal.value(before))
        of_reference["reference_average_loss"] = defined(averages[1])
        for i, name in enumerate(fitted["loss_domains"]):
            of_losses[name] |= {"reference": defined(losses[1, i]), "ratio": defined(losses[0, i] / losses[1, i])}
        for name, limit in zip(goal.held, objective.limits(fitted, goal.held), strict=True):
            of_losses[name]["largest_ratio"] = float(limit)
    return {
        "law": fitted["law"],
        "step": sought.step,
        "objective": {
            "kind": objective.kind,
            "weights": dict(objective.weights),
            "families": {name: list(members) for name, members in objective.families.items()},
            "margin": objective.margin,
            "effect_growth": objective.effect_growth,
        },
        "objective_value": defined(found.value),
        "average_loss": defined(averages[0]),
        **of_reference,
        "kkt_residual": found.gap,
        "binding": list(found.binding),
        "losses": of_losses,
        "support": None if where is None else asdict(where),
        "epochs_beyond_fitted": dict(further),
        "by_harm": by_harm([sought]),
    }


def by_harm(laws: Iterable[Sought]) -> dict[str, dict]:
    """`Sought.by_harm` of the first law that has it, as {c: {domain: {"proportion", "epochs"}}}."""
    found = ((sought, sought.by_harm()) for sought in laws)
    sought, optima = next(filter(lambda one: one[1], found), (None, {}))
    return {f"{c:g}": read_again(sought, shares) for c, shares in optima.items()}


def read_again(sought: Sought, shares: np.ndarray) -> dict[str, dict[str, float]]:
    """{domain: {"proportion", "epochs"}} of a mixture (m,), where the pool is known."""
    named = dict(zip(sought.fitted["domains"], shares.tolist(), strict=True))
    epochs = epochs_of(named, sought.pools, sought.run_tokens)
    return {name: {"proportion": named[name], "epochs": one} for name, one in epochs.items()}


def harm_lines(by_harm: Mapping[str, Mapping]) -> list[str]:
    """The optima of `by_harm` of a report side by side: the domains that one reads more than once."""
    said = "no run of a larger model says how much it loses by text that it reads again (c): transfer's optima"
    lines = [said] if by_harm else []
    for domain in next(iter(by_harm.values()), {}):
        own = {c: shares[domain] for c, shares in by_harm.items()}
        if max(one["epochs"] for one in own.values()) > 1:
            each = [f"{one['proportion']:.4f}, {one['epochs']:.3g} epochs at c {c}" for c, one in own.items()]
            lines.append(f"  {domain}: {'; '.join(each)}")
    return lines


def described(sought: Sought, found: Best, reported: Mapping) -> list[str]:
    """The printed lines on an optimum: average loss, what its report says, shares."""
    fitted, objective, weights = sought.fitted, sought.objective, sought.objective.domain_weights()
    parameters, over = size_read(fitted), weighed(fitted, weights)
    at = f"for {parameters:g} parameters" if parameters else f"at step {sought.step}"
    lines = [f"average loss predicted {at}: {_shown(reported['average_loss'])}{f' (weighted: {over})' if over else ''}"]
    values = {
        f"objective ({KINDS[objective.kind].format(margin=objective.margin)})": reported["objective_value"],
        "objective of the reference": reported.get("reference_objective"),
        "average loss of the reference": reported.get("reference_average_loss"),
    }
    lines += [f"  {name}: {_shown(value)}" for name, value in values.items() if value is not None]
    gap = reported["kkt_residual"]
    lines.append("  found by search, without a certificate" if gap is None else f"  KKT residual: {gap:.2g}")
    if objective.kind == "minimax" and reported["objective_value"] > 1 - NO_BETTER:
        lines.append("  no mixture is better than the reference in all of these losses: name fewer, or families")
    if held := [one["largest_ratio"] - 1 for one in reported["losses"].values() if "largest_ratio" in one]:
        lines.append(f"  {promised(objective.margin, objective.effect_growth, held)}")
    if reported["binding"]:
        lines.append(f"  what keeps it from being better: {', '.join(reported['binding'])}")
    if unknown := [name for name, one in reported["losses"].items() if one["optimum"] is None]:
        lines.append(
            f"  not defined there by the law {fitted['law']}: the losses of {', '.join(unknown)}; they weigh 0"
        )
    epochs = epochs_of(dict(zip(fitted["domains"], found.shares, strict=True)), sought.pools, sought.run_tokens)
    for domain, share, low, high in zip(fitted["domains"], found.shares, sought.lower, sought.upper, strict=True):
        seen, notes = fitted["proportions_seen"][domain], []
        if share in (low, high):
            notes.append(f"at its {'lower' if share == low else 'upper'} bound")
        if not seen["min"] <= share <= seen["max"]:
            notes.append(f"outside the proportions seen, {seen['min']:.4f} to {seen['max']:.4f}")
        if epochs.get(domain, 0.0) > 1:
            notes.append(f"{epochs[domain]:.3g} epochs")
        lines.append(f"  {domain}: {share:.4f}" + (f"  ({'; '.join(notes)})" if notes else ""))
    return lines + harm_lines(reported["by_harm"])


def promised(margin: float, effect_growth: float, held: Sequence[float], model: str = "") -> str:
    """The guarantee of `no_worse_than`, its model, the rest of the margin; `held`: rises."""
    at = f" at {model}" if model else ""
    if effect_growth != 1:
        at = f" at {model or 'a model'}, where effects are {effect_growth:.3g} times as large"
    return (
        f"promised is {100 * margin:.3g} %{at}; with the margin for the law's error it allows {100 * min(held):.3g} to"
        f" {100 * max(held):.3g} % by the law"
    )


def _shown(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.4f}"
