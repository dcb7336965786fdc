"""The training script in real processes: killed and resumed, in one and in two processes, refusing
what it should.
"""

import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import forked
import polars as pl
import pytest
import tiny_run
import torch
from slurm_cluster import wait_until
from tiny_run import SHAPE

import pretrain_model
from bimix.training import checkpoints, loop

SCRIPT = Path(__file__).parents[2] / "workflow/scripts/pretrain_model.py"
RECIPE = tiny_run.RECIPE | {"steps": 60}


def command(corpus: Path, out: Path, processes: int = 1, micro_batch: int | str = 4, **changes: object) -> list[str]:
    launcher = [sys.executable]
    if processes > 1:
        launcher += [shutil.which("accelerate"), "launch", "--multi_gpu"]
        launcher += ["--num_processes", str(processes), "--num_machines", "1"]
        launcher += ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
    flags = ["--cpu", "--processes", str(processes), "--micro-batch", str(micro_batch), "--loss-chunk", "all"]
    flags += ["--lock-seconds", "2"]
    for name in ("train", "validation"):
        flags += [f"--{name}", str(corpus / f"{name}.parquet")]
    flags += ["--tokenizer", str(corpus / "tokenizer.json"), "--mixture", str(corpus / "mixture.json")]
    flags += ["--shape", json.dumps(SHAPE), "--recipe", json.dumps(RECIPE | changes)]
    flags += ["--state", str(out / "state"), "--losses", str(out / "losses.parquet")]
    flags += ["--weights", str(out / "model.safetensors"), "--report", str(out / "run.json")]
    return [*launcher, str(SCRIPT), *flags]


def execute(arguments: list[str], expected: int = 0) -> str:
    finished = forked.run(arguments, env=forked.jobs(OMP_NUM_THREADS="1"))
    assert finished.returncode == expected, finished.stderr
    return finished.stderr


def execute_anew(arguments: list[str]) -> None:
    """Start it as a user does, not forked: what the runs below are held against."""
    subprocess.run(arguments, capture_output=True, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})


@pytest.fixture(scope="module")
def undisturbed(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    execute_anew(command(corpus, out))
    return out


def own_state(out: Path) -> Path:
    """The folder of a run's only configuration."""
    (fingerprint,) = (out / "state").glob("*/fingerprint.json")
    return fingerprint.parent


def kill_at_line(arguments: list[str], lines: int, number: signal.Signals) -> int:
    """Start a run, send all its processes the signal once it has printed `lines` lines, and return
    its exit status.
    """
    process = forked.Process(arguments, env=forked.jobs(OMP_NUM_THREADS="1"), start_new_session=True)
    for _ in range(lines):
        process.stderr.readline()
    os.killpg(process.pid, number)
    process.stderr.read()
    return process.wait()


def same_results(first: Path, second: Path) -> bool:
    return all(
        (first / name).read_bytes() == (second / name).read_bytes() for name in ("losses.parquet", "model.safetensors")
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_run_resumes_to_the_same_bytes(corpus: Path, tmp_path: Path, undisturbed: Path, number) -> None:
    draw = random.Random(int(number))
    for _ in range(3):
        # SIGTERM saves where it hits, SIGKILL goes back to the last evaluation
        status = kill_at_line(command(corpus, tmp_path), draw.randint(1, 3), number)
        assert status in ({-9, 0} if number == signal.SIGKILL else {75, 0})
    execute(command(corpus, tmp_path))
    assert same_results(tmp_path, undisturbed)
    assert len(list(own_state(tmp_path).glob("step-*.pt"))) == 2


@pytest.mark.slow
def test_two_processes_killed_resume_to_the_bytes_of_two_undisturbed(corpus: Path, tmp_path: Path) -> None:
    execute(command(corpus, tmp_path / "whole/run", processes=2))
    assert kill_at_line(command(corpus, tmp_path / "killed/run", processes=2), 3, signal.SIGKILL)
    kill_at_line(command(corpus, tmp_path / "killed/run", processes=2), 2, signal.SIGTERM)
    execute(command(corpus, tmp_path / "killed/run", processes=2))
    assert same_results(tmp_path / "killed/run", tmp_path / "whole/run")


DIES_IN_A_CHECKPOINT = """
import os, runpy, signal, sys, torch
write, calls = torch.save, []
def dying(state, path):
    calls.append(path)
    write(state, path)
    if len(calls) == 3:
        os.truncate(path, os.path.getsize(path) // 2)
        os.kill(os.getpid(), signal.SIGKILL)
torch.save = dying
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
def test_a_kill_while_a_checkpoint_is_written_loses_nothing_before(
    corpus: Path, tmp_path: Path, undisturbed: Path
) -> None:
    (tmp_path / "dies.py").write_text(DIES_IN_A_CHECKPOINT)
    execute([sys.executable, str(tmp_path / "dies.py"), *command(corpus, tmp_path)[1:]], expected=-9)
    assert "update 20 of 60" in execute(command(corpus, tmp_path))
    assert same_results(tmp_path, undisturbed)


def limited_files() -> None:
    """What a full disk looks like to a process: no file may grow beyond 40 kB."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))


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
    arguments = command(corpus, tmp_path, processes=2)
    script = arguments.index(str(SCRIPT))
    arguments[script:script] = [str(tmp_path / "slow.py"), str(tmp_path)]
    said = forked.run([*arguments, "--max-seconds", "0"], env=forked.jobs()).stderr
    assert (tmp_path / "saving").exists() and "Stopped at step 1 with the state saved" in said
    assert (tmp_path / "left").read_text() == "1"


@pytest.mark.slow
def test_a_full_disk_is_a_sentence_and_the_checkpoint_before_stays(
    corpus: Path, tmp_path: Path, undisturbed: Path
) -> None:
    kill_at_line(command(corpus, tmp_path), 3, signal.SIGKILL)
    before = sorted(own_state(tmp_path).glob("step-*.pt"))
    contents = [path.read_bytes() for path in before]
    done = subprocess.run(
        command(corpus, tmp_path), capture_output=True, text=True, check=False, preexec_fn=limited_files
    )
    assert done.returncode == 1
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.read_bytes() for path in before] == contents
    execute(command(corpus, tmp_path))
    assert same_results(tmp_path, undisturbed)


@pytest.mark.slow
def test_a_loss_that_is_not_finite_stops_with_step_rows_rate_and_norm(corpus: Path, tmp_path: Path) -> None:
    complaint = execute(command(corpus, tmp_path, learning_rate=1e20, final_learning_rate=1e20), expected=1)
    assert re.search(r"At step \d+ the loss is .* gradient norm .* rate of 1e\+20 .*: bees \d, cats \d", complaint)
    assert "Traceback" not in complaint


def test_steps_to_keep_are_a_list_or_none() -> None:
    assert pretrain_model.steps("none") == []
    assert pretrain_model.steps("200") == [200]
    assert pretrain_model.steps("200,400") == [200, 400]
    with pytest.raises(ValueError, match="invalid literal"):
        pretrain_model.steps("200 400")


@pytest.mark.slow
def test_kept_weights_outlive_a_kill_and_change_nothing_else(corpus: Path, tmp_path: Path, undisturbed: Path) -> None:
    keeping = [*command(corpus, tmp_path), "--keep", "20,40,60"]
    assert kill_at_line(keeping, 3, signal.SIGKILL) in {-9, 0}
    execute(keeping)
    assert same_results(tmp_path, undisturbed)
    kept = sorted(path.name for path in (own_state(tmp_path) / "weights").iterdir())
    assert kept == ["step-000000020.safetensors", "step-000000040.safetensors"]  # the last ones are the output
    execute([*command(corpus, tmp_path / "whole"), "--keep", "20"])
    early, again = (checkpoints.kept_weights(own_state(folder), 20) for folder in (tmp_path, tmp_path / "whole"))
    assert early.read_bytes() == again.read_bytes() != (tmp_path / "model.safetensors").read_bytes()
    # asked for after the end: nothing is trained again, and nothing is there
    execute([*command(corpus, tmp_path), "--keep", "30"])
    assert same_results(tmp_path, undisturbed)
    assert not checkpoints.kept_weights(own_state(tmp_path), 30).exists()


@pytest.mark.slow
def test_two_launches_of_one_run_are_kept_apart(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    with checkpoints.lock(tmp_path / "state", 0):
        complaint = execute(command(corpus, tmp_path), expected=1)
        assert "Another process is training" in complaint
        assert f"It is process {os.getpid()} on {socket.gethostname()}" in complaint


@pytest.mark.slow
def test_a_second_attempt_takes_over_from_one_that_was_left_behind(corpus: Path, tmp_path: Path) -> None:
    arguments = command(corpus, tmp_path, steps=400, evaluate_every=200)
    arguments[arguments.index("--lock-seconds") + 1] = "60"
    left = forked.Process(arguments, env=forked.jobs(OMP_NUM_THREADS="1"))
    left.stderr.readline()
    left.send_signal(signal.SIGSTOP)  # it hangs until the other one waits for it
    second = forked.Process(arguments, env=forked.jobs(OMP_NUM_THREADS="1"))
    wait_until((tmp_path / "state/stop").exists, "the second attempt to wait")
    left.send_signal(signal.SIGCONT)
    assert "with the state saved" in left.stderr.read() and left.wait() == 75
    assert second.wait() == 0, second.stderr.read()
    lines = [json.loads(line) for line in (own_state(tmp_path) / "attempts.jsonl").read_text().splitlines()]
    assert [line["process"] for line in lines if line["event"] in ("begun", "stopped", "finished")] == (
        [left.pid] * 2 + [second.pid] * 2
    )
    execute(command(corpus, tmp_path / "whole", steps=400, evaluate_every=200))
    assert same_results(tmp_path, tmp_path / "whole")
    assert not (tmp_path / "state/stop").exists()


@pytest.mark.slow
def test_a_gpu_that_is_not_there_is_no_reason_to_train_on_the_cpu(corpus: Path, tmp_path: Path) -> None:
    arguments = [flag for flag in command(corpus, tmp_path) if flag != "--cpu"]
    done = forked.run(arguments, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 1
    assert "GPUs were requested but torch sees none" in done.stderr


def test_a_run_that_goes_on_draws_no_weights(
    corpus: Path, tmp_path: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    drawn, draw = [], torch.nn.init.normal_
    monkeypatch.setattr(
        torch.nn.init, "normal_", lambda tensor, **given: (drawn.append(tensor.device.type), draw(tensor, **given))[1]
    )
    assert pretrain_model.main([*command(corpus, tmp_path)[2:], "--max-seconds", "0"]) == 75
    assert set(drawn) == {"cpu"}
    drawn.clear()
    assert pretrain_model.main(command(corpus, tmp_path)[2:]) == 0
    assert set(drawn) <= {"meta"}
    assert same_results(tmp_path, undisturbed)


def test_long_ways_between_evaluations_are_saved_by_time(
    corpus: Path, tmp_path: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(loop, "SAVE_SECONDS", -1.0)
    pretrain_model.main(command(corpus, tmp_path, steps=60)[2:])
    lines = [json.loads(line) for line in (own_state(tmp_path) / "attempts.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["event"] == "saved"] == list(range(1, 61))
    assert same_results(tmp_path, undisturbed)


@pytest.mark.parametrize(
    ("seconds", "looks", "saves"),
    [
        (0.1, [1, 17, 33, 48], [48]),
        (2, [1, *range(3, 48, 2), 48], [13, 25, 37, 48]),
        (9, range(1, 49), range(3, 49, 3)),
    ],
)
def test_the_device_is_looked_at_every_five_seconds(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, looks: list[int], saves: list[int]
) -> None:
    """Updates take `seconds` of a clock that they alone move; a state is saved each 24 s."""
    clock, seen = [0.0], []
    update, say = loop.Plain.update, loop.Run.say

    def slow(*given: object) -> tuple:
        clock[0] += seconds
        return update(*given)

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(loop, "LOOK_EVERY", {"cpu": 16})
    monkeypatch.setattr(loop, "SAVE_SECONDS", 23)
    monkeypatch.setattr(loop.Plain, "update", slow)
    monkeypatch.setattr(loop.Run, "say", lambda run, *given: (seen.append(run.step), say(run, *given)))
    pretrain_model.main(command(corpus, tmp_path, steps=48, evaluate_every=48)[2:])
    assert seen == list(looks)
    lines = [json.loads(line) for line in (own_state(tmp_path) / "attempts.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["event"] == "saved"] == list(saves)


@pytest.mark.slow
def test_a_deadline_saves_the_state_and_stops(corpus: Path, tmp_path: Path, undisturbed: Path) -> None:
    assert "Stopped at step 1 " in execute([*command(corpus, tmp_path), "--max-seconds", "0"], expected=75)
    execute(command(corpus, tmp_path))
    assert same_results(tmp_path, undisturbed)


@pytest.mark.slow
def test_a_truncated_checkpoint_falls_back_to_the_one_before(corpus: Path, tmp_path: Path, undisturbed: Path) -> None:
    kill_at_line(command(corpus, tmp_path), 4, signal.SIGKILL)
    newest = sorted(own_state(tmp_path).glob("step-*.pt"))[-1]
    newest.write_bytes(newest.read_bytes()[:1000])
    damaged = own_state(tmp_path) / "damaged"
    assert f"is damaged (no whole archive: File is not a zip file) and was moved to {damaged}" in execute(
        command(corpus, tmp_path)
    )
    assert same_results(tmp_path, undisturbed)
    assert [path.name for path in damaged.iterdir()] == [newest.name]
    (own_state(tmp_path) / "run.json").unlink()  # as if it had not come to its end
    for path in own_state(tmp_path).glob("step-*.pt"):
        path.write_bytes(path.read_bytes()[:1000])
    for _ in range(2):  # the second time all of them lie in damaged/
        assert "None of the 3 checkpoints" in execute(command(corpus, tmp_path), expected=1)


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "micro_batch"), [(1, 1), (1, "auto"), (2, 4), (2, 1), (4, 2)])
def test_processes_and_micro_batches_do_not_change_the_losses(
    corpus: Path, tmp_path: Path, undisturbed: Path, processes: int, micro_batch: int | str
) -> None:
    execute(command(corpus, tmp_path, processes=processes, micro_batch=micro_batch))
    expected, got = (pl.read_parquet(folder / "losses.parquet") for folder in (undisturbed, tmp_path))
    assert expected.drop("loss").equals(got.drop("loss"))
    assert (expected["loss"] - got["loss"]).abs().max() < 2e-4
    assert (expected["loss"] - got["loss"]).head(3).abs().max() < 1e-5


@pytest.mark.slow
def test_two_launchers_as_on_two_nodes_give_the_losses_of_one(corpus: Path, tmp_path: Path, undisturbed: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launchers = []
    for rank in range(2):
        arguments = command(corpus, tmp_path, processes=2)
        machine = ["--num_machines", "2", "--machine_rank", str(rank), "--main_process_ip", "127.0.0.1"]
        places = arguments.index("--num_machines"), arguments.index("--main_process_port")
        arguments[places[1] + 1] = str(port)
        arguments[places[0] : places[0] + 2] = machine
        launchers.append(forked.Process(arguments, env=forked.jobs(OMP_NUM_THREADS="1")))
    endings = [launcher.stderr.read() for launcher in launchers]
    assert [launcher.wait() for launcher in launchers] == [0, 0], endings
    expected, got = (pl.read_parquet(folder / "losses.parquet") for folder in (undisturbed, tmp_path))
    assert (expected["loss"] - got["loss"]).abs().max() < 2e-4


@pytest.mark.slow
def test_fewer_processes_than_asked_for_are_refused(corpus: Path, tmp_path: Path) -> None:
    arguments = command(corpus, tmp_path)
    arguments[arguments.index("--processes") + 1] = "2"
    assert "2 processes were requested but 1 started" in execute(arguments, expected=1)


@pytest.mark.slow
def test_training_lowers_every_domain_and_the_table_is_complete(undisturbed: Path) -> None:
    losses = pl.read_parquet(undisturbed / "losses.parquet")
    assert losses.columns == ["step", "tokens", "domain", "loss"]
    assert losses.height == 6 * 3
    ends = losses.group_by("domain").agg(pl.col("loss").first().alias("early"), pl.col("loss").last().alias("late"))
    assert (ends["late"] < ends["early"]).all()


def test_a_mixture_that_sums_to_one_but_for_rounding_is_read_as_the_exact_one(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the rows by which the sum misses one would all fall to one domain."""
    seen = []
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(loop, "batches", lambda store, proportions, *rest, **more: seen.append(proportions) or [])
    for name, factor in (("exact", 1.0), ("rounded", 1 - 5e-7)):
        (tmp_path / name).mkdir()
        mixture = {"bees": 0.5 * factor, "cats": 0.3 * factor, "dogs": 0.2 * factor}
        (tmp_path / "mixture.json").write_text(json.dumps(mixture))
        arguments = command(corpus, tmp_path / name)[2:]
        arguments[arguments.index("--mixture") + 1] = str(tmp_path / "mixture.json")
        assert pretrain_model.main(arguments) == 0
    for shares in seen:
        assert shares.at(0).tolist() == pytest.approx([0.5, 0.3, 0.2], abs=1e-15)
