"""Find the mixture with the least predicted loss at a step, or of a model of another size.

coefficients.json, optional target weights and bounds {domain: number} -> mixture.json {domain:
proportion}, sums to 1; with --report what its objective is there, what certifies it, and how far it
lies from the runs.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from bimix.errors import InputError, run
from bimix.laws.document import checked_law
from bimix.laws.fitted import at_run, far_ahead, predict_defined, undefined
from bimix.mixtures.mixture import as_mixture
from bimix.optimum.best import best
from bimix.optimum.bounds import run_bounds
from bimix.optimum.flags import (
    add_bounds,
    add_centre,
    add_parameters,
    add_run_tokens,
    asked_tokens,
    centre_of,
    note_unlimited,
    simulating,
)
from bimix.optimum.optimum import average, target_weights, weighed
from bimix.optimum.report import (
    add_objective,
    asked_objective,
    epochs_sentence,
    fitted_support,
    further_epochs,
    report,
    sentences,
)
from bimix.outputs import write_json
from bimix.tables import read_numbers, read_tokens
from bimix.transfer.sized import far_apart, size_read


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coefficients", type=Path, required=True, help="written by fit_law.py")
    parser.add_argument(
        "--step",
        type=int,
        help="training steps of the run to be made good; a law fitted to one step or to several sizes needs none",
    )
    add_bounds(parser)
    add_objective(parser)
    add_centre(parser)
    add_run_tokens(parser)
    add_parameters(parser)
    parser.add_argument("--mixtures", type=Path, help="those it was fitted to: says how far the optimum lies from them")
    parser.add_argument("--out", type=Path, required=True, help="mixture.json")
    parser.add_argument("--report", type=Path, help="JSON of what is said of the mixture")
    options = parser.parse_args(argv)

    fitted = simulating(checked_law(options.coefficients), options)
    if options.step is None and "rows" not in fitted and len(fitted["steps"]) > 1:
        raise InputError("--step is missing: the steps of the run to be made good, as the law was fitted over steps.")
    step = fitted["steps"][-1] if options.step is None else options.step
    if step <= 0:
        raise InputError(f"--step is {step}: it must be above 0.")
    ahead = far_ahead(fitted, step)
    tokens = read_tokens(options.tokens) if options.tokens else None
    objective = asked_objective(options)
    objective.target(fitted)  # names that are not known are refused before anything is read at the run
    weights = objective.domain_weights()
    run_tokens = asked_tokens(fitted, options.run_tokens, step, options.parameters)
    note_unlimited(fitted, tokens, run_tokens)
    fitted = at_run(fitted, options.parameters, run_tokens, tokens, step)
    parameters = size_read(fitted)
    lower, upper = run_bounds(
        fitted,
        step,
        options.lower and read_numbers(options.lower),
        options.upper and read_numbers(options.upper),
        options.max_epochs,
        tokens,
        run_tokens,
        weights,
    )
    centre = centre_of(options, tokens)
    found = best(fitted, step, objective, lower, upper, centre)
    shares = found.shares
    where = fitted_support(fitted, shares, options.mixtures) if options.mixtures else None
    further = further_epochs(fitted, shares, tokens, run_tokens)
    said = report(fitted, step, objective, found, centre, where, further)
    as_mixture(fitted["domains"], shares).write(options.out)
    if options.report:
        write_json(options.report, said)

    losses = predict_defined(fitted, shares[None, :], np.array([step]))[0, 0]
    target = target_weights(fitted, weights)
    over = "" if target.min() == target.max() else f" (weighted: {weighed(fitted, weights)})"
    at = f"for {parameters:g} parameters" if parameters else f"at step {step}"
    print(f"average loss predicted {at}: {average(losses, target):.4f}{over}")
    if options.objective or options.report or objective.trusted or objective.reference is not None:
        print("\n".join(f"  {sentence}" for sentence in sentences(said)))
    unknown = undefined(fitted, losses)
    if unknown:
        print(
            f"  not defined there, by the law {fitted['law']}, which has no loss at a proportion of 0: the losses of "
            f"{', '.join(unknown)}; they weigh 0 (a domain that shall stay in the mixture needs a bound `lower`)"
        )
    for domain, share, low, high in zip(fitted["domains"], shares, lower, upper, strict=True):
        seen = fitted["proportions_seen"][domain]
        notes = [
            note for note, true in (("at its lower bound", share <= low), ("at its upper bound", share >= high)) if true
        ]
        if not seen["min"] <= share <= seen["max"]:
            notes.append(f"outside the proportions seen, {seen['min']:.4f} to {seen['max']:.4f}")
        if tokens and run_tokens and share * run_tokens > tokens.get(domain, np.inf):
            notes.append(f"{share * run_tokens / tokens[domain]:.3g} epochs")
        print(f"  {domain}: {share:.4f}" + (f"  ({'; '.join(notes)})" if notes else ""))
    if where and where.sentence():
        print(f"warning: {where.sentence()}", file=sys.stderr)
    for note in filter(None, (far_apart(fitted["coefficients"], parameters), ahead, epochs_sentence(further))):
        print(f"warning: {note}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(run(main))
