"""A trainer as a process: nothing that it started outlives it, and it holds the lock of its run."""

import contextlib
import fcntl
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from slurm_cluster import wait_until
from training_runs import lives

from bimix.training.command_run import follow


def test_what_it_started_and_left_behind_is_ended(tmp_path: Path) -> None:
    left = "import os, subprocess; print(subprocess.Popen(['sleep', '300']).pid)"
    with (tmp_path / "lock").open("w") as held, (tmp_path / "shown").open("w") as shown:
        status, asked = follow(
            [sys.executable, "-c", left], tmp_path / "output", shown.fileno(), held.fileno(), lambda: False
        )
    assert (status, asked) == (0, False)
    assert (tmp_path / "output").read_text() == (tmp_path / "shown").read_text()
    stat = Path("/proc", (tmp_path / "output").read_text().strip(), "stat")
    wait_until(lambda: not lives(stat), "its end")  # its files are closed a moment before it is gone


def test_it_holds_the_lock_of_its_run_and_is_asked_to_stop_once(tmp_path: Path) -> None:
    program = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: print('asked', flush=True));"
        " print('begun', flush=True); time.sleep(1.5); time.sleep(0.5); sys.exit(3)"
    )
    held = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    refused = []

    def stop() -> bool:
        if "begun" not in (tmp_path / "output").read_text():
            return False
        if not refused:
            os.close(held)  # as if this process had been killed
            with (tmp_path / "lock").open("a") as other, pytest.raises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            refused.append(time.monotonic())
        return True

    (tmp_path / "output").touch()
    with (tmp_path / "shown").open("w") as shown:
        status, asked = follow([sys.executable, "-c", program], tmp_path / "output", shown.fileno(), held, stop)
    assert (status, asked) == (3, True)
    assert refused
    assert (tmp_path / "output").read_text().split() == ["begun", "asked"]


def test_last_words_are_kept_where_the_log_is_closed_and_all_processes_are_stopped(tmp_path: Path) -> None:
    """A scheduler sends SIGTERM to every process of a job, to the one that copies as well."""
    program = (
        "import signal, time; signal.signal(signal.SIGTERM, lambda *_: [print('line', n, flush=True) for n in range(9999)]);"
        " print('begun', flush=True); time.sleep(1)"
    )
    stopped = []

    def stop() -> bool:
        if "begun" not in (tmp_path / "output").read_text():
            return False
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                number, name, _, parent = path.read_text().split()[:4]
                if (name, parent) == ("(tee)", str(os.getpid())):
                    os.kill(int(number), signal.SIGTERM)
                    stopped.append(number)
        return True

    (tmp_path / "output").touch()
    closed, shown = os.pipe()
    os.close(closed)
    with (tmp_path / "lock").open("w") as held:
        status, _ = follow([sys.executable, "-c", program], tmp_path / "output", shown, held.fileno(), stop)
    os.close(shown)
    assert (status, len(stopped)) == (0, 1)
    assert (tmp_path / "output").read_text().splitlines()[-1] == "line 9998"
