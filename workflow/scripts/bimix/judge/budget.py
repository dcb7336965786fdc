"""Costs of a dataset's trainings, estimated before the first one: FLOPs, hours of devices, disk."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields

import polars as pl

from bimix.plan.budget import PlannedRuns
from bimix.training.costs import WEIGHT_BYTES, Device, Size, run_bytes, run_flops, search_factor
from bimix.training.recipe import Recipe


@dataclass(frozen=True)
class Cost:
    """The cost of equal runs: a row of plan.csv. `flops_per_run` includes evaluations; hours of a
    run on all its devices, and remaining hours of all devices together; storage in 10^9 bytes.
    """

    what: str
    model: str
    runs: int
    done: int
    parameters: int
    steps: int
    tokens_per_run: int
    flops_per_run: float
    device: str
    devices_per_run: int
    utilisation: float
    hours_per_run: float
    device_hours_left: float
    storage_gb: float


SCHEMA = {column.name: column.type for column in fields(Cost)}


def cost(planned: PlannedRuns, shape: Size, sequence_length: int, domains: int, device: Device, devices: int) -> Cost:
    """The cost of planned runs of one shape on `devices`, evaluated on `domains`."""
    recipe = Recipe(**planned.recipe)
    flops = run_flops(shape, recipe, sequence_length, domains)
    flops *= search_factor(planned.what, shape, recipe, sequence_length, domains)
    hours = device.hours(flops)
    stored = planned.runs * run_bytes(planned.what, shape) + planned.kept * shape.parameters * WEIGHT_BYTES
    return Cost(
        what=planned.what,
        model=planned.model,
        runs=planned.runs,
        done=planned.done,
        parameters=shape.parameters,
        steps=recipe.steps,
        tokens_per_run=recipe.steps * recipe.batch_rows * sequence_length,
        flops_per_run=flops,
        device=device.name,
        devices_per_run=devices,
        utilisation=device.utilisation,
        hours_per_run=hours / devices,
        device_hours_left=hours * (planned.runs - planned.done),
        storage_gb=stored / 1e9,
    )


def with_totals(rows: Sequence[Cost]) -> pl.DataFrame:
    """The rows, and their sum for each kind of device."""
    table = pl.DataFrame([astuple(row) for row in rows], schema=SCHEMA, orient="row")
    sums = ("runs", "done", "device_hours_left", "storage_gb")
    totals = table.group_by("device", maintain_order=True).agg(pl.col(name).sum() for name in sums)
    return pl.concat([table, totals.with_columns(what=pl.lit("total"))], how="diagonal")
