"""The documented commands of the benchmarks still run: here at a size that takes seconds."""

import json
import re
import runpy
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from functools import partialmethod
from pathlib import Path

import forked
import pytest
from accelerate.state import AcceleratorState

from bimix.model.transformer import Transformer

BENCHMARKS = Path(__file__).parent / "benchmarks"
TOY = {"--batch-rows": "4", "--context": "16", "--vocabulary": "300"}
BRIEF = {"bench_training.py": ["--warm-up", "1", "--steps", "1", "--rounds", "2"]}


@pytest.fixture(autouse=True)
def new_accelerator(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One precision holds for a process: forget that of the tests before."""
    # TorchInductor would take minutes over C++
    monkeypatch.setattr(Transformer, "compile", partialmethod(Transformer.compile, backend="eager"))
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


def documented(name: str) -> list[list[str]]:
    """The commands in a benchmark's docstring that start Python themselves, split into words."""
    lines = (BENCHMARKS / name).read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    commands = [
        line.split(f"python tests/benchmarks/{name}", 1)[1].split()
        for line in lines
        if f"python tests/benchmarks/{name}" in line
    ]
    assert len(commands) >= 2
    return commands


def printed(name: str, capsys, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the documented command for a GPU prints on a CPU."""
    words = documented(name)[1]
    for flag, value in TOY.items():
        words[words.index(flag) + 1] = value
    assert words[words.index("--model") + 1] == "280M" and "--compile" in words
    words[words.index("280M")] = "1M"  # the same launch, auto and all, but for the number of devices
    words.append("--cpu")
    monkeypatch.setattr(sys, "argv", [str(BENCHMARKS / name), *words, *BRIEF[name]])
    monkeypatch.syspath_prepend(BENCHMARKS)
    runpy.run_path(sys.argv[0], run_name="__main__")
    return capsys.readouterr().out


def test_the_documented_training_benchmark_runs(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    out = printed("bench_training.py", capsys, monkeypatch)
    assert re.search(r"4 rows an update, [1-4] at once, loss chunk (all|128)", out)
    assert re.search(r"bimix +[\d,]+ tokens/s", out)


def gpu_day(out: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A call of the GPU day at toy size, its processes forked."""
    environment = forked.jobs() | {"GPU_DAY_SIZE": "toy", "PYTHON": "python"} | variables
    environment.pop("NANOGPT", None)
    command = [str(BENCHMARKS / "gpu_day.sh"), str(out), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def rows_of_table(out: Path, stage: str) -> list[list[str]]:
    lines = (out / "table.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if row[0] == stage]


@pytest.mark.slow
@pytest.mark.full
def test_a_gpu_day_measures_skips_what_is_done_and_tells_what_failed(tmp_path: Path) -> None:
    out, archive = tmp_path / "out", tmp_path / "day.tgz"
    words = ("environment", "--case", "attention/flash", "--case", "attention/math", "--archive", str(archive))
    done = gpu_day(out, *words)
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stderr.splitlines() == ["environment/device", "attention/flash", "attention/math"]
    assert [row[1:3] for row in rows_of_table(out, "attention")] == [["flash", "done"], ["math", "done"]]
    speed = json.loads((out / "attention/flash.json").read_text())["numbers"]
    assert speed["tokens/s"] > 0 and speed["rows at once"] == 2 and speed["peak GiB"] > 0
    assert rows_of_table(out, "profile")[0][2] == "not run"
    assert rows_of_table(out, "nanogpt")[0][2:] == ["skipped", "", "NANOGPT names no checkout of nanoGPT"]
    with tarfile.open(archive) as packed:
        names = packed.getnames()
    cases = ("attention/flash", "attention/math", "environment/device")
    assert names == ["table.md", *(f"{case}.{kind}" for kind in ("json", "log") for case in cases)]

    broken = tmp_path / "broken"  # a module that hides torch's helper, so that the loop cannot start
    broken.mkdir()
    (broken / "accelerate.py").write_text("raise RuntimeError('a broken installation')\n")
    (out / "attention/math.json").unlink()
    # not forked: those processes have imported accelerate before
    again = gpu_day(out, *words, PYTHON=sys.executable, PYTHONPATH=str(broken))
    assert again.returncode == 1
    assert again.stderr.splitlines() == ["attention/math"]  # the others are done
    kind, why = rows_of_table(out, "attention")[1][2::2]
    assert (kind, why) == ("failed", "status 1: RuntimeError: a broken installation")
    assert rows_of_table(out, "attention")[0][2] == "done"


def test_no_measurement_is_begun_when_the_time_is_up_and_no_other_name_is_one(tmp_path: Path) -> None:
    done = gpu_day(tmp_path, "environment", "--total-seconds", "0")
    assert done.returncode == 1 and "| environment | device | not run |" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["table.md"]
    for words in (["speed"], ["--case", "base/all"]):
        assert gpu_day(tmp_path, *words).returncode == 2


def test_every_measurement_of_a_gpu_day_is_a_command_that_its_script_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """At full size too, whose flags no other test sees: read, not run."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    day = runpy.run_path(str(BENCHMARKS / "gpu_day.py"))

    class Read(Exception):
        """The flags were understood."""

    def stop(self, args=None, namespace=None):
        known, unknown = self.parse_known_args(args, namespace)
        assert not unknown
        raise Read(known)

    for size in ("full", "toy"):
        stages = day["plan"](size, "nanoGPT")
        assert size == "toy" or {f"{stage}/{case.name}" for stage in stages for case in stages[stage]} >= {
            *day["FIRST"]
        }
        cases = [case for stage in stages.values() for case in stage]
        assert len(cases) > 10
        for case in cases:
            script = runpy.run_path(str(BENCHMARKS / case.words[0]))
            words = [*case.words[1:], "--json", "numbers"]
            with monkeypatch.context() as patched:
                patched.setattr("argparse.ArgumentParser.parse_args", stop)
                with pytest.raises(Read):
                    script["main"](words)
