"""Put the mixtures of a group into one tidy table.

mixtures/{mixture}.json ... -> mixtures/groups/{group}.parquet (mixture, domain, proportion, pool:
tokens)

A mixture in stages is one for each of them, called `name (stage 1 of 2)`. With --stage a row has
the proportions of that stage under the mixture's own name, for a law in these: the mixtures must be
alike in all other stages. There is no pool then, since the epochs of a stage are not those of the
run.
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.errors import InputError, run
from bimix.mixtures.mixture import Mixture
from bimix.mixtures.pools import add_pools, with_pools
from bimix.outputs import write_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mixtures", type=Path, nargs="+", required=True, help="{domain: proportion}, JSON")
    parser.add_argument("--names", nargs="+", required=True, help="the mixtures' names, in the same order")
    add_pools(parser)
    parser.add_argument("--stage", nargs="?", type=int, help="the one stage, from 1, in which the mixtures differ")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    read = {name: Mixture.read(path) for name, path in zip(options.names, options.mixtures, strict=True)}
    mixtures = of_stage(read, options.stage) if options.stage else each_stage(read)
    rows = [(name, domain, proportion) for name, own in mixtures.items() for domain, proportion in own.items()]
    table = pl.DataFrame(rows, schema=["mixture", "domain", "proportion"], orient="row")
    write_table(table if options.stage else with_pools(table, options.tokens, options.pool_share), options.out)


def each_stage(mixtures: dict[str, Mixture]) -> dict[str, dict[str, float]]:
    """Proportions by the mixture's name; of several stages each, with its number."""
    found = {}
    for name, mixture in mixtures.items():
        count = len(mixture.stages)
        for number, stage in enumerate(mixture.stages, start=1):
            found[name if count == 1 else f"{name} (stage {number} of {count})"] = stage.proportions
    return found


def of_stage(mixtures: dict[str, Mixture], number: int) -> dict[str, dict[str, float]]:
    """Proportions of the stage of that number, from 1, by the mixture's name. Errors: a mixture has
    no such stage, or differs from the first in another.
    """
    first = next(iter(mixtures))
    for name, mixture in mixtures.items():
        if not 1 <= number <= len(mixture.stages):
            raise InputError(f"{name} has {len(mixture.stages)} stages: the group cannot differ in a stage {number}.")
        rest, usual = (
            [(share, place == number or own) for place, (share, own) in enumerate(one.stages, start=1)]
            for one in (mixture, mixtures[first])
        )
        if rest != usual:
            raise InputError(
                f"{name} differs from {first} in more than the mixture of stage {number}: a law in that stage's"
                " proportions needs runs that are alike in all else."
            )
    return {name: mixture.stages[number - 1].proportions for name, mixture in mixtures.items()}


if __name__ == "__main__":
    sys.exit(run(main))
