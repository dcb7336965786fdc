"""The summary's five lines, the mixture to take, its gain, the risk, what to run next, the pages; and the
lines behind them. All are written from the facts of `verdict.json`.

A difference from the reference is in percent of the reference's loss. Of two other mixtures the lower is named
first, in percent of the other's loss. So a pair has one number.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from bimix.judge.verdict import FEW_RUNS, OBSERVED, SHRUNK
from bimix.observations.tables import few

EVEN = 5e-4  # shares that differ by less are equal in words
LARGEST = 3  # shares that are named
RISES = 3  # losses above the reference's that are named
REASONS = {
    "wins": "Of the {count} mixtures {tested} it ends lowest, by more than noise.",
    "lower": "Of the {count} mixtures {tested} it ends lowest; whether by more than noise is not known.",
    "alone": "No other mixture was trained.",
    "rule": "It needs no search, and {rival} is not surely lower.",
    "broken": "No mixture trained meets the objective; this one comes nearest.",
    "promised": "Nobody trained on it yet; the law {law} predicts it to be best.",
    "ties, lowest": "Of the {count} mixtures {tested} it ends lowest, and {level} may be as good.",
    "ties, cheapest": "It is the cheapest to find of those that are level within noise; {ends} {lower:.2f} % below it.",
    "ties, untrained": "It is the best that was trained; {rival}, not trained, may be level with it by the law.",
}
NEXT = {  # what it shows; how in the config, and how where runs are made elsewhere
    "seeds": (
        "{runs} would tell {names} apart, if they differ by as much as now",
        "`seeds: {{{model}: {seeds}}}` in the config",
        "further seeds, in a column `seed`",
    ),
    "train": (
        "{runs} would show how {names} ends",
        "add `{name}` to `compare` in the config",
        "train on it, and add its losses as `{name}`",
    ),
    "equal": (
        "{runs} would show whether equal shares end as low",
        "add `uniform` to `compare` in the config",
        "train on them",
    ),
    "harm": (
        "1 run of {names} at a larger model, next to one of the reference, would show how often that may read text",
        "`compare` that model",
        "add their losses, with a column `parameters`",
    ),
    "key": (
        "Set `optimum: {{models: [{sizes}]}}` in the config",
        "the runs of {model} then say how often that may read text",
    ),
    "measure": (
        "{runs} of {names} at {model} would show how often that may read text",
        "add `{name}` to `compare`, and set `optimum: {{models: [{sizes}]}}`",
    ),
    "larger": (
        "Go on to a larger run",
        "`compare` a larger model on it, or give the run's data loader these proportions",
        "give its data loader these proportions",
    ),
}


def title(facts: Mapping) -> str:
    """The dataset and the mixture to take."""
    untested = "" if facts["tested"] else ", untested"
    return f"{facts['dataset']}: take {with_name(facts, facts['take'])}{untested}"


def five_lines(facts: Mapping, pages: Sequence[str]) -> list[tuple[str, str]]:
    """Labels and texts of the summary's first lines; `pages`: what to open."""
    return [
        ("Take", take(facts)),
        ("Gain", gain(facts)),
        ("Risk", risk(facts)),
        ("Next", next_line(facts, facts["next"][0])),
        ("Page", "; ".join(pages) + "."),
    ]


def words(facts: Mapping, name: str) -> str:
    """What a mixture is, for a reader; else its name."""
    return facts["names"].get(name, name)


def with_name(facts: Mapping, name: str) -> str:
    """What a mixture is, and its name in files and tables."""
    said = words(facts, name)
    return name if said == name else f"{said} ({name})"


def ends(facts: Mapping, name: str) -> str:
    """A mixture and its verb."""
    said = words(facts, name)
    return f"{said} end" if said.endswith(" shares") else f"{said} ends"


def model_name(model: str) -> str:
    return "your runs" if model == OBSERVED else model


def fitted_runs(law: Mapping) -> str:
    """How many runs a law was fitted to, and whose."""
    return f"{law['runs']} {'of' if law['model'] == OBSERVED else 'runs of'} {model_name(law['model'])}"


def signed(percent: float, whom: str) -> str:
    """A difference in percent of another's loss: 1.25 % below whom."""
    return f"{abs(percent):.2f} % {'below' if percent <= 0 else 'above'} {whom}"


def interval(percent: float, low: float | None, high: float | None, level: float) -> str:
    """The interval of a difference of the same sign: " (1.02 to 1.48, 95 %)"; nothing if not known."""
    if low is None or high is None:
        return ""
    first, last = sorted((low, high) if percent > 0 else (-low, -high))
    return f" ({first:.2f} to {last:.2f}, {100 * level:.0f} %)"


def sentence(parts: Sequence[str]) -> str:
    """Parts as one sentence."""
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def listed(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return ", ".join(names)


def joined(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are, with `and` before the last."""
    first, _, last = listed(names, most).rpartition(", ")
    return f"{first} and {last}" if first and len(names) <= most else listed(names, most)


def trained(facts: Mapping) -> Mapping[str, Mapping]:
    """The rows of the mixtures that were trained, the best first."""
    return facts["measured"]["mixtures"] if facts["measured"] else {}


def take(facts: Mapping) -> str:
    """Which mixture, its largest shares, and why."""
    shares = sorted(facts["shares"].items(), key=lambda pair: -pair[1])
    text = with_name(facts, facts["take"])
    if shares and shares[0][1] - shares[-1][1] < EVEN:
        text += f": {100 * shares[0][1]:.1f} % of each of {len(shares)} domains"
    elif shares:
        text += ": " + listed([f"{name} {100 * share:.1f} %" for name, share in shares], LARGEST)
    if facts["optimum"]["mixture"] == facts["take"]:
        text += f", found from {fitted_runs(facts['law'])}"
    return f"{text}. {reason(facts)}"


def reason(facts: Mapping) -> str:
    """Why this mixture, by the outcome."""
    outcome, rows, lower = facts["outcome"], trained(facts), None
    model = facts["measured"]["model"] if facts["measured"] else OBSERVED
    if outcome == "ties" and facts["rival"] not in rows:
        outcome = "ties, untrained"
    elif outcome == "ties":
        lower = -rows[facts["rival"]]["lower_percent"]
        outcome = "ties, cheapest" if lower > 0 else "ties, lowest"
    return REASONS[outcome].format(
        count=len(rows),
        tested="in your tables" if model == OBSERVED else f"tested on {model}",
        rival=words(facts, facts["rival"] or ""),
        ends=ends(facts, facts["rival"] or ""),
        law=facts["law"]["law"],
        level=joined([words(facts, name) for name in facts["ties"]], 2),
        lower=lower,
    )


def gain(facts: Mapping) -> str:
    """By how much the mixture is better than the reference and than equal shares, what that buys, and
    where the paper's optimum ends.
    """
    parts = measured_gain(facts) if facts["tested"] else predicted_gain(facts)
    said = [sentence(parts)] if parts else []
    decided = facts["gain"]["mixture"] if facts["gain"] and not facts["tested"] else None
    for one in ({"law": facts["law"], "optimum": facts["optimum"]}, *facts["paper"]):
        if one["optimum"]["mixture"] not in (facts["take"], decided):
            said.append(sentence([optimum_end(facts, **one)]))
    return " ".join(said) or "Not known: nothing else was measured."


def measured_gain(facts: Mapping) -> list[str]:
    """The gain of a mixture that was trained over the reference and over equal shares."""
    measured, rows, name = facts["measured"], trained(facts), facts["take"]
    reference, own = measured["reference"], rows[name]
    others = [other for other, role in facts["roles"].items() if role == "equal shares" and other in rows]
    if name == reference:
        parts = ["none: the others are compared with it"]
        others += [facts["rival"]] if facts["rival"] in rows else []
    else:
        percent, low, high = (own[f"{key}_percent"] for key in ("difference", "low", "high"))
        what = "worst ratio" if measured["kind"] == "minimax" else "average loss"
        what = what if measured["unit"].startswith("nats") else "average"
        text = f"{what} {own['value']:.4f}, {signed(percent, words(facts, reference))}"
        text += interval(percent, low, high, 0.95)
        if own["steps_to_reference"] is not None and percent < 0:
            steps, share = own["steps_to_reference"], 100 * own["steps_ratio"]
            text += f", whose final loss it reaches after {steps:,.0f} of {measured['step']:,} steps ({share:.0f} %)"
        parts = [text]
    return parts + [apart(facts, other) for other in dict.fromkeys(others) if other not in (name, reference)]


def apart(facts: Mapping, name: str) -> str:
    """Which of the mixture to take and another that was trained ends lower, and by how much."""
    row, pair = trained(facts)[name], (facts["take"], name)
    lower, higher = pair if row["lower_percent"] >= 0 else pair[::-1]
    unsure = {None: "; how much is noise is not known", False: ", which may be noise", True: ""}
    text = f"{ends(facts, lower)} {abs(row['lower_percent']):.2f} % below {words(facts, higher)}"
    return text + unsure[row["lower_significant"]]


def predicted_gain(facts: Mapping) -> list[str]:
    """The gain of a mixture that nobody trained, by the law and all runs."""
    own, optimum, parts = facts["gain"], facts["optimum"], []
    predicted = optimum["predicted"] if optimum["mixture"] == facts["take"] else None
    if own is not None:
        whose = "" if own["mixture"] == facts["take"] else f" of {words(facts, own['mixture'])}"
        text = signed(-own["percent"], words(facts, own["over"]))
        parts.append(f"not measured; predicted{whose} {text}")
        parts[-1] += interval(own["percent"], own["low"], own["high"], own["level"])
    if predicted and not (own and own["over"] == predicted["reference"]):
        text = signed(-predicted["percent"], words(facts, predicted["reference"]))
        text += interval(predicted["percent"], predicted["low"], predicted["high"], predicted["level"])
        parts.append(text if own else f"not measured; predicted {text}")
    for name, row in list(trained(facts).items())[:1]:
        text = f"the best that was trained, {words(facts, name)}, ends at {row['value']:.4f}"
        if name != facts["measured"]["reference"]:
            text += f", {signed(row['difference_percent'], words(facts, facts['measured']['reference']))}"
        parts.append(text)
    return parts


def optimum_end(facts: Mapping, law: Mapping, optimum: Mapping) -> str:
    """Where a law's optimum ends, as measured or predicted, against the reference and the mixture to take."""
    measured, predicted, name = optimum["measured"], optimum["predicted"], optimum["mixture"]
    text = "the paper's method, BiMix' optimum" if law["law"] == "bimix" else f"{words(facts, name)},"
    text += f" from {fitted_runs(law)},"
    if measured:
        text += f" ends {signed(-measured['percent'], words(facts, measured['reference']))}"
        text += f" (predicted: {predicted['percent']:.2f} %)" if predicted else ""
        if name in trained(facts) and facts["tested"] and facts["measured"]["reference"] != facts["take"]:
            text += f"; {apart(facts, name)}"
        return text
    if predicted:
        return f"{text} was not trained; predicted is {signed(-predicted['percent'], words(facts, predicted['reference']))}"
    return f"{text} was not trained"


def risk(facts: Mapping) -> str:
    """What may be wrong with the mixture: rises over the reference, repetition, what was not tested."""
    found, measured, parts = facts["risk"], facts["measured"], []
    if not found["tested"]:
        parts.append("no run was trained on it")
    if found["outside"]:
        parts.append(
            f"its shares of {few(found['outside'])} lie outside those of all runs, where the law was not tested"
        )
    if found["losses"]:
        above, whom = found["above_percent"], words(facts, measured["reference"])
        parts.append(f"{len(above) or 'none'} of {found['losses']} losses end above those of {whom}")
        worst = listed([f"{name} by {two_digits(by)} %" for name, by in above.items()], RISES)
        parts[-1] += f": {worst}" if worst else ""
    if found["epochs"]:
        most = max(found["epochs"], key=found["epochs"].get)
        parts.append(f"the text of {most} is read {two_digits(found['epochs'][most])} times")
    if found["tested"]:
        parts.append(f"tested on {at(measured)} only: a larger model and a longer run were not tried")
    return sentence(parts)


def at(measured: Mapping) -> str:
    """Model, size and step of runs."""
    size = "" if measured["parameters"] is None else f" of {measured['parameters']:.3g} parameters"
    return f"{model_name(measured['model'])}{size} to step {measured['step']:,}"


def two_digits(number: float) -> str:
    """The number to two digits, without an exponent: 1,200 and not 1.2e+03."""
    return f"{float(f'{number:.2g}'):,.15g}"


def next_line(facts: Mapping, step: Mapping) -> str:
    """One thing to run, what it costs and how."""
    shows, *how = NEXT[step["do"]]
    text = f"{shows}: {how[step['model'] is None]}."
    return text.format(
        runs=cost(step),
        names=" and ".join(words(facts, name) for name in step["mixtures"]),
        name="`, `".join(step["mixtures"]),
        sizes=", ".join(step.get("sizes", ())),
        model=step["model"],
        seeds=step.get("seeds"),
    )


def cost(step: Mapping) -> str:
    """So many runs, their steps, FLOPs and hours, as far as they are known."""
    text = f"{step['runs']} more run{'s' if step['runs'] != 1 else ''}"
    text += f" of {step['steps']:,} steps" if step["steps"] else ""
    if not step["flops"]:
        return text
    hours = f", {two_digits(step['hours'])} hours of an {step['device']}" if step["hours"] else ""
    return f"{text} ({step['flops']:.2g} FLOPs{hours})"


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
    return f"{law['law']}, fitted to {fitted_runs(law)}: {'; '.join(said)}."


def entropies_line(facts: Mapping) -> str:
    """Where each entropy mixture ends against the token shares, beside what the paper reports."""
    entropies = facts["entropies"]
    each = [
        f"{name} {one['difference_percent']:+.2f} %{'*' if one['significant'] else ''}"
        for name, one in entropies["mixtures"].items()
    ]
    where = f"{model_name(entropies['model'])}, step {entropies['step']:,}"
    against = words(facts, entropies["reference"])
    return f"{', '.join(each)} against {against} on {where} (the paper: all below, ce lowest)."


def optimum_line(facts: Mapping, optimum: Mapping) -> str:
    """The gain of a law's optimum, predicted for the proxy and measured at the target."""
    predicted, measured, said = optimum["predicted"], optimum["measured"], []
    if predicted:
        low, high = predicted["low"], predicted["high"]
        span = "" if low is None or high is None else f" ({low:+.2f} to {high:+.2f}, {100 * predicted['level']:.0f} %)"
        where = f"{model_name(predicted['model'])} at step {predicted['step']:,}"
        said.append(f"predicted for {where} {predicted['percent']:+.2f} %{span}")
    if measured:
        noise = measured["noise_percent"]
        known = "the noise of a run is not known" if noise is None else f"noise of a run {noise:.2f} %"
        star = "*" if measured["significant"] else ""
        where = f"{model_name(measured['model'])} at step {measured['step']:,}"
        said.append(f"measured on {where} {measured['percent']:+.2f} %{star} ({known})")
    else:
        rather = predicted and predicted["shrunk"]
        few = f"; from fewer than {FEW_RUNS} runs expect {rather:+.2f} %, {SHRUNK} of it" if rather else ""
        said.append(f"not trained{few}")
    reference = (predicted or measured or {}).get("reference")
    over = f" over {words(facts, reference)}" if reference else ""
    return f"gain of {optimum['mixture']}{over}: {'; '.join(said)}."


def behind_lines(facts: Mapping, remarks: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Labels and texts behind the first lines: the paper's chain, the reason, `remarks`, what else to do."""
    measured, lines = facts["measured"], [("Law", law_line(facts["law"]))]
    lines += [("Entropies", entropies_line(facts))] if facts["entropies"] else []
    lines += [("Optimum", optimum_line(facts, facts["optimum"])), ("Why", f"{facts['why']}.")]
    if measured and measured["noise_percent"] is not None:
        lines.append(("Noise", f"of a run {measured['noise_percent']:.2f} % ({measured['noise_from']})."))
    if measured and measured["kind"] == "no_worse_than":
        margin, whose = 100 * measured["margin"], words(facts, measured["reference"])
        lines.append(("Objective", f"no loss more than {margin:.3g} % above that of {whose}."))
    lines += [(label, text) for label, text in remarks if text]
    for why in dict.fromkeys(facts["left_out"].values()):
        names = [name for name, other in facts["left_out"].items() if other == why]
        lines.append(("Left out", f"{', '.join(names)}: {why}"))
    return lines + [("Then", next_line(facts, step)) for step in facts["next"][1:]]
