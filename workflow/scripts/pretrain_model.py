"""Pretrain one model on one mixture, from the start or from its last checkpoint.

token index of both splits, mixture, shape, recipe -> losses.parquet, model.safetensors, run.json
(and state/)
"""

import argparse
import sys
from functools import partial
from pathlib import Path

from bimix.errors import run
from bimix.mixtures.mixture import Mixture
from bimix.model.export import write_weights
from bimix.training.attempt import bring_to_end, describe, fingerprint_run
from bimix.training.loop import Run, train
from bimix.training.order import Schedule
from bimix.training.recipe import first_updates
from bimix.training.session import Session, training_parser


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    session = Session(options)
    mixture = Mixture.read(options.mixture, session.domains)
    starts = first_updates([stage.share for stage in mixture.stages], session.recipe.steps, str(options.mixture))
    schedule = Schedule(mixture.over(session.domains), starts)
    # the losses last, since they are what the later stages wait for
    places = {"run.json": options.report, "model.safetensors": options.weights, "losses.parquet": options.losses}

    def results(finished: Run) -> dict:
        write_weights(finished.learner.plain, finished.folder / "model.safetensors")
        return describe(finished, mixture)

    training = partial(train, session, schedule=schedule, keep=options.keep)
    return bring_to_end(session, options.state, fingerprint_run(session, mixture), places, training, results)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = training_parser(__doc__)
    parser.add_argument("--mixture", type=Path, required=True, help="{domain: proportion}, or stages of them; JSON")
    parser.add_argument("--keep", type=steps, default=[], help="evaluations whose weights stay: 200,400 or none")
    parser.add_argument("--weights", type=Path, required=True, help="safetensors")
    return parser.parse_args(argv)


def steps(text: str) -> list[int]:
    """Numbers separated by commas; `none` is the empty list."""
    return [] if text == "none" else [int(step) for step in text.split(",")]


if __name__ == "__main__":
    sys.exit(run(main))
