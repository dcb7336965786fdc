"""Draw the entropy measures of the domains, as estimated and with two corrections.

entropy.csv (domain, measure, nats, miller_madow, chao_shen) -> svg

The plug-in entropy of a sample is too small, the more so the fewer tokens there are. The bars end
at the largest of the corrections: how far a domain's entropy, and so its place among the others,
depends on the estimator.
"""

import sys

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bimix.errors import run
from bimix.results import figures
from bimix.tables import read_table

CORRECTED = ["miller_madow", "chao_shen"]


def main(argv: list[str] | None = None) -> None:
    options = figures.flags(__doc__, entropy="one row per domain and measure, csv", out="svg").parse_args(argv)
    figures.save(draw(read_table(options.entropy)), options.out)


def draw(entropy: pl.DataFrame) -> Figure:
    """A panel of dots for each measure, the domains in the order of the first measure."""
    measures = entropy["measure"].unique(maintain_order=True).to_list()
    first = entropy.filter(pl.col("measure") == measures[0]).sort("nats", descending=True)
    domains = first["domain"].to_list()
    figure, axes = figures.row_panels(domains, [1] * len(measures), 0.15, 0.85)
    for axis, measure in zip(axes, measures, strict=True):
        draw_measure(axis, measure.lower(), entropy.filter(pl.col("measure") == measure), domains)
    figure.supxlabel("entropy of the training text (nats); each panel has its own scale", fontsize=figures.LARGE)
    entries = [figures.swatch("plug-in estimate", figures.GREY, "o")]
    if any(name in entropy.columns for name in CORRECTED):
        entries.append(figures.swatch("to the largest of the corrections for unseen tokens", figures.GREY, line="-"))
    figures.key(figure, entries, finding(entropy, measures))
    return figure


def finding(entropy: pl.DataFrame, measures: list[str]) -> str:
    """The domain with the most entropy by each measure, which their mixtures give most."""
    most = {name: entropy.filter(pl.col("measure") == name).sort("nats")["domain"][-1] for name in measures}
    by_domain = {domain: [name.lower() for name in measures if most[name] == domain] for domain in most.values()}
    return "Most entropy has " + ", ".join(f"{domain} ({', '.join(by)})" for domain, by in by_domain.items()) + "."


def draw_measure(axis: Axes, measure: str, table: pl.DataFrame, domains: list[str]) -> None:
    """The estimates of one measure, a row for each domain."""
    look = figures.Look(figures.GREY, "o")
    corrected = [name for name in CORRECTED if name in table.columns]
    for row in table.filter(pl.col("domain").is_in(domains)).iter_rows(named=True):
        place = domains.index(row["domain"])
        furthest = max([row[name] for name in corrected if row[name] is not None], default=None)
        figures.draw_span(axis, place, row["nats"], [] if furthest is None else [row["nats"], furthest], look)
    axis.set_title(measure)
    axis.margins(x=0.12)
    axis.locator_params(axis="x", nbins=3)


if __name__ == "__main__":
    sys.exit(run(main))
