"""Draw the entropy measures of the domains: as estimated, and as two corrections of the estimate
have it.

entropy.csv (domain, measure, nats, miller_madow, chao_shen) -> svg

The plug-in entropy of a sample is too small, the more so the fewer tokens there are. The bars end
at the largest of the corrections: how far a domain's entropy, and with it its place among the
others, hangs on the estimator.
"""

import argparse
import sys
from pathlib import Path

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bimix.errors import run
from bimix.outputs import replacing
from bimix.results import figures
from bimix.tables import read_table

CORRECTED = ["miller_madow", "chao_shen"]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entropy", type=Path, required=True, help="one row per domain and measure, csv")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)

    figure = draw(read_table(options.entropy))
    with replacing(options.out) as temporary:
        figures.save(figure, temporary)


def draw(entropy: pl.DataFrame) -> Figure:
    """A panel of dots for each measure, the domains in the order of the first measure."""
    measures = entropy["measure"].unique(maintain_order=True).to_list()
    first = entropy.filter(pl.col("measure") == measures[0]).sort("nats", descending=True)
    domains = first["domain"].to_list()
    figure = Figure(figsize=(figures.WIDTH, 0.15 * len(domains) + 0.85), layout="constrained")
    axes = figure.subplots(1, len(measures), squeeze=False, sharey=True)[0]
    for axis, measure in zip(axes, measures, strict=True):
        draw_measure(axis, measure.lower(), entropy.filter(pl.col("measure") == measure), domains)
    figures.name_rows(axes[0], domains)
    for axis in axes[1:]:
        axis.tick_params(axis="y", length=0)
    figure.supxlabel("entropy of the training text (nats); each panel has its own scale", fontsize=figures.LARGE)
    entries = [figures.swatch("plug-in estimate", "#555555", "o")]
    if any(name in entropy.columns for name in CORRECTED):
        entries.append(figures.swatch("to the largest of the corrections for unseen tokens", "#555555", line="-"))
    figures.key(figure, [entries])
    return figure


def draw_measure(axis: Axes, measure: str, table: pl.DataFrame, domains: list[str]) -> None:
    """The estimates of one measure, a row for each domain."""
    colour, marker = figures.styles([measure])[measure]
    corrected = [name for name in CORRECTED if name in table.columns]
    for row in table.filter(pl.col("domain").is_in(domains)).iter_rows(named=True):
        place = domains.index(row["domain"])
        furthest = max([row[name] for name in corrected if row[name] is not None], default=None)
        if furthest is not None:
            axis.plot([row["nats"], furthest], [place] * 2, color=colour, linewidth=1.6)
            axis.plot(furthest, place, "|", color=colour, markersize=6)
        axis.plot(row["nats"], place, marker, color=colour, markersize=4.5)
    axis.set_title(measure)
    axis.grid(visible=False, axis="y")
    axis.margins(x=0.12)
    axis.locator_params(axis="x", nbins=3)


if __name__ == "__main__":
    sys.exit(run(main))
