"""The common state of the runs of one process: the flags of all trainings, the device, the tokens,
the settings, the stop request, and the agreement between processes.
"""

import argparse
import ctypes
import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import torch
from accelerate import Accelerator
from accelerate.utils import (
    DistributedDataParallelKwargs,
    InitProcessGroupKwargs,
    broadcast_object_list,
    gather_object,
)
from tokenizers import Tokenizer

from bimix.digests import digest_file
from bimix.errors import InputError
from bimix.model.transformer import Shape, attention_kernel
from bimix.tables import read_table
from bimix.training import provenance
from bimix.training.recipe import Recipe, rate_fault
from bimix.training.rows import (
    CHECKED,
    Part,
    RowStore,
    check_shards,
    note_checked,
    open_rows,
    pool,
    read_checked,
    stamps,
)

TRACKERS = ("tensorboard", "wandb", "trackio", "none")
PROGRESS_SECONDS = 10
PR_SET_PDEATHSIG = 1  # of linux/prctl.h
PATIENCE = timedelta(minutes=10)  # of a process for the others in updates
LONG_PATIENCE = timedelta(hours=1)  # while one of them reads or writes tens of GB
MANY_TOKENS = 4e9  # of shards whose digests are checked: from here on it takes seconds to minutes
# Accelerate 1.15: accelerator.py, state.py, parallelism_config.py, utils/dataclasses.py; ranks of
# MPI come before RANK
SETTINGS_OF_ACCELERATE = (
    *("ACCELERATE_", "DEEPSPEED_", "FP8_", "FSDP_", "MEGATRON_LM_", "PARALLELISM_CONFIG_"),
    *("PMI_", "OMPI_COMM_WORLD_", "MV2_COMM_WORLD_"),
)
# All gradients in one bucket for any model: they are sent once, after the backward pass, which is
# then one compiled graph (`compile_whole`).
ALL_MEGABYTES = 2**20
COMPILERS = {"cuda": ("CC", ("gcc", "clang")), "cpu": ("CXX", ("g++", "clang++"))}  # of Triton, of C++


def training_parser(description: str) -> argparse.ArgumentParser:
    """A parser with the flags of every training: tokens, shape, recipe, device, state."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--train", type=Path, required=True, help="token index of the training split, parquet")
    parser.add_argument("--validation", type=Path, required=True, help="token index of the validation split, parquet")
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json, for the size of the vocabulary")
    parser.add_argument("--shape", type=json.loads, required=True, help="layers, width and heads, JSON")
    parser.add_argument("--recipe", type=json.loads, required=True, help="fields of training.Recipe, JSON")
    parser.add_argument("--processes", type=int, required=True, help="processes that the launcher starts")
    parser.add_argument("--micro-batch", required=True, help="rows at once on one process; auto: as memory allows")
    parser.add_argument("--loss-chunk", required=True, help="tokens whose scores exist at once, or all")
    parser.add_argument("--compile", choices=("yes", "no"), default="no", help="compile the model; pays on a GPU")
    parser.add_argument("--cpu", action="store_true", help="train on the CPU even where there is a GPU")
    parser.add_argument("--max-seconds", type=float, help="save the state and stop after so long")
    parser.add_argument("--lock-seconds", type=float, required=True, help="wait so long for another attempt to stop")
    parser.add_argument("--log-with", choices=TRACKERS, default="tensorboard", help="what draws the curves")
    parser.add_argument("--state", type=Path, required=True, help="folder of the checkpoints")
    parser.add_argument("--losses", type=Path, required=True, help="step, tokens, domain, loss; parquet")
    parser.add_argument("--report", type=Path, required=True, help="run.json")
    return parser


class Session:
    """The state of the runs of one process but for their models, by the flags of `training_parser`;
    its deadline counts from now.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        end_by_sigterm()
        launched = time.monotonic()
        self.recipe = recipe = Recipe(**options.recipe)
        if fault := rate_fault(options.recipe):
            raise InputError(f"recipe, final_learning_rate: {fault}")
        self.indices = {split: read_table(getattr(options, split)) for split in ("train", "validation")}
        # all domains whose loss is measured, and of these the ones that can be trained on
        self.evaluated = sorted(self.indices["validation"]["domain"].unique().to_list())
        trained = set(self.indices["train"]["domain"])
        self.domains = [domain for domain in self.evaluated if domain in trained]
        store = RowStore(self.indices["train"], self.domains, open_rows)
        self.train: RowStore | Part = pool(store, recipe.pool_share)
        held_out = RowStore(self.indices["validation"], self.evaluated, open_rows)
        self.validation_rows = [
            held_out.sample(number, recipe.validation_rows) for number in range(len(self.evaluated))
        ]
        self.checked_file = options.train.with_name(CHECKED)
        self.tokenizer_digest = digest_file(options.tokenizer)
        vocabulary = Tokenizer.from_file(str(options.tokenizer)).get_vocab_size()
        self.shape = Shape(**options.shape, vocabulary=vocabulary)
        self.loss_chunk = None if options.loss_chunk == "all" else int(options.loss_chunk)
        self.micro_batch = None if options.micro_batch == "auto" else int(options.micro_batch)
        self.compiled = options.compile == "yes"
        self.lock_seconds = options.lock_seconds
        self.deadline = None if options.max_seconds is None else launched + options.max_seconds
        self.signals: list[int] = []
        self.patient_group: torch.distributed.ProcessGroup | None = None  # its timeout is longer than that of updates
        self.accelerator = make_accelerator(options, recipe)
        device = self.accelerator.device
        self.attention = attention_kernel(self.shape, self.train.row_length - 1, device, recipe.precision)
        self.origin = {}  # code, versions and devices of this attempt
        if self.accelerator.is_main_process:
            on_gpu = device.type == "cuda"
            name = torch.cuda.get_device_name() if on_gpu else f"cpu, {torch.get_num_threads()} threads"
            here = {"device": name, "processes": self.accelerator.num_processes}
            self.origin = provenance.code(provenance.PACKAGES) | here

    @property
    def step_tokens(self) -> int:
        """Tokens that one update reads."""
        return self.recipe.batch_rows * self.train.row_length

    @property
    def own_rows(self) -> int:
        """Rows of a global batch that one process has at most."""
        return -(-self.recipe.batch_rows // self.accelerator.num_processes)

    def listen(self) -> None:
        """Treat SIGTERM and SIGINT as stop requests; before this call, with nothing to save yet, they end the process."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda received, frame: self.signals.append(received))

    def wants_to_stop(self) -> bool:
        """Whether a signal has requested a stop, or the time is up."""
        return bool(self.signals) or (self.deadline is not None and time.monotonic() > self.deadline)

    def circumstances(self) -> dict:
        """The device and the settings that decide how many rows of a run fit into memory."""
        on_gpu = self.accelerator.device.type == "cuda"
        device = torch.cuda.get_device_name(self.accelerator.device) if on_gpu else self.accelerator.device.type
        where = {"device": device, "processes": self.accelerator.num_processes}
        return where | {"loss_chunk": self.loss_chunk, "compiled": self.compiled}

    def say(self, sentence: str) -> None:
        """Print a sentence on standard error, by the main process only."""
        self.accelerator.print(sentence, file=sys.stderr, flush=True)

    def wait(self) -> None:
        """Wait for all processes, one of which may read or write for long. By gloo, which notices
        at once that a process has ended, and allows a longer timeout than that of updates.
        """
        if self.accelerator.num_processes == 1:
            return
        if self.patient_group is None:
            self.patient_group = torch.distributed.new_group(backend="gloo", timeout=LONG_PATIENCE)
        torch.distributed.barrier(self.patient_group)

    @contextmanager
    def agreeing(self) -> Iterator[None]:
        """A block in which each process may raise InputError: if any does, all end, and the first
        prints all messages.
        """
        complaint = None
        try:
            yield
        except InputError as error:
            where = f"process {self.accelerator.process_index} on {socket.gethostname()}: "
            complaint = f"{where if self.accelerator.num_processes > 1 else ''}{error}"
        self.wait()
        complaints = [one for one in gather_object([complaint]) if one is not None]
        if complaints and not self.accelerator.is_main_process:
            raise SystemExit(1)
        if complaints:
            raise InputError(" ".join(complaints))

    def broadcast(self, thing: object) -> object:
        """Broadcast `thing` from the first process."""
        self.wait()
        return broadcast_object_list([thing])[0]

    def check_shards(self, index: pl.DataFrame) -> None:
        """Compare a token index's shards with their digests, on each host: those that no training has
        checked, or that differ since.
        """
        index = index.filter(pl.col("rows") > 0).sort("path")
        now, known = {}, []
        if self.accelerator.is_main_process:
            now, before = stamps(index, self.shape.vocabulary), read_checked(self.checked_file)
            known = [path for path, stamp in now.items() if before.get(path) == stamp]
        index = index.filter(~pl.col("path").is_in(self.broadcast(known)))
        if index.is_empty():
            return
        if index["tokens"].sum() > MANY_TOKENS:
            self.say(f"Checking the digests of {index.height} shards.")
        with self.agreeing():
            if self.accelerator.is_local_main_process:
                threads = torch.get_num_threads() * int(os.environ.get("LOCAL_WORLD_SIZE", 1))
                check_shards(index, self.shape.vocabulary, threads)
        if self.accelerator.is_main_process and (remark := note_checked(self.checked_file, now)):
            self.say(remark)


def end_by_sigterm() -> None:
    """Restore SIGTERM's default; launch_training.sh ignores the signal, which its children inherit.
    Where the launcher ends in any way the kernel sends it: orphans would wait for each other for
    half an hour before they have met, and keep their GPUs.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    launcher = os.environ.get("BIMIX_LAUNCHER")
    if launcher is not None:
        if os.getppid() == int(launcher):  # the kernel watches the parent alone
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if not Path(f"/proc/{launcher}").exists():  # it ended before
            raise InputError("the launcher of this process has ended, and so does the process; start the run again.")


def forget_settings() -> None:
    """Delete the environment variables that Accelerate reads; all settings are passed as arguments.

    Its launcher passes such variables on, and an earlier job script may have left others, of which
    gradient accumulation, FSDP or another device would silently change the result. Ranks come from
    RANK and WORLD_SIZE.
    """
    for name in list(os.environ):
        if name.startswith(SETTINGS_OF_ACCELERATE) or name == "FORK_LAUNCHED":
            del os.environ[name]


def make_accelerator(options: argparse.Namespace, recipe: Recipe) -> Accelerator:
    """The accelerator with the requested number of processes.

    Errors: another number of processes or another device than requested; updates of fewer rows than
    processes; compiling without a compiler; a tracker that is not installed.
    """
    forget_settings()
    if recipe.batch_rows < options.processes:
        raise InputError(
            f"batch_rows is {recipe.batch_rows}, but there are {options.processes} processes and each needs a row of"
            f" every update; raise batch_rows, or lower gpus or nodes in the model's launch."
        )
    tracker = None if options.log_with == "none" else options.log_with
    if tracker and find_spec(tracker) is None:
        raise InputError(f"launch, log_with: {tracker} is not installed: run pip install {tracker}, or choose another.")
    accelerator = Accelerator(
        cpu=options.cpu,
        mixed_precision=recipe.precision,
        log_with=tracker,
        project_dir=options.state.parent,
        kwargs_handlers=wrapping(),
    )
    if accelerator.num_processes != options.processes:
        raise InputError(
            f"{options.processes} processes were requested but {accelerator.num_processes} started;"
            f" check the launcher's --num_processes and --multi_gpu."
        )
    device = accelerator.device.type
    if device == "cpu" and not options.cpu:
        raise InputError("GPUs were requested but torch sees none on this machine; look at its driver, or give --cpu.")
    if device == "cpu":
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
    if options.compile == "yes":
        variable, names = COMPILERS[device]
        if not any(map(shutil.which, (os.environ.get(variable, ""), *names))):  # torch would end in a backtrace
            raise InputError(
                f'`compile: "yes"` needs a compiler, and this machine has none of {", ".join(names)}: install one, name'
                f' one in {variable}, or set `compile: "no"` in the model\'s launch.'
            )
    return accelerator


def wrapping() -> list:
    """Accelerate's handlers for several processes: all gradients in one bucket, and the timeouts."""
    buckets = {"gradient_as_bucket_view": True, "bucket_cap_mb": ALL_MEGABYTES}
    return [
        DistributedDataParallelKwargs(broadcast_buffers=False, **buckets),  # the model has none
        InitProcessGroupKwargs(timeout=PATIENCE),
    ]


@contextmanager
def other_processes(session: Session) -> Iterator[None]:
    """A sentence for an error after another process of the run has ended or cannot be reached."""
    try:
        yield
    except RuntimeError as error:
        words = str(error)
        if not isinstance(error, torch.distributed.DistError) and "gloo" not in words:
            raise
        raise InputError(
            f"process {session.accelerator.process_index} on {socket.gethostname()} cannot reach another process of this"
            f" run, which has probably ended; the log of that one says why, and the run goes on from its last checkpoint"
            f" when it is started again. Where it never begins on several nodes, GLOO_SOCKET_IFNAME and"
            f" NCCL_SOCKET_IFNAME name the network between them. ({words.splitlines()[0]})"
        ) from error
