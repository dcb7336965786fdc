"""Mix by hand for wanted domains: read them a number of epochs of the run, the rest by a rule.

tokens/train.parquet, the reference mixture or cross_entropy.csv -> mixtures/wanted_8.json,
wanted_8_uniform.json, wanted_8_kin.json; the ending of --name says the rule
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from bimix.errors import InputError, run
from bimix.mixtures.by_hand import wanted, wanted_domains
from bimix.mixtures.mixture import as_mixture, read_proportions
from bimix.observations.prior import kin_weights
from bimix.optimum.bounds import feasible_bounds
from bimix.optimum.flags import add_flags
from bimix.plan.sources import wanted_rule
from bimix.tables import read_numbers, read_tokens


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", required=True, help="wanted_{epochs}, with _uniform or _kin at its end or neither")
    parser.add_argument("--reference", type=Path, help="mixture.json whose shares the rest has; of the plain rule")
    parser.add_argument("--cross-entropy", nargs="?", type=Path, help="domain, under, nats; of _kin")
    parser.add_argument(
        "--softness", type=float, required=True, help="nats of a gap that divide a weight by e; of _kin"
    )
    parser.add_argument("--run-tokens", type=float, required=True, help="of the run that the mixture is for")
    add_flags(parser, "bounds")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    rule = wanted_rule(options.name)
    if rule is None or not options.weights or not options.tokens:
        raise InputError("a rule by hand needs --name wanted_{epochs}, --weights of the wanted losses, and --tokens.")
    epochs, kind = rule
    tokens, weights = read_tokens(options.tokens), read_numbers(options.weights)
    domains = sorted(tokens)
    own = wanted_domains(weights, domains, sorted({*domains, *weights}))
    if not own.any():
        raise InputError(
            f"the weights want no domain more than others that is trained on: {options.name} has no meaning."
        )
    if kind == "uniform":
        rest = np.ones(len(domains))
    elif kind == "kin":
        if options.cross_entropy is None:
            raise InputError(f"{options.name} needs --cross-entropy: how well each domain's text predicts another's.")
        names = [name for name, one in zip(domains, own, strict=True) if one]
        rest = kin_weights(options.cross_entropy, domains, names, options.softness)
    else:
        if options.reference is None:
            raise InputError(f"{options.name} needs --reference: the mixture whose shares the rest has.")
        given = read_proportions(options.reference, domains)
        rest = np.array([given.get(name, 0.0) for name in domains])
    most = None if options.max_epochs in (None, np.inf) else options.max_epochs
    bounds = (options.lower and read_numbers(options.lower), options.upper and read_numbers(options.upper))
    lower, upper = feasible_bounds(domains, *bounds, most, tokens, options.run_tokens)
    amounts = np.array([tokens[name] for name in domains], dtype=float)
    shares = wanted(amounts, options.run_tokens, own, epochs, rest, lower, upper)
    as_mixture(domains, shares).write(options.out)


if __name__ == "__main__":
    sys.exit(run(main))
