"""The documented commands of the benchmarks still run: here at a size that takes seconds."""

import re
import runpy
import sys
from collections.abc import Iterator
from functools import partialmethod
from pathlib import Path

import pytest
from accelerate.state import AcceleratorState

from bimix.model import Transformer

BENCHMARKS = Path(__file__).parent / "benchmarks"
TOY = {"--batch-rows": "4", "--context": "16", "--vocabulary": "300"}
BRIEF = {"bench_training.py": ["--warm-up", "1", "--steps", "1", "--rounds", "2"]}


@pytest.fixture(autouse=True)
def new_accelerator(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One precision holds for all of a process: forget that of the tests before, and leave none to those after."""
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


@pytest.mark.parametrize("number", [0, 1])
def test_the_documented_training_benchmark_runs(number: int, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is of a CPU, the second of a GPU, whose entry of config.yaml says auto and all."""
    words = documented("bench_training.py")[number]
    for flag, value in TOY.items():
        words[words.index(flag) + 1] = value
    if "--cpu" not in words:
        assert words[words.index("--model") + 1] == "280M" and "--compile" in words
        words[words.index("280M")] = "1M"  # the same launch, but for the number of devices
        words.append("--cpu")
    script = BENCHMARKS / "bench_training.py"
    monkeypatch.setattr(sys, "argv", [str(script), *words, *BRIEF["bench_training.py"]])
    runpy.run_path(str(script), run_name="__main__")
    printed = capsys.readouterr().out
    assert re.search(r"4 rows an update, [1-4] at once, loss chunk (all|128)", printed)
    assert re.search(r"bimix +[\d,]+ tokens/s", printed)
