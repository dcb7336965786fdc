"""What trainings will cost: against the same sums by hand, and against what Snakemake plans."""

import json
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

import plan_runs
from bimix.judge.budget import cost, with_totals
from bimix.model.transformer import Shape
from bimix.plan.budget import PlannedRuns
from bimix.reweighting.doge import Mix, extra_flops
from bimix.training.costs import Device, mix_rows, run_flops, search_factor
from bimix.training.recipe import Recipe

SHAPE = Shape(layers=12, width=768, heads=12, vocabulary=50277)
RECIPE = Recipe(
    steps=200_000,
    batch_rows=512,
    evaluate_every=10_000,
    validation_rows=512,
    learning_rate=1e-3,
    final_learning_rate=1e-4,
    schedule="exponential",
    warmup_share=0.06,
    beta1=0.9,
    beta2=0.99,
    epsilon=1e-8,
    weight_decay=0.01,
    max_gradient_norm=1.0,
    precision="bf16",
    seed=1,
)
A100 = Device("A100", 312e12, 0.4)


def planned(what: str = "pretraining", runs: int = 1, done: int = 0, kept: int = 0) -> PlannedRuns:
    return PlannedRuns(what, "280M", RECIPE.model_dump(), runs, done, kept)


def test_flops_are_a_trainings_and_its_evaluations_and_hours_those_of_all_devices() -> None:
    per_token = 6 * 123_689_472 + 12 * 12 * 768 * 1024
    trained, evaluated = 200_000 * 512 * 1024, 20 * 22 * 512 * 1024
    assert run_flops(SHAPE, RECIPE, 1024, 22) == pytest.approx(per_token * (trained + evaluated / 3), rel=1e-12)
    # hours are of all devices together and of what is not done
    rows = [cost(planned(runs=6, done=done), SHAPE, 1024, 22, A100, 8) for done in (0, 6)]
    fresh, ended = pl.DataFrame(with_totals(rows)).rows(named=True)[:2]
    hours = run_flops(SHAPE, RECIPE, 1024, 22) / (312e12 * 0.4) / 3600
    assert fresh["device_hours_left"] == pytest.approx(6 * hours)
    assert fresh["hours_per_run"] == pytest.approx(hours / 8)
    assert ended["device_hours_left"] == 0
    # weights, and two checkpoints of the weights and two moments, in fp32
    assert fresh["storage_gb"] == pytest.approx(6 * 28 * 123_689_472 / 1e9)
    keeping = cost(planned(runs=6, kept=54), SHAPE, 1024, 22, A100, 8)
    assert keeping.storage_gb == pytest.approx((6 * 28 + 54 * 4) * 123_689_472 / 1e9)


def test_searches_cost_what_they_do_beside_pretraining_as_the_report_of_doge_counts() -> None:
    row = {"doremi": None, "doge": None, "pretraining": None}
    for what in row:
        table = with_totals([cost(planned(what), SHAPE, 1024, 22, A100, 8)])
        row[what] = table.rows(named=True)[0]
    plain = row["pretraining"]["flops_per_run"]
    assert row["doremi"]["flops_per_run"] == pytest.approx(4 / 3 * plain)
    # norms, inner products and sums of 22 gradients are next to nothing beside 512 rows of 1,024
    # tokens, to which the mix adds 24
    assert row["doge"]["flops_per_run"] == pytest.approx(plain * (1 + 24 / 512), rel=1e-3)
    # the plan of doge is what its report counts
    session = SimpleNamespace(domains=["x"] * 22, train=SimpleNamespace(row_length=1024), shape=SHAPE, recipe=RECIPE)
    plain = RECIPE.steps * RECIPE.batch_rows * 1024 * SHAPE.flops_per_token(1024)
    more = extra_flops(session, Mix(SimpleNamespace(domains=["x"] * 22), mix_rows(RECIPE.batch_rows, 22)))
    assert search_factor("doge", SHAPE, RECIPE, 1024, 22) == pytest.approx(1 + more / plain, rel=1e-12)


@pytest.mark.filterwarnings("error")
def test_a_run_has_the_gpus_of_all_nodes_or_their_threads(tmp_path: Path) -> None:
    for gpus, devices in ((8, 16), (0, 8)):
        model = {"shape": {"layers": 2, "width": 64, "heads": 2}, "launch": {"nodes": 2, "gpus": gpus, "threads": 4}}
        runs = {"what": "pretraining", "model": "a", "runs": 3, "done": 1, "kept": 0}
        hardware = {kind: asdict(A100) for kind in ("gpu", "cpu")}
        flags = {"runs": [runs | {"recipe": RECIPE.model_dump()}], "models": {"a": model}, "hardware": hardware}
        arguments = [word for name, value in flags.items() for word in (f"--{name}", json.dumps(value))]
        arguments += ["--vocabulary", "2048", "--sequence-length", "1024", "--domains", "22"]
        plan_runs.main([*arguments, "--out", str(tmp_path / "plan.csv")])
        row = pl.read_csv(tmp_path / "plan.csv").row(0, named=True)
        assert row["devices_per_run"] == devices
        assert row["device_hours_left"] == pytest.approx(2 * devices * row["hours_per_run"])
