"""The summary of a verdict as text and as a page: five lines, tables, the lines behind them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from bimix.judge.facts import Evidence
from bimix.judge.verdict import OBSERVED
from bimix.optimum.objective import weighed
from bimix.optimum.report import promised
from bimix.results import sections
from bimix.results.headline import behind_lines, five_lines, title
from bimix.results.layout import WIDTH, labelled
from bimix.results.pages import as_list, as_text, page


@dataclass(frozen=True)
class Summary:
    """`facts` of a verdict; `pages` to open; `tables`, each as lines; `remarks`: labels and texts of what
    else there is to say.
    """

    facts: Mapping
    pages: Sequence[str]
    tables: Sequence[list[str]]
    remarks: Sequence[tuple[str, str]] = ()

    def first_screen(self) -> list[str]:
        """The data and the five lines: what a terminal shows."""
        return [*sections.data(self.facts), "=" * WIDTH, *labelled(five_lines(self.facts, self.pages))]

    def text(self) -> str:
        """All of it, as text."""
        tables = [line for block in self.tables if block for line in ["", *block]]
        behind = labelled(behind_lines(self.facts, self.remarks))
        return "\n".join([*self.first_screen(), *tables, "", *behind, ""])

    def html(self, details: Sequence[str]) -> str:
        """All of it and the details, as a page."""
        parts = [f"<h1>{escape(title(self.facts))}</h1>", f"<p>{escape(' '.join(sections.data(self.facts)))}</p>"]
        parts.append(as_list(five_lines(self.facts, self.pages)))
        parts += [as_text(block) for block in self.tables if block]
        parts += [as_list(behind_lines(self.facts, self.remarks)), as_text(details)]
        return page(self.facts["dataset"], parts)


def remarks(of: Evidence, renamed: Sequence[str]) -> list[tuple[str, str]]:
    """Labels and texts on the weights, the promise of `no_worse_than`, a law's sizes, and runs that are
    `renamed`, in sentences; a text is empty where there is nothing to say.
    """
    sought = of.fits[of.trusted].sought
    law, objective, bound = sought.fitted, sought.objective, ""
    elsewhere = of.model == OBSERVED
    models, model = ("runs", "a model") if elsewhere else (of.fitted_model, of.asked_model)
    weights = weighed(law, objective.domain_weights())
    if objective.kind == "no_worse_than":
        held = objective.limits(law, law["loss_domains"]) - 1
        bound = promised(objective.margin, objective.effect_growth, held, model) + "."
    return [
        ("Weights", f"in all averages {weights}, and nothing else." if weights else ""),
        ("Bound", bound),
        ("Sizes", sections.size_sentence(law, models, model)),
        *(("Renamed", text) for text in renamed),
    ]
