"""Draw the entropies of the domains against the tokens they are estimated from, a panel for each measure.

entropy_curves.csv (domain, measure, tokens, nats, equal) -> svg
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.errors import run
from bimix.outputs import replacing
from bimix.results import figures
from bimix.tables import read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curves", type=Path, required=True, help="entropies by tokens, csv")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)

    curves = read_table(options.curves)
    domains = curves["domain"].unique().sort().to_list()
    looks = [(colour, marker) for marker in figures.OTHER_MARKERS for colour in figures.OTHERS]
    colours = dict(zip(domains, looks * (1 + len(domains) // len(looks)), strict=False))
    figure, axes = figures.grid(3, width=2.9, height=2.6)
    equal = curves.filter(pl.col("equal"))["tokens"].first()
    for axis, measure in zip(axes, ["SE", "JE", "CE"], strict=True):
        for domain in domains:
            curve = curves.filter(pl.col("domain") == domain, pl.col("measure") == measure).sort("tokens")
            colour, marker = colours[domain]
            axis.plot(curve["tokens"], curve["nats"], color=colour, marker=marker, markersize=2.4)
        axis.axvline(equal, color="#888888", linestyle="--", linewidth=0.8)
        axis.set_title(measure)
        axis.set_xlabel("tokens seen")
        axis.set_ylabel("nats, plug-in")
        figures.log_axis(axis, "x", curves["tokens"].to_numpy())
    names = [figures.swatch(domain, *colours[domain], line="-") for domain in domains]
    title = f"Entropy against the tokens it is estimated from; dashed: {equal:,}, which all domains have"
    figures.key(figure, [names[start : start + 8] for start in range(0, len(names), 8)], title)
    with replacing(options.out) as temporary:
        figures.save(figure, temporary)


if __name__ == "__main__":
    sys.exit(run(main))
