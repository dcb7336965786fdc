"""Mix by hand for wanted domains: read them a number of epochs of the run, the rest by a rule.

tokens/train.parquet, the reference mixture or cross_entropy.csv -> mixtures/wanted_8.json,
wanted_8_uniform.json, wanted_8_kin.json; the ending of --name says the rule. For runs that were
measured elsewhere their tables say how long the run is
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from bimix.errors import InputError, run
from bimix.mixtures.by_hand import wanted_domains
from bimix.mixtures.mixture import as_mixture, read_proportions
from bimix.mixtures.names import wanted_rule
from bimix.observations.observations import Observations, read_observations
from bimix.optimum.bounds import feasible_bounds
from bimix.optimum.flags import add_flags, limits_of
from bimix.search.by_hand import Wanted
from bimix.tables import read_numbers, read_tokens


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", required=True, help="wanted_{epochs}, with _uniform or _kin at its end or neither")
    parser.add_argument("--reference", nargs="?", type=Path, help="mixture.json of the rest, of the plain rule")
    parser.add_argument("--cross-entropy", nargs="?", type=Path, help="domain, under, nats; of _kin")
    parser.add_argument(
        "--runs",
        type=Path,
        nargs=2,
        metavar=("LOSSES", "MIXTURES"),
        help="measured elsewhere: their column tokens says how long the run is, and without --reference the rest has the"
        " shares of --tokens",
    )
    parser.add_argument("--step", type=int, help="of --runs; without it the last of the losses")
    add_flags(parser, "run-tokens", "bounds")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    rule = wanted_rule(options.name)
    if rule is None or not options.weights or not options.tokens:
        raise InputError("a rule by hand needs --name wanted_{epochs}, --weights of the wanted losses, and --tokens.")
    epochs, kind = rule
    tokens, weights = read_tokens(options.tokens), read_numbers(options.weights)
    domains, losses, run_tokens = sorted(tokens), sorted({*tokens, *weights}), options.run_tokens
    if options.runs:
        observed = read_observations(*options.runs)
        domains, losses = list(observed.domains), observed.loss_domains
        run_tokens = run_tokens or tokens_of_run(observed, options.step)
    if run_tokens is None:
        raise InputError("how long the run is is not known: give --run-tokens, or --runs with a column tokens.")
    if absent := [name for name in domains if not tokens.get(name)]:
        raise InputError(f"{options.tokens} has no tokens of {absent[0]!r}: a rule by hand counts all domains' epochs.")
    own = wanted_domains(weights, domains, losses)
    if not own.any():
        raise InputError(f"the weights want no trained domain more than others: {options.name} has no meaning.")
    if kind == "kin" and options.cross_entropy is None:
        raise InputError(f"{options.name} needs --cross-entropy: how well each domain's text predicts another's.")
    amounts = np.array([float(tokens[name]) for name in domains])
    reference = amounts
    if options.reference:
        given = read_proportions(options.reference, domains)
        reference = np.array([given.get(name, 0.0) for name in domains])
    elif kind == "reference" and not options.runs:
        raise InputError(f"{options.name} needs --reference: the mixture whose shares the rest has.")
    most = None if options.max_epochs in (None, np.inf) else options.max_epochs
    bounds = feasible_bounds(domains, *limits_of(options), most, tokens, run_tokens)
    rules = Wanted(tuple(domains), amounts, run_tokens, own, bounds, reference, options.cross_entropy)
    as_mixture(domains, rules.mixture(epochs, kind)).write(options.out)


def tokens_of_run(observed: Observations, step: int | None) -> float | None:
    """Tokens of a run to a step; of several sizes the largest model's longest. None: not known."""
    if observed.parameters is not None:
        of_largest = observed.parameters == observed.parameters.max()
        return None if observed.tokens is None else float(observed.tokens[of_largest].max())
    if observed.tokens_per_step is None:
        return None
    return float(observed.tokens_per_step * (observed.steps[-1] if step is None else step))


if __name__ == "__main__":
    sys.exit(run(main))
