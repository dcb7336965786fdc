"""What is said of a best mixture besides its proportions: its objective and the reference's, what
certifies it, how far it lies from the runs.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bimix.laws.fitted import predict_defined
from bimix.observations.observations import proportions_of
from bimix.optimum.best import Best
from bimix.optimum.families import written
from bimix.optimum.goal import Goal
from bimix.optimum.losses import divergence
from bimix.optimum.objective import Objective, objective_of
from bimix.optimum.optimum import average
from bimix.optimum.support import Support, support
from bimix.tables import read_numbers, read_table

SAME_EPOCHS = 1.05  # numbers of epochs within this factor are the same
NO_BETTER = 1e-4  # of the reference's losses: below it minimax has found nothing


def add_objective(parser: argparse.ArgumentParser) -> None:
    """Add what a mixture is to be best at, to be read by `asked_objective`."""
    parser.add_argument(
        "--objective",
        help="weighted (the weighted average, which is the default), minimax (the least worst loss over the reference's) or"
        " no_worse_than (weighted, with no loss above the reference's by more than --margin); or JSON with these as keys:"
        " kind, weights, families, reference, margin, trust {kl_penalty, most_kl}",
    )
    parser.add_argument(
        "--families",
        help="family=domain,domain;family=domain: mean within a family, then over them; --weights are then of the families",
    )
    parser.add_argument("--reference", nargs="?", help="mixture.json of minimax and no_worse_than, or the JSON itself")
    parser.add_argument("--margin", type=float, help="of no_worse_than, relative: 0.01 is 1 %%; without it 0")
    parser.add_argument(
        "--kl-penalty", type=float, help="times KL(mixture || shares of --tokens), added to what is minimised"
    )
    parser.add_argument("--most-kl", type=float, help="the largest KL(mixture || shares of --tokens)")


def asked_objective(options: argparse.Namespace) -> Objective:
    """The objective of the flags."""
    return objective_of(
        options.objective,
        options.weights and read_numbers(options.weights),
        options.families and written(options.families),
        options.reference,
        options.margin,
        options.kl_penalty,
        options.most_kl,
    )


def fitted_support(fitted: dict, shares: np.ndarray, table: Path) -> Support:
    """How far a mixture lies from those of a tidy table that the law was fitted to."""
    names, runs = proportions_of(read_table(table), tuple(fitted["domains"]), str(table))
    used = [number for number, name in enumerate(names) if name in set(fitted["mixtures"])]
    return support(shares, runs[used], fitted["domains"], [names[number] for number in used])


def further_epochs(
    fitted: dict, shares: np.ndarray, pools: Mapping[str, float] | None, run_tokens: float | None
) -> dict[str, dict[str, float | None]]:
    """{domain: {"epochs", "most_fitted"}} where a mixture (m,) reads a domain more than once, and
    more often than any fitted run did; most_fitted None where that is not known.

    A law has not seen what such repetition does, whether it counts repeated text or not.
    """
    if not pools or not run_tokens:
        return {}
    found = {}
    for domain, share in zip(fitted["domains"], shares, strict=True):
        epochs = share * run_tokens / pools[domain] if pools.get(domain) else 0.0
        seen = fitted.get("epochs_seen", {}).get(domain)
        if epochs > SAME_EPOCHS * max(1.0, seen or 0.0):
            found[domain] = {"epochs": float(epochs), "most_fitted": seen}
    return found


def epochs_sentence(further: Mapping[str, Mapping[str, float | None]]) -> str:
    """What a person should know of `further_epochs`; nothing where there are none."""
    if not further:
        return ""
    parts = [
        f"{domain} {one['epochs']:.3g} times"
        + ("" if one["most_fitted"] is None else f" (fitted runs {one['most_fitted']:.3g} at most)")
        for domain, one in further.items()
    ]
    known = any(one["most_fitted"] is not None for one in further.values())
    why = "" if known else "; how often they did is not known, as their mixtures have no column pool"
    return f"the mixture reads text more often than any fitted run is known to have done: {', '.join(parts)}{why}."


def report(
    fitted: dict,
    step: int,
    objective: Objective,
    found: Best,
    tokens: Mapping[str, float] | None,
    where: Support | None,
    further: Mapping[str, Mapping[str, float | None]] | None = None,
) -> dict:
    """The JSON beside a best mixture; a number that is not known or not defined is null. `further`
    are its epochs beyond those fitted.
    """
    goal = Goal(fitted, step, objective, tokens)
    before = objective.shares(fitted)
    both = [found.shares] if before is None else [found.shares, before]
    losses = predict_defined(fitted, np.array(both), np.array([step]))[:, 0]
    averages = average(losses, goal.target)
    amounts = np.array([(tokens or {}).get(name, 0.0) for name in fitted["domains"]], dtype=float)
    values = {} if before is None else {"reference_objective": _number(goal.value(before))}
    of_losses = {}
    for i, name in enumerate(fitted["loss_domains"]):
        of_losses[name] = {"optimum": _number(losses[0, i])}
        if before is not None:
            of_losses[name] |= {"reference": _number(losses[1, i]), "ratio": _number(losses[0, i] / losses[1, i])}
    return {
        "law": fitted["law"],
        "step": step,
        "objective": {
            "kind": objective.kind,
            "weights": dict(objective.weights),
            "families": {name: list(members) for name, members in objective.families.items()},
            "margin": objective.margin,
            "trust": {"kl_penalty": objective.kl_penalty, "most_kl": objective.most_kl},
        },
        "objective_value": _number(found.value),
        **values,
        "average_loss": _number(averages[0]),
        **({} if before is None else {"reference_average_loss": _number(averages[1])}),
        "kkt_residual": found.gap,
        "binding": list(found.binding),
        "kl_from_token_shares": float(divergence(found.shares, amounts / amounts.sum())) if amounts.all() else None,
        "losses": of_losses,
        "support": None if where is None else where.as_json(),
        "epochs_beyond_fitted": dict(further or {}),
    }


def sentences(written: Mapping) -> list[str]:
    """What a script prints of a report, beside the average loss."""
    asked = written["objective"]
    names = {
        "weighted": "weighted average",
        "minimax": "worst loss over the reference's",
        "no_worse_than": f"weighted average with no loss above the reference's by more than {asked['margin']:.3g}",
    }
    extra = f", with {asked['trust']['kl_penalty']:g} KL" if asked["trust"]["kl_penalty"] else ""
    said = [f"objective ({names[asked['kind']]}{extra}): {_shown(written['objective_value'])}"]
    if "reference_objective" in written:
        said[0] += f"; of the reference {_shown(written['reference_objective'])}"
        said.append(f"average loss of the reference: {_shown(written['reference_average_loss'])}")
    if asked["kind"] == "minimax" and written["objective_value"] > 1 - NO_BETTER:
        said.append(
            "no mixture is better than the reference in all of these losses: ask for fewer, for families or weights"
        )
    if written["kkt_residual"] is None:
        said.append("found by search: no residual certifies it")
    else:
        said.append(f"KKT residual: {written['kkt_residual']:.2g} (no mixture that is allowed is better by more)")
    if written["binding"]:
        said.append(f"what keeps it from being better: {', '.join(written['binding'])}")
    return said


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _shown(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.4f}"
