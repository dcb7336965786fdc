"""What a dataset's trainings will cost, reckoned before the first one: FLOPs, hours of devices, disk."""

from dataclasses import dataclass

import polars as pl

from bimix.model import Shape
from bimix.training import Recipe

WEIGHT_BYTES = 4  # fp32, as they are trained and written
STATE_BYTES = 3 * WEIGHT_BYTES  # a checkpoint has the weights and AdamW's two moments
CHECKPOINTS = 2  # that a run keeps
SCHEMA = {
    "what": pl.String,
    "model": pl.String,
    "runs": pl.Int64,
    "done": pl.Int64,
    "parameters": pl.Int64,
    "steps": pl.Int64,
    "tokens_per_run": pl.Int64,
    "flops_per_run": pl.Float64,
    "device": pl.String,
    "devices_per_run": pl.Int64,
    "utilisation": pl.Float64,
    "hours_per_run": pl.Float64,
    "device_hours_left": pl.Float64,
    "storage_gb": pl.Float64,
}


@dataclass(frozen=True)
class Device:
    """One accelerator or CPU thread: `flops` a second at its peak, of which trainings reach the share `utilisation`."""

    name: str
    flops: float
    utilisation: float


def run_flops(shape: Shape, recipe: Recipe, sequence_length: int, domains: int) -> float:
    """FLOPs of one run: 6N + 12 L d T a token trained on, a third of that a token evaluated (forward only)."""
    evaluations = -(-recipe.steps // recipe.evaluate_every)
    evaluated = evaluations * domains * recipe.validation_rows
    rows = recipe.steps * recipe.batch_rows + evaluated / 3
    return rows * sequence_length * shape.flops_per_token(sequence_length)


def run_bytes(shape: Shape) -> int:
    """Bytes on disk of one run: its weights and the checkpoints that stay."""
    return shape.parameters * (WEIGHT_BYTES + CHECKPOINTS * STATE_BYTES)


def cost(
    what: str,
    model: str,
    runs: int,
    done: int,
    shape: Shape,
    recipe: Recipe,
    sequence_length: int,
    domains: int,
    device: Device,
    devices: int,
    factor: float = 1.0,
) -> tuple:
    """One row of SCHEMA for `runs` equal runs, `done` of which have ended; `factor` over plain pretraining's FLOPs."""
    flops = factor * run_flops(shape, recipe, sequence_length, domains)
    hours = flops / (device.flops * device.utilisation) / 3600
    return (
        what,
        model,
        runs,
        done,
        shape.parameters,
        recipe.steps,
        recipe.steps * recipe.batch_rows * sequence_length,
        flops,
        device.name,
        devices,
        device.utilisation,
        hours / devices,
        hours * (runs - done),
        runs * run_bytes(shape) / 1e9,
    )


def with_totals(rows: list[tuple]) -> pl.DataFrame:
    """The rows and, for each kind of device, their sum."""
    table = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    sums = ("runs", "done", "device_hours_left", "storage_gb")
    totals = table.group_by("device", maintain_order=True).agg(pl.col(name).sum() for name in sums)
    return pl.concat([table, totals.with_columns(what=pl.lit("total"))], how="diagonal")
