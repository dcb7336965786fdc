"""Forked processes are what `subprocess` starts: folder, environment, streams, signals."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import forked
import pytest
from slurm_cluster import wait_until

TELLS = """
import json, os, sys
import {module}
print(json.dumps([sys.argv[1:], os.getcwd(), {module}.NAME, sorted(os.environ), os.getsid(0) == os.getpid()]))
print("to the end", file=sys.stderr)
sys.exit(int(sys.argv[1]) if len(sys.argv) > 1 else "a sentence")
"""
WAITS = """
import os, sys, time
open(sys.argv[1], "w").write(str(os.getpid()))
print("ready", file=sys.stderr, flush=True)
time.sleep(500)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script that tells how it was called, beside a module of its own."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own/beside_it.py").write_text("NAME = __name__")
    (tmp_path / "own/tells.py").write_text(TELLS.format(module="beside_it"))
    (tmp_path / "waits.py").write_text(WAITS)
    return tmp_path / "own/tells.py"


def test_a_script_meets_what_it_meets_by_itself(script: Path, tmp_path: Path) -> None:
    command, given = [sys.executable, str(script), "3", "a 'b' ü"], {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    alone = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=given)
    here = forked.run(command, cwd=tmp_path, env=given)
    assert (here.returncode, here.stdout, here.stderr) == (3, alone.stdout, alone.stderr)
    assert json.loads(here.stdout)[0] == ["3", "a 'b' ü"] and here.stderr == "to the end\n"
    said = forked.run([sys.executable, str(script)], cwd=tmp_path)
    assert said.returncode == 1 and said.stderr == "to the end\na sentence\n"
    script.write_text("import beside_it\nraise ValueError(beside_it.NAME)")
    said = forked.run([sys.executable, str(script)])
    assert said.returncode == 1 and said.stderr.endswith("ValueError: beside_it\n") and "Traceback" in said.stderr


def test_no_process_outlives_its_caller(script: Path, tmp_path: Path) -> None:
    process = forked.Process([sys.executable, str(tmp_path / "waits.py"), str(tmp_path / "number")])
    process.stderr.readline()
    process.close()
    wait_until(lambda: not Path(f"/proc/{process.pid}").exists(), "its end")
    job = subprocess.Popen(["python", str(tmp_path / "waits.py"), str(tmp_path / "again")], env=forked.jobs())
    wait_until((tmp_path / "again").exists, "a job")
    job.kill()
    job.wait()
    wait_until(lambda: not Path(f"/proc/{(tmp_path / 'again').read_text()}").exists(), "the end of a job")


def test_a_job_calls_python_and_what_it_starts_is_forked_too(script: Path, tmp_path: Path) -> None:
    environment = forked.jobs(OWN="1")
    done = subprocess.run(["python", str(script), "75"], capture_output=True, text=True, check=False, env=environment)
    arguments, folder, _, names, _ = json.loads(done.stdout)
    assert done.returncode == 75 and arguments == ["75"] and folder == os.getcwd() and "OWN" in names
    (tmp_path / "parent.py").write_text(f"""
import subprocess, sys
sys.exit(subprocess.run([sys.executable, "-u", {str(tmp_path / "child.py")!r}]).returncode)
""")
    (tmp_path / "child.py").write_text("import sys\nprint('torch' in sys.modules)\nsys.exit(4)")
    done = subprocess.run(["python", str(tmp_path / "parent.py")], capture_output=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (4, b"True\n")
    done = subprocess.run(["python", "-c", "print(1)"], capture_output=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (0, b"1\n")
    job = subprocess.Popen(["python", str(tmp_path / "waits.py"), str(tmp_path / "number")], env=environment)
    wait_until((tmp_path / "number").exists, "a job")
    job.terminate()
    assert job.wait() == -signal.SIGTERM
