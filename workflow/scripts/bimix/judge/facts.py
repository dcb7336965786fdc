"""Facts of a verdict as numbers: `verdict.json`, from which the summary's sentences are written.

The paper's chain is law, entropies, optimum: how well the law predicts, where the entropy mixtures
end, what the law's optimum gains as predicted and as measured.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date

import numpy as np
import polars as pl

from bimix.judge.comparison import HELD, Comparison, column_levels, percent, said_broken, table
from bimix.judge.noise import seeds_to_add
from bimix.judge.verdict import OBSERVED, Promise, Verdict
from bimix.laws.fitted import predict_defined
from bimix.laws.table import LAWS
from bimix.mixtures.names import FOUND, wanted_rule
from bimix.optimum.objective import average
from bimix.optimum.optimum import Sought
from bimix.training.provenance import code

ENTROPIES = {"se": "Shannon", "je": "joint", "ce": "conditional", "vne": "von Neumann"}
PAPER = {"last_step_percent": 0.2, "r2": 0.97}  # what the paper claims: below, and above it
COLUMNS = (
    "mixture",
    "average_loss",
    "difference_percent",
    "low_percent",
    "high_percent",
    "significant",
    "ties_with_best",
    "broken",
    "steps_to_reference",
    "steps_ratio",
)
LEAST_SEEDS = 3  # proposed where the noise is not known


@dataclass(frozen=True)
class Evidence:
    """What a verdict rests on.

    `data`: documents and tokens of each domain, runs, date and commit; `target`: runs of the model
    compared, `model`; `shares` of all mixtures; `roles`: mixtures that are token or equal shares;
    `laws`: the law of each optimum; `searched`: mixtures of searches; `epochs` that the run reads of
    each domain of the mixture to take, as far as known; `law`, `entropies`, `optimum`: the paper's
    chain, and `sought`: that law at the run of its optimum; `by_harm`: an optimum by c of a larger model,
    where no run measures it (`optimum.report`); `refused`: laws that were not fitted, and why.
    """

    dataset: str
    verdict: Verdict
    target: Comparison | None
    model: str
    shares: Mapping[str, Mapping[str, float]]
    data: Mapping = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    laws: Mapping[str, str] = field(default_factory=dict)
    searched: Collection[str] = ()
    epochs: Mapping[str, float] = field(default_factory=dict)
    law: Mapping | None = None
    entropies: Mapping | None = None
    optimum: Mapping | None = None
    sought: Sought | None = None
    by_harm: Mapping = field(default_factory=dict)
    refused: Sequence[tuple[str, str]] = ()

    @property
    def judged(self) -> Comparison | None:
        """The runs behind the verdict, where it recommends one of them."""
        return self.verdict.measured if self.verdict.tested else None

    @property
    def shown(self) -> Comparison | None:
        """The runs that a reader sees: those behind the verdict, else those of the model compared."""
        return self.judged or self.target or self.verdict.measured

    @property
    def shown_model(self) -> str:
        promise = self.verdict.promise
        return self.model if self.shown is self.target or promise is None else promise.model


def verdict_facts(of: Evidence) -> dict:
    """What to take, with what it ties, how sure that is, its risks, what to run next, and what was no
    candidate and why. `measured` are the runs that decided, else those compared, the best first.
    """
    verdict, judged, shown, changed = of.verdict, of.verdict.measured, of.shown, changes(of)
    tied, left_out = [verdict.rival] if verdict.outcome == "ties" else [], dict(of.refused)
    if judged is not None:
        tied += [name for name in judged.ranked() if tied and judged.ties(name) and name not in (verdict.best, *tied)]
        for name, by in zip(judged.mixtures, judged.broken, strict=True):
            if not judged.holds(name):
                left_out[name] = f"breaks the objective: {said_broken(by)}" if by else "lies outside the bounds"
    return {
        "dataset": of.dataset,
        "data": dict(of.data),
        "take": verdict.best,
        "shares": dict(of.shares.get(verdict.best, {})),
        "outcome": verdict.outcome,
        "why": verdict.why,
        "tested": verdict.tested,
        "rival": verdict.rival,
        "ties": tied,
        "gain": asdict(verdict.gain) if verdict.gain else None,
        "measured": None if shown is None else measured_facts(shown, of.shown_model, verdict.best),
        "changes": changed,
        "risk": risk_facts(of, changed),
        "next": next_runs(of),
        "left_out": left_out,
        "law": of.law,
        "entropies": of.entropies,
        "optimum": of.optimum,
        "by_harm": dict(of.by_harm),
        "roles": dict(of.roles),
        "names": names_of(of),
    }


def data_facts(domains: Sequence[str], runs: int, index: pl.DataFrame | None = None) -> dict:
    """The data behind a verdict: how many runs, the documents and tokens of each domain by the `index` of the
    training split, where there is text; the date, and the commit of this code.
    """
    counts = {name: {"documents": None, "tokens": None} for name in domains}
    if index is not None and "records" in index.columns:
        summed = index.group_by("domain").agg(pl.sum("records", "tokens"))
        counts = {name: {"documents": one, "tokens": tokens} for name, one, tokens in summed.sort("domain").iter_rows()}
    return {"domains": counts, "runs": runs, "written": date.today().isoformat(), "commit": code(())["commit"]}


def names_of(of: Evidence) -> dict[str, str]:
    """{mixture: what it is} of rules, optima and, in a corpus, of entropy mixtures and a search's."""
    found = {name: "BiMix' optimum" if law == "bimix" else f"the optimum of {law}" for name, law in of.laws.items()}
    if of.model != OBSERVED:  # in a user's tables such a name says nothing
        found |= {name: f"the {kind} entropy mixture" for name, kind in ENTROPIES.items()}
        found[FOUND] = "the mixture of the search"
    found |= {name: "equal shares" if role == "equal shares" else f"the {role}" for name, role in of.roles.items()}
    return {name: said for name, said in found.items() if name in of.shares}


def measured_facts(judged: Comparison, model: str, take: str) -> dict:
    """The runs of a comparison, the best first: each against its reference and, `behind_percent`,
    against the mixture to take.
    """
    runs, criterion, noise = judged.runs, judged.criterion, judged.noise
    found = {row.pop("mixture"): row for row in table(judged).select(*COLUMNS).to_dicts()}
    rows = {name: found[name] for name in judged.ranked()}
    for name, row in rows.items():
        row |= {"value": judged.value(name), "seeds": runs.seeds_of(name)}
        if take in rows:
            row |= {"behind_percent": percent(judged.lead(take, name))}
            row |= {"behind_significant": judged.significant(take, name)}
    return {
        "model": model,
        "parameters": runs.parameters,
        "step": runs.step,
        "reference": criterion.reference,
        "kind": criterion.kind,
        "margin": criterion.margin,
        "unit": criterion.unit(runs.columns),
        "noise_percent": None if noise is None else 100 * noise.deviation,
        "noise_from": None if noise is None else noise.source,
        "mixtures": rows,
    }


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


def optimum_facts(
    mixture: str, promise: Promise | None, target: Comparison | None, model: str, verdict: Verdict | None = None
) -> dict:
    """The gain of a law's optimum over the reference in percent: as predicted for the model that the law
    is read at, and as measured on the `model` compared. The verdict's interval of that gain, where it
    rests on one, is the one that is reported.
    """
    predicted = measured = None
    if promise is not None and promise.percent is not None:
        gain, low, high = promise.percent
        decided = verdict and verdict.gain
        if decided and (decided.mixture, decided.over) == (mixture, promise.reference):
            gain, low, high = decided.percent, decided.low, decided.high
        of = {"model": promise.model, "step": promise.step, "reference": promise.reference}
        predicted = of | {"percent": gain, "low": low, "high": high, "level": promise.level, "shrunk": promise.shrunk}
    if target is not None and mixture in target.mixtures and mixture != target.criterion.reference:
        reference, noise = target.criterion.reference, target.noise
        measured = {
            "model": model,
            "step": target.runs.step,
            "reference": reference,
            "percent": -percent(-target.lead(mixture, reference)),
            "significant": target.significant(mixture, reference),
            "noise_percent": None if noise is None else 100 * noise.deviation,
        }
    return {"mixture": mixture, "predicted": predicted, "measured": measured}


def risk_facts(of: Evidence, changed: Mapping | None) -> dict:
    """What may be wrong with the mixture to take: losses above the reference's, by how many percent, of the
    losses that `changed`, and the text that is read more than once.
    """
    rises: dict[str, float] = {}
    if of.judged is not None and changed and changed["over"] == of.judged.criterion.reference:
        losses = [column.name for column in of.judged.runs.columns if not column.metric]
        rises = {name: changed["measured"][name] for name in losses if name in changed["measured"]}
    above = {name: rises[name] for name in sorted(rises, key=rises.get, reverse=True) if rises[name] > 100 * HELD}
    repeated = {name: often for name, often in of.epochs.items() if often > 1}
    return {"tested": of.verdict.tested, "losses": len(rises), "above_percent": above, "epochs": repeated}


def changes(of: Evidence) -> dict | None:
    """Each loss of the mixture to take against the reference's, or, where it is that, against that of the
    mixture it was compared with: in percent, "" the average, as measured and as the law predicts it. With the
    shares of that other mixture. None where it is not known.
    """
    take, shown = of.verdict.best, of.shown
    reference = shown.criterion.reference if shown is not None else of.verdict.gain and of.verdict.gain.over
    other = of.verdict.rival if take == reference else reference
    if take not in of.shares or other not in of.shares:
        return None
    measured, predicted, step = {}, {}, None
    if shown is not None and {take, other} <= set(shown.mixtures):
        own, whose = (shown.mixtures.index(name) for name in (take, other))
        ends, step = column_levels(shown.runs), shown.runs.step
        measured = dict(zip(shown.runs.names, (ends[own] - ends[whose]).tolist(), strict=True))
        measured[""] = -shown.lead(take, other)
    if of.sought is not None:
        fitted = of.sought.fitted
        pair = np.array([[of.shares[name].get(domain, 0.0) for domain in fitted["domains"]] for name in (take, other)])
        losses = predict_defined(fitted, pair, np.array([of.sought.step]))[:, 0]
        logs = np.log(np.column_stack([losses, average(losses, of.sought.objective.target(fitted))]))
        predicted = dict(zip([*fitted["loss_domains"], ""], (logs[0] - logs[1]).tolist(), strict=True))
    return {
        "over": other,
        "shares": dict(of.shares[other]),
        "model": of.shown_model,
        "step": step,
        "measured": {name: percent(by) for name, by in measured.items() if np.isfinite(by)},
        "law": None if of.sought is None else of.sought.fitted["law"],
        "predicted": {name: percent(by) for name, by in predicted.items() if np.isfinite(by)},
    }


def next_runs(of: Evidence) -> list[dict]:
    """What to run next, the most useful first: {do, model, mixtures, seeds, runs}, `do` one of harm (by
    text that is read again at a larger model: the best rule by hand), seeds (of a tie), train (what was
    only predicted), equal (shares that nobody ran) and larger (a model);
    `model`: where the config asks for it, None for runs that are made elsewhere.
    """
    verdict, judged, target = of.verdict, of.judged, of.target
    steps, model = [], None if of.model == OBSERVED else of.model
    trained = target.mixtures if target is not None else ()
    if of.by_harm and (verdict.promise is None or verdict.promise.model == of.model):  # else that model ran
        ranked = of.shown.ranked() if of.shown is not None else ()
        rules = [name for name in (*ranked, *of.shares) if wanted_rule(name)]
        steps.append({"do": "harm", "model": model, "mixtures": [(*rules, verdict.best)[0]], "runs": 1})
    close = verdict.outcome in ("ties", "lower") and judged is not None and verdict.rival in judged.mixtures
    hopeless = close and verdict.seeds is None and judged.noise is not None
    if close and not hopeless:
        pair = [verdict.best, verdict.rival]
        there = judged.runs.seeds_of(verdict.best)
        needed = max(verdict.seeds or LEAST_SEEDS, len(there) + 1)
        runs = sum(max(needed - len(judged.runs.seeds_of(name)), 0) for name in pair)
        seeds = {"seeds": seeds_to_add(there, needed), "runs": runs}
        steps.append({"do": "seeds", "model": model if judged is target else None, "mixtures": pair} | seeds)
    untrained = [] if verdict.tested else [verdict.best]
    if of.optimum and not set(trained) & set(of.searched):
        untrained.append(of.optimum["mixture"])
    for name in dict.fromkeys(untrained):
        steps.append({"do": "train", "model": model, "mixtures": [name], "runs": 1})
    roles = [of.roles.get(name) for name in (*trained, verdict.best)]
    if target is not None and "equal shares" not in roles:
        steps.append({"do": "equal", "model": model, "mixtures": [], "runs": 1})
    return [*steps, {"do": "larger", "model": model, "mixtures": [verdict.best], "runs": None}]
