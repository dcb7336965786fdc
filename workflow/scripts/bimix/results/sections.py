"""Parts of the summary, as lines: mixtures, gains, scores, runs, laws over sizes, answers."""

from collections.abc import Mapping

import polars as pl

from bimix.judge.facts import Evidence
from bimix.judge.verdict import OBSERVED
from bimix.mixtures.mixture import farthest
from bimix.optimum.bounds import usual_epochs
from bimix.optimum.report import epochs_of, harm_lines
from bimix.results.headline import at, with_name, words
from bimix.results.layout import cut, labels, paragraph, table
from bimix.transfer.run import far_apart, size_read

BAR = 18  # characters of the longest bar
CLOSE = 1e-3  # of a bound on epochs, within which it binds
BEST = 5  # mixtures in the table of those measured, and the reference
NAME = 22  # characters of a domain's name
MIXTURE = 36  # of a mixture, with what it is
LISTED = 8  # domains whose text is counted on the page
WARNINGS = 4  # of a law, in full
MIXTURES = 12  # names of fitted ones, in full
ANSWERS = (  # metric, title, unit, scale, decimals
    ("accuracy", "Questions answered right", "percent", 100, 1),
    ("bits_per_byte", "Bits per byte of the accepted answers", "lower is better", 1, 3),
)
NOTHING = "No model answered a single question: they are too small, or trained too briefly."
# By tests/benchmarks/bench_size.py on public runs: the error without a run of the large size, of
# 410M parameters from 160M and of 1B from 60M.
LEVEL = "without runs of that size the level was 2 to 14 % off on public runs, while the order of the mixtures held"


def proportions(
    reference: str,
    before: dict[str, float],
    optimised: str,
    after: dict[str, float],
    seen: dict[str, dict[str, float]],
    rows: int | None = None,
    epochs: Mapping[str, float] | None = None,
) -> list[str]:
    """Two mixtures side by side with bars, the largest `rows` of them.

    `seen` {domain: {min, max}} are the proportions that the law was fitted on; `epochs` how often a
    run on `after` reads the text of each domain, where that is known.
    """
    domains = sorted(set(before) | set(after), key=lambda domain: (-after.get(domain, 0), domain))
    largest = max(*before.values(), *after.values())
    name, bar = min(NAME, max(map(len, domains))), BAR - 5 if epochs else BAR
    head = f"  {'':<{name}}  {cut(reference, 7 + bar):<{8 + bar}}  {cut(optimised, 7 + bar)}"
    lines = [f"{head:<{name + 22 + 2 * bar}}{'epochs':>6}" if epochs else head]
    outside, called = False, labels(domains, name)
    for domain in domains[:rows]:
        cells = []
        for mixture in (before, after):
            share = mixture.get(domain, 0.0)
            known = seen.get(domain, {"min": 0, "max": 1})
            new = mixture is after and not known["min"] * (1 - 1e-6) <= share <= known["max"] * (1 + 1e-6)
            outside |= new
            cells.append(f"{share:.4f}{'*' if new else ' '} {'#' * round(bar * share / largest)}".ljust(8 + bar))
        often = f"  {epochs[domain]:>6.3g}" if epochs and domain in epochs else ""
        lines.append(f"  {called[domain]:<{name}}  {cells[0]}  {cells[1]}{often}".rstrip())
    left = len(domains) - len(domains[:rows])
    lines += [f"  and {left} more domains, in the details"] if left else []
    return lines + (["  * outside the proportions that the law was fitted on"] if outside else [])


def epoch_bound(epochs: Mapping[str, float], most: float | None, run_tokens: float | None = None) -> list[str]:
    """Whether the bound on epochs binds; without one that of optima for a run of so many tokens, where
    text is read again.
    """
    usual = ""
    if most is None and run_tokens and max(epochs.values(), default=0.0) > 1:
        most, usual = usual_epochs(run_tokens), f", the default of optima in a run of {run_tokens:.3g} tokens,"
    if most in (None, float("inf")) or not epochs:
        return []
    above = [name for name, one in epochs.items() if one > most * (1 + CLOSE)]
    at = [name for name, one in epochs.items() if one >= most * (1 - CLOSE)]
    names = above or at
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    said = f"is exceeded in this run for {shown}" if above else f"binds for {shown}" if at else "does not bind"
    return paragraph(f"max_epochs {most:.3g}{usual} {said}.", "  ", "  ")


def mixture(of: Evidence, facts: Mapping, most: float | None, rows: int | None = None) -> list[str]:
    """The table of the mixture to take next to the reference; where it is that, or has stages, of the law's
    optimum. Whether `most` epochs bind, the optima by the harm of a larger model, a step that no run reached.
    """
    sought, reference = of.fits[of.trusted].sought, of.reference
    name = facts["take"] if facts["take"] in of.shares and facts["take"] != reference else of.trusted
    epochs = epochs_of(of.shares[name], of.pools, of.run_tokens)
    pair = words(facts, reference), of.shares[reference], words(facts, name), of.shares[name]
    lines = [f"The mixture: {with_name(facts, name)}", ""]
    lines += proportions(*pair, sought.fitted["proportions_seen"], rows, epochs)
    return [
        *lines,
        *epoch_bound(epochs, most, of.run_tokens),
        *(line for text in harm_lines(facts["by_harm"]) for line in paragraph(text, "  ", "    ")),
        *beyond(sought.step, sought.fitted),
    ]


def beyond(step: int, law: dict) -> list[str]:
    """A remark on a step that no run reached, or before the first measured one; a law over sizes has no steps."""
    first, last = min(law["steps"]), max(law["steps"])
    if size_read(law) or first <= step <= last:
        return []
    far = f"{step / last:.3g} times the last step" if step > last else "before the first step"
    text = f"Step {step:,} is {far} at which losses were measured, {last if step > last else first:,}:"
    return paragraph(f"{text} the law extrapolates, and its intervals do not cover its being wrong there.", "  ", "  ")


def fitted_to(law: dict, model: str, place: str) -> list[str]:
    """What a law was fitted to, and the first of its warnings; `place` is where all of them are."""
    names = list(dict.fromkeys(law["mixtures"]))
    runs = ", ".join(names) if len(names) <= MIXTURES else f"{len(names)} mixtures"
    lines = paragraph(f"Fitted on {runs} ({model}).", "  ", "  ")
    if law["warnings"]:
        lines += ["", "  What the data do not determine:"]
        lines += [line for said in law["warnings"][:WARNINGS] for line in paragraph(said, "  - ", "    ")]
    more = len(law["warnings"]) - WARNINGS
    return [*lines, *([f"  - and {more} more in {place}"] if more > 0 else []), ""]


def laws(scores: pl.DataFrame) -> list[str]:
    """The laws on the same rows: coefficients, errors in percent, rank correlation."""
    columns = ("extrapolation_percent", "held_out_percent", "left_out_percent", "left_out_spearman")
    rows = [
        [
            row["law"],
            *("-" if row[name] is None else f"{row[name]:,}" for name in ("coefficients", "runs")),
            *("-" if row[name] is None or row[name] != row[name] else f"{row[name]:.2f}" for name in columns),
        ]
        for row in scores.iter_rows(named=True)
    ]
    header = ["law", "coefs", "runs", "last step %", "held out %", "left out %", "rho"]
    lines = table(header, rows)
    for row in scores.filter(pl.col("note").is_not_null()).iter_rows(named=True):
        lines += paragraph(f"{row['law']}: {row['note']}", "  ", "    ")
    note = "mean relative errors of a run's last step, held-out mixtures and mixtures left out of the fit; Spearman's rho of the latter"
    return lines + paragraph(note, "  ", "  ")


def compared(facts: Mapping) -> list[str]:
    """The final losses of the best runs, of the mixture to take and the reference, and the steps in which
    they match the latter.
    """
    measured = facts["measured"]
    found, reference, minimax = measured["mixtures"], measured["reference"], measured["kind"] == "minimax"
    shown = [*list(found)[:BEST], *(name for name in (facts["take"], reference) if name in found)]
    curves = any(row["steps_ratio"] not in (None, 1.0) for row in found.values())
    rows = []
    for name in dict.fromkeys(shown):
        row = found[name]
        star = "*" if row["significant"] else "" if name == reference or row["significant"] is not None else "?"
        cells = [
            cut(f"{words(facts, name).removeprefix('the ')} ({name})" if name in facts["names"] else name, MIXTURE)
        ]
        cells += [f"{row['value']:.4f}", "-" if name == reference else f"{row['difference_percent']:+.2f}{star}"]
        if curves:
            cells += ["never" if row["steps_to_reference"] is None else f"{row['steps_to_reference']:,.0f}"]
            cells += ["-" if row["steps_ratio"] is None else f"{row['steps_ratio']:.2f}"]
        rows.append(cells + (["left out"] if row["broken"] else []))
    header = ["mixture", "worst ratio" if minimax else "average", "change %", *(["steps", "ratio"] if curves else [])]
    wide = max(map(len, rows))
    lines = table(header + [""] * (wide - len(header)), [row + [""] * (wide - len(row)) for row in rows])
    left = len(found) - len(rows)
    notes = [f"change: against {words(facts, reference)}"]
    notes += ["* significant, 95 %"] if any("*" in row[2] for row in rows) else []
    notes += ["? the noise of a run is not known"] if measured["noise_percent"] is None else []
    notes += [f"steps until the final value of {words(facts, reference)} is reached, and their share"] if curves else []
    others = "your table" if measured["model"] == OBSERVED else "tables/comparison.csv"
    notes += [f"and {left} more, in {others}"] if left > 0 else []
    outside = [name for name, row in found.items() if row["broken"] == "outside the bounds"]
    if outside:
        lowest = min(outside, key=lambda name: found[name]["value"])
        notes.append(
            f"outside the bounds {len(outside)}, of which {lowest} ends lowest, at {found[lowest]['value']:.4f}"
        )
    seeds = sorted({len(row["seeds"]) for row in found.values()})
    runs = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    unit = "the worst loss over the reference's" if minimax else measured["unit"]
    title = f"Trained on each mixture: {at(measured)}, seeds {runs} ({unit})"
    return [*paragraph(title), "", *lines, *paragraph("; ".join(notes), "  ", "  ")]


def moved(
    called: Mapping[str, str], run: Mapping[str, Mapping[str, float]], optima: Mapping[str, Mapping[str, float]]
) -> list[str]:
    """Of each run that has the name of an optimum and other proportions, `called` {name: what it is
    called here}, that it is no run of that optimum.
    """
    said = []
    for name, other in called.items():
        domain, apart = farthest(run[name], optima[name])
        said.append(
            f"The run called {name} had other proportions than this optimum has now (of {domain} {apart:.4f} off): it"
            f" stands here as {other}, with the proportions that it had."
        )
    return said


def answers(found: pl.DataFrame, reference: str) -> list[str]:
    """The last averages over tasks of each mixture, the best first, with standard error and gain over a
    reference: the percent of questions answered right, and the bits per byte of the accepted answers.
    """
    last, lines = found.filter(pl.col("step") == pl.col("step").max(), task="average"), []
    for metric, title, unit, scale, places in ANSWERS:
        right = metric == "accuracy"
        own = last.filter(metric=metric).sort("value", descending=right, maintain_order=True)
        zero, rows = own.filter(mixture=reference)["value"].sum(), []
        for row in own.iter_rows(named=True):
            gain = scale * (row["value"] - zero if right else zero - row["value"])
            cells = [scale * row["value"], None if row["stderr"] is None else scale * row["stderr"]]
            shown = ["-" if cell is None else f"{cell:.{places}f}" for cell in cells]
            shown.append("-" if row["mixture"] == reference else f"{gain:+.{places}f}")
            rows.append([cut(row["mixture"], NAME), *shown])
        if not rows:
            continue
        lines += [f"{title} after step {last['step'][0]:,}, {unit}", ""]
        none = right and not own["value"].max()
        lines += paragraph(NOTHING, "  ") if none else table(["mixture", "average", "error", "gain"], rows)
        lines.append("")
    return lines[:-1] + paragraph(f"gain over {reference}; all of it in tables/downstream.csv", "  ", "  ")


def size_sentence(law: dict, models: str, model: str) -> str:
    """On which sizes a law was fitted and at which it is read, how far that is beyond the largest;
    `models` and `model` are their names. Nothing of a law of one size.
    """
    if size_read(law) is None:
        return ""
    first = next(iter(law["coefficients"].values()))
    sizes, run = first["size"]["sizes"], first["run"]
    fitted = ", ".join(f"{brief(one['parameters'])} ({one['runs']} runs)" for one in sizes)
    largest, longest = sizes[-1]["parameters"], max(one["tokens"] for one in sizes)
    text = f"fitted on {models} of {fitted} parameters, read at {model} of {brief(run['parameters'])} on"
    text += f" {brief(run['tokens'])} tokens: {run['parameters'] / largest:.3g} times the largest size fitted and"
    text += f" {run['tokens'] / longest:.3g} times its longest run. "
    if far := far_apart(law["coefficients"], run["parameters"]):
        return text + far[0].upper() + far[1:]
    if run["parameters"] > largest:
        return f"{text}There it extrapolates, and its intervals do not know by how much it is wrong: {LEVEL}."
    return f"{text}The size lies among those fitted."


def data(facts: Mapping) -> list[str]:
    """The data behind the verdict: documents and tokens of the largest domains, runs, date and commit."""
    found = facts["data"]
    domains = sorted(found["domains"].items(), key=lambda pair: -(pair[1]["tokens"] or 0))
    text = f"{facts['dataset']}: {len(domains)} domains, {found['runs']} mixtures trained"
    if domains and domains[0][1]["documents"] is not None:
        documents, tokens = (sum(one[key] for _, one in domains) for key in ("documents", "tokens"))
        parts = [f"{cut(name, NAME)} {one['documents']:,}, {brief(one['tokens'])}" for name, one in domains[:LISTED]]
        more = f"; and {len(domains) - LISTED} more" if len(domains) > LISTED else ""
        text += f". Documents and tokens to train on: {documents:,}, {brief(tokens)} ({'; '.join(parts)}{more})"
    commit = f", commit {found['commit'][:12]}" if found["commit"] else ""
    changed = ", with changes that are in no commit" if found["clean"] is False else ""
    return paragraph(f"{text}. {found['written']}{commit}{changed}")


def brief(number: float) -> str:
    """A number to three digits, in thousands, millions or billions."""
    for unit, name in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:.3g}{name}"
    return f"{number:.3g}"
