"""Train DoReMi's proxy against a reference model, from the start or from its last checkpoint.

token index of both splits, weights of the reference, shape, recipe -> mixture.json, path.parquet,
losses.parquet, run.json
"""

import hashlib
import sys
from functools import partial
from pathlib import Path

from bimix.errors import InputError, run
from bimix.model.export import read_weights
from bimix.model.transformer import Transformer
from bimix.reweighting.doremi import SMOOTHING, STEP_SIZE, Doremi, extra_flops
from bimix.reweighting.proxy import find_mixture, proxy_parser
from bimix.training.artefacts import check
from bimix.training.session import Session
from bimix.training.update import compile_whole


def main(argv: list[str] | None = None) -> int:
    parser = proxy_parser(__doc__)
    parser.add_argument("--reference", type=Path, required=True, help="weights of the reference model, safetensors")
    options = parser.parse_args(argv)
    session = Session(options)
    reference = read_reference(options.reference, session)
    settings = {
        "doremi.step_size": STEP_SIZE,
        "doremi.smoothing": SMOOTHING,
        "doremi.order": "backwards",
        "reference": hashlib.sha256(options.reference.read_bytes()).hexdigest()[:16],
    }

    def method() -> partial:
        return partial(Doremi, reference=reference)

    return find_mixture(session, options, method, settings, "excess", extra_flops)


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


if __name__ == "__main__":
    sys.exit(run(main))
