"""What file_scheduling promises of the suite: no test that kills its process stops the others."""

import os
import re
import subprocess
import sys
from pathlib import Path

import forked
import pytest
from slurm_cluster import wait_until

ROOT = Path(__file__).parents[1]
QUIET = "import pytest\n@pytest.mark.parametrize('number', range(4))\ndef test_quiet(number):\n    pass\n"
DEADLY = "import os, signal\ndef die():\n    os.kill(os.getpid(), signal.SIGSEGV)\n"


def suite(folder: Path, processes: int, *options: str, **files: str) -> str:
    """What pytest prints of these files under pyproject.toml's settings; it must see failures."""
    hooks = "from file_scheduling import pytest_xdist_make_scheduler\nfrom forked import pytest_configure\n"
    (folder / "conftest.py").write_text(hooks)
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--numprocesses", str(processes)]
    given = os.environ.items()
    environment = {name: value for name, value in given if not name.startswith(("PYTEST_", forked.PLACE))}
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", *options, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=600,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.full
def test_a_process_that_dies_costs_the_test_it_died_of(tmp_path: Path) -> None:
    first = DEADLY + "".join(f"def test_{n}():\n    {('pass', 'die()')[n % 2]}\n" for n in range(4))
    alone = DEADLY + "def test_alone():\n    die()\n"
    said = suite(tmp_path, 3, a=first, b=QUIET, c=QUIET, d=QUIET, e=alone)
    assert len(re.findall(r"^FAILED .*crashed while running", said, re.MULTILINE)) == 3
    assert "3 failed, 14 passed" in said


@pytest.mark.full
@pytest.mark.parametrize("processes", [0, 2])
def test_forked_processes_have_one_server_that_ends_with_the_run(tmp_path: Path, processes: int) -> None:
    note = "import os, forked\nfrom pathlib import Path\ndef test_note():\n"
    note += "    Path(__file__).with_suffix('.told').write_text(f'{os.getpid()} {forked.folder()}')\n"
    fails = "import time\ndef test_fails():\n    time.sleep(1)\n    assert False\n"
    said = suite(tmp_path, processes, a=note, b=note, c=fails)
    assert "1 failed, 2 passed" in said
    told = [(tmp_path / name).read_text().split() for name in ("test_a.told", "test_b.told")]
    assert len({number for number, _ in told}) == max(processes, 1)
    (place,) = {place for _, place in told}
    wait_until(lambda: not Path(place).exists(), "the end of the server")
