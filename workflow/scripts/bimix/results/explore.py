"""The page to play with: one file of HTML in which a person moves the shares and sees what the
fitted laws predict.

The numbers are computed in the browser, by `explore_page/laws.js`, from the laws' own JSON. Nothing
is loaded from elsewhere.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bimix.laws.fitted import FAR_AHEAD
from bimix.laws.table import LAWS
from bimix.optimum.goal import Goal
from bimix.optimum.objective import Objective

PAGE = Path(__file__).parent / "explore_page"
DRAWN = tuple(name for name, law in LAWS.items() if law.drawn)  # by laws.js
FAR = 0.3  # total variation from all runs, beyond which the page calls a mixture far


@dataclass(frozen=True)
class Explored:
    """What a law brings to the page: the name of its mixture, the law at its run, its intervals (of
    `estimate_intervals.py`; may be empty).
    """

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
    title: str,
    laws: Sequence[Explored],
    mixtures: Mapping[str, Mapping[str, float]],
    runs: Mapping[str, Mapping[str, float]],
    reference: str,
    start: str,
    objective: Objective,
    step: int,
    bounds: tuple[np.ndarray, np.ndarray],
    pools: Mapping[str, float] | None,
    run_tokens: float | None,
    level: float | None,
) -> str:
    """The page. `mixtures` are its buttons, `runs` those that were fitted; laws that are no formula
    are left out, their optima stay.
    """
    drawn = [one for one in laws if one.fitted["law"] in DRAWN]
    domains = list(drawn[0].fitted["domains"])
    goal = Goal(dict(drawn[0].fitted), step, objective, pools)
    first = next(iter(drawn[0].fitted["coefficients"].values()))
    run = first.get("run") or {}
    tokens = run.get("tokens") or run_tokens
    unit = "metrics" if set(drawn[0].fitted.get("metrics", ())) >= set(goal.names) else "nats per token"
    data = {
        "domains": domains,
        "losses": list(drawn[0].fitted["loss_domains"]),
        "laws": [_law(one, objective) for one in drawn],
        "mixtures": {name: _whole(own, domains) for name, own in mixtures.items()},
        "runs": {name: _whole(own, domains) for name, own in runs.items()},
        "reference": reference,
        "start": start,
        "objective": {
            "kind": objective.kind,
            "weights": dict(zip(goal.names, goal.weights.tolist(), strict=True)),
            "groups": goal.groups,
            "reference": None if goal.reference is None else dict(zip(domains, goal.reference.tolist(), strict=True)),
            "penalty": objective.kl_penalty,
            "most": objective.most_kl,
            "centre": None if goal.centre is None else dict(zip(domains, goal.centre.tolist(), strict=True)),
        },
        "bounds": {name: [float(low), float(high)] for name, low, high in zip(domains, *bounds, strict=True)},
        "run": {
            "step": step,
            "parameters": run.get("parameters"),
            "tokens": tokens,
            "pools": {name: float(pools[name]) for name in domains if pools.get(name)} if pools and tokens else None,
        },
        "horizon": FAR_AHEAD,
        "level": f"{100 * level:.0f} %" if level else "",
        "far": FAR,
    }
    others = sorted({one.fitted["law"] for one in laws} - set(DRAWN))
    kind = {"minimax": "Worst ratio to the reference", "no_worse_than": "Average", "weighted": "Average"}[
        objective.kind
    ]
    environment = Environment(loader=FileSystemLoader(PAGE), autoescape=True, undefined=StrictUndefined)
    scripts = {
        name: Markup(environment.loader.get_source(environment, f"{name}.js")[0]) for name in ("laws", "explore")
    }
    return environment.get_template("page.html.j2").render(
        title=title,
        about="Move a share: the open ones keep their ratios. The laws are fitted to small runs; the interval is that of"
        " a run which the law has not seen."
        + (f" {', '.join(others)} is no formula: only its optimum is here." if others else ""),
        objective=kind + (" of the wanted losses" if len(goal.names) < len(data["losses"]) else "") + f" ({unit})",
        losses=f"Predicted losses ({unit})",
        level=f"{100 * level:.0f} % interval" if level else "interval",
        reference=reference,
        data=_embedded(data),
        scripts=scripts,
    )


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
        "limits": dict(zip(names, objective.limits(one.fitted, names).tolist(), strict=True)),
    }


def _whole(shares: Mapping[str, float], domains: Sequence[str]) -> dict[str, float]:
    return {name: float(shares.get(name, 0.0)) for name in domains}


def _embedded(data: Mapping) -> Markup:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))
