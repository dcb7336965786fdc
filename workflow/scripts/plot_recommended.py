"""Draw the mixture to take: its shares next to the reference's, and the change of each loss as measured on
the model compared and as the law predicts it.

verdict.json -> svg
"""

import sys

from matplotlib.figure import Figure

from bimix.errors import run
from bimix.results import figures
from bimix.results.headline import model_name, signed, words
from bimix.tables import read_json


def main(argv: list[str] | None = None) -> None:
    options = figures.flags(__doc__, verdict="written by summarize_results.py", out="svg").parse_args(argv)
    figures.save(draw(read_json(options.verdict)), options.out)


def draw(facts: dict) -> Figure:
    """Left, the shares; right, the changes of the losses, predicted hollow, their average in the first row."""
    take, shares, found = facts["take"], facts["shares"], facts["changes"]
    if found is None:  # as of a mixture in stages
        empty = Figure(figsize=(figures.WIDTH, 0.6))
        empty.text(0.5, 0.4, f"{words(facts, take)}: shares or losses of one mixture are not known.", ha="center")
        return empty
    over, measured, predicted = found["over"], found["measured"], found["predicted"]
    domains = sorted(shares, key=lambda name: -shares[name])
    losses = dict.fromkeys(name for name in (*measured, *predicted) if name)
    rows = ["", *domains, *(name for name in losses if name not in shares)]
    looks = figures.looks([take, over])
    figure, (left, right) = figures.row_panels(["average", *rows[1:]], [1.15, 1], 0.17, 1.2)
    for row, domain in enumerate(domains, 1):
        left.plot([found["shares"].get(domain, 0.0), shares[domain]], [row, row], color="#dcdcdc", linewidth=2.5)
        left.plot(found["shares"].get(domain, 0.0), row, **looks[over].mark(4.2))
        left.plot(shares[domain], row, **looks[take].mark(4.2))
    left.set_xlim(left=0)
    right.axvline(0, color="#888888", linewidth=0.8)
    shift = 0.17 if predicted and measured else 0.0
    for changes, place, hollow in ((predicted, -shift, True), (measured, shift, False)):
        for name, change in changes.items():
            right.plot(change, rows.index(name) + place, **looks[take].mark(4.2, hollow, markeredgewidth=0.8))
    titles = ("shares of the text", "share"), (f"losses against {words(facts, over)}", "change of the loss (%)")
    for axis, (heading, label) in zip((left, right), titles, strict=True):
        axis.axhline(0.5, color="#cccccc", linewidth=0.6)
        axis.locator_params(axis="x", nbins=5)
        axis.set_title(heading)
        axis.set_xlabel(label)
    ran = f" (losses: measured on {model_name(found['model'])}, step {found['step']:,})" if measured else ""
    entries = [looks[over].entry(words(facts, over)), looks[take].entry(words(facts, take) + ran)]
    if predicted:
        entries.append(looks[take].entry(f"losses predicted by the law {found['law']}", hollow=True))
    figures.key(figure, entries, finding(facts, found))
    return figure


def finding(facts: dict, found: dict) -> str:
    """The change of the average loss."""
    whom, said = words(facts, found["over"]), []
    for kind in ("measured", "predicted"):
        if "" in found[kind]:
            said.append(f"{signed(found[kind][''], '' if said else whom).strip()} as {kind}")
    return f"The mixture to take, {words(facts, facts['take'])}: average loss {', '.join(said) or 'not known'}."


if __name__ == "__main__":
    sys.exit(run(main))
