"""Train DoReMi's proxy against a reference model, from the start or from its last checkpoint.

token index of both splits, weights of the reference, shape, recipe -> mixture.json, path.parquet,
losses.parquet, run.json
"""

import argparse
import hashlib
import sys
from functools import partial
from pathlib import Path

import numpy as np

from bimix.errors import InputError, run
from bimix.mixtures.mixture import as_mixture
from bimix.model.transformer import Transformer
from bimix.outputs import write_table
from bimix.reweighting.doremi import SMOOTHING, STEP_SIZE, Doremi
from bimix.reweighting.trace import average, path_table
from bimix.training.artefacts import check
from bimix.training.attempt import bring_to_end, describe, fingerprint_run
from bimix.training.checkpoints import read_weights
from bimix.training.loop import Finished, train
from bimix.training.order import Schedule
from bimix.training.session import Session, open_session, training_parser
from bimix.training.update import compile_whole


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    session = open_session(options)
    reference = read_reference(options.reference, session)
    uniform = as_mixture(session.domains, np.ones(len(session.domains)))
    defined_by = fingerprint_run(session, uniform)
    defined_by |= {"doremi.step_size": STEP_SIZE, "doremi.smoothing": SMOOTHING}
    defined_by["doremi.order"] = "backwards"
    defined_by["reference"] = hashlib.sha256(options.reference.read_bytes()).hexdigest()[:16]
    # the mixture last, since it is what the later stages wait for
    places = {"run.json": options.report, "path.parquet": options.path, "losses.parquet": options.losses}
    places["mixture.json"] = options.mixture
    method = partial(Doremi, reference=reference)

    def results(own: Path, finished: Finished) -> dict:
        mixture = as_mixture(session.domains, average(finished.method))
        report = describe(session, finished, uniform, own)
        # a forward pass is a third of a forward and a backward pass
        extra = finished.method["forwards"] * session.train.row_length
        report["flops"] += extra * session.shape.flops_per_token(session.train.row_length) // 3
        write_table(path_table(finished.method, session.recipe.steps, session.domains, "excess"), own / "path.parquet")
        mixture.write(own / "mixture.json")
        return report

    schedule = Schedule(uniform.over(session.domains))
    training = partial(train, session, schedule=schedule, method=method, wrapped=False)
    return bring_to_end(session, options.state, defined_by, places, training, results)


def read_reference(path: Path, session: Session) -> Transformer:
    """The reference model, frozen, on the session's device; one of another shape is refused."""
    weights, shape = read_weights(check(path), "pt")
    if shape != session.shape:
        raise InputError(
            f"{path} holds a model of {shape}, but the proxy is one of {session.shape}; name a reference run of the"
            f" same model and tokenizer."
        )
    reference = Transformer(shape, loss_chunk=session.loss_chunk)
    reference.load_state_dict(weights)
    reference.requires_grad_(False).to(session.accelerator.device)
    if session.compiled:
        compile_whole(reference)
    return reference


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = training_parser(__doc__)
    parser.add_argument("--reference", type=Path, required=True, help="weights of the reference model, safetensors")
    parser.add_argument("--mixture", type=Path, required=True, help="average weights over the run, JSON")
    parser.add_argument("--path", type=Path, required=True, help="step, domain, weight, average, excess; parquet")
    parser.add_argument("--losses", type=Path, required=True, help="step, tokens, domain, loss of the proxy; parquet")
    parser.add_argument("--report", type=Path, required=True, help="run.json")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(run(main))
