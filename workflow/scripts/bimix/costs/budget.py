"""What a dataset's trainings will cost, reckoned before the first one: FLOPs, hours of devices, disk."""

from dataclasses import dataclass

import polars as pl

from bimix.model.transformer import Shape
from bimix.reweighting.doge import mix_rows, target_rows, vector_flops
from bimix.training.recipe import Recipe

WEIGHT_BYTES = 4  # fp32, as they are trained and written
STATE_BYTES = 3 * WEIGHT_BYTES  # a checkpoint has the weights and AdamW's two moments
CHECKPOINTS = 2  # that a run keeps
SCHEMA = {
    "needed_for": pl.String,
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


def search_factor(
    what: str, shape: Shape, recipe: Recipe, sequence_length: int, domains: int, targets: int, mixed: bool
) -> float:
    """FLOPs of a kind of training over those of plain pretraining.

    doremi: the reference's forward pass beside the proxy; doge: the rows of its `targets` elsewhere or, where it is `mixed`
    and has none, of the mix of all domains, and the work on whole gradients.
    """
    if what == "doremi":
        return 4 / 3
    if what == "doge":
        step = recipe.batch_rows * sequence_length * shape.flops_per_token(sequence_length)
        rows = mix_rows(recipe.batch_rows, domains) if mixed else 0
        if targets:
            rows = target_rows(recipe.batch_rows, domains, targets)
        work = vector_flops(shape.parameters, domains, targets or int(mixed))
        return 1 + rows / recipe.batch_rows + work / step
    return 1.0


def run_bytes(what: str, shape: Shape) -> int:
    """Bytes on disk of one run: the checkpoints that stay and, of plain pretraining, its weights; a swarm keeps losses only."""
    kept = {"pretraining": WEIGHT_BYTES + CHECKPOINTS * STATE_BYTES, "swarm": 0}
    return shape.parameters * kept.get(what, CHECKPOINTS * STATE_BYTES)


def cost(
    needed_for: str,
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
    kept: int = 0,
    targets: int = 0,
    mixed: bool = False,
) -> tuple:
    """One row of SCHEMA for `runs` equal runs, `done` of which have ended.

    `kept` weights of earlier steps stay on the disk, of all runs together. `targets` are those of DoGE elsewhere; `mixed`, its
    goal is a mix of all domains where there are none.
    """
    flops = run_flops(shape, recipe, sequence_length, domains)
    flops *= search_factor(what, shape, recipe, sequence_length, domains, targets, mixed)
    hours = flops / (device.flops * device.utilisation) / 3600
    return (
        needed_for,
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
        (runs * run_bytes(what, shape) + kept * shape.parameters * WEIGHT_BYTES) / 1e9,
    )


def with_totals(rows: list[tuple]) -> pl.DataFrame:
    """The rows and, of each need and kind of device, their sum."""
    table = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    sums = ("runs", "done", "device_hours_left", "storage_gb")
    totals = table.group_by("needed_for", "device", maintain_order=True).agg(pl.col(name).sum() for name in sums)
    return pl.concat([table, totals.with_columns(what=pl.lit("total"))], how="diagonal")
