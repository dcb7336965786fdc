"""The page to play with: one file of HTML in which a person moves the shares and sees what the
fitted laws predict.

The numbers are computed in the browser, by `explore_page/laws.js`, from the laws' own JSON. Nothing
is loaded from elsewhere.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bimix.errors import InputError
from bimix.exports.formats import FORMATS
from bimix.exports.write import blanks
from bimix.laws.fitted import FAR_AHEAD
from bimix.laws.table import LAWS
from bimix.optimum.flags import asked_objective, limits_of, pools_of
from bimix.optimum.goal import Goal
from bimix.optimum.objective import Objective
from bimix.optimum.optimum import Sought
from bimix.transfer.unseen import SEEN, basis, unseen

PAGE = Path(__file__).parent / "explore_page"
DRAWN = tuple(name for name, law in LAWS.items() if law.drawn)  # by laws.js
FIRST = ("Mixture", "Why", "Measured", "Risk")  # of the summary's lines; the page folds the others
FAR = 0.3  # total variation from all runs, beyond which the page calls a mixture far


@dataclass(frozen=True)
class Explored:
    """A law on the page: its mixture's name, the law at its run, and its intervals, if any."""

    name: str
    fitted: Mapping
    intervals: pl.DataFrame

    def spread(self) -> tuple[dict[str, tuple[float, float]], tuple[float, float] | None]:
        """The ends of an interval over its estimate, by loss and of the average: those of runs left
        out, which are the same at every mixture.
        """
        rows = self.intervals.filter(pl.col("kind") == "left_out", pl.col("estimate") > 0).drop_nulls("low")
        ends = (pl.col("low") / pl.col("estimate"), pl.col("high") / pl.col("estimate"))
        by_loss = rows.filter(pl.col("quantity") == "loss").group_by("domain").agg(*(one.median() for one in ends))
        average = rows.filter(pl.col("quantity") == "average_loss").select(*(one.median() for one in ends)).row(0)
        return {name: (low, high) for name, low, high in by_loss.iter_rows()}, None if None in average else average

    def ahead(self) -> tuple[dict[str, float], float]:
        """By how much the log of an end moves per unit of log(steps) beyond the last step fitted,
        by loss and of the average; nothing where that is not known.
        """
        rows = self.intervals.filter(pl.col("quantity") == "ahead").select("domain", "estimate").iter_rows()
        rates = dict(rows)
        return {name: rate for name, rate in rates.items() if name is not None}, rates.get(None, 0.0)


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
) -> str:
    """The page of fitted laws, {mixture: law}, the first one shown first; laws that are no formula
    are left out, their optima stay, and without any it predicts nothing.

    `options`: flags of what is sought, as of `Sought.of`; `spans`: intervals of the laws;
    `mixtures`, with rules by hand, have a button; `ran`: all runs; without a `step` it is the last
    one fitted. `model`: what is predicted; `said`: labels and texts above, what is recommended and
    why.
    """
    objective, tokens, run_tokens = asked_objective(options), pools_of(options) or {}, options.run_tokens
    formulas = {name: law for name, law in laws.items() if law["law"] in DRAWN}
    if formulas:
        step = step or next(iter(formulas.values()))["steps"][-1]
        sought = {name: Sought.of(options, law, step) for name, law in formulas.items()}
        drawn = [Explored(name, one.fitted, spans.filter(law=one.fitted["law"])) for name, one in sought.items()]
        first = next(iter(sought.values()))
        domains, bounds, run_tokens = tuple(first.fitted["domains"]), (first.lower, first.upper), first.run_tokens
        names, goal = _goal(first.goal)
    else:
        drawn, domains, names, goal = [], tuple(mixtures[reference]), [], {}
        ends = zip(limits_of(options), (0.0, 1.0), strict=True)
        bounds = [np.array([own.get(name, end) for name in domains]) for own, end in ends]
    losses = list(drawn[0].fitted["loss_domains"]) if drawn else []
    if start not in mixtures:
        raise InputError(f"--start is {start!r}: it must be one of {', '.join(mixtures)}.")
    fitted_runs = next(iter(laws.values()))["mixtures"] if laws else ()
    level = spans["level"][0] if spans.height else None
    run = next(iter(drawn[0].fitted["coefficients"].values())).get("run") or {} if drawn else {}
    run_tokens = run.get("tokens") or run_tokens
    unit = "metrics" if drawn and set(drawn[0].fitted.get("metrics", ())) >= set(names) else "nats per token"
    data = {
        "domains": domains,
        "losses": losses,
        "laws": [_law(one, objective) for one in drawn],
        "mixtures": {name: _whole(own, domains) for name, own in mixtures.items()},
        "runs": {name: _whole(own, domains) for name, own in ran.items() if name in fitted_runs},
        "reference": reference,
        "start": start,
        "objective": {"kind": objective.kind} | goal,
        "bounds": {name: [float(low), float(high)] for name, low, high in zip(domains, *bounds, strict=True)},
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


def _goal(goal: Goal) -> tuple[list[str], dict]:
    """The losses that weigh, and what the page minimises."""
    weights = dict(zip(goal.names, goal.weights.tolist(), strict=True))
    own = goal.reference
    reference = None if own is None else dict(zip(goal.fitted["domains"], own.tolist(), strict=True))
    return goal.names, {"weights": weights, "groups": goal.groups, "reference": reference}


def _law(one: Explored, objective: Objective) -> dict:
    keys = ("law", "domains", "loss_domains", "steps", "coefficients")
    (spread, average), (ahead, together) = one.spread(), one.ahead()
    names = one.fitted["loss_domains"]
    return {
        "name": one.name,
        "fitted": {key: one.fitted[key] for key in keys},
        "spread": spread,
        "average": average,
        "ahead": ahead,
        "ahead_of_average": together,
        "unseen": unseen(one.fitted),
        "basis": basis(one.fitted),
        "limits": dict(zip(names, objective.limits(one.fitted, names).tolist(), strict=True)),
    }


def _whole(shares: Mapping[str, float], domains: Sequence[str]) -> dict[str, float]:
    return {name: float(shares.get(name, 0.0)) for name in domains}


def _embedded(data: Mapping) -> Markup:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))
