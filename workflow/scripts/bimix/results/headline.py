"""The summary's first lines: the mixture to take, why, its gain, how sure, what to do next."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bimix.judge.comparison import HELD, Comparison, column_levels, said_broken
from bimix.judge.measured import Runs
from bimix.judge.noise import MOST_SEEDS, seeds_to_add
from bimix.judge.verdict import FEW_RUNS, SHRUNK, Promise, Verdict
from bimix.results.layout import paragraph

LABEL = 11  # characters before the text of a line
OBSERVED = "observed"  # the model of losses that were measured elsewhere
OUTCOMES = {
    "wins": "{best} wins",
    "ties": "take {best}, which ties with {rival}",
    "lower": "{best} is lower than {rival}, by an unknown margin",
    "alone": "{best} is the only mixture measured",
    "promised": "{best} is predicted to be best, untested",
    "broken": "no mixture measured holds the objective",
}


@dataclass(frozen=True)
class Headline:
    """Content of the first lines.

    `target`: the runs under `compare`, of `model`; `reference`: name of the mixture of predicted
    gains; `searched`: the mixtures of searches; `places`: the file of each mixture; `moved`:
    sentences on runs that have the name of another mixture; `sizes`: on what a law over sizes was
    fitted; `weighed`: the domains that weigh; `epochs` that the run reads of each domain of the
    mixture to take, as far as known; `explore`: the page to play with; `search`: the answer of a
    search; `bound`: what is promised; `by_hand`: rules by hand that no observed run is like.
    """

    dataset: str
    verdict: Verdict
    target: Comparison | None
    model: str
    reference: str
    searched: tuple[str, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)
    moved: Sequence[str] = ()
    sizes: str = ""
    weighed: str = ""
    epochs: Mapping[str, float] = field(default_factory=dict)
    explore: str = ""
    search: str = ""
    bound: str = ""
    by_hand: Sequence[str] = ()

    @property
    def judged(self) -> Comparison | None:
        """The runs behind the verdict, where it recommends one of them."""
        return None if self.verdict.outcome == "promised" else self.verdict.measured

    @property
    def judged_model(self) -> str:
        """Of these runs."""
        promise = self.verdict.promise
        return self.model if self.judged is self.target or promise is None else promise.model


def title(page: Headline) -> str:
    """The outcome in a few words, and of which model."""
    verdict = page.verdict
    said = OUTCOMES[verdict.outcome].format(best=verdict.best, rival=verdict.rival)
    if page.judged is None:
        promise = verdict.promise
        return f"{page.dataset}: {said} ({model_name(promise.model)}, step {promise.step:,})"
    return f"{page.dataset}: {said} ({at(page.judged.runs, page.judged_model)})"


def model_name(model: str) -> str:
    return "your runs" if model == OBSERVED else model


def at(runs: Runs, model: str) -> str:
    """Model, size and step of runs."""
    size = "" if runs.parameters is None else f" of {runs.parameters:.3g} parameters"
    return f"{model_name(model)}{size}, step {runs.step:,}"


def headline(page: Headline) -> list[str]:
    """The lines under the title, but for what to do next."""
    verdict, judged = page.verdict, page.judged
    lines = _line("Mixture", f"{verdict.best}: {page.places.get(verdict.best, 'its proportions are below')}")
    lines += _line("Why", verdict.why + ".")
    if judged is not None:
        lines += _line("Measured", measured(page, judged))
    elif page.target is not None:
        order = page.target.ranked()
        gaps = ", ".join(f"{name} {page.target.value(name):.4f}" for name in order[:3])
        lines += _line(
            "Measured", f"{at(page.target.runs, page.model)}: {gaps}; no searched mixture was trained there."
        )
    lines += _line("Risk", risk(page))
    lines += _line("Weights", f"in all averages {page.weighed}, and nothing else") if page.weighed else []
    if judged is not None:
        lines += [line for text in objective(page, judged) for line in _line("Objective", text)]
    if verdict.promise is not None:
        lines += _line("Predicted", predicted(page, verdict.promise))
    lines += _line("Bound", page.bound + ".") if page.bound else []
    answer = page.search.replace("Answer: ", "The mixture found is ", 1)
    lines += _line("Search", answer) if answer else []
    lines += _line("Seen", seen(page)) if verdict.seen else []
    lines += _line("Sizes", page.sizes) if page.sizes else []
    return lines + [line for text in page.moved for line in _line("Moved", text)]


def measured(page: Headline, judged: Comparison) -> str:
    """How the mixture to take ended, next to reference, uniform, rival and the best searched."""
    best, reference, runs = page.verdict.best, judged.criterion.reference, judged.runs
    seeds = len(runs.seeds_of(best))
    text = f"{at(runs, page.judged_model)}, {f'{seeds} seeds' if seeds > 1 else 'one run'}: {value(judged, best)}, "
    searched = [name for name in judged.ranked() if name in page.searched]
    others = dict.fromkeys((reference, "uniform", page.verdict.rival, *searched[:1]))
    gaps = [gap(judged, best, name) for name in others if name in judged.mixtures and name != best]
    text += ", ".join(gaps) + ". " if gaps else "no other was measured. "
    if judged.noise is None:
        return text + "How far two runs of one mixture differ is not known here: no difference is significant."
    marked = " * significant, with 95 %." if "*" in text else " None of these is significant." if gaps else ""
    of = "" if page.judged_model == OBSERVED else f" of {page.judged_model}"
    noise = f"Noise of a run{of}, not of one evaluation: {100 * judged.noise.deviation:.2f} %"
    return f"{text}{noise} ({judged.noise.source}).{marked}"


def risk(page: Headline) -> str:
    """What may be wrong with the mixture: rises over the reference, repetition, what none tried."""
    best, judged = page.verdict.best, page.judged
    said = ["no run was trained on it"] if judged is None else []
    if judged is not None and best != judged.criterion.reference:
        ends, names = column_levels(judged.runs), judged.mixtures
        rises = np.expm1(ends[names.index(best)] - ends[names.index(judged.criterion.reference)])
        pairs = zip(rises, judged.runs.columns, strict=True)
        losses = [(by, column.name) for by, column in pairs if not column.metric]
        worse = sorted((one for one in losses if one[0] > HELD), reverse=True)
        text = f"{len(worse) or 'none'} of {len(losses)} losses end above {judged.criterion.reference}'s"
        by = f", {worse[0][1]} the most, by {two_digits(100 * worse[0][0])} %" if worse else ""
        said += [text + by] if losses else []
    most = max(page.epochs, key=page.epochs.__getitem__, default="")
    if most and page.epochs[most] > 1:
        said.append(f"the text of {most} is read {two_digits(page.epochs[most])} times")
    if judged is not None:
        said.append(f"tested on one model, {at(judged.runs, page.judged_model)}")
    return "; ".join(said) + "."


def two_digits(number: float) -> str:
    """The number to two digits, without an exponent: 1,200 and not 1.2e+03."""
    return f"{float(f'{number:.2g}'):,.15g}"


def value(judged: Comparison, name: str) -> str:
    """The last value of a mixture, in the unit of the objective."""
    if judged.criterion.kind == "minimax":
        return f"worst ratio to {judged.criterion.reference} {judged.value(name):.4f}"
    unit = judged.criterion.unit(judged.runs.columns)
    what = "average loss" if unit.startswith("nats") else "average"
    return f"{what} {judged.value(name):.4f} {unit}"


def gap(judged: Comparison, own: str, other: str) -> str:
    """By how much a mixture ends below or above another; a star where that is significant."""
    percent = 100 * math.expm1(-judged.lead(own, other))
    star = "*" if judged.significant(own, other) else ""
    shares = " (token shares)" if other == "baseline" else ""
    return f"{abs(percent):.2f} %{star} {'below' if percent < 0 else 'above'} {other}{shares}"


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
    """The prediction of the law with the least error, and the measured value."""
    span = f" ({100 * promise.level:g} % interval {{low}} to {{high}})"
    text = f"By the law {promise.law}, on {model_name(promise.model)} at step {promise.step:,}, "
    text += f"{promise.mixture} at {promise.value:.4f}"
    if promise.low is not None:
        text += span.format(low=f"{promise.low:.4f}", high=f"{promise.high:.4f}")
    target = page.target
    own = target if target is not None and promise.mixture in target.mixtures else None
    same = own is not None and page.model == promise.model and own.runs.step == promise.step
    if same:
        found = own.value(promise.mixture)
        text += f", measured {found:.4f}"
        if promise.low is not None:
            text += ", inside" if promise.low <= found <= promise.high else ", OUTSIDE"
    if promise.percent is None:
        return f"{text}; of {page.reference} the law defines no loss."
    gain, low, high = promise.percent
    text += f"; gain over {page.reference} {gain:+.2f} %"
    if low is not None:
        text += span.format(low=f"{low:+.2f}", high=f"{high:+.2f}")
    if own is not None and promise.mixture != own.criterion.reference:
        text += f", measured {-100 * math.expm1(-own.lead(promise.mixture, own.criterion.reference)):+.2f} %"
        text += "" if same else f" on {model_name(page.model)}"
    elif promise.shrunk is not None:
        text += f"; below {FEW_RUNS} runs rather {promise.shrunk:+.2f} %, {SHRUNK} of it"
    judged = page.judged
    if own is None and judged is not None and (page.judged_model, judged.runs.step) != (promise.model, promise.step):
        text += f". That is of {model_name(promise.model)}; `Measured` is of {at(judged.runs, page.judged_model)}"
    if promise.blend is not None and promise.left_out is not None and promise.blend < promise.left_out:
        text += f". A mix of laws predicts runs left out better: error {100 * promise.blend:.2f} %, of this law"
        text += f" {100 * promise.left_out:.2f} %"
    return text + "."


def seen(page: Headline) -> str:
    """Runs of the proxies that are below what the law promises."""
    promise, proxies = page.verdict.promise, page.verdict.seen
    more = f" and {len(proxies) - 1} more" if len(proxies) > 1 else ""
    advice = "take that, or add runs near it" if page.verdict.best == proxies[0] else "add runs near it, and fit again"
    return (
        f"{proxies[0]}{more}, run on {model_name(promise.model)}, ended below the {promise.value:.4f} that the law"
        f" {promise.law} promises for {promise.mixture}: {advice}."
    )


def next_steps(page: Headline) -> list[str]:
    """The next steps."""
    verdict, own = page.verdict, page.model != OBSERVED
    explore = ("Explore", f"{page.explore}, in a browser: move the shares and see what each loss does")
    steps = [explore] if page.explore else []
    steps.append(("Report", f"snakemake --report results/{page.dataset}/report.html"))
    if own and page.judged is page.target is not None:
        steps.append(
            ("Export", f"snakemake --cores all results/{page.dataset}/runs/{page.model}/{verdict.best}/export")
        )
    if verdict.outcome in ("ties", "lower") and verdict.rival:
        steps.append(("Seeds", seeds_line(page)))
    optimum = verdict.promise.mixture if verdict.promise else None
    trained = page.target is not None and any(name in page.searched for name in page.target.mixtures)
    if optimum and not trained:
        text = f"add {optimum} to `compare` in the config" if own else f"train on {optimum}, and add its losses"
        text += "" if own else f" to your tables as the mixture {optimum}"
        text += ", and call the run of that name otherwise" if page.moved else ""
        steps.append(("To test", f"{text}: how it ends is not known yet."))
    if page.target is not None and "uniform" not in page.target.mixtures:
        added = "add `uniform` to `compare` in the config" if own else "measure a run with equal proportions"
        steps.append(("To add", f"{added}: whether it ends as low is not known."))
    if page.by_hand:
        files = " ".join(f"results/{page.dataset}/mixtures/{name}.json" for name in page.by_hand)
        rules = "rules by hand: how low they end" if len(page.by_hand) > 1 else "a rule by hand: how low it ends"
        text = f"measure {' and '.join(page.by_hand)}, {rules} is not known."
        steps.append(("To add", f"{text} `snakemake --cores all {files}` writes what to train on."))
    steps.append(("Larger", "give a larger run's data loader these proportions, or `compare` a larger model."))
    return [line for label, text in steps for line in _line(label, text)]


def seeds_line(page: Headline) -> str:
    """The seeds that would make the difference to the rival significant."""
    verdict, runs = page.verdict, page.judged.runs
    there = runs.seeds_of(verdict.best)
    pair = f"{verdict.best} and {verdict.rival}"
    if verdict.seeds is None and page.judged.noise is not None:
        return f"not worth it: more than {MOST_SEEDS} seeds of each would be needed to separate {pair}."
    needed = max(verdict.seeds or 3, len(there) + 1)
    if page.model == OBSERVED or page.judged is not page.target:
        return f"{needed} seeds of {pair} each, in a column `seed`, if they differ by as much as now."
    further = ", ".join(map(str, seeds_to_add(there, needed)))
    return f"`seeds: {{{page.model}: [{further}]}}` in the config: {needed} seeds of each, if {pair} differ by as much."


def _line(label: str, text: str) -> list[str]:
    return paragraph(text, f"{label:<{LABEL}}", " " * LABEL)
