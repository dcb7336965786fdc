"""Draw mixtures side by side, a panel of bars each; the domains are in the order of the first mixture's proportions.

mixtures (mixture, domain, proportion) -> svg
"""

import argparse
import sys
from pathlib import Path

from bimix.errors import run
from bimix.outputs import replacing
from bimix.results import figures
from bimix.tables import read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mixtures", type=Path, nargs="+", required=True, help="tidy mixtures, parquet or csv")
    parser.add_argument("--out", type=Path, required=True, help="svg")
    options = parser.parse_args(argv)

    mixtures: dict[str, dict[str, float]] = {}
    for path in options.mixtures:
        for name, domain, proportion in read_table(path).select("mixture", "domain", "proportion").iter_rows():
            mixtures.setdefault(name, {})[domain] = proportion
    first = next(iter(mixtures.values()))
    named = {domain for mixture in mixtures.values() for domain in mixture}
    domains = sorted(named, key=lambda domain: (-first.get(domain, 0), domain))
    colours = {name: colour for name, (colour, _) in figures.styles(list(mixtures)).items()}
    shares = {name: [mixture.get(domain, 0.0) for domain in domains] for name, mixture in mixtures.items()}
    title = "Proportion of each domain, by mixture"
    figure = figures.bars(shares, domains, colours, "{:.3f}".format, title, same_scale=True)
    with replacing(options.out) as temporary:
        figures.save(figure, temporary)


if __name__ == "__main__":
    sys.exit(run(main))
