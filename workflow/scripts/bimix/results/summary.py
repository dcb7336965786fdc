"""The summary of a verdict as text and as a page: five lines, tables, the lines behind them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from bimix.optimum.objective import Objective
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


def bound(objective: Objective, law: dict, model: str) -> str:
    """The promise of `no_worse_than` at a model; empty of another objective."""
    if objective.kind != "no_worse_than":
        return ""
    held = objective.limits(law, law["loss_domains"]) - 1
    return promised(objective.margin, objective.effect_growth, held, model) + "."
