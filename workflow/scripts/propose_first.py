"""Propose the first runs, before any loss is known: mixtures far from each other.

tokens of each domain, optional mixtures of one's own (as of entropies) and mixtures already run ->
mixture, domain, proportion

Token shares, equal shares, rules by hand where --weights want some domains, the mixtures of
--candidates and draws around all of these; picked one by one, each the farthest from those before. Where
runs of --mixtures do not separate two domains, the first proposed does.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl

from bimix.errors import InputError, run
from bimix.mixtures.by_hand import wanted_domains
from bimix.mixtures.mixture import as_mixture
from bimix.observations.observations import proportions_of
from bimix.optimum.bounds import feasible_bounds, with_least
from bimix.optimum.flags import add_flags, asked_objective, limits_of
from bimix.outputs import write_table
from bimix.search.by_hand import EPOCHS, Wanted
from bimix.search.first import draws, first_runs, last_number, maximin, separating
from bimix.tables import read_table, read_tokens

LEAST = 0.25  # of a domain's share of the tokens: nobody trains on one domain alone


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_flags(parser, "bounds", "run-tokens")
    parser.add_argument("--candidates", type=Path, help="mixtures to choose among as well: mixture, domain, proportion")
    parser.add_argument("--mixtures", type=Path, help="mixtures already run, likewise")
    parser.add_argument("--count", type=int, default=5, help="mixtures to propose (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the draws (%(default)s)")
    parser.add_argument("--out", type=Path, required=True, help="csv or parquet")
    options = parser.parse_args(argv)
    if options.count < 1:
        raise InputError(f"--count is {options.count}: it must be 1 or more.")
    if not options.tokens:
        raise InputError("--tokens is missing: it names the domains, and token shares are the first run.")
    tokens = read_tokens(options.tokens)
    if empty := [name for name, count in tokens.items() if not count]:
        raise InputError(f"{options.tokens} has 0 tokens of {empty[0]!r}: no run can read it; take it out.")
    domains = tuple(sorted(tokens))
    if options.max_epochs is not None and options.run_tokens is None:
        raise InputError("--max-epochs needs --run-tokens.")
    limits = limits_of(options)
    low, high = feasible_bounds(domains, *limits, options.max_epochs, tokens, options.run_tokens)

    named = rules(options, domains, tokens, (low, high))
    for name, shares in zip(*of_table(options.candidates, domains), strict=True):
        if (shares < low - 1e-6).any() or (shares > high + 1e-6).any():
            print(f"{name} lies outside the bounds and is left out.", file=sys.stderr)
        else:
            named[name] = shares
    seen_names, seen = of_table(options.mixtures, domains)
    bounds = with_least(low, high, domains, LEAST, tokens, limits[0]), high
    after = last_number(seen_names)
    apart = separating(seen, draws(np.mean(list(named.values()), axis=0), low, high, options.seed), low, high)
    found = {f"first_{after + 1:03d}": apart[row] for row in maximin(apart, seen, 1)} if len(apart) else {}
    seen = np.concatenate([seen, *(one[None] for one in found.values())])
    found |= first_runs(named, bounds, seen, options.count - len(found), options.seed, after + len(found))

    rows = [(name, *row) for name, shares in found.items() for row in as_mixture(domains, shares).document().items()]
    schema = {"mixture": pl.String, "domain": pl.String, "proportion": pl.Float64}
    write_table(pl.DataFrame(rows, schema=schema, orient="row"), options.out)
    print(f"{len(found)} mixtures to run first: {', '.join(found)}.")


def rules(options, domains: tuple[str, ...], tokens: dict, bounds: tuple) -> dict[str, np.ndarray]:
    """{name: shares (m,)} of mixtures that need no run, token shares first."""
    weights = asked_objective(options).domain_weights()
    amounts = np.array([float(tokens[name]) for name in domains])
    wanted = wanted_domains(weights, domains, sorted({*domains, *weights}))
    by_rule = Wanted(domains, amounts, options.run_tokens, wanted, bounds, amounts).every_rule(
        EPOCHS, options.max_epochs
    )
    first = next(name for name in by_rule if name.startswith("baseline"))
    return {first: by_rule.pop(first), **by_rule}


def of_table(path: Path | None, domains: tuple[str, ...]) -> tuple[tuple[str, ...], np.ndarray]:
    """Names and shares (n, m) of a table of mixtures; none without one."""
    if path is None:
        return (), np.zeros((0, len(domains)))
    return proportions_of(read_table(path), domains, str(path))


if __name__ == "__main__":
    sys.exit(run(main))
