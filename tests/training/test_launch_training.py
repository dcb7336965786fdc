"""The launcher of trainings: what a signal does to several processes of one run."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from slurm_cluster import wait_until
from training_runs import lives

ROOT = Path(__file__).parents[2]
TRAINING = """
import os, signal, sys, time
from pathlib import Path
out = Path(sys.argv[1]) / os.environ.get("RANK", "0")
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: out.open("a").write("asked to stop\\n"))
(out.parent / f"{out.name}.begun").write_text(str(os.getpid()))
(out.parent / f"{out.name}.begun").rename(out.parent / f"{out.name}.process")
while not out.exists():
    time.sleep(0.1)
until = time.monotonic() + float(sys.argv[2])
while time.monotonic() < until:  # the state is saved
    time.sleep(0.1)
out.open("a").write("saved\\n")
sys.exit(75)
"""


FAILING = """
import os, signal, sys
sys.path.insert(0, "workflow/scripts")
from bimix.errors import InputError, run
def main():
    if sys.argv[1] == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[1] == "stops":
        print("stopped", file=sys.stderr)
        return 75
    raise InputError("the mixture is wrong.")
sys.exit(run(main))
"""


def on_gpus(folder: Path) -> dict[str, str]:
    """An environment in which nvidia-smi lists two GPUs that nobody uses."""
    (folder / "bin").mkdir()
    smi = folder / "bin/nvidia-smi"
    smi.write_text(f"#!/bin/sh\ncase $1 in *compute*) ;; *) echo 0, {folder}-0; echo 1, {folder}-1;; esac\n")
    smi.chmod(0o755)
    environment = os.environ | {"PATH": f"{folder}/bin:{os.environ['PATH']}"}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    return environment


def launcher(folder: Path, gpus: int, threads: int = 2) -> list[str]:
    """What launches training.py of a folder on a node; its log is `said`, those of attempts are in `history`."""
    command = ["bash", "workflow/scripts/launch_training.sh", str(gpus), "1", str(threads), "0"]
    return [*command, *(str(folder / name) for name in ("said", "history", "training.py"))]


@pytest.mark.slow
def test_what_a_training_says_is_the_last_word(tmp_path: Path) -> None:
    (tmp_path / "training.py").write_text(FAILING)
    environment = on_gpus(tmp_path)
    killed = "launch_processes.py: error: a process of the training was ended by SIGKILL: the machine's"
    for gpus, how, status, sentence in (
        (0, "refuses", 1, "training.py: error: the mixture is wrong."),
        (2, "refuses", 1, "training.py: error: the mixture is wrong."),
        (2, "stops", 75, "stopped"),
        (2, "dies", 137, killed),
    ):
        done = subprocess.run([*launcher(tmp_path, gpus), how], cwd=ROOT, env=environment, check=False)
        said = (tmp_path / "said").read_text(encoding="utf-8")
        assert done.returncode == status
        assert said.splitlines()[-1].startswith(sentence)
        assert "Traceback" not in said and "exitcode" not in said


def test_attempts_that_begin_at_once_have_a_log_each_and_none_to_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "training.py").write_text("import sys; print('mine alone', sys.argv[1], file=sys.stderr)")
    command = launcher(tmp_path, 0)
    begun = [subprocess.Popen([*command, str(number)], cwd=ROOT, stderr=subprocess.PIPE) for number in range(6)]
    assert [(one.communicate()[1], one.returncode) for one in begun] == [(b"", 0)] * 6
    logs = [(tmp_path / f"history/{number}.log").read_text().splitlines() for number in range(1, 7)]
    assert [log[0].split(",")[0] for log in logs] == [f"Attempt {number}" for number in range(1, 7)]
    assert sorted(line for log in logs for line in log[1:]) == [f"mine alone {number}" for number in range(6)]
    assert all(len(log) == 2 for log in logs)
    assert any((tmp_path / "said").samefile(tmp_path / f"history/{number}.log") for number in range(1, 7))
    assert {path.name for path in tmp_path.iterdir()} == {"training.py", "said", "history"}
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed/1.log").symlink_to("/nowhere/at/all")  # neither there nor to be made, by root either
    command[-2] = str(tmp_path / "closed")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr == f"launch_training.sh: error: {tmp_path}/closed cannot be written to\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gpus", "number", "seconds"),
    [
        (2, signal.SIGTERM, 3),
        pytest.param(2, signal.SIGINT, 33, marks=pytest.mark.full),  # longer than the launcher waits by itself
        (1, signal.SIGTERM, 3),
    ],
)
def test_processes_that_are_asked_to_stop_are_left_the_time_they_take(tmp_path, gpus, number, seconds) -> None:
    """By itself the launcher would wait for 30 s after an interrupt."""
    (tmp_path / "training.py").write_text(TRAINING)
    command = [*launcher(tmp_path, gpus), str(tmp_path), str(seconds)]
    with (tmp_path / "log").open("w") as log:
        launched = subprocess.Popen(command, cwd=ROOT, env=on_gpus(tmp_path), stderr=log, start_new_session=True)
    try:
        files = [tmp_path / f"{rank}.process" for rank in range(gpus)]
        wait_until(lambda: all(file.exists() for file in files), "all processes", 120)
        # a cluster signals every process of a job; those that train have sessions of their own
        os.killpg(launched.pid, number)
        for file in files:
            os.kill(int(file.read_text()), number)
        assert launched.wait(120) != 0
    finally:
        if launched.poll() is None:
            os.killpg(launched.pid, signal.SIGKILL)
            launched.wait()
    for rank in range(gpus):
        # the launcher asks a process again where the other one has ended before it
        said = (tmp_path / str(rank)).read_text().splitlines()
        assert said[0] == "asked to stop" and said[-1] == "saved"


ORPHAN = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, "workflow/scripts")
from bimix.training.session import end_by_sigterm
end_by_sigterm()
own = Path(sys.argv[1], os.environ.get("RANK", "0"))
own.write_text(str(os.getpid()))
own.rename(own.with_suffix(".process"))
time.sleep(600)
"""


@pytest.mark.slow
def test_processes_whose_launcher_is_killed_end(tmp_path: Path) -> None:
    """Before they have met no collective would tell them."""
    (tmp_path / "training.py").write_text(ORPHAN)
    launched = subprocess.Popen([*launcher(tmp_path, 2), str(tmp_path)], cwd=ROOT, env=on_gpus(tmp_path))
    files = [tmp_path / f"{rank}.process" for rank in range(2)]
    try:
        wait_until(lambda: all(file.exists() for file in files), "all processes", 300)
    finally:
        launched.kill()
        launched.wait()
    places = [Path("/proc", file.read_text(), "stat") for file in files]
    wait_until(lambda: not any(map(lives, places)), "the end of all", 60)


def test_once_is_one_process_with_all_gpus_of_the_first_node(tmp_path: Path) -> None:
    (tmp_path / "training.py").write_text("import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))")
    environment = on_gpus(tmp_path) | {"RANK": "3"}
    places = launcher(tmp_path, 0)[-3:]
    for gpus, nodes, held in ((0, 1, 0), (4, 2, 2)):
        words = ["--once", str(gpus), str(nodes), "8", "60", *places, "--own"]
        done = subprocess.run(
            ["bash", "workflow/scripts/launch_training.sh", *words], cwd=ROOT, env=environment, stdout=subprocess.PIPE
        )
        assert done.returncode == 0, (tmp_path / "said").read_text()
        flags, seen = json.loads(done.stdout)
        cpu = [] if gpus else ["--cpu"]
        assert flags == ["--own", *cpu, "--max-seconds", "3000", "--lock-seconds", "300", "--processes", "1"]
        assert len([name for name in seen.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]) == held
        assert seen["OMP_NUM_THREADS"] == str(8 // max(held, 1))
        assert "RANK" not in seen


SETTINGS = "import os; print(*(os.environ.get(name) for name in ("
SETTINGS += "'OMP_NUM_THREADS', 'TORCHINDUCTOR_COMPILE_THREADS', 'PYTORCH_ALLOC_CONF', 'PYTORCH_CUDA_ALLOC_CONF',"
SETTINGS += "'TORCHINDUCTOR_CACHE_DIR')))"


def test_the_compiler_and_the_allocator_are_bounded_unless_the_user_says_how(tmp_path: Path) -> None:
    (tmp_path / "training.py").write_text(SETTINGS)
    names = ("TORCHINDUCTOR_COMPILE_THREADS", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    names += ("TORCHINDUCTOR_CACHE_DIR",)
    cache = f"{ROOT}/.snakemake/torchinductor"
    plain = {name: value for name, value in os.environ.items() if name not in names}
    command = launcher(tmp_path, 0, threads=3)
    for given, expected in (
        ({}, f"3 3 expandable_segments:True None {cache}"),
        ({"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"}, f"3 3 None max_split_size_mb:64 {cache}"),
        ({"PYTORCH_ALLOC_CONF": "", "TORCHINDUCTOR_COMPILE_THREADS": "7", names[-1]: "/own"}, "3 7  None /own"),
    ):
        done = subprocess.run(command, cwd=ROOT, env=plain | given, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == expected
