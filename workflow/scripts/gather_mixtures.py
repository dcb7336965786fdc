"""Put the mixtures of a group into one tidy table.

mixtures/{mixture}.json ... -> mixtures/groups/{group}.parquet (mixture, domain, proportion, pool:
tokens)

A mixture in stages is one for each of them, called `name (stage 1 of 2)`, with its `share` of the run.
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.errors import run
from bimix.mixtures.mixture import Mixture, Stage, stage_name
from bimix.mixtures.pools import add_pools, with_pools
from bimix.outputs import write_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mixtures", type=Path, nargs="+", required=True, help="{domain: proportion}, JSON")
    parser.add_argument("--names", nargs="+", required=True, help="the mixtures' names, in the same order")
    add_pools(parser)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    mixtures = each_stage(
        {name: Mixture.read(path) for name, path in zip(options.names, options.mixtures, strict=True)}
    )
    rows = [
        (name, domain, proportion, share)
        for name, (share, own) in mixtures.items()
        for domain, proportion in own.items()
    ]
    table = pl.DataFrame(rows, schema=["mixture", "domain", "proportion", "share"], orient="row")
    if (table["share"] == 1).all():
        table = table.drop("share")
    write_table(with_pools(table, options.tokens, options.pool_share), options.out)


def each_stage(mixtures: dict[str, Mixture]) -> dict[str, Stage]:
    """The stages of mixtures by name; of several stages each, with its number."""
    found = {}
    for name, mixture in mixtures.items():
        for number, stage in enumerate(mixture.stages, start=1):
            found[name if len(mixture.stages) == 1 else stage_name(name, number, len(mixture.stages))] = stage
    return found


if __name__ == "__main__":
    sys.exit(run(main))
