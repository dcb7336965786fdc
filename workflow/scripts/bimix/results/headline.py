"""The summary's five lines, the mixture to take, its gain, the risk, what to run next, the pages; and the
lines behind them. All are written from the facts of `verdict.json`.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from bimix.judge.verdict import FEW_RUNS, OBSERVED, SHRUNK

EVEN = 5e-4  # shares that differ by less are equal in words
LARGEST = 3  # shares that are named
RISES = 3  # losses above the reference's that are named
REASONS = {
    "wins": "it ends below all others by more than noise",
    "lower": "it ends lowest; whether by more than noise is not known",
    "alone": "no other mixture was measured",
    "rule": "it needs no search, and {rival} is not surely lower",
    "broken": "no mixture measured meets the objective, and it comes nearest",
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


def model_name(model: str) -> str:
    return "your runs" if model == OBSERVED else model


def fitted_runs(law: Mapping) -> str:
    """How many runs a law was fitted to, and whose."""
    return f"{law['runs']} {'of' if law['model'] == OBSERVED else 'runs of'} {model_name(law['model'])}"


def signed(percent: float, whom: str, star: str = "", digits: int = 2) -> str:
    """A difference in percent of another's loss: 1.25 %* below whom."""
    return f"{abs(percent):.{digits}f} %{star} {'below' if percent <= 0 else 'above'} {whom}"


def interval(percent: float, low: float | None, high: float | None, level: float) -> str:
    """The interval of a difference of the same sign: " (1.02 to 1.48, 95 %)"; nothing if not known."""
    if low is None or high is None:
        return ""
    ends = sorted((low, high) if percent > 0 else (-low, -high))
    return f" ({ends[0]:.2f} to {ends[1]:.2f}, {100 * level:.0f} %)"


def sentence(parts: Sequence[str]) -> str:
    """Parts as one sentence."""
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def take(facts: Mapping) -> str:
    """Which mixture, its largest shares, and why."""
    shares = sorted(facts["shares"].items(), key=lambda pair: -pair[1])
    text = with_name(facts, facts["take"])
    if shares and shares[0][1] - shares[-1][1] < EVEN:
        text += f": {100 * shares[0][1]:.1f} % of each of {len(shares)} domains"
    elif shares:
        text += ": " + ", ".join(f"{name} {100 * share:.1f} %" for name, share in shares[:LARGEST])
        text += f" and {len(shares) - LARGEST} more" if len(shares) > LARGEST else ""
    if facts["law"] and facts["optimum"]["mixture"] == facts["take"]:
        text += f", found from {fitted_runs(facts['law'])}"
    return f"{text}. {sentence([reason(facts)])}"


def reason(facts: Mapping) -> str:
    """Why this mixture, by the outcome."""
    outcome, rival, law = facts["outcome"], words(facts, facts["rival"] or ""), facts["law"]
    rows = facts["measured"]["mixtures"] if facts["measured"] else {}
    if outcome == "promised":
        return f"nobody trained on it yet; {'a law' if law is None else 'the law ' + law['law']} predicts it to be best"
    if outcome != "ties":
        return REASONS[outcome].format(rival=rival)
    if facts["rival"] not in rows:
        return f"it is the best that was trained; {rival}, not trained, may be level with it by the law"
    level = " and ".join(words(facts, name) for name in facts["ties"][:2])
    level += f" and {len(facts['ties']) - 2} more" if len(facts["ties"]) > 2 else ""
    if rows[facts["take"]]["value"] <= rows[facts["rival"]]["value"]:
        return f"it ends lowest; {level} {'are' if len(facts['ties']) > 1 else 'is'} level with it within noise"
    lower = abs(rows[facts["rival"]]["behind_percent"])
    return f"it is the cheapest to find of those that are level within noise; {rival} ends {lower:.2f} % lower"


def gain(facts: Mapping) -> str:
    """By how much the mixture is better than the reference and than equal shares, what that buys, and
    where the paper's optimum ends.
    """
    measured, take = facts["measured"], facts["take"]
    parts = measured_gain(facts, measured, measured["mixtures"]) if facts["tested"] else predicted_gain(facts)
    said = [sentence(parts)] if parts else []
    optimum, decided = facts["optimum"], facts["gain"] if not facts["tested"] else None
    if optimum and optimum["mixture"] not in (take, decided and decided["mixture"]):
        said.append(sentence([optimum_end(facts, optimum)]))
    return " ".join(said) or "Not known: nothing else was measured."


def measured_gain(facts: Mapping, measured: Mapping, rows: Mapping) -> list[str]:
    """The gain of a mixture that was trained over the reference and over equal shares."""
    take, reference, own, parts = facts["take"], measured["reference"], rows[facts["take"]], []
    if take != reference:
        percent, low, high = (own[f"{key}_percent"] for key in ("difference", "low", "high"))
        what = "worst ratio" if measured["kind"] == "minimax" else "average loss"
        what = what if measured["unit"].startswith("nats") else "average"
        text = f"{what} {own['value']:.4f}, {signed(percent, words(facts, reference))}"
        parts.append(text + interval(percent, low, high, 0.95))
        if own["steps_to_reference"] is not None and percent < 0:
            steps, share = own["steps_to_reference"], 100 * own["steps_ratio"]
            parts[-1] += (
                f", whose final loss it reaches after {steps:,.0f} of {measured['step']:,} steps ({share:.0f} %)"
            )
    else:
        parts.append("none: the others are compared with it")
    equal = [name for name, role in facts["roles"].items() if role == "equal shares" and name in rows]
    others = [name for name in equal if name not in (take, reference)]
    if facts["rival"] in rows and take == reference:
        others.append(facts["rival"])
    return parts + [behind(facts, rows, name) for name in dict.fromkeys(others)]


def behind(facts: Mapping, rows: Mapping, name: str) -> str:
    """Where the mixture to take ends against another that was trained."""
    row = rows[name]
    unsure = {None: "; how much is noise is not known", False: ", which may be noise", True: ""}
    ahead = 100 * (1 / (1 + row["behind_percent"] / 100) - 1)  # in percent of the other's loss, as figures have it
    return signed(ahead, words(facts, name)) + unsure[row["behind_significant"]]


def predicted_gain(facts: Mapping) -> list[str]:
    """The gain of a mixture that nobody trained, by the law and all runs."""
    own, measured, optimum, parts = facts["gain"], facts["measured"], facts["optimum"], []
    if own is None and optimum and optimum["mixture"] == facts["take"] and optimum["predicted"]:
        own = optimum["predicted"] | {"mixture": facts["take"], "over": optimum["predicted"]["reference"]}
    if own is not None:
        whose = "" if own["mixture"] == facts["take"] else f" of {words(facts, own['mixture'])}"
        text = signed(-own["percent"], words(facts, own["over"]))
        text += interval(own["percent"], own["low"], own["high"], own["level"])
        parts.append(f"not measured; predicted{whose} {text}")
    if measured is not None:
        name, row = next(iter(measured["mixtures"].items()))
        text = f"the best that was trained, {words(facts, name)}, ends at {row['value']:.4f}"
        if name != measured["reference"]:
            text += f", {signed(row['difference_percent'], words(facts, measured['reference']))}"
        parts.append(text)
    return parts


def optimum_end(facts: Mapping, optimum: Mapping) -> str:
    """Where a law's optimum ends, as measured or predicted, against the reference and the mixture to take."""
    name, law = optimum["mixture"], facts["law"]
    text = "the paper's method, BiMix' optimum" if law and law["law"] == "bimix" else words(facts, name)
    text += f" from {fitted_runs(law)}," if law else ""
    rows = facts["measured"]["mixtures"] if facts["measured"] else {}
    if optimum["measured"]:
        text += f" ends {signed(-optimum['measured']['percent'], words(facts, optimum['measured']['reference']))}"
        text += f" (predicted: {optimum['predicted']['percent']:.2f} %)" if optimum["predicted"] else ""
        if name in rows and facts["tested"] and facts["measured"]["reference"] != facts["take"]:
            text += f" and {signed(rows[name]['behind_percent'], words(facts, facts['take']))}"
            text += "" if rows[name]["behind_significant"] else ", which may be noise"
        return text
    if optimum["predicted"]:
        over = words(facts, optimum["predicted"]["reference"])
        return f"{text} was not trained; predicted is {signed(-optimum['predicted']['percent'], over)}"
    return f"{text} was not trained"


def risk(facts: Mapping) -> str:
    """What may be wrong with the mixture: rises over the reference, repetition, what was not tested."""
    found, measured, parts = facts["risk"], facts["measured"], []
    if not found["tested"]:
        parts.append("no run was trained on it")
    if found["losses"]:
        above, whom = found["above_percent"], words(facts, measured["reference"])
        worst = ", ".join(f"{name} by {two_digits(by)} %" for name, by in list(above.items())[:RISES])
        worst += f" and {len(above) - RISES} more" if len(above) > RISES else ""
        parts.append(f"{len(above) or 'none'} of {found['losses']} losses end above those of {whom}")
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
    """One thing to run, and how many runs it needs."""
    names, own = [words(facts, name) for name in step["mixtures"]], step["model"]
    if step["do"] == "seeds":
        text = f"{step['runs']} more runs would tell {' and '.join(names)} apart, if they differ by as much as now: "
        seeds = f"`seeds: {{{own}: {step['seeds']}}}` in the config" if own else "further seeds, in a column `seed`"
        return f"{text}{seeds}."
    if step["do"] == "train":
        name = step["mixtures"][0]
        how = f"add `{name}` to `compare` in the config" if own else f"train on it, and add its losses as `{name}`"
        return f"1 more run would show how {names[0]} ends: {how}."
    if step["do"] == "equal":
        how = "add `uniform` to `compare` in the config" if own else "train on them"
        return f"1 more run would show whether equal shares end as low: {how}."
    if step["do"] == "harm":
        text = f"1 run of {names[0]} at a larger model, next to one of the reference, would show how often that may read text"
        how = "`compare` that model" if own else "add their losses, with a column `parameters`"
        return f"{text}: {how}."
    how = "`compare` a larger model" if own else "Train a larger model"
    return f"{how} on it, or give a larger run's data loader these proportions."


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


def entropies_line(facts: Mapping, entropies: Mapping) -> str:
    """Where each entropy mixture ends against the token shares, beside what the paper reports."""
    ends = [
        f"{name} {one['difference_percent']:+.2f} %{'*' if one['significant'] else ''}"
        for name, one in entropies["mixtures"].items()
    ]
    where = f"{model_name(entropies['model'])}, step {entropies['step']:,}"
    against = words(facts, entropies["reference"])
    return f"{', '.join(ends)} against {against} on {where} (the paper: all below, ce lowest)."


def optimum_line(facts: Mapping, optimum: Mapping) -> str:
    """The gain of a law's optimum, predicted for the proxy and measured at the target."""
    predicted, measured, said = optimum["predicted"], optimum["measured"], []
    if predicted:
        ends = [predicted["low"], predicted["high"]]
        span = "" if None in ends else f" ({ends[0]:+.2f} to {ends[1]:+.2f}, {100 * predicted['level']:.0f} %)"
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
    lines = [("Law", law_line(facts["law"]))] if facts["law"] else []
    lines += [("Entropies", entropies_line(facts, facts["entropies"]))] if facts["entropies"] else []
    lines += [("Optimum", optimum_line(facts, facts["optimum"]))] if facts["optimum"] else []
    lines.append(("Why", f"{facts['why']}."))
    if facts["measured"] and facts["measured"]["noise_percent"] is not None:
        noise = facts["measured"]
        lines.append(("Noise", f"of a run {noise['noise_percent']:.2f} % ({noise['noise_from']})."))
    if facts["measured"] and facts["measured"]["kind"] == "no_worse_than":
        margin, whose = 100 * facts["measured"]["margin"], words(facts, facts["measured"]["reference"])
        lines.append(("Objective", f"no loss more than {margin:.3g} % above that of {whose}."))
    lines += [(label, text) for label, text in remarks if text]
    for why in dict.fromkeys(facts["left_out"].values()):
        names = [name for name, other in facts["left_out"].items() if other == why]
        lines.append(("Left out", f"{', '.join(names)}: {why}"))
    return lines + [("Then", next_line(facts, step)) for step in facts["next"][1:]]
