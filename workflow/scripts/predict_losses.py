"""Predict the losses of mixtures, trained or not, with a fitted law.

coefficients.json, mixtures (mixture, domain, proportion) -> predictions (mixture, step, domain,
loss)

With --parameters a law fitted to several sizes predicts a model of that size, trained on
--run-tokens. With --tokens, the pools of that run, repeated text counts less; without it each
mixture is predicted at its own pools, if its table has a column pool.

A loss that the law does not define (bimix: of a domain of proportion 0; a law of single steps: at a
step that fewer than two runs reach) is null, with a remark on standard error.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl

from bimix.errors import run
from bimix.laws.document import checked_law
from bimix.laws.fitted import at_run, far_ahead, predict_defined, undefined
from bimix.laws.table import LAWS
from bimix.observations.observations import pools_of, proportions_of
from bimix.optimum.flags import add_flags, asked_tokens, note_unlimited
from bimix.outputs import write_table
from bimix.tables import read_table, read_tokens
from bimix.transfer.run import far_apart
from bimix.transfer.unseen import unseen_sentence


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coefficients", type=Path, required=True, help="written by fit_law.py")
    parser.add_argument("--mixtures", type=Path, required=True, nargs="+", help="tidy mixtures, parquet or csv")
    parser.add_argument("--steps", type=int, nargs="+", help="training steps; without it those of the fit")
    add_flags(parser, "parameters", "run-tokens", "tokens")
    parser.add_argument("--out", type=Path, required=True, help="predictions, parquet or csv")
    options = parser.parse_args(argv)

    fitted = checked_law(options.coefficients)
    sized = "rows" in fitted
    steps = options.steps or (fitted["steps"][-1:] if sized else fitted["steps"])
    tokens = read_tokens(options.tokens) if options.tokens else None
    run_tokens = asked_tokens(fitted, options.run_tokens, steps[-1], options.parameters)
    note_unlimited(fitted, tokens, run_tokens)
    fitted = at_run(fitted, options.parameters, run_tokens, tokens)
    if sized:
        fitted |= {"steps": steps}
    for note in filter(None, (far_apart(fitted["coefficients"], options.parameters), far_ahead(fitted, max(steps)))):
        print(f"warning: {note}", file=sys.stderr)
    frames = []
    for path in options.mixtures:
        table = read_table(path)
        names, proportions = proportions_of(table, tuple(fitted["domains"]), str(path))
        if new := unseen_sentence(fitted, proportions.max(axis=0)):
            print(f"{path}: {new}", file=sys.stderr)
        losses = predict_defined(fitted, proportions, np.array(steps))
        pools = None if tokens or run_tokens is None else pools_of(table, tuple(fitted["domains"]), str(path))
        for n, pool in enumerate(pools or []):
            own = at_run(fitted, options.parameters, run_tokens, pool) | {"steps": fitted["steps"]}
            losses[n] = predict_defined(own, proportions[n : n + 1], np.array(steps))[0]
        for name, own in zip(names, losses, strict=True):
            unknown = undefined(fitted, own)
            if unknown:
                where = (
                    "a proportion of 0" if LAWS[fitted["law"]].over_steps else "steps that fewer than two runs reach"
                )
                print(
                    f"{path}, mixture {name!r}: the law {fitted['law']} does not define the losses of "
                    f"{', '.join(unknown)} at {where}; they are null.",
                    file=sys.stderr,
                )
        frames.append(
            pl.DataFrame(
                {
                    "mixture": np.repeat(names, losses[0].size),
                    "step": np.tile(np.repeat(np.array(steps), losses.shape[2]), len(names)),
                    "domain": np.tile(fitted["loss_domains"], losses.shape[0] * losses.shape[1]),
                    "loss": losses.ravel(),
                }
            ).with_columns(pl.col("loss").fill_nan(None))
        )
    predictions = pl.concat(frames).unique(["mixture", "step", "domain"], keep="first", maintain_order=True)
    write_table(predictions, options.out)


if __name__ == "__main__":
    sys.exit(run(main))
