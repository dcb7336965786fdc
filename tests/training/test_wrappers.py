"""The wrapper script for Megatron-LM passes flags that this has, with as many values as each takes.

Megatron-LM itself is not run: `torchrun` is a program that prints its words.
"""

import csv
import os
import subprocess
from pathlib import Path

from mini_dataset import ROOT

from bimix.training.command import fill

TRAINERS = ROOT / "resources/examples/trainers"
VALUES = dict.fromkeys(("evaluate_every", "batch_rows", "sequence_length", "seed", "gpus"), "8")
COMMAND = (
    "bash {wrapper} {{mixture}} {{folder}} {{steps}} {{evaluate_every}} {{batch_rows}} {{sequence_length}} {{seed}}"
    ' {{gpus}} "web code"'
).format(wrapper=TRAINERS / "megatron.sh")


def called(folder: Path, **more: str) -> subprocess.CompletedProcess:
    """The wrapper's call with a folder that holds a blank."""
    program = folder / "torchrun"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    given = VALUES | {"mixture": f"{folder}/a b.json", "folder": f"{folder}/c d", "steps": "16"} | more
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "MEGATRON": "/code", "MODEL": "--num-layers 12 --bf16"}
    return subprocess.run(fill(COMMAND, given), env=environment, capture_output=True, text=True)


def test_megatrons_wrapper_passes_flags_that_megatron_has(tmp_path: Path) -> None:
    words = called(tmp_path).stdout.splitlines()
    assert words[:3] == ["--nproc-per-node", "8", "/code/pretrain_gpt.py"] and words[-3:] == [
        "--num-layers",
        "12",
        "--bf16",
    ]
    passed: dict[str, list[str]] = {}
    for word in words[3:-3]:
        if word.startswith("--"):
            passed[word] = []
        else:
            passed[list(passed)[-1]].append(word)
    with (TRAINERS / "megatron_flags.csv").open() as file:
        known = {row["flag"]: row["values"] for row in csv.DictReader(file)}
    assert passed.keys() == known.keys()
    assert all(len(own) == int(known[flag]) if known[flag] != "+" else own for flag, own in passed.items())
    assert passed["--validation-set-names"] == ["web", "code"] and passed["--train-iters"] == ["16"]
    assert passed["--save"] == passed["--load"] == [f"{tmp_path}/c d"]
    assert passed["--per-split-data-args-path"] == [f"{tmp_path}/a b.json"]


def test_steps_whose_last_loss_megatron_would_not_print_are_refused(tmp_path: Path) -> None:
    said = called(tmp_path, steps="17")
    assert said.returncode == 1 and "17 steps are no multiple of 8" in said.stderr and not said.stdout
