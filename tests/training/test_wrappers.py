"""The wrappers of other trainers pass them flags and set fields that they have.

Neither is run: for Megatron-LM `torchrun` is a program that prints its words, for OLMo-core a
package has its classes with the fields that the wrapper sets, and no other."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

from mini_dataset import ROOT

from bimix.training.command import FIELDS, fault, fill, read_rows

TRAINERS = ROOT / "resources/examples/trainers"
VALUES = dict.fromkeys(("evaluate_every", "batch_rows", "sequence_length", "seed", "gpus"), "8")
COMMAND = (
    "bash {wrapper} {{mixture}} {{folder}} {{steps}} {{evaluate_every}} {{batch_rows}} {{sequence_length}} {{seed}}"
    ' {{gpus}} "web code"'
).format(wrapper=TRAINERS / "megatron.sh")


LOSS = " validation-{} loss at iteration {} | lm loss value: {:.6E} | lm loss PPL: 1.000000E+01 | "
LOSSES = {(8, "web"): 2.5, (8, "code"): 2.25, (16, "web"): 2.0, (16, "code"): 1.75}
PRINTED = "\n".join(["-----", *(LOSS.format(domain, step, loss) for (step, domain), loss in LOSSES.items())])


def called(folder: Path, **more: str) -> subprocess.CompletedProcess:
    """The wrapper's call with a folder that holds a blank."""
    program = folder / "torchrun"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n' + f"cat <<'END'\n{PRINTED}\nEND\n")
    (folder / "c d").mkdir()
    program.chmod(0o755)
    given = VALUES | {"mixture": f"{folder}/a b.json", "folder": f"{folder}/c d", "steps": "16"} | more
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "MEGATRON": "/code", "MODEL": "--num-layers 12 --bf16"}
    environment["VALID"] = "/v/web /v/code"
    Path(given["mixture"]).write_text("0.7 /a\n0.3 /b\n")
    return subprocess.run(fill(COMMAND, given), env=environment, capture_output=True, text=True)


def test_megatrons_wrapper_passes_flags_that_megatron_has(tmp_path: Path) -> None:
    words = called(tmp_path).stdout.partition("-----")[0].splitlines()
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
    # what it prints of its losses is a table
    found = read_rows(tmp_path / "c d/losses.csv")
    assert {key: loss for key, (loss, _) in found.items()} == LOSSES
    (data,) = passed["--per-split-data-args-path"]
    read = json.loads(Path(data).read_text())
    assert read == {"train": ["0.7", "/a", "0.3", "/b"], "valid": ["/v/web", "/v/code"], "test": None}


def test_steps_whose_last_loss_megatron_would_not_print_are_refused(tmp_path: Path) -> None:
    said = called(tmp_path, steps="17")
    assert said.returncode == 1 and "17 steps are no multiple of 8" in said.stderr and not said.stdout


OLMO = {  # what the wrapper needs besides classes with fields
    "distributed/utils": "def get_rank(): return 0",
    "train/callbacks": "class Callback: pass",
    "train": """
class Duration:
    steps = staticmethod(lambda number: number)
def prepare_training_environment(*, backend): pass
def teardown_training_environment(): print("done")
""",
}
SCRIPT = """
import argparse
from types import SimpleNamespace
from olmo_core.data import NumpyDataLoaderConfig, NumpyFSLDatasetConfig
from olmo_core.train import TrainerConfig

def parser_args():
    parser = argparse.ArgumentParser()
    for name in ("run_name", "--sequence-length", "--save-folder", "--work-dir"):
        parser.add_argument(name)
    return parser.parse_known_args()

def build_config(opts, overrides):
    assert overrides == ["--train_module.optim.lr=4e-4"]
    trainer = TrainerConfig(save_folder=opts.save_folder, callbacks={"downstream_evaluator": "hellaswag"})
    dataset = NumpyFSLDatasetConfig(sequence_length=int(opts.sequence_length), tokenizer="gpt2")
    loader = NumpyDataLoaderConfig(global_batch_size=1, seed=0)
    return SimpleNamespace(dataset=dataset, data_loader=loader, trainer=trainer, init_seed=0)

def train(config):
    print(config)
    callbacks = config.trainer.callbacks
    callbacks["lines"].trainer = config.trainer
    for step in (4, callbacks["lm_evaluator"].fixed_steps[0]):
        labels = [one["label"] for one in callbacks["lm_evaluator"].eval_dataset.metadata]
        callbacks["lines"].log_metrics(step, {f"eval/lm/{label}/CE loss": 2.5 for label in labels})
        callbacks["lines"].log_metrics(step + 1, {"train/CE loss": 3.0})
"""
MIXTURE = """
from olmo_core.data.source_mixture import SourceMixtureDatasetConfig
def mixture(global_batch_size, **settings):
    return SourceMixtureDatasetConfig(global_batch_size=global_batch_size, **settings)
"""


def olmo(folder: Path, every: str = "4") -> subprocess.CompletedProcess:
    """The wrapper's call with classes of the fields that OLMo-core's have."""
    modules = dict(OLMO)
    with (TRAINERS / "olmo_fields.csv").open() as file:
        for row in csv.DictReader(file):
            name = row["module"].replace(".", "/")
            modules[name] = modules.get(name, "from dataclasses import dataclass")
            head = f"\n@dataclass\nclass {row['class']}:\n"
            if head not in modules[name]:
                modules[name] = "from dataclasses import dataclass\n" + modules[name] + head
            modules[name] += f"    {row['field']}: object = None\n"
    for name, text in modules.items():
        (folder / "olmo_core" / name).mkdir(parents=True, exist_ok=True)
        (folder / "olmo_core" / name / "__init__.py").write_text(text)
    for name, text in (
        ("mine/train.py", SCRIPT),
        ("mix.py", MIXTURE),
        ("torch/__init__.py", "class cuda:\n    is_available = bool"),
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    own = {
        "OLMO_TRAIN": f"{folder}/mine/train.py",
        "OLMO_FLAGS": "--train_module.optim.lr=4e-4",
        "PYTHONPATH": str(folder),
    }
    words = ["mix.py", str(folder), "10", every, "8", "16", "3", "web=/w eb.npy", "code=/code.npy"]
    return subprocess.run(
        [sys.executable, TRAINERS / "train_olmo.py", *words], cwd=folder, env=own, capture_output=True, text=True
    )


def test_olmos_wrapper_sets_fields_that_olmo_core_has(tmp_path: Path) -> None:
    done = olmo(tmp_path)
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stderr
    for words in (
        "SourceMixtureDatasetConfig(global_batch_size=128, seed=3)",
        "NumpyDataLoaderConfig(global_batch_size=128, seed=3)",
        "paths=['/w eb.npy', '/code.npy'], metadata=[{'label': 'web'}, {'label': 'code'}]",
        "eval_interval=4, fixed_steps=[10]",
        "max_duration=10",
        "init_seed=3",
    ):
        assert words in done.stdout, words
    assert "hellaswag" not in done.stdout
    rows = read_rows(tmp_path / "losses.jsonl")
    assert {key: loss for key, (loss, _) in rows.items()} == {
        (step, domain): 2.5 for step in (4, 10) for domain in ("web", "code")
    }


def test_losses_after_the_first_update_which_olmo_core_never_measures_are_refused(tmp_path: Path) -> None:
    done = olmo(tmp_path, every="1")
    assert done.returncode == 1 and "measures nothing after the first update" in done.stderr


FILLED = dict.fromkeys(FIELDS, 1) | {"mixture": "a b.json", "folder": "/c; rm -rf 'd"}


def test_a_value_is_one_word_whatever_is_in_it() -> None:
    words = fill("python 'my train.py' --data={mixture} --out {folder}/{seed} '{{x}}'", FILLED)
    assert words == ["python", "my train.py", "--data=a b.json", "--out", "/c; rm -rf 'd/1", "{x}"]


def test_a_command_that_cannot_be_filled_is_a_sentence() -> None:
    for command, sentence in (
        ("train {mixture} {folder} {sed}", "no field {sed}; there are mixture, folder, steps"),
        ("train {mixture}", "it never says {folder}: all runs would write to one place"),
        ("train {folder}", "it never says {mixture}"),
        ("train {mixture} {folder} 'open", "No closing quotation: close it"),
        ("train {mixture} {folder} {", "a brace that is meant as such is written twice"),
        ("train {mixture} {folder} {seed:03d}", "more than a name"),
        ("train {mixture} {folder} {seed.real}", "more than a name"),
        ("  ", "it has no word"),
    ):
        assert sentence in str(fault(command))
