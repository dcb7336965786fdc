"""What is written of a run besides its weights: what defines it, how it went, its losses as a table, its weights."""

import json
import platform
from dataclasses import asdict
from pathlib import Path

import accelerate
import numpy as np
import polars as pl
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from bimix.errors import InputError
from bimix.model import Shape, Transformer
from bimix.outputs import replacing
from bimix.rowstore import SPREAD_KEY
from bimix.session import Session
from bimix.training import Recipe


def fingerprint(shape: Shape, recipe: Recipe, mixture: dict[str, float], indices: dict[str, pl.DataFrame]) -> dict:
    """What defines a run's result: two runs of one fingerprint give the same losses. Flat, so that it can be compared."""
    settings = {f"shape.{key}": value for key, value in asdict(shape).items()}
    settings |= {f"training.{key}": value for key, value in asdict(recipe).items()}
    settings |= {f"mixture.{domain}": share for domain, share in mixture.items()}
    settings["held_out.spread"] = SPREAD_KEY
    for split, index in indices.items():
        digests = "digest" if "digest" in index.columns else "path"
        tokens = index.group_by("domain").agg(
            pl.col("rows", "tokens").sum(), pl.col(digests).sort().hash().sum().alias("id")
        )
        for domain, rows, count, key in tokens.sort("domain").iter_rows():
            settings[f"{split}.{domain}"] = f"{rows} rows of {count // max(rows, 1)} tokens, {key:016x}"
    return settings


def describe(session: Session, seconds: float) -> dict:
    """The content of run.json; `seconds` of all attempts that led here."""
    accelerator, recipe, shape = session.accelerator, session.recipe, session.shape
    tokens = recipe.steps * session.step_tokens
    on_gpu = accelerator.device.type == "cuda"
    return {
        "parameters": shape.parameters,
        "tokens": tokens,
        "flops": tokens * shape.flops_per_token(session.train.row_length),
        "seconds": round(seconds, 1),
        "tokens_per_second": round(tokens / seconds),
        "processes": accelerator.num_processes,
        "device": torch.cuda.get_device_name() if on_gpu else f"cpu, {torch.get_num_threads()} threads",
        "gpu_hours": accelerator.num_processes * seconds / 3600 if on_gpu else 0.0,
        "seed": recipe.seed,
        "shape": asdict(shape),
        "recipe": asdict(recipe),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "accelerate": accelerate.__version__,
            "numpy": np.__version__,
        },
    }


def loss_table(session: Session, history: list) -> pl.DataFrame:
    """One row per evaluation and domain: step, tokens read until then, domain, loss in nats per token."""
    rows = [
        (step, step * session.step_tokens, domain, loss)
        for step, losses in history
        for domain, loss in zip(session.domains, losses, strict=True)
    ]
    schema = {"step": pl.Int64, "tokens": pl.Int64, "domain": pl.String, "loss": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def write_weights(model: Transformer, path: Path) -> None:
    """Write a model's weights as safetensors, its shape in the metadata."""
    weights = {name: weight.detach().cpu().contiguous() for name, weight in model.state_dict().items()}
    try:
        with replacing(path) as temporary:
            save_file(weights, temporary, metadata={"shape": json.dumps(asdict(model.shape))})
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} cannot be written ({error}); make room and start again.") from error
