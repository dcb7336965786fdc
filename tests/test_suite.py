"""What file_scheduling promises of the suite: no test that kills its process stops the others."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
QUIET = "import pytest\n@pytest.mark.parametrize('number', range(4))\ndef test_quiet(number):\n    pass\n"
DEADLY = "import os, signal\ndef die():\n    os.kill(os.getpid(), signal.SIGSEGV)\n"


@pytest.mark.full
def test_a_process_that_dies_costs_the_test_it_died_of(tmp_path: Path) -> None:
    first = DEADLY + "".join(f"def test_{n}():\n    {('pass', 'die()')[n % 2]}\n" for n in range(4))
    files = {"a": first, "b": QUIET, "c": QUIET, "d": QUIET, "e": DEADLY + "def test_alone():\n    die()\n"}
    (tmp_path / "conftest.py").write_text("from file_scheduling import pytest_xdist_make_scheduler\n")
    for name, text in files.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--numprocesses", "3"]
    command += ["-p", "no:cacheprovider", str(tmp_path)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=600)
    assert done.returncode == 1, done.stdout + done.stderr
    assert len(re.findall(r"^FAILED .*crashed while running", done.stdout, re.MULTILINE)) == 3
    assert "3 failed, 14 passed" in done.stdout
