"""The page to play with: one file of HTML in which a person moves the shares and sees what the
fitted laws predict.

The numbers are computed in the browser, by `explore_page/laws.js`, from the laws' own JSON. Nothing
is loaded from elsewhere.
"""

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bimix.errors import InputError
from bimix.exports.formats import FORMATS
from bimix.exports.write import blanks
from bimix.judge.facts import Evidence
from bimix.laws.fitted import FAR_AHEAD
from bimix.laws.table import LAWS
from bimix.optimum.flags import asked_objective, limits_of, pools_of
from bimix.optimum.goal import Goal
from bimix.optimum.optimum import Sought
from bimix.results.headline import behind_lines, five_lines, model_name, with_name
from bimix.results.summary import Summary
from bimix.transfer.unseen import SEEN, basis, unseen

PAGE = Path(__file__).parent / "explore_page"
DRAWN = tuple(name for name, law in LAWS.items() if law.drawn)  # by laws.js
FIRST = ("Take", "Gain", "Risk", "Next")  # of the summary's lines; the page folds the others
FAR = 0.3  # total variation from all runs, beyond which the page calls a mixture far


def page(
    options: argparse.Namespace,
    title: str,
    laws: Mapping[str, dict],
    spans: pl.DataFrame,
    mixtures: Mapping[str, Mapping[str, float]],
    ran: Mapping[str, Mapping[str, float]],
    reference: str,
    start: str,
    step: int | None,
    model: str = "your runs",
    said: Sequence[tuple[str, str]] = (),
    labels: Mapping[str, str] | None = None,
) -> str:
    """The page of fitted laws, {mixture: law}, the first one shown first; laws that are no formula
    are left out, their optima stay, and without any it predicts nothing.

    `options`: flags of what is sought, as of `Sought.of`; `spans`: intervals of the laws;
    `mixtures`, with rules by hand, have a button; `ran`: all runs; without a `step` it is the last
    one fitted. `model`: what is predicted; `said`: labels and texts above, what is recommended and
    why; `labels` {mixture: text of its button}, else its name.
    """
    objective, tokens, run_tokens = asked_objective(options), pools_of(options) or {}, options.run_tokens
    least, upper = limits_of(options)
    formulas = {name: law for name, law in laws.items() if law["law"] in DRAWN}
    step = step or next((law["steps"][-1] for law in formulas.values()), None)
    drawn = {name: Sought.of(options, law, step) for name, law in formulas.items()}
    if drawn:
        first = next(iter(drawn.values()))
        fitted, lower, run_tokens = first.fitted, first.lower, first.run_tokens
        domains, (names, goal) = tuple(fitted["domains"]), _goal(first.goal)
        run = next(iter(fitted["coefficients"].values())).get("run") or {}
    else:
        domains, fitted, names, goal, run = tuple(mixtures[reference]), {}, [], {}, {}
        lower = np.array([least.get(name, 0.0) for name in domains])
    losses = list(fitted.get("loss_domains", ()))
    if start not in mixtures:
        raise InputError(f"--start is {start!r}: it must be one of {', '.join(mixtures)}.")
    fitted_runs = next(iter(laws.values()))["mixtures"] if laws else ()
    level = spans["level"][0] if spans.height else None
    run_tokens = run.get("tokens") or run_tokens
    unit = "metrics" if drawn and set(fitted.get("metrics", ())) >= set(names) else "nats per token"
    data = {
        "domains": domains,
        "losses": losses,
        "laws": [_law(name, one, spans) for name, one in drawn.items()],
        "mixtures": {name: _whole(own, domains) for name, own in mixtures.items()},
        "runs": {name: _whole(own, domains) for name, own in ran.items() if name in fitted_runs},
        "labels": dict(labels or {}),
        "reference": reference,
        "start": start,
        "objective": {"kind": objective.kind} | goal,
        "bounds": {name: [float(low), float(upper.get(name, 1.0))] for name, low in zip(domains, lower, strict=True)},
        "max_epochs": options.max_epochs if options.max_epochs not in (None, float("inf")) else None,
        "run": {
            "step": step,
            "parameters": run.get("parameters"),
            "tokens": run_tokens,
            "pools": {name: float(tokens[name]) for name in domains if run_tokens and tokens.get(name)} or None,
        },
        "horizon": FAR_AHEAD,
        "level": f"{100 * level:.0f} %" if level else "",
        "far": FAR,
        "seen": SEEN,
        "exports": {name: {"ending": FORMATS[name].ending, "text": text} for name, text in blanks(domains).items()},
    }
    others = sorted({law["law"] for law in laws.values()} - set(DRAWN))
    about = "Move a share: the open ones keep their ratios."
    about += (
        f" The numbers are predicted for {model}; the interval is that of a run which the law has not seen."
        if drawn
        else " No law here can be computed by a browser: the page predicts nothing."
    )
    about += f" {', '.join(others)} is no formula: only its optimum is here." if others else ""
    even = len(set(objective.domain_weights().values())) < 2
    kind = "worst ratio to the reference" if objective.kind == "minimax" else "average" if even else "weighted average"
    environment = Environment(loader=FileSystemLoader(PAGE), autoescape=True, undefined=StrictUndefined)
    scripts = {
        name: Markup(environment.loader.get_source(environment, f"{name}.js")[0]) for name in ("laws", "explore")
    }
    return environment.get_template("page.html.j2").render(
        title=title,
        said=said,
        first=FIRST,
        about=about,
        predicts=bool(drawn),
        objective=kind + (" of the wanted losses" if len(names) < len(losses) else "") + f" ({unit})",
        losses=f"Predicted losses ({unit})",
        level=f"{100 * level:.0f} % interval" if level else "interval",
        reference=reference,
        data=_embedded(data),
        scripts=scripts,
    )


def verdict_page(
    options: argparse.Namespace,
    of: Evidence,
    summary: Summary,
    spans: pl.DataFrame,
    ran: Mapping[str, Mapping[str, float]],
    shown: Iterable[str] = (),
) -> str:
    """The page next to a verdict, open at the mixture to take and the law with the least error, with buttons
    for the reference, the laws' optima and the `shown`.
    """
    facts = summary.facts
    said = [*five_lines(facts, summary.pages), *behind_lines(facts, summary.remarks)]
    laws = sorted(of.fits, key=lambda name: name != of.trusted)
    buttons = dict.fromkeys((of.reference, facts["take"], *of.fits, *shown))
    return page(
        options,
        title=f"{facts['dataset']}: the mixture to take, and others to try",
        laws={name: of.fits[name].sought.fitted for name in laws},
        spans=spans,
        mixtures={name: of.shares[name] for name in buttons if name in of.shares},
        ran=ran,
        reference=of.reference,
        start=facts["take"],
        step=of.fits[of.trusted].sought.step,
        model=model_name(of.asked_model),
        said=[(label, text.replace("`", "")) for label, text in said],
        labels={name: with_name(facts, name) for name in facts["roles"]},
    )


def _goal(goal: Goal) -> tuple[list[str], dict]:
    """The losses that weigh, and what the page minimises."""
    weights = dict(zip(goal.names, goal.weights.tolist(), strict=True))
    own = goal.reference
    reference = None if own is None else dict(zip(goal.fitted["domains"], own.tolist(), strict=True))
    return goal.names, {"weights": weights, "groups": goal.groups, "reference": reference}


def _law(name: str, sought: Sought, spans: pl.DataFrame) -> dict:
    """A law and its intervals: their ends over the estimate by loss, medians over the mixtures, and of
    the objective at the law's optimum, by runs left out; and by how much the log of an end moves per unit
    of log(steps) beyond the last step fitted.
    """
    fitted, own = sought.fitted, spans.filter(pl.col("law") == sought.fitted["law"])
    rows = own.filter(pl.col("kind") == "left_out", pl.col("estimate") > 0).drop_nulls("low")
    ends = [(pl.col(end) / pl.col("estimate")).median() for end in ("low", "high")]
    each = rows.filter(pl.col("quantity") == "loss").group_by("domain", maintain_order=True).agg(*ends)
    quantity = "worst_ratio" if sought.objective.kind == "minimax" else "optimum_average_loss"
    average = rows.filter(pl.col("quantity") == quantity).select(*ends).row(0)
    ahead = dict(own.filter(pl.col("quantity") == "ahead").select("domain", "estimate").iter_rows())
    names = fitted["loss_domains"]
    return {
        "name": name,
        "fitted": {key: fitted[key] for key in ("law", "domains", "loss_domains", "steps", "coefficients")},
        "spread": {domain: pair for domain, *pair in each.iter_rows()},
        "average": None if None in average else average,
        "ahead": {domain: rate for domain, rate in ahead.items() if domain is not None},
        "ahead_of_average": ahead.get(None, 0.0),
        "unseen": unseen(fitted),
        "basis": basis(fitted),
        "limits": dict(zip(names, sought.objective.limits(fitted, names).tolist(), strict=True)),
    }


def _whole(shares: Mapping[str, float], domains: Sequence[str]) -> dict[str, float]:
    return {name: float(shares.get(name, 0.0)) for name in domains}


def _embedded(data: Mapping) -> Markup:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))
