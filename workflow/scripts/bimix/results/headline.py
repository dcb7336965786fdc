"""The first lines of the summary: the mixture to take, what it was measured to gain, how sure that
is, what to do next.

A difference between two mixtures counts where it is at least twice its spread, else it is a tie.
The spread comes from several seeds of a mixture or, where there are none, from the scatter of the
evaluations of one run.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from bimix.plan.laws import LAWS
from bimix.plan.sources import REWEIGHTING
from bimix.results.layout import paragraph
from bimix.results.verdict import Spread, Verdict

LABEL = 11  # characters before the text of a line
MANY = 50  # seeds, more than which nobody will train
OUTCOMES = {
    "wins": "{own} wins",
    "ties": "a tie of {own} and {rival}",
    "loses": "{rival} is better than {own}",
    "untested": "the optimum of the law {own} was not trained on",
}


@dataclass(frozen=True)
class Prediction:
    """What a law predicts for its optimum: average loss and gain over the reference in nats, each
    with its interval.

    `level` of the intervals, whose ends are None where too few runs tell them. `same_runs`: the
    losses were measured on the model that the law was fitted on, at the step predicted, and
    averaged in the same way.
    """

    model: str
    step: int
    loss: float
    low: float | None
    high: float | None
    gain: float | None
    gain_low: float | None
    gain_high: float | None
    level: float
    same_runs: bool

    @property
    def percent(self) -> tuple[float, float | None, float | None] | None:
        """The gain and its interval in percent of the reference's loss; None where the law defines
        none.
        """
        if self.gain is None:
            return None
        reference = self.loss + self.gain
        ends = (end if end is None else 100 * end / reference for end in (self.gain_low, self.gain_high))
        return 100 * self.gain / reference, *ends


def predicted(spans: pl.DataFrame, reference: str, model: str, same_runs: bool) -> Prediction | None:
    """The prediction in the intervals of one law, in the columns of INTERVALS; None where they have
    none.
    """
    best = spans.filter(pl.col("quantity") == "optimum_average_loss").to_dicts()
    gains = spans.filter((pl.col("quantity") == "gain") & (pl.col("mixture") == reference)).to_dicts()
    if not best:
        return None
    loss, gain = best[0], gains[0] if gains else dict.fromkeys(("estimate", "low", "high"))
    ends = (loss["low"], loss["high"], gain["estimate"], gain["low"], gain["high"])
    return Prediction(model, loss["step"], loss["estimate"], *ends, loss["level"], same_runs)


def title(dataset: str, verdict: Verdict) -> str:
    """What came out, in a few words."""
    return f"{dataset}: {OUTCOMES[verdict.outcome].format(own=verdict.own, rival=verdict.rival)}"


def headline(
    verdict: Verdict,
    runs: pl.DataFrame,
    spread: Spread,
    reference: str,
    model: str,
    prediction: Prediction | None,
    places: Mapping[str, str],
    same: Mapping[str, str],
    following: list[tuple[str, str]],
    over_sizes: str = "",
    weighed: str = "",
) -> list[str]:
    """The lines under the title.

    `runs` as `comparison.compare` gives them, of `model`; `prediction` is that of the law of
    `verdict.own`. `places` has the file of each mixture, `same` the laws that found what another
    had found, `following` labels and what to do, `over_sizes` what a law over sizes was fitted on,
    `weighed` the domains that weigh in averages, where not all weigh the same.
    """
    lines = _line("Mixture", f"{verdict.best}: {places[verdict.best]}")
    if verdict.outcome != "untested":
        rows = {row["mixture"]: row for row in runs.iter_rows(named=True)}
        lines += _line("Measured", measured(verdict, rows, spread, reference, model))
        lines += _line("Weights", f"in all averages {weighed}, and nothing else") if weighed else []
        if verdict.best != reference:
            lines += _line("Steps", saved(rows[verdict.best], reference))
    if prediction is not None:
        own = runs.filter(pl.col("mixture") == verdict.own).to_dicts()
        lines += _line("Predicted", beside(prediction, verdict.own, own[0] if own else None, reference))
    lines += _line("Sizes", over_sizes) if over_sizes else []
    for name, other in same.items():
        lines += _line(
            "Same", f"{name} found the mixture of {other} to four digits: all that is said of {other} holds."
        )
    for label, text in following:
        lines += _line(label, text)
    return lines


def measured(verdict: Verdict, rows: Mapping[str, dict], spread: Spread, reference: str, model: str) -> str:
    """How the mixture to take ended, beside token shares, uniform and the best of those that no law
    optimised.
    """
    best = rows[verdict.best]
    seeds = f"mean of {best['runs']} seeds" if best["runs"] > 1 else "one run"
    text = f"{model}, {best['step']:,} steps, {seeds}: average loss {best['average_loss']:.4f} nats a token, "
    others = [name for name in dict.fromkeys((reference, "uniform", verdict.rival)) if name in rows]
    others += [verdict.own] if verdict.outcome == "loses" else []
    gaps = [
        gap(best, rows[name], name, name == verdict.rival and name not in (reference, "uniform"))
        for name in others
        if name != verdict.best
    ]
    text += ", ".join(gaps) + ". "
    known = spread.of_difference(rows[verdict.own], rows[verdict.rival])
    if known is None:
        return text + "How far two runs of one mixture differ is not known here."
    text += f"The spread of such a difference is {known:.2f} % ({spread.source})"
    if verdict.outcome == "ties":
        apart = abs(rows[verdict.own]["average_loss"] / rows[verdict.rival]["average_loss"] - 1)
        return f"{text}: {verdict.own} and {verdict.rival} are {100 * apart:.2f} % apart, less than twice that: a tie."
    return text + "."


def gap(own: dict, other: dict, name: str, is_best: bool) -> str:
    """How far a run ends below or above another."""
    percent = 100 * (own["average_loss"] / other["average_loss"] - 1)
    side = "below" if percent < 0 else "above"
    shares = " (token shares)" if name == "baseline" else ""
    found = name in REWEIGHTING or name.removesuffix("_swarm") in LAWS
    rank = f", the best {'of the others' if found else 'fixed mixture'}" if is_best else ""
    return f"{abs(percent):.2f} % {side} {name}{shares}{rank}"


def saved(own: dict, reference: str) -> str:
    """The steps after which a run is where the reference ends."""
    if own["steps_to_reference"] is None:
        return f"It never gets to the last loss of {reference}."
    fewer = 100 * (1 - own["steps_ratio"])
    saving = f"{fewer:.0f} % fewer" if fewer >= 0.5 else "none saved"
    return f"The last loss of {reference} at step {own['steps_to_reference']:,.0f} of {own['step']:,}: {saving}."


def beside(prediction: Prediction, name: str, own: dict | None, reference: str) -> str:
    """What was predicted, and what was measured of the same."""
    span = f" ({100 * prediction.level:g} % interval {{low}} to {{high}})"
    text = f"On {prediction.model} at step {prediction.step:,}, {name} at {prediction.loss:.4f}"
    if prediction.low is not None:
        text += span.format(low=f"{prediction.low:.4f}", high=f"{prediction.high:.4f}")
    if own is not None and prediction.same_runs:
        loss = own["average_loss"]
        text += f", measured {loss:.4f}"
        if prediction.low is not None:
            text += ", inside" if prediction.low <= loss <= prediction.high else ", OUTSIDE"
    if prediction.percent is None:
        return f"{text}; of {reference} the law defines no loss."
    gain, low, high = prediction.percent
    text += f"; gain over {reference} {gain:+.2f} %"
    if low is not None:
        text += span.format(low=f"{low:+.2f}", high=f"{high:+.2f}")
    if own is not None and name != reference and math.isfinite(own["difference_percent"]):
        text += f", measured {-own['difference_percent']:+.2f} %"
        text += "" if prediction.same_runs else " on the larger runs"
    return text + "."


def next_steps(
    dataset: str, verdict: Verdict, model: str, has_runs: bool, runs: pl.DataFrame, spread: Spread
) -> list[tuple[str, str]]:
    """Labels, and commands and changes that follow from the result; `has_runs`: the weights of the
    `runs` that were compared are here.
    """
    rows = {row["mixture"]: row for row in runs.iter_rows(named=True)}
    steps = [("Report", f"snakemake --report results/{dataset}/report.html")]
    if has_runs and verdict.outcome != "untested":
        steps.append(("Export", f"snakemake --cores all results/{dataset}/runs/{model}/{verdict.best}/export"))
    if verdict.outcome == "ties":
        told = f"`seeds: {{{model}: [2, 3]}}` or more steps in the config" if has_runs else "more seeds or steps"
        needed = spread.runs_to_tell(rows[verdict.own], rows[verdict.rival])
        seeds = f"; {needed} seeds of each would, if they differ by as much" if needed and needed <= MANY else ""
        steps.append(("To tell", f"{told}: the spread is too large to tell the two apart{seeds}."))
    if verdict.outcome == "untested" and has_runs:
        steps.append(("To test", f"add {verdict.own} to `compare` in the config: whether it wins is not known yet."))
    elif verdict.outcome == "untested":
        steps.append(("To test", f"train on it, and add the losses to your tables as the mixture {verdict.own}."))
    if verdict.outcome != "untested" and "uniform" not in rows:
        added = "add `uniform` to `compare` in the config" if has_runs else "measure a run with equal proportions"
        steps.append(("To add", f"{added}: whether it ends as low is not known."))
    return [*steps, ("Larger", "give a larger run's data loader these proportions, or `compare` a larger model.")]


def _line(label: str, text: str) -> list[str]:
    return paragraph(text, f"{label:<{LABEL}}", " " * LABEL)
