"""Draw the entropy measures of the domains, a panel of bars each.

entropy.csv (domain, measure, nats) -> svg
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
    parser.add_argument("--entropy", type=Path, required=True, help="one row per domain and measure, csv")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)

    entropy = read_table(options.entropy)
    measures = entropy["measure"].unique(maintain_order=True).to_list()
    tables = {measure: entropy.filter(pl.col("measure") == measure) for measure in measures}
    nats = {measure: dict(table.select("domain", "nats").iter_rows()) for measure, table in tables.items()}
    domains = sorted(nats[measures[0]], key=nats[measures[0]].get, reverse=True)
    values = {measure: [nats[measure].get(domain, 0.0) for domain in domains] for measure in measures}
    colours = {measure: figures.styles([measure.lower()])[measure.lower()][0] for measure in measures}
    title = "Entropy of each domain (nats), by measure"
    figure = figures.bars(values, domains, colours, "{:.2f}".format, title, same_scale=False)
    with replacing(options.out) as temporary:
        figures.save(figure, temporary)


if __name__ == "__main__":
    sys.exit(run(main))
