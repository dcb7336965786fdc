"""The training script in real processes: killed, resumed, one and two, refusals."""

import functools
import json
import re
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import forked
import polars as pl
import pytest
import torch
import training_runs
from slurm_cluster import wait_until
from training_runs import SCRIPT, execute, interrupt, own_state, same_results

import pretrain_model
from bimix.digests import digest_file
from bimix.training import checkpoints, loop
from bimix.training.update import Batch

command = functools.partial(training_runs.command, steps=60)


@pytest.fixture(scope="module")
def undisturbed(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    # as a user does, not forked: what the runs below are compared with
    subprocess.run(command(corpus, out), capture_output=True, check=True, env=forked.jobs(OMP_NUM_THREADS="1"))
    losses = pl.read_parquet(out / "losses.parquet")
    assert losses.columns == ["step", "tokens", "domain", "loss"] and losses.height == 6 * 3
    ends = losses.group_by("domain").agg(early=pl.col("loss").first(), late=pl.col("loss").last())
    assert (ends["late"] < ends["early"]).all()
    return out


def train(arguments: list[str]) -> None:
    """A training of one process that nothing disturbs, in this process."""
    assert pretrain_model.main(arguments[arguments.index(str(SCRIPT)) + 1 :]) == 0


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_bytes(corpus: Path, tmp_path: Path, undisturbed: Path) -> None:
    """SIGKILL goes back to the last evaluation, SIGTERM saves where it hits."""
    for number, line, expected in ((signal.SIGKILL, "step 10:", {-9, 0}), (signal.SIGTERM, "step 20:", {75, 0})):
        assert interrupt(command(corpus, tmp_path), line, number) in expected
    train(command(corpus, tmp_path))
    assert same_results(tmp_path, undisturbed)
    assert len(list(own_state(tmp_path).glob("step-*.pt"))) == 2


@pytest.fixture(scope="module")
def of_two(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The undisturbed run in two processes, each of one row at once."""
    out = tmp_path_factory.mktemp("two") / "run"
    execute(command(corpus, out, processes=2, micro_batch=1))
    return out


@pytest.mark.slow
def test_two_processes_killed_resume_to_the_bytes_of_two_undisturbed(corpus: Path, tmp_path, of_two: Path) -> None:
    killed = command(corpus, tmp_path, processes=2, micro_batch=1)
    assert interrupt(killed, "step 20:", signal.SIGKILL)
    interrupt(killed, "step", signal.SIGTERM)
    execute(killed)
    assert same_results(tmp_path, of_two)


@pytest.mark.slow
def test_four_processes_that_stopped_resume_to_the_bytes_of_four_undisturbed(corpus: Path, tmp_path: Path) -> None:
    """Their gradients could be summed in several orders, those of two in one."""
    given = {"steps": 4, "evaluate_every": 2, "processes": 4, "batch_rows": 4}
    execute(command(corpus, tmp_path / "whole", **given))
    cut = command(corpus, tmp_path / "cut", **given)
    stopped = forked.run([*cut, "--max-seconds", "0"], env=forked.jobs(OMP_NUM_THREADS="1"))
    assert "Stopped at step 1 with the state saved" in stopped.stderr
    execute(cut)
    assert same_results(tmp_path / "whole", tmp_path / "cut")


SLOW_AT_SAVING = """
import atexit, os, runpy, sys, time, torch
from pathlib import Path
out, write = Path(sys.argv[1]), torch.save
def slow(state, path):
    (out / "saving").touch()
    time.sleep(3)
    write(state, path)
torch.save = slow
if os.environ["RANK"] == "1":
    atexit.register(lambda: (out / "left").write_text(str(len(list(out.glob("state/*/step-*.pt"))))))
sys.argv = sys.argv[2:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
def test_no_process_ends_before_another_has_saved(corpus: Path, tmp_path: Path) -> None:
    """Else the launcher would end the one that saves, half a minute later."""
    (tmp_path / "slow.py").write_text(SLOW_AT_SAVING)
    arguments = command(corpus, tmp_path, "--max-seconds", "0", processes=2)
    script = arguments.index(str(SCRIPT))
    arguments[script:script] = [str(tmp_path / "slow.py"), str(tmp_path)]
    said = forked.run(arguments, env=forked.jobs()).stderr
    assert (tmp_path / "saving").exists() and "Stopped at step 1 with the state saved" in said
    assert (tmp_path / "left").read_text() == "1"


CLOCKS_APART = """
import os, runpy, sys
from datetime import timedelta
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
from bimix.training import loop, session
loop.SAVE_SECONDS = 0 if os.environ["RANK"] == "0" else 1800
session.PATIENCE = session.LONG_PATIENCE = timedelta(seconds=60)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
def test_a_checkpoint_is_due_in_all_processes_by_the_clock_of_the_first(corpus: Path, tmp_path: Path) -> None:
    """Else one would wait where it is saved, and another in the next update."""
    (tmp_path / "apart.py").write_text(CLOCKS_APART)
    arguments = command(corpus, tmp_path, processes=2, steps=5, evaluate_every=5)
    arguments.insert(arguments.index(str(SCRIPT)), str(tmp_path / "apart.py"))
    execute(arguments)
    lines = checkpoints.attempts(own_state(tmp_path))
    assert [line["step"] for line in lines if line["event"] == "saved"] == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_a_loss_that_is_not_finite_stops_with_step_rows_rate_and_norm(corpus: Path, tmp_path: Path) -> None:
    complaint = execute(command(corpus, tmp_path, learning_rate=1e20, final_learning_rate=1e20), expected=1)
    assert re.search(r"At step \d+ the loss is .* gradient norm .* rate of 1e\+20 .*: bees \d, cats \d", complaint)
    assert "Traceback" not in complaint


@pytest.mark.slow
def test_kept_weights_outlive_a_kill_and_change_nothing_else(corpus: Path, tmp_path: Path, undisturbed: Path) -> None:
    keeping = command(corpus, tmp_path, "--keep", "20,40,60")
    assert interrupt(keeping, "step 20:", signal.SIGKILL) in {-9, 0}
    train(keeping)
    assert same_results(tmp_path, undisturbed)
    kept = sorted(path.name for path in (own_state(tmp_path) / "weights").iterdir())
    assert kept == ["step-000000020.safetensors", "step-000000040.safetensors"]  # the last ones are the output
    files = json.loads((tmp_path / "run.json").read_text())["files"]
    assert set(files) == {"losses.parquet", "model.safetensors", *(f"weights/{name}" for name in kept)}
    assert all(digest_file(own_state(tmp_path) / name) == digest for name, digest in files.items())
    train(command(corpus, tmp_path / "whole", "--keep", "20"))
    early, again = (checkpoints.kept_weights(own_state(folder), 20) for folder in (tmp_path, tmp_path / "whole"))
    assert early.read_bytes() == again.read_bytes() != (tmp_path / "model.safetensors").read_bytes()
    # requested after the end: nothing is trained again, and nothing is there
    train(command(corpus, tmp_path, "--keep", "30"))
    assert not checkpoints.kept_weights(own_state(tmp_path), 30).exists()


@pytest.mark.slow
def test_a_second_attempt_takes_over_from_one_that_was_left_behind(corpus: Path, tmp_path: Path) -> None:
    given = {"steps": 400, "evaluate_every": 200}
    arguments = command(corpus, tmp_path, launch=("--cpu", "--lock-seconds", "60"), **given)
    left = forked.Process(arguments, env=forked.jobs(OMP_NUM_THREADS="1"))
    left.stderr.readline()
    left.send_signal(signal.SIGSTOP)  # it hangs until the other one waits for it
    second = forked.Process(arguments, env=forked.jobs(OMP_NUM_THREADS="1"))
    wait_until((tmp_path / "state/stop").exists, "the second attempt to wait")
    left.send_signal(signal.SIGCONT)
    assert "with the state saved" in left.stderr.read() and left.wait() == 75
    assert second.wait() == 0, second.stderr.read()
    lines = checkpoints.attempts(own_state(tmp_path))
    processes = [line["process"] for line in lines if line["event"] in ("begun", "stopped", "finished")]
    assert processes == [left.pid] * 2 + [second.pid] * 2
    train(command(corpus, tmp_path / "whole", **given))
    assert same_results(tmp_path, tmp_path / "whole")
    assert not (tmp_path / "state/stop").exists()


@pytest.mark.slow
def test_other_devices_or_processes_than_requested_are_refused(corpus: Path, tmp_path: Path) -> None:
    done = forked.run(
        command(corpus, tmp_path, launch=("--lock-seconds", "2")), env=forked.jobs(CUDA_VISIBLE_DEVICES="")
    )
    assert done.returncode == 1 and "GPUs were requested but torch sees none" in done.stderr
    arguments = command(corpus, tmp_path)
    arguments[arguments.index("--processes") + 1] = "2"
    assert "2 processes were requested but 1 started" in execute(arguments, expected=1)


def test_a_run_that_goes_on_draws_no_weights(corpus: Path, tmp_path, undisturbed: Path, monkeypatch) -> None:
    drawn, draw = [], torch.nn.init.normal_
    monkeypatch.setattr(
        torch.nn.init, "normal_", lambda tensor, **given: (drawn.append(tensor.device.type), draw(tensor, **given))[1]
    )
    assert pretrain_model.main([*command(corpus, tmp_path)[2:], "--max-seconds", "0"]) == 75
    assert set(drawn) == {"cpu"}
    drawn.clear()
    train(command(corpus, tmp_path))
    assert set(drawn) <= {"meta"}
    assert same_results(tmp_path, undisturbed)


def test_the_device_is_looked_at_every_five_seconds(corpus: Path, tmp_path, monkeypatch) -> None:
    """Updates take so many seconds of a clock that they alone move, the first ten times as many, as
    one that compiles; a state is saved each 24 s.
    """
    clock, update, show = [0.0], loop.Plain.update, loop.Run.show
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(loop, "LOOK_EVERY", {"cpu": 16})
    monkeypatch.setattr(loop, "SAVE_SECONDS", 23)
    monkeypatch.setattr(loop, "PROGRESS_SECONDS", -1)
    for seconds, looks, saves in (
        (0.1, [2, 18, 34, 48], [48]),
        (2, range(2, 49, 2), [4, 16, 28, 40, 48]),
        (9, range(2, 49), [*range(1, 48, 3), 48]),
    ):
        left, out = {}, tmp_path / str(seconds)

        def slow(method: loop.Plain, batch: Batch, step: int, seconds: float = seconds) -> tuple:
            clock[0] += seconds if step else 10 * seconds
            return update(method, batch, step)

        def note(run: loop.Run, state: str, left: dict = left, **more: float) -> None:
            left.update({run.step: more["seconds_left"]} if more else {})
            show(run, state, **more)

        monkeypatch.setattr(loop.Plain, "update", slow)
        monkeypatch.setattr(loop.Run, "show", note)
        out.mkdir()
        train(command(corpus, out, steps=48, evaluate_every=48))
        assert left == pytest.approx({step: (48 - step) * seconds for step in looks}, abs=1e-6)
        lines = checkpoints.attempts(own_state(out))
        assert [line["step"] for line in lines if line["event"] == "saved"] == list(saves)


@pytest.mark.slow
def test_processes_and_micro_batches_do_not_change_the_losses(corpus, tmp_path, undisturbed: Path, of_two) -> None:
    train(command(corpus, tmp_path, micro_batch="auto"))
    expected = pl.read_parquet(undisturbed / "losses.parquet")
    for folder in (tmp_path, of_two):
        got = pl.read_parquet(folder / "losses.parquet")
        assert expected.drop("loss").equals(got.drop("loss"))
        assert (expected["loss"] - got["loss"]).abs().max() < 2e-4
        assert (expected["loss"] - got["loss"]).head(3).abs().max() < 1e-5


def test_a_mixture_that_sums_to_one_but_for_rounding_is_read_as_the_exact_one(corpus, tmp_path, monkeypatch) -> None:
    """Else the rows by which the sum misses one would all fall to one domain."""
    seen = []
    monkeypatch.setattr(loop, "batches", lambda store, schedule, *rest, **more: seen.append(schedule) or [])
    mixture = {"bees": 0.5 * (1 - 5e-7), "cats": 0.3 * (1 - 5e-7), "dogs": 0.2 * (1 - 5e-7)}
    (tmp_path / "mixture.json").write_text(json.dumps(mixture))
    train(command(corpus, tmp_path, mixture=tmp_path / "mixture.json"))
    assert seen[0].proportions_at(0).tolist() == pytest.approx([0.5, 0.3, 0.2], abs=1e-15)


def test_a_final_rate_above_the_peak_ends_a_run_with_one_sentence(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"recipe, final_learning_rate: 0\.001 is above the peak, learning_rate 0\.0005"
    ):
        pretrain_model.main(command(corpus, tmp_path, learning_rate=5e-4)[2:])
    assert not (tmp_path / "state").exists()
