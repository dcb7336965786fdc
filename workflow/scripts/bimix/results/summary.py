"""The result of a dataset as two texts: a page with what decides, and the details behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from bimix.judge.verdict import Promise
from bimix.optimum.objective import Objective, weighed
from bimix.optimum.report import epochs_of, promised
from bimix.results import sections
from bimix.results.headline import Headline, files, headline, model_name, predicted, reasons, title
from bimix.results.layout import WIDTH, paragraph
from bimix.training.provenance import FITTING, code
from bimix.transfer.run import size_read

DOMAINS = 10  # rows of the mixture on the page


@dataclass(frozen=True)
class Result:
    """What decides on a dataset's run, and the findings behind it.

    `models`: names of those that laws were fitted on, and that they are read at. `step` is that of
    the optima. `laws` and their files, `optima` by the
    mixture that each found, `trusted` that of the law with the least error; `shares` of all
    mixtures; `promises` of the laws; `tables`: intervals and, where they are there, laws and
    downstream, and all that were `made`. `ran`: all runs; `hand`: rules by hand. `tokens` there are
    of each domain, and of the run that epochs are counted for, by law. `text`: what is said of the
    text behind the losses.
    """

    page: Headline
    models: tuple[str, str]
    step: int
    reference: str
    laws: Mapping[str, dict]
    trusted: str
    law_files: Mapping[str, Path]
    optima: Mapping[str, Mapping[str, float]]
    shares: Mapping[str, Mapping[str, float]]
    ran: Mapping[str, Mapping[str, float]]
    tables: Mapping[str, pl.DataFrame]
    promises: Sequence[Promise]
    hand: Sequence[str]
    tokens: Mapping[str, float]
    run_tokens: Mapping[str, float | None]
    max_epochs: float | None
    made: Sequence[Path]
    details: Path
    text: Sequence[str] = ()

    def remarks(self, law: dict) -> list[str]:
        """Warnings where a law of one size is read at a step that no run has reached."""
        return [] if size_read(law) else sections.beyond(self.step, law["steps"])


def bound(objective: Objective, law: dict, model: str) -> str:
    """The promise of `no_worse_than` at a model; empty of another objective."""
    if objective.kind != "no_worse_than":
        return ""
    held = objective.limits(law, law["loss_domains"]) - 1
    return promised(objective.margin, objective.effect_growth, held, model)


def first_page(result: Result) -> list[str]:
    """The page: what decides first, then the mixture and the runs."""
    page, own, (_, read_at) = result.page, result.trusted, result.models
    law, best = result.laws[own], page.verdict.best
    lines = [*paragraph(title(page)), "=" * WIDTH, *headline(page), "", *reasons(page), *files(page), ""]
    best = best if best in result.shares and best != result.reference else own
    after = result.shares[best]
    what = f"The mixture {best}"
    if best in result.laws:
        what += f", the optimum of the law {result.laws[best]['law']},"
        what += f" for step {result.step:,} of {model_name(read_at)}"
    lines += [what, ""]
    epochs = epochs_of(after, result.tokens, result.run_tokens.get(own))
    pair = (page.reference, result.shares[result.reference], best, after, law["proportions_seen"])
    lines += [*sections.proportions(*pair, DOMAINS, epochs), *sections.epoch_bound(epochs, result.max_epochs)]
    lines += result.remarks(law)
    lines += ["", *sections.compared(page.judged or page.target, page.judged_model)]
    if "downstream" in result.tables:
        lines += ["", *sections.answers(result.tables["downstream"], result.reference)]
    lines += ["", f"Details, and a list of the figures: {result.details}", ""]
    return lines


def details(result: Result) -> list[str]:
    """The details: each law's optimum, its predictions and warnings, and where the figures are."""
    fitted, read_at = result.models
    lines = [f"{result.page.dataset}: details of the summary", "=" * WIDTH]
    if "laws" in result.tables:
        lines += ["", "The laws on the same rows", "", *sections.laws(result.tables["laws"])]
    if result.text:
        lines += ["", "The text behind the losses", ""]
        lines += [line for one in result.text for line in paragraph(one, "  ", "    ")]
    for name, law in result.laws.items():
        lines += ["", f"Mixture optimised with the law {law['law']}, for step {result.step:,} of {model_name(read_at)}"]
        lines += [*result.remarks(law), *optimum_lines(result, name, law)]
        lines += ["", *sections.fitted_to(law, fitted, str(result.law_files[name]))]
    made = [f"  {path}" for path in result.made]
    return [*lines, "", "Tables and figures", *made, "", *sections.origin(code(FITTING)), ""]


def optimum_lines(result: Result, name: str, law: dict) -> list[str]:
    """The mixture that a law calls best next to the reference, and the gain with its interval."""
    domains = weighed(law, result.page.target.criterion.weights)
    text = f"Weights of the losses that it was optimised for: {domains}; any other weighs 0."
    lines = ["", *paragraph(text, "  ", "  ")] if domains else []
    pair = (result.reference, result.shares[result.reference], name, result.optima[name], law["proportions_seen"])
    lines += ["", *sections.proportions(*pair)]
    said = [predicted(result.page, promise) for promise in result.promises if promise.mixture == name]
    return lines + [line for text in said for line in ["", *paragraph(text, "  ", "  ")]]
