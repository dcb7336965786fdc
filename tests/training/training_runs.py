"""Command lines of tiny trainings, and what they leave."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import forked
from tiny_run import RECIPE, SHAPE

from bimix.training import checkpoints

SCRIPTS = Path(__file__).parents[2] / "workflow/scripts"
SCRIPT = SCRIPTS / "pretrain_model.py"
OUTPUTS = {"losses": "losses.parquet", "weights": "model.safetensors", "report": "run.json"}
LAUNCH = ("--cpu", "--lock-seconds", "2")


def settings(
    corpus: Path,
    launch: tuple[str, ...] = LAUNCH,
    processes: int | None = 1,
    micro_batch: int | str = 4,
    loss_chunk: int | str = "all",
    shape: dict = SHAPE,
    **changes: object,
) -> list[str]:
    """The flags of any training, with `changes` of its recipe."""
    words = [*launch, "--micro-batch", str(micro_batch), "--loss-chunk", str(loss_chunk)]
    words += [] if processes is None else ["--processes", str(processes)]
    for name in ("train.parquet", "validation.parquet", "tokenizer.json"):
        words += [f"--{name.split('.')[0]}", str(corpus / name)]
    return [*words, "--shape", json.dumps(shape), "--recipe", json.dumps(RECIPE | changes)]


def flags(corpus: Path, out: Path, *more: str, mixture: Path | None = None, **given: object) -> list[str]:
    """Those of pretrain_model."""
    words = ["--mixture", str(mixture or corpus / "mixture.json"), "--state", str(out / "state")]
    words += [word for flag, name in OUTPUTS.items() for word in (f"--{flag}", str(out / name))]
    return [*settings(corpus, **given), *words, *more]


def launched(processes: int) -> list[str]:
    """What starts a script in so many processes."""
    if processes == 1:
        return [sys.executable]
    words = ["launch", "--multi_gpu", "--num_processes", str(processes), "--num_machines", "1"]
    words += ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
    return [sys.executable, shutil.which("accelerate"), *words]


def command(corpus: Path, out: Path, *more: str, processes: int = 1, **given: object) -> list[str]:
    """pretrain_model in real processes."""
    return [*launched(processes), str(SCRIPT), *flags(corpus, out, *more, processes=processes, **given)]


def execute(arguments: list[str], expected: int = 0) -> str:
    """Run a command; what it says on standard error."""
    done = forked.run(arguments, env=forked.jobs(OMP_NUM_THREADS="1"))
    assert done.returncode == expected, done.stderr
    return done.stderr


def interrupt(arguments: list[str], line: str, number: signal.Signals) -> int:
    """Start a run, signal all its processes once a printed line begins so; its status."""
    process = forked.Process(arguments, env=forked.jobs(OMP_NUM_THREADS="1"), start_new_session=True)
    for printed in process.stderr:
        if printed.startswith(line):
            break
    os.killpg(process.pid, number)
    process.stderr.read()
    return process.wait()


def own_state(out: Path) -> Path:
    """The folder of a run's only configuration."""
    (fingerprint,) = (out / "state").glob("*/fingerprint.json")
    return fingerprint.parent


def events(folder: Path) -> list[str]:
    return [line["event"] for line in checkpoints.attempts(folder)]


def lives(stat: Path) -> bool:
    """Whether the process of this file in /proc still runs; one that nobody waits for does not."""
    try:
        return stat.read_text().split()[2] not in "ZX"
    except OSError:
        return False


def same_results(first: Path, second: Path) -> bool:
    names = ("losses.parquet", "model.safetensors")
    return all((first / name).read_bytes() == (second / name).read_bytes() for name in names)
