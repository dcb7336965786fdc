"""Facts of a verdict as numbers: `verdict.json`, from which the summary's sentences are written.

The paper's chain is law, entropies, optimum: how well the law predicts, where the entropy mixtures
end, what the law's optimum gains as predicted and as measured.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date

import numpy as np
import polars as pl

from bimix.judge.comparison import HELD, Comparison, loss_changes, percent, said_broken, table
from bimix.judge.noise import seeds_to_add
from bimix.judge.verdict import OBSERVED, Promise, Verdict
from bimix.laws.fitted import predict_defined
from bimix.laws.table import LAWS, is_optimum
from bimix.mixtures.names import FOUND, is_of_search, wanted_rule
from bimix.optimum.objective import average
from bimix.optimum.optimum import Sought
from bimix.optimum.report import by_harm, epochs_of
from bimix.training.costs import Device, Stated
from bimix.training.provenance import code
from bimix.transfer.run import size_read

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
OUTSIDE = 0.01  # of a share beyond those of the runs: a law's word there is not a measurement


@dataclass(frozen=True)
class Fit:
    """A law at the run that its optimum is for, that mixture {domain: share}, and what the law promises for it."""

    sought: Sought
    optimum: Mapping[str, float]
    promise: Promise | None


@dataclass(frozen=True)
class Evidence:
    """A verdict and what it rests on.

    `reference`: the mixture that gains are counted from; `fits` by the mixture that each law found, the
    first the usual one; `target`: runs of the model compared, `model`;
    `proxies`: runs of the model fitted; `shares` of all mixtures; `roles`: mixtures that are token or
    equal shares; `searched`: mixtures of searches; `index` of the training text; `trained`: how many
    mixtures were; `pools` and `run_tokens` of the run that epochs are counted for, whose hours are those of
    `device`; `sizes`: models of a law that reads the runs of `target`, too; `extrapolation` and
    `generalization`: Tables 2 and 3; `refused`: laws that were not fitted, and why.
    """

    dataset: str
    reference: str
    verdict: Verdict
    target: Comparison | None
    shares: Mapping[str, Mapping[str, float]]
    fits: Mapping[str, Fit]
    trained: int
    model: str = OBSERVED
    fitted_model: str = OBSERVED
    asked_model: str = OBSERVED
    proxies: Comparison | None = None
    roles: Mapping[str, str] = field(default_factory=dict)
    searched: Collection[str] = ()
    index: pl.DataFrame | None = None
    pools: Mapping[str, float] = field(default_factory=dict)
    run_tokens: float | None = None
    device: Device | None = None
    extrapolation: pl.DataFrame | None = None
    generalization: pl.DataFrame | None = None
    sizes: Sequence[str] = ()
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

    @property
    def trusted(self) -> str:
        """The optimum of the law with the least error on runs left out; without errors the first."""
        return self.verdict.promise.mixture if self.verdict.promise else next(iter(self.fits))

    @property
    def optimum(self) -> str:
        """The optimum that the first page is about: the mixture to take, one that was trained, the most
        trusted, the first.
        """
        trained = [name for name in self.fits if self.target is not None and name in self.target.mixtures]
        return next(name for name in (self.verdict.best, *trained, self.trusted) if name in self.fits)


def verdict_facts(of: Evidence) -> dict:
    """What to take, with what it ties, how sure that is, its risks, what to run next, and what was no
    candidate and why. `measured` are the runs that decided, else those compared, the best first; `paper`:
    BiMix' optimum with its law, where the page is about another.
    """
    verdict, decisive, changed = of.verdict, of.verdict.measured, changes(of)
    harm = by_harm(fit.sought for fit in of.fits.values())
    papers = [name for name, fit in of.fits.items() if fit.sought.fitted["law"] == "bimix" and name != of.optimum]
    tied, left_out = [verdict.rival] if verdict.outcome == "ties" else [], dict(of.refused)
    if decisive is not None:
        tied += [
            name for name in decisive.ranked() if tied and decisive.ties(name) and name not in (verdict.best, *tied)
        ]
        for name, by in zip(decisive.mixtures, decisive.broken, strict=True):
            if not decisive.holds(name):
                left_out[name] = f"breaks the objective: {said_broken(by)}" if by else "lies outside the bounds"
    return {
        "dataset": of.dataset,
        "data": data_facts(of),
        "take": verdict.best,
        "shares": dict(of.shares.get(verdict.best, {})),
        "outcome": verdict.outcome,
        "why": verdict.why,
        "tested": verdict.tested,
        "rival": verdict.rival,
        "ties": tied,
        "gain": asdict(verdict.gain) if verdict.gain else None,
        "measured": measured_facts(of),
        "changes": changed,
        "risk": risk_facts(of, changed),
        "next": next_runs(of, harm),
        "left_out": left_out,
        "law": law_facts(of, of.optimum),
        "entropies": entropy_facts(of),
        "optimum": optimum_facts(of, of.optimum),
        "paper": [{"law": law_facts(of, name), "optimum": optimum_facts(of, name)} for name in papers],
        "by_harm": harm,
        "roles": dict(of.roles),
        "names": names_of(of),
    }


def data_facts(of: Evidence) -> dict:
    """How many mixtures were trained, the documents and tokens of each domain, where there is text; the
    date, and the commit of this code.
    """
    domains = of.fits[of.optimum].sought.fitted["domains"]
    counts = {name: {"documents": None, "tokens": None} for name in domains}
    if of.index is not None and "records" in of.index.columns:
        summed = of.index.group_by("domain").agg(pl.sum("records", "tokens"))
        counts = {name: {"documents": one, "tokens": tokens} for name, one, tokens in summed.sort("domain").iter_rows()}
    of_code = {key: value for key, value in code(()).items() if key in ("commit", "clean")}
    return {"domains": counts, "runs": of.trained, "written": date.today().isoformat(), **of_code}


def names_of(of: Evidence) -> dict[str, str]:
    """{mixture: what it is} of rules, optima and, in a corpus, of entropy mixtures and a search's."""
    laws = {name: fit.sought.fitted["law"] for name, fit in of.fits.items()}
    found = {
        name: "BiMix' optimum" if law == "bimix" else f"the optimum of the law {law}" for name, law in laws.items()
    }
    if of.model != OBSERVED:  # in a user's tables such a name says nothing
        found |= {name: f"the {kind} entropy mixture" for name, kind in ENTROPIES.items()}
        found[FOUND] = "the mixture of the search"
    found |= {name: "equal shares" if role == "equal shares" else f"the {role}" for name, role in of.roles.items()}
    return {name: said for name, said in found.items() if name in of.shares}


def measured_facts(of: Evidence) -> dict | None:
    """The runs that a reader sees, the best first: each against its reference; and `lower_percent`: how far
    the mixture to take ends below it, in percent of the higher loss of the two.
    """
    shown, take = of.shown, of.verdict.best
    if shown is None:
        return None
    runs, criterion, noise = shown.runs, shown.criterion, shown.noise
    found = {row.pop("mixture"): row for row in table(shown).select(*COLUMNS).to_dicts()}
    rows = {name: found[name] for name in shown.ranked()}
    for name, row in rows.items():
        row |= {"value": shown.value(name), "seeds": runs.seeds_of(name)}
        if take in rows:
            lead = shown.lead(take, name)
            row |= {"lower_percent": float(-np.sign(lead) * percent(-abs(lead)))}
            row |= {"lower_significant": shown.significant(take, name)}
    return {
        "model": of.shown_model,
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


def law_facts(of: Evidence, mixture: str) -> dict:
    """How many runs the law of an optimum was fitted to, and its errors: at the last evaluation (Table 2,
    the mean over mixtures and domains), on held-out mixtures (Table 3) and on runs left out.
    """
    fit = of.fits[mixture]
    law, mixtures, last, held = fit.sought.fitted["law"], fit.sought.fitted["mixtures"], None, {}
    if of.extrapolation is not None and LAWS[law].over_steps:
        # of one mixture all laws over steps are one curve, whose rows the table has once
        fitted = of.extrapolation.filter(pl.col("mixture").is_in(mixtures))
        own = fitted.filter(law=law)
        last = (own if own.height else fitted)["mean_percent"].mean()
    if of.generalization is not None:
        rows = of.generalization.filter(law=law).select("mixture", "r2_mean", "mre_mean_percent")
        held = {mixture: {"r2": r2, "error_percent": error} for mixture, r2, error in rows.iter_rows()}
    left_out = fit.promise and fit.promise.left_out
    return {
        "law": law,
        "runs": len(mixtures),
        "model": of.fitted_model,
        "last_step_percent": last,
        "held_out": held,
        "left_out_percent": None if left_out is None else 100 * left_out,
        "paper": PAPER,
    }


def entropy_facts(of: Evidence) -> dict | None:
    """Where the entropy mixtures end against the token shares on the proxy; None where neither was run. In a
    user's tables se, je, ce, vne may be anything.
    """
    ran = of.proxies.mixtures if of.proxies is not None and of.model != OBSERVED else ()
    shown = [name for name in ENTROPIES if name in ran]
    reference = next((name for name in ran if of.roles.get(name) == "token shares"), None)
    if not shown or reference is None:
        return None
    ends = {
        name: {
            "difference_percent": percent(-of.proxies.lead(name, reference)),
            "significant": of.proxies.significant(name, reference),
        }
        for name in shown
    }
    return {"model": of.asked_model, "step": of.proxies.runs.step, "reference": reference, "mixtures": ends}


def optimum_facts(of: Evidence, mixture: str) -> dict:
    """The gain of a law's optimum over the reference in percent: as predicted for the model that the law
    is read at, and as measured on the model compared. The verdict's interval of that gain, where it
    rests on one, is the one that is reported.
    """
    predicted = measured = None
    promise, target, decided = of.fits[mixture].promise, of.target, of.verdict.gain
    if promise is not None and promise.percent is not None:
        gain, low, high = promise.percent
        if decided and (decided.mixture, decided.over) == (mixture, promise.reference):
            gain, low, high = decided.percent, decided.low, decided.high
        predicted = {"model": promise.model, "step": promise.step, "reference": promise.reference}
        predicted |= {"percent": gain, "low": low, "high": high, "level": promise.level, "shrunk": promise.shrunk}
    if target is not None and mixture in target.mixtures and mixture != target.criterion.reference:
        reference, noise = target.criterion.reference, target.noise
        measured = {
            "model": of.model,
            "step": target.runs.step,
            "reference": reference,
            "percent": -percent(-target.lead(mixture, reference)),
            "significant": target.significant(mixture, reference),
            "noise_percent": None if noise is None else 100 * noise.deviation,
        }
    return {"mixture": mixture, "predicted": predicted, "measured": measured}


def risk_facts(of: Evidence, changed: Mapping | None) -> dict:
    """What may be wrong with the mixture to take: losses above the reference's, by how many percent, of the
    losses that `changed`, the text that is read more than once, and, where it was not trained, domains whose
    shares lie outside those of the runs.
    """
    rises: dict[str, float] = {}
    if of.judged is not None and changed and changed["over"] == of.judged.criterion.reference:
        losses = [column.name for column in of.judged.runs.columns if not column.metric]
        rises = {name: changed["measured"][name] for name in losses if name in changed["measured"]}
    above = {name: rises[name] for name in sorted(rises, key=rises.get, reverse=True) if rises[name] > 100 * HELD}
    shares, outside = of.shares.get(of.verdict.best, {}), []
    epochs = epochs_of(shares, of.pools, of.run_tokens)
    repeated = {name: often for name, often in epochs.items() if often > 1}
    if not of.verdict.tested:
        for name, seen in of.fits[of.optimum].sought.fitted["proportions_seen"].items():
            if not seen["min"] - OUTSIDE <= shares.get(name, 0.0) <= seen["max"] + OUTSIDE:
                outside.append(name)
    found = {"tested": of.verdict.tested, "losses": len(rises), "above_percent": above, "epochs": repeated}
    return found | {"outside": outside}


def changes(of: Evidence) -> dict | None:
    """Each loss of the mixture to take against the reference's, or, where it is that, against that of the
    mixture it was compared with: in percent, "" the average, as measured and as the law predicts it. With the
    shares of that other mixture. None where it is not known.
    """
    take, shown, sought = of.verdict.best, of.shown, of.fits[of.optimum].sought
    reference = shown.criterion.reference if shown is not None else of.verdict.gain and of.verdict.gain.over
    other = of.verdict.rival if take == reference else reference
    if take not in of.shares or other not in of.shares:
        return None
    measured, step = {}, None
    if shown is not None and {take, other} <= set(shown.mixtures):
        measured, step = loss_changes(shown, take, other), shown.runs.step
    fitted = sought.fitted
    pair = np.array([[of.shares[name].get(domain, 0.0) for domain in fitted["domains"]] for name in (take, other)])
    losses = predict_defined(fitted, pair, np.array([sought.step]))[:, 0]
    logs = np.log(np.column_stack([losses, average(losses, sought.objective.target(fitted))]))
    predicted = dict(zip([*fitted["loss_domains"], ""], (logs[0] - logs[1]).tolist(), strict=True))
    return {
        "over": other,
        "shares": dict(of.shares[other]),
        "model": of.shown_model,
        "step": step,
        "measured": measured,
        "law": fitted["law"],
        "predicted": {name: percent(by) for name, by in predicted.items() if np.isfinite(by)},
    }


def next_runs(of: Evidence, harm: Mapping) -> list[dict]:
    """What to run next, the most useful first: {do, model, mixtures, runs, steps, flops, hours}, `do` one of
    key (with which a law knows from the runs of `target` what they lose by text that is read again, as
    `sizes` lists), measure (these runs, where they lack), harm (the same at a model that was not run: the
    best rule by hand), seeds (of a tie, listed in `seeds`), train (what was only predicted), equal (shares
    that nobody ran) and larger (a model).

    `harm`: the optima by c of a larger model, where no run measures it. `model`: where the config asks for
    it, None for runs that are made elsewhere. `steps` of a run, FLOPs and hours of one device for all `runs`;
    None where they are not known.
    """
    verdict, judged, target = of.verdict, of.judged, of.target
    model = None if of.model == OBSERVED else of.model
    steps: list[dict] = []

    def add(do: str, mixtures: Sequence[str], runs: int | None = 1, **more: object) -> None:
        steps.append(
            {"do": do, "model": model, "mixtures": list(mixtures), "runs": runs} | cost_facts(of, do, runs) | more
        )

    trained = target.mixtures if target is not None else ()
    ranked = of.shown.ranked() if of.shown is not None else ()
    rules = [name for name in (*ranked, *of.shares) if wanted_rule(name)]
    if harm and of.sizes and target is not None:
        # the reference and a mixture that no law finds, since no law reads its own optimum
        plain = (name for name in (*rules, *ranked, "uniform") if not is_optimum(name) and not is_of_search(name))
        needed = [of.reference, next(name for name in plain if name != of.reference)]
        needed = [name for name in needed if name not in trained]
        add("measure" if needed else "key", needed, len(needed), sizes=list(of.sizes))
    elif harm and (verdict.promise is None or verdict.promise.model == of.model):  # else that model ran
        add("harm", [(*rules, verdict.best)[0]])
    close = verdict.outcome in ("ties", "lower") and judged is not None and verdict.rival in judged.mixtures
    if close and (verdict.seeds is not None or judged.noise is None):  # else more than are worth it
        pair = [verdict.best, verdict.rival]
        there = judged.runs.seeds_of(verdict.best)
        needed = max(verdict.seeds or LEAST_SEEDS, len(there) + 1)
        runs = sum(max(needed - len(judged.runs.seeds_of(name)), 0) for name in pair)
        add("seeds", pair, runs, seeds=seeds_to_add(there, needed), **({} if judged is target else {"model": None}))
    untrained = [] if verdict.tested else [verdict.best]
    if not set(trained) & set(of.searched):
        untrained.append(of.optimum)
    for name in dict.fromkeys(untrained):
        add("train", [name])
    roles = [of.roles.get(name) for name in (*trained, verdict.best)]
    if target is not None and "equal shares" not in roles:
        add("equal", [])
    add("larger", [verdict.best], None)
    return steps


def cost_facts(of: Evidence, do: str, runs: int | None) -> dict:
    """Steps, FLOPs and hours of a device that so many runs like those compared take, by 6 N FLOPs a token."""
    known: dict = {"steps": None, "flops": None, "device": None, "hours": None}
    if runs is None or do == "harm":  # of a model that is not chosen yet
        return known
    sought = of.fits[of.optimum].sought
    known["steps"], parameters = sought.step, size_read(sought.fitted)
    if of.shown is not None:
        known["steps"], parameters = of.shown.runs.step, of.shown.runs.parameters
    if parameters and of.run_tokens:
        known["flops"] = runs * of.run_tokens * Stated(parameters).flops_per_token(0)
        known |= {"device": of.device.name, "hours": of.device.hours(known["flops"])} if of.device else {}
    return known
