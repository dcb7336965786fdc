"""Evidence in a dataset's files besides the compared runs: the predictions of its laws with their
errors, and the noise of a run where no compared mixture has a further seed, from further seeds of
proxies, else from the errors of laws on left-out runs.
"""

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from bimix.errors import InputError
from bimix.judge.comparison import Comparison, compared
from bimix.judge.measured import Criterion, Runs, evaluated, measured
from bimix.judge.noise import Known, levels, within
from bimix.judge.verdict import Promise
from bimix.mixtures.mixture import farthest
from bimix.mixtures.names import EQUAL, SEARCHED, TOKEN_SHARES, observed_rank
from bimix.optimum.flags import limits_of
from bimix.tables import read_table
from bimix.transfer.run import far_apart, size_read

NEAR = 1e-3  # proportions that differ by less are one mixture: tables are often rounded
ROLES = {"token shares": TOKEN_SHARES, "equal shares": EQUAL}
ROUNDED = 1e-5  # a proportion that misses its bound by less is rounded
QUANTITIES = {"minimax": "worst_ratio"}  # of an objective in the intervals; else the average


def add_evidence(parser: argparse.ArgumentParser) -> None:
    """Add the flags for the laws' predictions and the runs of their model."""
    parser.add_argument(
        "--proxies", type=Path, nargs="*", default=[], help="tidy losses of proxies; further seeds give the noise"
    )
    parser.add_argument("--intervals", type=Path, nargs="*", default=[], help="of laws, from runs left out")
    parser.add_argument("--coefficients", type=Path, nargs="+", required=True, help="of the laws")


def known_from(proxies: pl.DataFrame | None, criterion: Criterion, promises: Iterable[Promise]) -> Known | None:
    """The noise of further seeds of proxies, else the least error of a law in the criterion on
    left-out runs, as a standard deviation of the log, which is too large where the law misfits.
    None where neither is known.
    """
    if proxies is not None and (found := noise_between(proxies, criterion, paired=True)):
        return replace(found, source=f"further seeds of proxies: {found.source}")
    known = [one for one in promises if one.deviation is not None]
    if not known:
        return None
    least = min(known, key=lambda one: one.deviation)
    return Known(least.deviation, least.runs - 1, f"one seed: from the errors of the law {least.law} on runs left out")


def noise_between(table: pl.DataFrame, criterion: Criterion, paired: bool = False) -> Known | None:
    """The noise between seeds in the criterion; None where no mixture has a further one or some
    lack a loss of the criterion. Of minimax, which needs a reference among them, of the average.

    It is the noise of means over a mixture's own seeds, effects of seeds included where mixtures
    have different ones; `paired`: of runs that are compared by seed.
    """
    if "seed" not in table.columns:
        return None
    try:
        values = replace(criterion, kind="weighted").values(measured(table))[:, :, -1]
        seen = np.isfinite(values)
        return levels(values)[1] if paired or (seen == seen[0]).all() else within(np.log(values))
    except InputError:
        return None


def evidence(
    options: argparse.Namespace,
    criterion: Criterion,
    laws: Mapping[str, dict],
    spans: pl.DataFrame,
    forbidden: Iterable[str],
    called: Mapping[str, str],
) -> tuple[Comparison, Comparison | None, list[Promise]]:
    """The runs of the target model, all runs at the size and step that laws predict, and the
    promises of the laws, {mixture: coefficients}; `spans` in the columns of INTERVALS; `forbidden`
    are mixtures outside the bounds; `called` are the names by `moved`.

    Reads of `options` those of `add_evidence`, and compared, scores, step, fitted_model,
    asked_model, compared_model. Compared runs of the model that laws predict are judged at the step
    of the optima, if all were evaluated at it, and include the proxies; others at their last step.
    """
    errors = errors_of(read_table(options.scores)) if options.scores else {}
    promises = [
        promise(law, name, options.asked_model, spans, errors.get(law["law"], {}), criterion)
        for name, law in laws.items()
    ]
    promises = [one for one in promises if one is not None]
    proxies = [renamed(read_table(path), called) for path in options.proxies]
    judge = partial(compared, known=known_from(joined(proxies), criterion, promises), outside=forbidden)
    own = renamed(read_table(options.compared), called)
    size, same = next((size_read(law) for law in laws.values()), None), options.compared_model == options.asked_model
    there = same and size is None and evaluated(own, options.step)
    target = measured(own, options.step if there else None)
    at_target = same and (target.step == options.step or size is not None)
    tables = proxies if options.asked_model == options.fitted_model else []  # else they are of other models
    runs = proxies_at([own, *tables] if at_target else tables, options.step, size)
    named = runs is not None and criterion.reference in runs.mixtures
    judged = None
    if named or (runs is not None and criterion.kind == "weighted"):  # which needs no reference
        judged = judge(runs, criterion if named else replace(criterion, reference=runs.mixtures[0]))
    return judged if named and at_target else judge(target, criterion), judged, promises


def roles_of(shares: Mapping[str, Mapping[str, float]], tokens: Mapping[str, float]) -> dict[str, str]:
    """{mixture: one of ROLES} of those with equal shares or the shares of the `tokens`, whatever their
    names.
    """
    domains = sorted({domain for own in shares.values() for domain in own})
    total = sum(tokens.get(domain, 0.0) for domain in domains)
    rules = {"equal shares": dict.fromkeys(domains, 1 / len(domains))}
    if total and all(tokens.get(domain) for domain in domains):
        rules["token shares"] = {domain: tokens[domain] / total for domain in domains}
    near = min(NEAR, 0.05 / len(domains))
    found = {}
    for role, rule in rules.items():
        found |= {name: role for name, own in shares.items() if farthest(own, rule)[1] <= near}
    return found


def ranks_of(
    shares: Mapping[str, object], roles: Mapping[str, str], planned: Mapping[str, int] | None = None
) -> dict[str, int]:
    """{mixture: rank by the cost of finding it}: as `planned`, else by its name, and by its role."""
    ranks = {name: observed_rank(name) for name in shares} | dict(planned or {})
    return {
        name: min(rank, ROLES[roles[name]]) if rank < SEARCHED and name in roles else rank
        for name, rank in ranks.items()
    }


def moved(run: Mapping[str, Mapping[str, float]], optima: Mapping[str, Mapping[str, float]]) -> dict[str, str]:
    """{name: new name} of mixtures {domain: proportion} that were run under the name of an optimum
    whose proportions have changed since: their losses are not those of the optimum.
    """
    return {
        name: f"{name} (measured)" for name in optima if name in run and farthest(run[name], optima[name])[1] > NEAR
    }


def renamed(table: pl.DataFrame, names: Mapping[str, str]) -> pl.DataFrame:
    """A tidy table with renamed mixtures."""
    return table.with_columns(pl.col("mixture").cast(pl.String).replace(names))


def outside(
    mixtures: Mapping[str, Mapping[str, float]],
    options: argparse.Namespace,
    tokens: Mapping[str, float] | None,
    run_tokens: float | None,
) -> list[str]:
    """The mixtures beyond an optimum's bounds by more than ROUNDED."""
    lower, upper = limits_of(options)
    for name, there in (tokens or {}).items() if options.max_epochs is not None and run_tokens else ():
        upper[name] = min(upper.get(name, 1.0), options.max_epochs * there / run_tokens)
    return [
        name
        for name, shares in mixtures.items()
        if any(shares.get(domain, 0.0) < low - ROUNDED for domain, low in lower.items())
        or any(shares.get(domain, 0.0) > high + ROUNDED for domain, high in upper.items())
    ]


def joined(tables: Iterable[pl.DataFrame]) -> pl.DataFrame | None:
    """Tidy losses of several groups, each run once; None without groups."""
    tables = list(tables)
    return pl.concat(tables, how="diagonal_relaxed").unique(maintain_order=True) if tables else None


def proxies_at(tables: Iterable[pl.DataFrame], step: int, size: float | None) -> Runs | None:
    """The proxies at the law's size and their last steps, else at the step; None without any."""
    table = joined(tables)
    if table is None:
        return None
    if size is not None and "parameters" in table.columns:
        table = table.filter(pl.col("parameters").cast(pl.Float64) == size)
        return measured(table) if table.height else None
    return measured(table, step=step) if (table["step"] == step).any() else None


def promise(
    law: Mapping, mixture: str, model: str, spans: pl.DataFrame, errors: Mapping[str, Mapping], criterion: Criterion
) -> Promise | None:
    """A law's promise for its optimum, from its intervals `spans` in the columns of INTERVALS; None
    where they lack that row. `errors` {loss: relative error of the law on left-out runs}.
    """
    spans = spans.filter(pl.col("law") == law["law"])
    best = spans.filter(pl.col("quantity") == QUANTITIES.get(criterion.kind, "optimum_average_loss")).to_dicts()
    if not best or best[0]["estimate"] is None:
        return None
    (own,) = best
    if (size := size_read(law)) is not None and far_apart(
        law["coefficients"], size
    ):  # the level is not known there to any such precision
        spans, own = spans.with_columns(low=None, high=None), own | {"low": None, "high": None}
    if criterion.kind == "minimax":  # the reference's worst ratio to itself is 1
        ends = (own["high"], own["low"])
        gain = (1 - own["estimate"], *(None if end is None else 1 - end for end in ends))
    else:
        row = spans.filter((pl.col("quantity") == "gain") & (pl.col("mixture") == criterion.reference)).to_dicts()
        gain = tuple(row[0][key] for key in ("estimate", "low", "high")) if row else (None, None, None)
    return Promise(
        mixture,
        law["law"],
        model,
        own["step"],
        *(own[key] for key in ("estimate", "low", "high", "level")),
        runs=len(law["mixtures"]),
        left_out=average_error(errors, criterion),
        reference=criterion.reference,
        gain=gain[0],
        gain_low=gain[1],
        gain_high=gain[2],
    )


def errors_of(scores: pl.DataFrame) -> dict[str, dict[str, float]]:
    """{law: {loss: mean relative error on left-out runs}} of the table of compare_laws.py."""
    found: dict[str, dict[str, float]] = {}
    rows = scores.filter(pl.col("score") == "left_out_mre").select("law", "domain", "value").drop_nulls()
    for law, domain, value in rows.iter_rows():
        found.setdefault(law, {})[domain] = value
    return found


def average_error(errors: Mapping[str, float], criterion: Criterion) -> float | None:
    """The mean of relative errors {loss: error} by the criterion's weights; None: none weighs."""
    weights = [criterion.weights.get(name, 0.0) if criterion.weights else 1.0 for name in errors]
    if not sum(weights) > 0:
        return None
    return float(sum(w * value for w, value in zip(weights, errors.values(), strict=True)) / sum(weights))
