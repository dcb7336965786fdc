"""The result of a dataset as two texts: a page with what decides, and the details behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from bimix.judge.comparison import Comparison
from bimix.judge.verdict import Promise, Verdict
from bimix.optimum.objective import Objective, weighed
from bimix.optimum.report import promised
from bimix.plan.sources import wanted_rule
from bimix.results import sections
from bimix.results.headline import OBSERVED, Headline, at, headline, model_name, next_steps, predicted, title
from bimix.results.layout import WIDTH, paragraph
from bimix.training.provenance import FITTING, code
from bimix.transfer.run import size_read

DOMAINS = 10  # rows of the mixture on the page


@dataclass(frozen=True)
class Result:
    """Findings of a dataset's run.

    `models`: names of those that laws were fitted on, that they are read at, and that is compared.
    `step` is that of the optima, in `stage` from 1 where there are any. `laws` and their files,
    `optima` by the mixture that each found; `shares` of all mixtures; `promises` of the laws;
    `tables`: intervals and, where they are there, laws and downstream, and all that were `made`.
    `target` are the runs of the compared model, `hand` rules by hand, `searched` the mixtures of
    searches among the runs; `moved` lists runs that have the name of an optimum and other
    proportions. `tokens` there are of each domain, and of the run that epochs are counted for, by
    law; `files` of mixtures; `explore`: the page to play with, `search`: the answer of a search by
    rounds, if there is one. `reused`: what is said of older runs that joined the fit.
    """

    dataset: str
    models: tuple[str, str, str]
    step: int
    stage: int | None
    reference: str
    objective: Objective
    laws: Mapping[str, dict]
    law_files: Mapping[str, Path]
    optima: Mapping[str, Mapping[str, float]]
    shares: Mapping[str, Mapping[str, float]]
    ran: Mapping[str, Mapping[str, float]]
    tables: Mapping[str, pl.DataFrame]
    target: Comparison
    promises: Sequence[Promise]
    verdict: Verdict
    hand: tuple[str, ...]
    searched: tuple[str, ...]
    moved: Sequence[str]
    tokens: Mapping[str, float]
    run_tokens: Mapping[str, float | None]
    max_epochs: float | None
    files: Mapping[str, Path]
    made: Sequence[Path]
    explore: str
    search: str
    reused: Sequence[str]
    details: Path

    @property
    def trusted(self) -> str:
        """The optimum of the law with the least error, else the first one."""
        return self.verdict.promise.mixture if self.verdict.promise else next(iter(self.laws))

    @property
    def reference_name(self) -> str:
        return self.reference + (f" in stage {self.stage}" if self.stage else "")

    def epochs(self, shares: Mapping[str, float]) -> dict[str, float]:
        """How often the run reads the text of each domain, as far as its tokens are known."""
        run_tokens = self.run_tokens.get(self.trusted)
        known = [name for name in shares if run_tokens and self.tokens.get(name)]
        return {name: shares[name] * run_tokens / self.tokens[name] for name in known}

    @property
    def bound(self) -> str:
        """The promise of `no_worse_than`; empty of another objective."""
        law, objective = self.laws[self.trusted], self.objective
        if objective.kind != "no_worse_than":
            return ""
        held = objective.limits(law, law["loss_domains"]) - 1
        return promised(objective.margin, objective.growth_by(law), held, self.models[1])

    def remarks(self, law: dict) -> list[str]:
        """Warnings where a law of one size is read at a step that no run has reached."""
        return [] if size_read(law) else sections.beyond(self.step, law["steps"])


def heading(result: Result) -> Headline:
    """What decides."""
    verdict, (fitted, read_at, compared), own = result.verdict, result.models, result.trusted
    law = result.laws[own]
    return Headline(
        dataset=result.dataset,
        verdict=verdict,
        target=result.target,
        model=compared,
        reference=result.reference_name,
        searched=result.searched,
        places={name: str(path) for name, path in result.files.items()},
        moved=result.moved,
        sizes=sections.size_sentence(law, fitted, read_at),
        weighed=weighed(law, result.target.criterion.weights),
        epochs=result.epochs(result.shares.get(verdict.best, {})),
        explore=result.explore,
        search=result.search,
        bound=result.bound,
        by_hand=unmeasured_rules(result, law) if compared == OBSERVED else (),
    )


def first_page(result: Result) -> list[str]:
    """The page: what decides first, then the mixture and the runs."""
    page, verdict, own, (_, read_at, _) = heading(result), result.verdict, result.trusted, result.models
    law = result.laws[own]
    lines = [title(page), "=" * WIDTH, *headline(page), *next_steps(page), ""]
    best = verdict.best if verdict.best in result.shares and verdict.best != result.reference else own
    after = result.shares[best]
    what = f"The mixture {best}"
    if best in result.laws:
        stage = f", stage {result.stage}," if result.stage else ""
        what += f", the optimum of the law {result.laws[best]['law']},{stage}"
        what += f" for step {result.step:,} of {model_name(read_at)}"
    lines += [what, ""]
    epochs = result.epochs(after)
    pair = (result.reference_name, result.shares[result.reference], best, after, law["proportions_seen"])
    lines += [*sections.proportions(*pair, DOMAINS, epochs), *sections.epoch_bound(epochs, result.max_epochs)]
    lines += result.remarks(law)
    judged = page.judged or result.target
    unit = judged.criterion.unit(judged.runs.columns)
    lines += ["", *sections.compared(judged, f"{at(judged.runs, page.judged_model)}, trained on each mixture ({unit})")]
    if "downstream" in result.tables:
        lines += ["", *sections.answers(result.tables["downstream"], result.reference)]
    lines += ["", f"Details, and a list of the figures: {result.details}", ""]
    return lines


def unmeasured_rules(result: Result, law: dict) -> list[str]:
    """Plain rules by hand that read a domain more often than any run; none where one was run."""
    if any(wanted_rule(name) for name in result.ran):
        return []
    most = {name: own["max"] for name, own in law["proportions_seen"].items()}
    plain = [name for name in result.hand if wanted_rule(name) and wanted_rule(name)[1] == "reference"]
    return [name for name in plain if any(one > most[domain] for domain, one in result.shares[name].items())]


def details(result: Result) -> list[str]:
    """The details: each law's optimum, its predictions and warnings, and where the figures are."""
    fitted, read_at, _ = result.models
    lines = [f"{result.dataset}: details of the summary", "=" * WIDTH]
    if "laws" in result.tables:
        lines += ["", "The laws on the same rows", "", *sections.laws(result.tables["laws"])]
    if result.reused:
        lines += ["", "Older runs that joined the fit", ""]
        lines += [line for said in result.reused for line in paragraph(said, "  ", "  ")]
    for name, law in result.laws.items():
        lines += ["", f"Mixture optimised with the law {law['law']}, for step {result.step:,} of {model_name(read_at)}"]
        lines += [*result.remarks(law), *optimum_lines(result, name, law)]
        lines += ["", *sections.fitted_to(law, fitted, str(result.law_files[name]))]
    made = [f"  {path}" for path in result.made]
    return [*lines, "", "Tables and figures", *made, "", *sections.origin(code(FITTING)), ""]


def optimum_lines(result: Result, name: str, law: dict) -> list[str]:
    """The mixture that a law calls best next to the reference, and the gain with its interval."""
    domains = weighed(law, result.target.criterion.weights)
    text = f"Weights of the losses that it was optimised for: {domains}; any other weighs 0."
    lines = ["", *paragraph(text, "  ", "  ")] if domains else []
    pair = (result.reference, result.shares[result.reference], name, result.optima[name], law["proportions_seen"])
    lines += ["", *sections.proportions(*pair)]
    said = [predicted(heading(result), promise) for promise in result.promises if promise.mixture == name]
    return lines + [line for text in said for line in ["", *paragraph(text, "  ", "  ")]]
