"""Pretrain one model on one mixture, from the start or from its last checkpoint.

token index of both splits, mixture, shape, recipe -> losses.parquet, model.safetensors, run.json
(and state/)
"""

import argparse
import sys
from pathlib import Path

from bimix.digests import digest_file
from bimix.errors import run
from bimix.mixtures.mixture import Mixture
from bimix.model.transformer import Transformer
from bimix.training.attempt import bring_to_end, describe, fingerprint_run, write_weights
from bimix.training.checkpoints import kept_weights, note
from bimix.training.loop import Finished, train
from bimix.training.order import Schedule
from bimix.training.recipe import first_updates
from bimix.training.session import open_session, training_parser


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    session = open_session(options)
    mixture = Mixture.read(options.mixture, session.domains)
    starts = first_updates([stage.share for stage in mixture.stages], session.recipe.steps, str(options.mixture))
    defined_by = fingerprint_run(session, mixture)
    # the losses last, since they are what the later stages wait for
    places = {"run.json": options.report, "model.safetensors": options.weights, "losses.parquet": options.losses}
    schedule = Schedule(mixture.over(session.domains), starts)

    def training(own: Path) -> Finished | None:
        def keep(step: int, model: Transformer) -> None:
            if step in options.keep and step < session.recipe.steps:  # the last ones are an output anyhow
                path = kept_weights(own, step)
                write_weights(model, path)
                note(own, "kept", step, file=str(path.relative_to(own)), digest=digest_file(path))

        return train(session, own, schedule, evaluated=keep if options.keep else None)

    def results(own: Path, finished: Finished) -> dict:
        write_weights(finished.model, own / "model.safetensors")
        return describe(session, finished, mixture, own)

    return bring_to_end(session, options.state, defined_by, places, training, results)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = training_parser(__doc__)
    parser.add_argument("--mixture", type=Path, required=True, help="{domain: proportion}, or stages of them; JSON")
    parser.add_argument("--keep", type=steps, default=[], help="evaluations whose weights stay: 200,400 or none")
    parser.add_argument("--losses", type=Path, required=True, help="step, tokens, domain, loss; parquet")
    parser.add_argument("--weights", type=Path, required=True, help="safetensors")
    parser.add_argument("--report", type=Path, required=True, help="run.json")
    return parser.parse_args(argv)


def steps(text: str) -> list[int]:
    """Numbers separated by commas; `none` is the empty list."""
    return [] if text == "none" else [int(step) for step in text.split(",")]


if __name__ == "__main__":
    sys.exit(run(main))
