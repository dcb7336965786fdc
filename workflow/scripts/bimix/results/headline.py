"""The summary's first lines: the mixture to take, the paper's chain, the risk, what to run next; and
the lines behind them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bimix.judge.comparison import Comparison, said_broken
from bimix.judge.facts import optimum_facts, risk_facts, verdict_facts
from bimix.judge.measured import Runs
from bimix.judge.noise import MOST_SEEDS, seeds_to_add
from bimix.judge.verdict import FEW_RUNS, OBSERVED, SHRUNK, Promise, Verdict
from bimix.mixtures.names import FOUND
from bimix.results.layout import paragraph

LABEL = 11  # characters before the text of a line
TITLES = {
    "wins": "take {best}, which is below all others",
    "ties": "take {best}, which ties with {rival}",
    "untested": "take {best}; {rival}, which was not trained, is predicted to tie",
    "lower": "take {best}, which ends lowest; whether by more than noise is not known",
    "alone": "{best} is the only mixture measured",
    "promised": "take {best}, which is predicted to be best",
    "rule": "take {best}, which needs no search",
    "broken": "no mixture measured holds the objective",
}


@dataclass(frozen=True)
class Headline:
    """Content of the first lines.

    `target`: the runs under `compare`, of `model`; `reference`: name of the mixture of predicted
    gains; `law`, `entropies`, `optimum`: facts of the paper's chain (`judge.facts`); `roles`: mixtures that are token or equal shares;
    `searched`: the mixtures of searches; `places`: the file of each mixture; `moved`: sentences on
    runs that have the name of another mixture; `sizes`: on what a law over sizes was fitted;
    `weighed`: the domains that weigh; `epochs` that the run reads of each domain of the mixture to
    take, as far as known; `explore`: the page to play with; `search`: the answer of a search;
    `bound`: what is promised; `refused`: laws that were not fitted, and why.
    """

    dataset: str
    verdict: Verdict
    target: Comparison | None
    model: str
    reference: str
    law: Mapping | None = None
    entropies: Mapping | None = None
    optimum: Mapping | None = None
    roles: Mapping[str, str] = field(default_factory=dict)
    searched: tuple[str, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)
    moved: Sequence[str] = ()
    sizes: str = ""
    weighed: str = ""
    epochs: Mapping[str, float] = field(default_factory=dict)
    explore: str = ""
    search: str = ""
    bound: str = ""
    refused: Sequence[tuple[str, str]] = ()

    @property
    def judged(self) -> Comparison | None:
        """The runs behind the verdict, where it recommends one of them."""
        return self.verdict.measured if self.verdict.tested else None

    @property
    def judged_model(self) -> str:
        """Of these runs."""
        promise = self.verdict.promise
        return self.model if self.judged is self.target or promise is None else promise.model

    def facts(self) -> dict:
        """What `verdict.json` holds."""
        chain = {"law": self.law, "entropies": self.entropies, "optimum": self.optimum}
        found = verdict_facts(self.verdict, self.judged_model, self.epochs) | chain
        found["left_out"] |= dict(self.refused)
        return {"dataset": self.dataset, **found, "roles": dict(self.roles)}


def title(page: Headline) -> str:
    """What to take, whether it ties, and how it ends against the reference."""
    verdict, judged = page.verdict, page.judged
    outcome, gain = verdict.outcome, verdict.gain
    if outcome == "ties" and (judged is None or verdict.rival not in judged.mixtures):
        outcome = "untested"
    said = TITLES[outcome].format(best=named(page, verdict.best), rival=named(page, verdict.rival or ""))
    if gain is not None and outcome == "promised":
        said += f", {gain.percent:.2f} % below {than(page, gain.over)}"
    if gain is not None and outcome == "rule" and gain.percent > 0:
        said += f"; {named(page, gain.mixture)} may be {gain.percent:.2f} % lower"
    if judged is None:
        promise = verdict.promise
        return f"{page.dataset}: {said}, untested ({model_name(promise.model)}, step {promise.step:,})"
    text = f"{page.dataset}: {said} ({at(judged.runs, page.judged_model)})"
    reference = judged.criterion.reference
    ends = [f"it ends {gap(page, judged, verdict.best, reference)}"] if verdict.best != reference else []
    if outcome == "ties" and verdict.rival != reference:
        end = gap(page, judged, verdict.rival, reference)
        end = end.removesuffix(f" {than(page, reference)}") if ends else f"ends {end}"
        ends.append(f"{named(page, verdict.rival)} {end}")
    return "; ".join([text, ", ".join(ends)]) if ends else text


def named(page: Headline, name: str) -> str:
    """A mixture's name, with what it is where the name does not say it."""
    if name == FOUND:
        return f"{name}, the mixture of the search"
    role = page.roles.get(name)
    return name if role is None or (name, role) == ("uniform", "equal shares") else f"{name} ({role})"


def than(page: Headline, name: str) -> str:
    """A mixture that another is compared with: the token shares by that name."""
    return "the token shares" if (name, page.roles.get(name)) == ("baseline", "token shares") else named(page, name)


def model_name(model: str) -> str:
    return "your runs" if model == OBSERVED else model


def at(runs: Runs, model: str) -> str:
    """Model, size and step of runs."""
    size = "" if runs.parameters is None else f" of {runs.parameters:.3g} parameters"
    return f"{model_name(model)}{size}, step {runs.step:,}"


def headline(page: Headline) -> list[str]:
    """The lines under the title: the paper's chain, the risk, what to run next."""
    lines = _line("Law", law_line(page.law)) if page.law else []
    lines += _line("Entropies", entropies_line(page, page.entropies)) if page.entropies else []
    lines += _line("Optimum", optimum_line(page, page.optimum)) if page.optimum else []
    return lines + _line("Risk", risk(page)) + _line("Next", next_runs(page)[0])


def law_line(law: Mapping) -> str:
    """How well the law predicts, beside what the paper reports."""
    said, paper, held = [], law["paper"], law["held_out"]
    if law["last_step_percent"] is not None:
        said.append(
            f"error at the last evaluation {law['last_step_percent']:.2f} % (the paper: below"
            f" {paper['last_step_percent']:g} %)"
        )
    if held:
        on = next(iter(held)) if len(held) == 1 else f"{len(held)} held-out mixtures"
        r2 = [one["r2"] for one in held.values() if one["r2"] is not None]
        score = f"R2 on {on} {np.mean(r2):.3f} (the paper: above {paper['r2']:g}), its" if r2 else f"on {on} the"
        said.append(f"{score} error {np.mean([one['error_percent'] for one in held.values()]):.2f} %")
    elif law["left_out_percent"] is not None:
        said.append(f"error on runs left out of the fit {law['left_out_percent']:.2f} %")
    said = said or ["its error is not known"]
    return f"{law['law']}, fitted to {law['runs']} runs ({model_name(law['model'])}): {'; '.join(said)}."


def entropies_line(page: Headline, entropies: Mapping) -> str:
    """Where each entropy mixture ends against the token shares, beside what the paper reports."""
    ends = [
        f"{name} {one['difference_percent']:+.2f} %{'*' if one['significant'] else ''}"
        for name, one in entropies["mixtures"].items()
    ]
    against = than(page, entropies["reference"])
    where = f"{model_name(entropies['model'])}, step {entropies['step']:,}"
    return f"{', '.join(ends)} against {against} on {where} (the paper: all below, ce lowest)."


def optimum_line(page: Headline, optimum: Mapping) -> str:
    """The gain of a law's optimum, predicted for the proxy and measured at the target."""
    predicted, measured, said = optimum["predicted"], optimum["measured"], []
    gain = page.verdict.gain
    if predicted:
        own = gain is not None and (gain.mixture, gain.over) == (optimum["mixture"], predicted["reference"])
        middle, *ends = (
            (gain.percent, gain.low, gain.high) if own else (predicted[key] for key in ("percent", "low", "high"))
        )
        span = "" if None in ends else f" ({ends[0]:+.2f} to {ends[1]:+.2f}, {100 * predicted['level']:.0f} %)"
        where = f"{model_name(predicted['model'])} at step {predicted['step']:,}"
        said.append(f"predicted for {where} {middle:+.2f} %{span}")
    if measured:
        noise = measured["noise_percent"]
        known = "the noise of a run is not known" if noise is None else f"noise of a run {noise:.2f} %"
        star = "*" if measured["significant"] else ""
        where = f"{model_name(measured['model'])} at step {measured['step']:,}"
        said.append(f"measured on {where} {measured['percent']:+.2f} %{star} ({known})")
    elif optimum["mixture"] != page.reference:
        rather = predicted and predicted["shrunk"]
        few = f"; from fewer than {FEW_RUNS} runs expect {rather:+.2f} %, {SHRUNK} of it" if rather else ""
        said.append(f"not trained{'' if page.model == OBSERVED else f' on {page.model}'} yet{few}")
    reference = (predicted or measured or {}).get("reference")
    over = f" over {than(page, reference)}" if reference else ""
    return f"gain of {optimum['mixture']}{over}: {'; '.join(said)}."


def reasons(page: Headline) -> list[str]:
    """The lines behind the first ones: file, reason, what was measured, what else there is to do."""
    verdict, judged = page.verdict, page.judged
    lines = _line("Mixture", f"{verdict.best}: {page.places.get(verdict.best, 'its proportions are below')}")
    lines += _line("Why", verdict.why + ".")
    if judged is not None:
        lines += _line("Measured", measured(page, judged))
    elif page.target is not None:
        gaps = ", ".join(f"{name} {page.target.value(name):.4f}" for name in page.target.ranked()[:3])
        lines += _line("Measured", f"{at(page.target.runs, page.model)}: {gaps}; {verdict.best} was not trained.")
    lines += _line("Weights", f"in all averages {page.weighed}, and nothing else") if page.weighed else []
    if judged is not None:
        lines += [line for text in objective(page, judged) for line in _line("Objective", text)]
    lines += _line("Bound", page.bound + ".") if page.bound else []
    lines += _line("Search", page.search.removeprefix("Answer: ")) if page.search else []
    lines += _line("Sizes", page.sizes) if page.sizes else []
    lines += [line for text in page.moved for line in _line("Moved", text)]
    return lines + [line for text in next_runs(page)[1:] for line in _line("Then", text)]


def measured(page: Headline, judged: Comparison) -> str:
    """How the mixture to take ended, next to reference, equal shares, rival and the best searched."""
    best, reference, runs = page.verdict.best, judged.criterion.reference, judged.runs
    seeds, order = len(runs.seeds_of(best)), judged.ranked()
    text = (
        f"{at(runs, page.judged_model)}, {f'{seeds} seeds' if seeds > 1 else 'one run'}: {value(page, judged, best)}, "
    )
    equal = [name for name in order if page.roles.get(name) == "equal shares"]
    searched = [name for name in order if name in page.searched]
    others = dict.fromkeys((reference, *equal[:1], page.verdict.rival, *searched[:1]))
    others = [name for name in others if name in judged.mixtures and name != best]
    gaps = [gap(page, judged, best, name) for name in others or [name for name in order if name != best][:1]]
    text += ", ".join(gaps) + ". " if gaps else "no other was measured. "
    if judged.noise is None:
        return text + "How far two runs of one mixture differ is not known here: no difference is significant."
    marked = " * significant, with 95 %." if "*" in text else " None of these is significant." if gaps else ""
    return f"{text}Noise of a run: {100 * judged.noise.deviation:.2f} % ({judged.noise.source}).{marked}"


def risk(page: Headline) -> str:
    """What may be wrong with the mixture: rises over the reference, repetition, what none tried."""
    judged, found = page.judged, risk_facts(page.verdict, page.judged, page.epochs)
    said = ["no run was trained on it"] if judged is None else []
    if found["losses"]:
        above = found["above_percent"]
        text = f"{len(above) or 'none'} of {found['losses']} losses end above those of {than(page, judged.criterion.reference)}"
        worst = next(iter(above), None)
        said.append(text + (f", {worst} the most, by {two_digits(above[worst])} %" if worst else ""))
    most = max(found["epochs"], key=found["epochs"].get, default=None)
    if most:
        said.append(f"the text of {most} is read {two_digits(found['epochs'][most])} times")
    if judged is not None:
        said.append(f"tested on one model, {at(judged.runs, page.judged_model)}")
    return "; ".join(said) + "."


def two_digits(number: float) -> str:
    """The number to two digits, without an exponent: 1,200 and not 1.2e+03."""
    return f"{float(f'{number:.2g}'):,.15g}"


def value(page: Headline, judged: Comparison, name: str) -> str:
    """The last value of a mixture, in the unit of the objective."""
    if judged.criterion.kind == "minimax":
        return f"worst ratio to {than(page, judged.criterion.reference)} {judged.value(name):.4f}"
    unit = judged.criterion.unit(judged.runs.columns)
    what = "average loss" if unit.startswith("nats") else "average"
    return f"{what} {judged.value(name):.4f} {unit}"


def gap(page: Headline, judged: Comparison, own: str, other: str) -> str:
    """By how much a mixture ends below or above another; a star where that is significant."""
    percent = 100 * math.expm1(-judged.lead(own, other))
    star = "*" if judged.significant(own, other) else ""
    return f"{abs(percent):.2f} %{star} {'below' if percent < 0 else 'above'} {than(page, other)}"


def objective(page: Headline, judged: Comparison) -> list[str]:
    """Of `no_worse_than` who holds it: of the mixture to take and the searched ones."""
    judging = judged.criterion
    if judging.kind != "no_worse_than":
        return []
    asked = f"no loss more than {100 * judging.margin:.3g} % above {judging.reference}'s" if judging.margin else ""
    asked = asked or f"no loss above {judging.reference}'s"
    names = dict.fromkeys((page.verdict.best, *(name for name in judged.mixtures if name in page.searched)))
    parts = []
    for name in names:
        by = judged.broken[judged.mixtures.index(name)]
        parts.append(f"{name} broken: {said_broken(by)} above that" if by else f"{name} held")
    return [f"{asked}: {'; '.join(parts)}."]


def predicted(page: Headline, promise: Promise) -> str:
    """A law's prediction of its optimum, with the gain, and a remark where a mix of laws errs less."""
    text = f"Predicted by {promise.law} for {model_name(promise.model)} at step {promise.step:,}: {promise.value:.4f}"
    if promise.low is not None:
        text += f" ({promise.low:.4f} to {promise.high:.4f}, {100 * promise.level:g} %)"
    facts = optimum_facts(promise.mixture, promise, page.target, page.model)
    text += f"; {optimum_line(page, facts)}"
    if promise.blend is not None and promise.left_out is not None and promise.blend < promise.left_out:
        text += f" A mix of laws predicts runs left out better: error {100 * promise.blend:.2f} %, of this law"
        text += f" {100 * promise.left_out:.2f} %."
    return text


def next_runs(page: Headline) -> list[str]:
    """What to run next, the most useful first."""
    verdict, own, target = page.verdict, page.model != OBSERVED, page.target
    said, close = [], verdict.outcome in ("ties", "lower") and page.judged is not None
    close = close and verdict.rival in page.judged.mixtures
    worth = close and (verdict.seeds is not None or page.judged.noise is None)
    said += [seeds_line(page)] if worth else []
    trained = target is not None and any(name in page.searched for name in target.mixtures)
    optimum = page.optimum["mixture"] if page.optimum and not trained else None
    for name in dict.fromkeys([*([] if verdict.tested else [verdict.best]), *([optimum] if optimum else [])]):
        text = f"add {name} to `compare` in the config" if own else f"train on {name}, and add its losses"
        text += "" if own else f" to your tables as the mixture {name}"
        text += ", and call the run of that name otherwise" if page.moved else ""
        said.append(f"{text}: how it ends is not known yet.")
    roles = [page.roles.get(name) for name in target.mixtures] if target is not None else ["equal shares"]
    if "equal shares" not in roles and page.roles.get(verdict.best) != "equal shares":
        added = "add `uniform` to `compare` in the config" if own else "measure a run with equal shares"
        said.append(f"{added}: whether it ends as low is not known.")
    said.append("give a larger run's data loader these proportions, or `compare` a larger model.")
    return said if worth or not close else [*said, seeds_line(page)]


def files(page: Headline) -> list[str]:
    """Pages to open, and what writes the mixture for another trainer."""
    text = f"{page.explore}, in a browser: move the shares and see what each loss does"
    lines = _line("Explore", text) if page.explore else []
    lines += _line("Report", f"snakemake --report results/{page.dataset}/report.html")
    if page.model != OBSERVED and page.judged is page.target is not None:
        run = f"results/{page.dataset}/runs/{page.model}/{page.verdict.best}"
        lines += _line("Export", f"snakemake --cores all {run}/export")
    return lines


def seeds_line(page: Headline) -> str:
    """The seeds that would make the difference to the rival significant."""
    verdict, runs = page.verdict, page.judged.runs
    there = runs.seeds_of(verdict.best)
    pair = f"{verdict.best} and {verdict.rival}"
    if verdict.seeds is None and page.judged.noise is not None:
        return f"no further seeds: more than {MOST_SEEDS} of each would be needed to separate {pair}."
    needed = max(verdict.seeds or 3, len(there) + 1)
    if page.model == OBSERVED or page.judged is not page.target:
        return f"{needed} seeds of {pair} each, in a column `seed`, if they differ by as much as now."
    further = ", ".join(map(str, seeds_to_add(there, needed)))
    return f"`seeds: {{{page.model}: [{further}]}}` in the config: {needed} seeds of each, if {pair} differ by as much."


def _line(label: str, text: str) -> list[str]:
    return paragraph(text, f"{label:<{LABEL}}", " " * LABEL)
