"""The command line that all training scripts share, and the session it stands for."""

import argparse
import json
import os
import shutil
import signal
import time
from datetime import timedelta
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs, DistributedType, InitProcessGroupKwargs
from tokenizers import Tokenizer

from bimix.digests import digest_file
from bimix.errors import InputError
from bimix.model.attention import SWITCHES, choose_attention
from bimix.model.transformer import Shape
from bimix.tables import read_table
from bimix.training import provenance
from bimix.training.recipe import Recipe, schedule_fault
from bimix.training.rows import RowStore, open_rows, pool
from bimix.training.session import Session

# Accelerate 1.15: accelerator.py, state.py, parallelism_config.py, utils/dataclasses.py; ranks of
# MPI come before RANK
SETTINGS_OF_ACCELERATE = (
    "ACCELERATE_",
    "DEEPSPEED_",
    "FP8_",
    "FSDP_",
    "MEGATRON_LM_",
    "PARALLELISM_CONFIG_",
    "PMI_",
    "OMPI_COMM_WORLD_",
    "MV2_COMM_WORLD_",
)
# All gradients in one bucket, whatever the model: they are sent once, after the backward pass,
# which is then one compiled graph (`compile_whole`).
ALL_MEGABYTES = 2**20
PATIENCE = timedelta(minutes=10)  # of a process for the others in updates; in `Session.wait` it is longer
COMPILERS = {"cuda": ("CC", ("gcc", "clang")), "cpu": ("CXX", ("g++", "clang++"))}  # of Triton, of C++


def training_parser(description: str) -> argparse.ArgumentParser:
    """A parser of the flags that every training has: tokens, shape, recipe, device, state."""
    parser = argparse.ArgumentParser(description=description)
    attentions = ("auto", *(name for name in SWITCHES if name != "efficient"))
    parser.add_argument("--train", type=Path, required=True, help="token index of the training split, parquet")
    parser.add_argument("--validation", type=Path, required=True, help="token index of the validation split, parquet")
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json, for the size of the vocabulary")
    parser.add_argument("--shape", type=json.loads, required=True, help="layers, width and heads, JSON")
    parser.add_argument("--recipe", type=json.loads, required=True, help="fields of training.Recipe, JSON")
    parser.add_argument("--processes", type=int, required=True, help="processes asked of the launcher")
    parser.add_argument("--micro-batch", required=True, help="rows at once on one process; auto: as memory allows")
    parser.add_argument("--loss-chunk", required=True, help="tokens whose scores exist at once, or all")
    parser.add_argument("--compile", choices=("yes", "no"), default="no", help="compile the model; pays on a GPU")
    parser.add_argument("--attention", choices=attentions, default="auto", help="torch's kernel; auto: torch chooses")
    parser.add_argument("--bucket-megabytes", default="all", help="gradients that processes send at once, or all")
    parser.add_argument("--gradient-compression", choices=("none", "bf16"), default="none")
    parser.add_argument("--cpu", action="store_true", help="train on the CPU even where there is a GPU")
    parser.add_argument("--max-seconds", type=float, help="save the state and stop after so long")
    parser.add_argument("--lock-seconds", type=float, required=True, help="wait so long for another attempt to stop")
    parser.add_argument(
        "--verify-shards", choices=("yes", "no"), default="yes", help="hold shards against their digests first"
    )
    parser.add_argument("--state", type=Path, required=True, help="folder of the checkpoints")
    return parser


def open_session(options: argparse.Namespace) -> Session:
    """The session of a parsed command line; its deadline counts from now."""
    obey()
    launched = time.monotonic()
    recipe = Recipe(**options.recipe)
    wrong = schedule_fault(options.recipe)
    if wrong is not None and recipe.schedule == "wsds":  # horizons of a model on it are nothing to others
        raise InputError(f"recipe, {wrong[0]}: {wrong[1]}")
    indices = {split: read_table(getattr(options, split)) for split in ("train", "validation")}
    evaluated = sorted(indices["validation"]["domain"].unique().to_list())
    trained = set(indices["train"]["domain"])
    domains = [domain for domain in evaluated if domain in trained]
    train = RowStore(indices["train"], domains, open_rows)
    validation = RowStore(indices["validation"], evaluated, open_rows)
    vocabulary = Tokenizer.from_file(str(options.tokenizer)).get_vocab_size()
    accelerator = start(options, recipe)
    return Session(
        accelerator=accelerator,
        shape=Shape(**options.shape, vocabulary=vocabulary),
        recipe=recipe,
        indices=indices,
        domains=domains,
        evaluated=evaluated,
        train=pool(train, recipe.pool_share),
        held=[validation.sample(number, recipe.validation_rows) for number in range(len(evaluated))],
        loss_chunk=None if options.loss_chunk == "all" else int(options.loss_chunk),
        micro_batch=None if options.micro_batch == "auto" else int(options.micro_batch),
        compiled=options.compile == "yes",
        deadline=None if options.max_seconds is None else launched + options.max_seconds,
        lock_seconds=options.lock_seconds,
        tokenizer=digest_file(options.tokenizer),
        origin=provenance.origin(accelerator) | {"gradient_compression": options.gradient_compression}
        if accelerator.is_main_process
        else {},
        trusted=options.verify_shards == "no",
        overlapped=options.bucket_megabytes != "all",
        compressed=options.gradient_compression == "bf16",
    )


def obey() -> None:
    """Let SIGTERM end this process as by default: launch_training.sh ignores it, and what it starts
    inherits that.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def forget_settings() -> None:
    """Drop what Accelerate would read of the environment: all that counts is given to it by
    argument.

    Its launcher hands such variables on, and an earlier job script may have left others behind, of
    which gradient accumulation, FSDP or another device would change the result without a word.
    Ranks come by RANK and WORLD_SIZE.
    """
    for name in list(os.environ):
        if name.startswith(SETTINGS_OF_ACCELERATE) or name == "FORK_LAUNCHED":
            del os.environ[name]


def start(options: argparse.Namespace, recipe: Recipe) -> Accelerator:
    """The accelerator, of just as many processes as were asked for."""
    forget_settings()
    accelerator = Accelerator(
        cpu=options.cpu,
        mixed_precision=recipe.precision,
        log_with="tensorboard",
        project_dir=options.state.parent,
        kwargs_handlers=wrapping(options.bucket_megabytes),
    )
    check_launch(accelerator, options.processes, options.cpu)
    check_updates(accelerator, recipe.batch_rows, options.compile == "yes")
    check_settings(accelerator, recipe.precision)
    choose_attention(options.attention, accelerator.device.type, recipe.precision)
    return accelerator


def wrapping(bucket_megabytes: str = "all") -> list:
    """How Accelerate wraps a model for several processes, which send gradients so many megabytes
    at once or all, and how long these wait for each other.
    """
    size = ALL_MEGABYTES if bucket_megabytes == "all" else int(bucket_megabytes)
    buckets = {"gradient_as_bucket_view": True, "bucket_cap_mb": size}
    return [
        DistributedDataParallelKwargs(broadcast_buffers=False, **buckets),  # the model has none
        InitProcessGroupKwargs(timeout=PATIENCE),
    ]


def check_launch(accelerator: Accelerator, processes: int, cpu: bool) -> None:
    """Refuse other processes or another device than were asked for.

    Takes the threads that the launcher gave to each process.
    """
    if accelerator.num_processes != processes:
        raise InputError(
            f"{processes} processes were asked for but {accelerator.num_processes} started;"
            f" check the launcher's --num_processes and --multi_gpu."
        )
    if accelerator.device.type == "cpu" and not cpu:
        raise InputError("GPUs were asked for but torch sees none on this machine; look at its driver, or give --cpu.")
    if accelerator.device.type == "cpu":
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))


def check_updates(accelerator: Accelerator, batch_rows: int, compiled: bool) -> None:
    """Refuse updates of fewer rows than processes, and to compile without a compiler."""
    processes = accelerator.num_processes
    if batch_rows < processes:
        raise InputError(
            f"batch_rows is {batch_rows}, but {processes} processes were started and each needs a row of every update;"
            f" raise batch_rows, or lower gpus or nodes in the model's launch."
        )
    if compiled:
        check_compiler(accelerator.device.type)


def check_settings(accelerator: Accelerator, precision: str) -> None:
    """Refuse an accelerator that has taken settings which nobody gave it: they would change the
    gradient.
    """
    kinds = {DistributedType.MULTI_GPU, DistributedType.MULTI_CPU}
    if accelerator.num_processes == 1:
        kinds.add(DistributedType.NO)
    taken = {
        "gradient_accumulation_steps": (accelerator.gradient_accumulation_steps, {1}),
        "mixed_precision": (accelerator.mixed_precision, {precision}),
        "distributed_type": (accelerator.distributed_type, kinds),
    }
    for name, (value, allowed) in taken.items():
        if value not in allowed:
            raise InputError(
                f"Accelerate has taken {name} {value!s}, which nobody asked for; look for its variables in the environment"
                f" and for its default_config.yaml."
            )


def check_compiler(device: str) -> None:
    """Refuse to compile a model for a kind of device where there is nothing to do it with: torch
    would end in a backtrace.
    """
    variable, names = COMPILERS[device]
    if not any(map(shutil.which, filter(None, (os.environ.get(variable), *names)))):
        raise InputError(
            f'`compile: "yes"` needs a compiler, and this machine has none of {", ".join(names)}: install one, name one'
            f' in {variable}, or set `compile: "no"` in the model\'s launch.'
        )
