"""What is written of a run besides its weights: what defines it, how it went, its losses
as a table, its weights.
"""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

import polars as pl
from safetensors import SafetensorError
from safetensors.torch import save_file

from bimix.errors import InputError
from bimix.mixtures.mixture import Mixture
from bimix.model.transformer import Shape, Transformer
from bimix.outputs import replacing
from bimix.training import artefacts, checkpoints, provenance
from bimix.training.recipe import Recipe
from bimix.training.rows import SPREAD_KEY
from bimix.training.session import Session


def fingerprint_run(shape: Shape, recipe: Recipe, mixture: Mixture, indices: dict[str, pl.DataFrame]) -> dict:
    """What defines a run's result: two runs of one fingerprint give the same losses.

    Flat, so that it can be compared.
    """
    settings = {f"shape.{key}": value for key, value in asdict(shape).items()}
    settings |= {f"training.{key}": value for key, value in recipe.settings().items()}
    settings |= {f"mixture.{domain}": share for domain, share in mixture.flat().items()}
    settings["held_out.spread"] = SPREAD_KEY
    return settings | tokens_of(indices)


def tokens_of(indices: dict[str, pl.DataFrame]) -> dict[str, str]:
    """{split.domain: its rows, and a digest of those of its shards}: two corpora that agree
    in it hold the same ids.
    """
    found = {}
    for split, index in indices.items():
        for (domain,), own in index.sort("domain").group_by("domain", maintain_order=True):
            rows, tokens = own["rows"].sum(), own["tokens"].sum()
            key = hashlib.blake2b("\n".join(sorted(own["digest"])).encode(), digest_size=8).hexdigest()
            found[f"{split}.{domain}"] = f"{rows} rows of {tokens // max(rows, 1)} tokens, {key}"
    return found


def describe(session: Session, seconds: float, mixture: Mixture, folder: Path) -> dict:
    """The content of run.json; `seconds` of all attempts that led here, of which `folder`,
    the configuration's, knows.
    """
    accelerator, recipe, shape = session.accelerator, session.recipe, session.shape
    attempts = checkpoints.attempts(folder)
    tokens = recipe.steps * session.step_tokens
    on_gpu = accelerator.device.type == "cuda"
    return {
        "parameters": shape.parameters,
        "tokens": tokens,
        "flops": tokens * shape.flops_per_token(session.train.row_length),
        "seconds": round(seconds, 1),
        "tokens_per_second": round(tokens / seconds),
        "processes": accelerator.num_processes,
        "device": session.origin["device"],
        "gpu_hours": accelerator.num_processes * seconds / 3600 if on_gpu else 0.0,
        "seed": recipe.seed,
        "shape": asdict(shape),
        "recipe": recipe.settings(),
        "mixture": mixture.document(),
        "data": tokens_of(session.indices),
        "tokenizer": session.tokenizer,
        "versions": session.origin["versions"],
        "commit": session.origin["commit"],
        "attention": provenance.attention(attempts),
        "state": folder.name,
        "attempts": provenance.begun(attempts),
        "warnings": provenance.warnings(attempts),
    }


def finish(folder: Path, report: dict, names: list[str]) -> None:
    """Write run.json, which says that the run in `folder` has come to its end, with the
    digests of all its files.
    """
    lines = [line for line in checkpoints.attempts(folder) if line["event"] == "kept"]
    artefacts.finish(folder, report, names, {line["file"]: line["digest"] for line in lines})


def loss_table(session: Session, history: list) -> pl.DataFrame:
    """One row per evaluation and domain: step, tokens read until then,
    domain, loss in nats per token.
    """
    rows = [
        (step, step * session.step_tokens, domain, loss)
        for step, losses in history
        for domain, loss in zip(session.evaluated, losses, strict=True)
    ]
    schema = {"step": pl.Int64, "tokens": pl.Int64, "domain": pl.String, "loss": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def write_weights(model: Transformer, path: Path) -> None:
    """Write a model's weights as safetensors, its shape in the metadata."""
    weights = {name: weight.detach().cpu().contiguous() for name, weight in model.state_dict().items()}
    try:
        with replacing(path, vouched=False) as temporary:  # run.json has its digest
            save_file(weights, temporary, metadata={"shape": json.dumps(asdict(model.shape))})
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} cannot be written ({error}); make room and start again.") from error
