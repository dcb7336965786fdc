"""Pretrain one model on one mixture, from the start or from its last checkpoint.

token index of both splits, mixture, shape, recipe -> losses.parquet, model.safetensors, run.json (and state/)
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from bimix.checkpoints import kept_weights
from bimix.errors import run
from bimix.launch import open_session, training_parser
from bimix.mixtures import check_mixture
from bimix.model import Transformer
from bimix.outputs import write_json, write_table
from bimix.runs import describe, fingerprint, loss_table, write_weights
from bimix.session import STOPPED, holding, train


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    session = open_session(options)
    mixture = json.loads(options.mixture.read_text(encoding="utf-8"))
    check_mixture(mixture, session.domains, options.mixture)
    defined_by = fingerprint(session.shape, session.recipe, mixture, session.indices)
    with holding(session, options.state, defined_by):
        session.accelerator.init_trackers("tensorboard")
        proportions = np.array([mixture.get(domain, 0.0) for domain in session.domains])

        def keep(step: int, model: Transformer) -> None:
            if step in options.keep and step < session.recipe.steps:  # the last ones are an output anyhow
                write_weights(model, kept_weights(options.state, step))

        finished = train(session, options.state, proportions, evaluated=keep)
        if finished is None:
            return STOPPED
        if session.accelerator.is_main_process:
            write_json(options.report, describe(session, finished.seconds))
            write_weights(finished.model, options.weights)
            # last, since they are what the later stages wait for
            write_table(loss_table(session, finished.history), options.losses)
    session.accelerator.end_training()
    return 0


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = training_parser(__doc__)
    parser.add_argument("--mixture", type=Path, required=True, help="{domain: proportion}, JSON")
    parser.add_argument(
        "--keep", type=steps, default=[], help="evaluations whose weights stay in the state: 200,400 or none"
    )
    parser.add_argument("--losses", type=Path, required=True, help="step, tokens, domain, loss; parquet")
    parser.add_argument("--weights", type=Path, required=True, help="safetensors")
    parser.add_argument("--report", type=Path, required=True, help="run.json")
    return parser.parse_args(argv)


def steps(text: str) -> list[int]:
    """Numbers between commas; the word none stands for none of them."""
    return [] if text == "none" else [int(step) for step in text.split(",")]


if __name__ == "__main__":
    sys.exit(run(main))
