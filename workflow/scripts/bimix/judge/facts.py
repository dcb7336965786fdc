"""Facts of a verdict as numbers: what `verdict.json` holds, and what the summary's first lines say.

The paper's chain is law, entropies, optimum: how well the law predicts, where the entropy mixtures
end, what the law's optimum gains as predicted and as measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import polars as pl

from bimix.judge.comparison import HELD, Comparison, column_levels, percent, said_broken, table
from bimix.judge.verdict import Promise, Verdict
from bimix.laws.table import LAWS

ENTROPIES = ("se", "je", "ce", "vne")
PAPER = {"last_step_percent": 0.2, "r2": 0.97}  # what the paper claims: below, and above it
COLUMNS = (
    "mixture",
    "average_loss",
    "difference_percent",
    "low_percent",
    "high_percent",
    "significant",
    "ties_with_best",
)


def shown_optimum(laws: Sequence[str], verdict: Verdict, target: Comparison | None) -> str:
    """The optimum that the first page is about: the mixture to take, one that was trained, the most
    trusted, the first.
    """
    trained = [name for name in laws if target is not None and name in target.mixtures]
    promised = [verdict.promise.mixture] if verdict.promise else []
    return next(name for name in (verdict.best, *trained, *promised, *laws) if name in laws)


def law_facts(
    law: Mapping,
    model: str,
    promise: Promise | None,
    extrapolation: pl.DataFrame | None = None,
    generalization: pl.DataFrame | None = None,
) -> dict:
    """How many runs a law was fitted to, and its errors: at the last evaluation (Table 2, the mean over
    mixtures and domains), on held-out mixtures (Table 3) and on runs left out.
    """
    name, last, held = law["law"], None, {}
    if extrapolation is not None and LAWS[name].over_steps:
        # of one mixture all laws over steps are one curve, whose rows the table has once
        fitted = extrapolation.filter(pl.col("mixture").is_in(law["mixtures"]))
        own = fitted.filter(pl.col("law") == name)
        last = (own if own.height else fitted)["mean_percent"].mean()
    if generalization is not None:
        rows = generalization.filter(pl.col("law") == name).select("mixture", "r2_mean", "mre_mean_percent")
        held = {mixture: {"r2": r2, "error_percent": error} for mixture, r2, error in rows.iter_rows()}
    return {
        "law": name,
        "runs": len(law["mixtures"]),
        "model": model,
        "last_step_percent": last,
        "held_out": held,
        "left_out_percent": None if promise is None or promise.left_out is None else 100 * promise.left_out,
        "paper": PAPER,
    }


def entropy_facts(proxies: Comparison | None, model: str, reference: str | None) -> dict | None:
    """Where the entropy mixtures end against the token shares, `reference`, on the proxy; None where
    neither was run.
    """
    ran = [name for name in ENTROPIES if proxies is not None and name in proxies.mixtures]
    if not ran or reference not in proxies.mixtures:
        return None
    ends = {
        name: {
            "difference_percent": percent(-proxies.lead(name, reference)),
            "significant": proxies.significant(name, reference),
        }
        for name in ran
    }
    return {"model": model, "step": proxies.runs.step, "reference": reference, "mixtures": ends}


def optimum_facts(mixture: str, promise: Promise | None, target: Comparison | None, model: str) -> dict:
    """The gain of a law's optimum over the reference in percent, as predicted for the model that the law
    is read at, and as measured on the model compared.
    """
    predicted = measured = None
    if promise is not None and promise.percent is not None:
        gain, low, high = promise.percent
        of = {"model": promise.model, "step": promise.step, "reference": promise.reference}
        predicted = of | {"percent": gain, "low": low, "high": high, "level": promise.level, "shrunk": promise.shrunk}
    if target is not None and mixture in target.mixtures and mixture != target.criterion.reference:
        reference, noise = target.criterion.reference, target.noise
        of = {"model": model, "step": target.runs.step, "reference": reference}
        measured = of | {
            "percent": -percent(-target.lead(mixture, reference)),
            "significant": target.significant(mixture, reference),
            "noise_percent": None if noise is None else 100 * noise.deviation,
        }
    return {"mixture": mixture, "predicted": predicted, "measured": measured}


def risk_facts(verdict: Verdict, judged: Comparison | None, epochs: Mapping[str, float]) -> dict:
    """What may be wrong with the mixture to take: losses above the reference's, by how many percent, and
    the text that is read more than once.
    """
    above, losses = {}, 0
    if verdict.tested and judged is not None and verdict.best != judged.criterion.reference:
        ends, names = column_levels(judged.runs), judged.mixtures
        rises = np.expm1(ends[names.index(verdict.best)] - ends[names.index(judged.criterion.reference)])
        pairs = [pair for pair in zip(rises.tolist(), judged.runs.columns, strict=True) if not pair[1].metric]
        pairs.sort(key=lambda pair: -pair[0])
        losses, above = len(pairs), {column.name: 100 * by for by, column in pairs if by > HELD}
    repeated = {name: often for name, often in epochs.items() if often > 1}
    return {"tested": verdict.tested, "losses": losses, "above_percent": above, "epochs": repeated}


def verdict_facts(verdict: Verdict, model: str, epochs: Mapping[str, float]) -> dict:
    """What to take, with what it ties, how sure that is, its risks, and what was no candidate and why.

    `measured` are the runs that decided, of `model`, as in tables/comparison.csv.
    """
    judged, measured, left_out = verdict.measured, None, {}
    tied = [verdict.rival] if verdict.outcome == "ties" else []
    if judged is not None:
        tied += [name for name in judged.ranked() if tied and judged.ties(name) and name not in (verdict.best, *tied)]
        rows = table(judged).select(*COLUMNS).to_dicts()
        noise = judged.noise
        measured = {
            "model": model,
            "parameters": judged.runs.parameters,
            "step": judged.runs.step,
            "reference": judged.criterion.reference,
            "noise_percent": None if noise is None else 100 * noise.deviation,
            "noise_from": None if noise is None else noise.source,
            "mixtures": {row.pop("mixture"): row for row in rows},
        }
        for name, by in zip(judged.mixtures, judged.broken, strict=True):
            if not judged.holds(name):
                left_out[name] = f"breaks the objective: {said_broken(by)}" if by else "lies outside the bounds"
    return {
        "take": verdict.best,
        "outcome": verdict.outcome,
        "why": verdict.why,
        "tested": verdict.tested,
        "rival": verdict.rival,
        "ties": tied,
        "gain": asdict(verdict.gain) if verdict.gain else None,
        "measured": measured,
        "risk": risk_facts(verdict, judged, epochs),
        "left_out": left_out,
    }
