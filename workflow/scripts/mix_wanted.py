"""Mix by hand for wanted domains: read them a number of epochs of the run, the rest by a rule.

tokens/train.parquet, the reference mixture or cross_entropy.csv -> mixtures/wanted_8.json,
wanted_8_uniform.json, wanted_8_kin.json; the ending of --name says the rule. For runs that were
measured elsewhere their tables say how long the run is
"""

import argparse
import sys
from pathlib import Path

from bimix.errors import InputError, run
from bimix.mixtures.mixture import as_mixture
from bimix.mixtures.names import wanted_rule
from bimix.observations.observations import Observations, read_observations
from bimix.optimum.flags import add_flags
from bimix.search.by_hand import Wanted
from bimix.tables import read_numbers, read_tokens


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", required=True, help="wanted_{epochs}, with _uniform or _kin at its end or neither")
    parser.add_argument(
        "--reference", nargs="?", type=Path, dest="rest", help="mixture.json of the rest, of the plain rule"
    )
    parser.add_argument("--cross-entropy", nargs="?", type=Path, dest="prior", help="domain, under, nats; of _kin")
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
    if kind == "kin" and options.prior is None:
        raise InputError(f"{options.name} needs --cross-entropy: how well each domain's text predicts another's.")
    if kind == "reference" and not (options.rest or options.runs):
        raise InputError(f"{options.name} needs --reference: the mixture whose shares the rest has.")
    tokens, weights = read_tokens(options.tokens), read_numbers(options.weights)
    named = {"domains": sorted(tokens), "loss_domains": sorted({*tokens, *weights}), "proportions_seen": {}}
    run_tokens = options.run_tokens
    if options.runs:
        observed = read_observations(*options.runs)
        named |= {"domains": list(observed.domains), "loss_domains": observed.loss_domains}
        run_tokens = run_tokens or tokens_of_run(observed, options.step)
    rules = Wanted.of(options, named, weights, tokens, run_tokens).requested()
    as_mixture(named["domains"], rules.mixture(epochs, kind)).write(options.out)


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
