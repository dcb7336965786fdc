"""A run on two nodes: launchers that meet at an address and a port, as srun starts them, here both
on this machine; and what becomes of one when the other fails.
"""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import psutil
import pytest
from slurm_cluster import wait_until
from training_runs import flags

import pretrain_model

ROOT = Path(__file__).parents[2]
COMMANDS = {
    # as many tasks as nodes, in which no signal is ignored; unlike the real one it leaves the others
    # alone where one has failed
    "srun": """#!/bin/bash
echo "$*" > "${0%/*}/flags"
while [[ $1 == --* ]]; do case $1 in --*=*) shift;; *) shift 2;; esac; done
for node in 0 1; do SLURM_NODEID=$node SLURM_STEP_NODELIST=both env --default-signal=TERM "$@" & tasks+=($!); done
for task in "${tasks[@]}"; do wait "$task" || failed=$?; done
exit ${failed:-0}
""",
    "scontrol": "#!/bin/sh\necho 127.0.0.1\n",
}


@pytest.fixture
def launch(corpus: Path, tmp_path: Path) -> Iterator:
    """Start a run on two nodes, in the folder of the test; its log is `said`."""
    (tmp_path / "bin").mkdir()
    for name, script in COMMANDS.items():
        (tmp_path / "bin" / name).write_text(script)
        (tmp_path / "bin" / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "SLURM_JOB_ID": str(os.getpid())}
    command = ["bash", "workflow/scripts/launch_training.sh", "0", "2", "1", "0", str(tmp_path / "said")]
    command += [str(tmp_path / "logs"), pretrain_model.__file__]
    begun = []

    def start(**recipe: object) -> subprocess.Popen:
        own = flags(corpus, tmp_path, launch=(), processes=None, **recipe)
        begun.append(subprocess.Popen([*command, *own], cwd=ROOT, env=environment))
        return begun[-1]

    yield start
    for one in begun:
        left = psutil.Process(one.pid).children(recursive=True) if one.poll() is None else []
        for process in (*left, one):
            process.kill()
        one.wait()


@pytest.mark.slow
def test_two_nodes_train_what_one_process_trains(launch, corpus: Path, tmp_path) -> None:
    recipe = {"steps": 20, "evaluate_every": 10}
    assert launch(**recipe).wait(300) == 0, (tmp_path / "said").read_text()
    assert pretrain_model.main(flags(corpus, tmp_path / "alone", **recipe)) == 0
    # the real one ends the others by this alone: a node without memory says nothing to them
    assert "--kill-on-bad-exit=1 " in (tmp_path / "bin/flags").read_text()
    both, one = (pl.read_parquet(folder / "losses.parquet") for folder in (tmp_path, tmp_path / "alone"))
    assert both.height == one.height == 6 and both.drop("loss").equals(one.drop("loss"))
    assert (both["loss"] - one["loss"]).abs().max() < 1e-5
    assert json.loads((tmp_path / "run.json").read_text())["attempts"][0]["processes"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, pytest.param(1, marks=pytest.mark.full)])
def test_a_node_that_fails_ends_the_other_with_a_sentence(launch, tmp_path: Path, rank: int) -> None:
    launched = launch(steps=100_000, evaluate_every=10)
    wait_until(lambda: list((tmp_path / "state").glob("*/step-*.pt")), "the first checkpoint", 200)
    (process,) = (one for one in workers(launched.pid) if one.environ()["RANK"] == str(rank))
    process.send_signal(signal.SIGKILL)
    assert launched.wait(120) != 0
    said = log(tmp_path)
    assert f"error: process {1 - rank} on " in said and "cannot reach another process of this run" in said
    assert "a process of the training was ended by SIGKILL" in said
    assert "Traceback" not in said
    assert list((tmp_path / "state").glob("*/step-*.pt")), "what was saved before is there"


def test_a_launcher_leaves_sigterm_to_its_training_on_every_node(launch, tmp_path: Path) -> None:
    """Else SLURM, which signals all processes, would end a step before its training has saved."""
    (tmp_path / "bin/python").write_text("#!/bin/sh\nexec grep SigIgn /proc/self/status >&2\n")
    (tmp_path / "bin/python").chmod(0o755)
    assert launch().wait(60) == 0
    masks = [int(line.split()[1], 16) for line in log(tmp_path).splitlines() if line.startswith("SigIgn")]
    assert [mask >> (signal.SIGTERM - 1) & 1 for mask in masks] == [1, 1]


def log(folder: Path) -> str:
    return (folder / "said").read_text() if (folder / "said").exists() else ""


def workers(launcher: int) -> list[psutil.Process]:
    """The processes that train, below the one that was started."""
    found = psutil.Process(launcher).children(recursive=True)
    return [one for one in found if any(part.endswith("pretrain_model.py") for part in one.cmdline()[:3])]
