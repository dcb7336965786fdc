"""Find the mixture with the least predicted loss at a step.

coefficients.json, optional target weights and bounds {domain: number} -> mixture.json {domain: proportion}, sums to 1
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from bimix.errors import InputError, run
from bimix.laws import predict_defined, undefined
from bimix.optimum.bounds import run_bounds
from bimix.optimum.flags import add_bounds, add_run_tokens
from bimix.optimum.optimum import average, optimum, target_weights, weighed
from bimix.outputs import write_json
from bimix.tables import read_json, read_numbers, read_tokens


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coefficients", type=Path, required=True, help="written by fit_law.py")
    parser.add_argument("--step", required=True, type=int, help="training steps of the run to be made good")
    add_bounds(parser)
    add_run_tokens(parser)
    parser.add_argument("--out", type=Path, required=True, help="mixture.json")
    options = parser.parse_args(argv)

    fitted = read_json(options.coefficients)
    if options.step <= 0:
        raise InputError(f"--step is {options.step}: it must be above 0.")
    tokens = read_tokens(options.tokens) if options.tokens else None
    weights = options.weights and read_numbers(options.weights)
    lower, upper = run_bounds(
        fitted,
        options.step,
        options.lower and read_numbers(options.lower),
        options.upper and read_numbers(options.upper),
        options.max_epochs,
        tokens,
        options.run_tokens,
        weights,
    )
    shares = optimum(fitted, options.step, weights, lower, upper, tokens)
    write_json(
        options.out, {domain: float(share) for domain, share in sorted(zip(fitted["domains"], shares, strict=True))}
    )

    losses = predict_defined(fitted, shares[None, :], np.array([options.step]))[0, 0]
    target = target_weights(fitted, weights)
    over = "" if target.min() == target.max() else f" (weighed: {weighed(fitted, weights)})"
    print(f"average loss predicted at step {options.step}: {average(losses, target):.4f}{over}")
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
        print(f"  {domain}: {share:.4f}" + (f"  ({'; '.join(notes)})" if notes else ""))


if __name__ == "__main__":
    sys.exit(run(main))
