"""Runs with Muon and on the schedule wsds: killed and resumed, in two processes, in real ones."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import forked
import polars as pl
import pytest
from tiny_run import RECIPE, SHAPE

SCRIPT = Path(__file__).parents[2] / "workflow/scripts/pretrain_model.py"
ANNEALED = {"schedule": "wsds", "horizons": [10, 20], "warmup_share": 0.1, "learning_rate": 0.003}
OWN = RECIPE | ANNEALED | {"optimizer": "muon"}


def command(corpus: Path, out: Path, processes: int = 1, **changes: object) -> list[str]:
    launcher = [sys.executable]
    if processes > 1:
        launcher += [shutil.which("accelerate"), "launch", "--multi_gpu", "--num_processes", str(processes)]
        launcher += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
        launcher += ["--main_process_port", "0"]
    flags = ["--cpu", "--processes", str(processes), "--micro-batch", "3", "--loss-chunk", "all", "--lock-seconds", "2"]
    for name in ("train", "validation"):
        flags += [f"--{name}", str(corpus / f"{name}.parquet")]
    flags += ["--tokenizer", str(corpus / "tokenizer.json"), "--mixture", str(corpus / "mixture.json")]
    flags += ["--shape", json.dumps(SHAPE), "--recipe", json.dumps(OWN | changes), "--state", str(out / "state")]
    flags += ["--losses", str(out / "losses.parquet"), "--weights", str(out / "model.safetensors")]
    return [*launcher, str(SCRIPT), *flags, "--report", str(out / "run.json")]


def execute(arguments: list[str], expected: int = 0) -> str:
    finished = forked.run(arguments, env=forked.jobs(OMP_NUM_THREADS="1"))
    assert finished.returncode == expected, finished.stderr
    return finished.stderr


@pytest.fixture(scope="module")
def whole(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole")
    execute(command(corpus, out))
    return out


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_run_with_muon_goes_on_to_the_same_bytes(corpus: Path, tmp_path: Path, whole: Path, number) -> None:
    process = forked.Process(command(corpus, tmp_path), env=forked.jobs(OMP_NUM_THREADS="1"), start_new_session=True)
    for line in process.stderr:
        if line.startswith("step 20:"):
            break
    os.killpg(process.pid, number)
    process.stderr.read()
    assert process.wait() in {-9, 75, 0}
    execute(command(corpus, tmp_path))
    for name in ("losses.parquet", "model.safetensors"):
        assert (tmp_path / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.slow
def test_losses_are_those_of_the_ends_of_the_decays(whole: Path) -> None:
    assert pl.read_parquet(whole / "losses.parquet")["step"].unique().sort().to_list() == [10, 20, 40]
    recipe = json.loads((whole / "run.json").read_text())["recipe"]
    assert (recipe["optimizer"], recipe["schedule"], recipe["horizons"]) == ("muon", "wsds", [10, 20])


@pytest.mark.slow
def test_two_processes_have_the_losses_of_one(corpus: Path, tmp_path: Path) -> None:
    few = {"schedule": "exponential", "horizons": [], "steps": 3, "evaluate_every": 1}
    losses = []
    for processes in (1, 2):
        out = tmp_path / str(processes)
        execute(command(corpus, out, processes, **few))
        losses.append(pl.read_parquet(out / "losses.parquet")["loss"].to_list())
    # Muon's iteration is in bf16, where sums in another order may round otherwise
    assert losses[1] == pytest.approx(losses[0], abs=1e-4)


@pytest.mark.slow
def test_horizons_that_do_not_go_together_end_a_run_with_one_sentence(corpus: Path, tmp_path: Path) -> None:
    message = execute(command(corpus, tmp_path, horizons=[15]), expected=1)
    assert "recipe, horizons: 15 is not measured, as losses are every 10 steps (evaluate_every)." in message
    assert not (tmp_path / "state").exists()
