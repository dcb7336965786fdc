"""Check a mixture file of the user's own and take it in.

{domain: proportion} or stages of them as JSON, or csv with the columns domain and proportion ->
mixtures/{name}.json

A csv may have the column mixture, and further ones, as the mixtures that propose_runs.py proposes:
the rows of --name count.
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.errors import InputError, run
from bimix.mixtures.mixture import Mixture
from bimix.plan.sources import REWEIGHTING
from bimix.tables import is_text, read_table
from bimix.training.artefacts import check


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mixture", type=Path, required=True, help="JSON or csv")
    parser.add_argument("--name", required=True, help="the mixture's, in a table of several")
    parser.add_argument("--domains", nargs="+", required=True, help="domains of the dataset")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    domains = sorted(options.domains)
    if is_text(options.mixture.name):
        mixture = Mixture.parse(of_table(options.mixture, options.name), options.mixture, domains)
    else:
        # a training's has its digest in run.json; a user's file may stand next to any run.json
        made = options.name in REWEIGHTING
        mixture = Mixture.read(check(options.mixture) if made else options.mixture, domains)
    mixture.naming(domains).write(options.out)


def of_table(path: Path, name: str) -> dict[str, object]:
    """{domain: proportion} of a csv; of several mixtures that of the name. Errors: a name twice."""
    table = read_table(path)
    if {"mixture", "domain", "proportion"} <= set(table.columns):
        table = table.filter(pl.col("mixture") == name).select("domain", "proportion")
        if not table.height:
            raise InputError(f"{path} has no mixture {name!r}: name one of its column mixture.")
    if set(table.columns) != {"domain", "proportion"}:
        raise InputError(f"{path}:1: the columns must be domain and proportion, not {', '.join(table.columns)}.")
    twice = table.filter(pl.col("domain").is_duplicated())["domain"]
    if len(twice):
        raise InputError(f"{path}: the domain {twice[0]!r} stands there twice.")
    return dict(table.select("domain", "proportion").iter_rows())


if __name__ == "__main__":
    sys.exit(run(main))
