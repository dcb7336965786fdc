"""What the runs of one process share, how its processes agree, and the model
that a run of them trains.

A session is the device, the tokens, the settings and the stop request.
"""

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import numpy as np
import polars as pl
import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from bimix.errors import InputError
from bimix.model.memory import largest_micro_batch
from bimix.model.transformer import Shape, Transformer
from bimix.training import checkpoints
from bimix.training.recipe import Recipe
from bimix.training.rows import Part, RowStore, check_shards
from bimix.training.update import build_optimizer, compile_whole

PROGRESS_SECONDS = 10
PATIENCE = timedelta(hours=1)  # of processes that wait while one of them reads or writes tens of GB
MANY_TOKENS = 4e9  # of shards that are held against their digests: from here on it takes seconds to minutes


@dataclass
class Session:
    """What the runs of one process share; `loss_chunk` and `micro_batch` None: the
    whole, as memory allows.

    `deadline` by time.monotonic(); `lock_seconds`: how long another attempt at a run is waited for.
    With `one_model` a run takes over the model of the one before it, prepared and compiled as it
    is, with new weights and a new optimizer: nobody may hold that model any more.
    """

    accelerator: Accelerator
    shape: Shape
    recipe: Recipe
    indices: dict[str, pl.DataFrame]
    domains: list[str]  # that can be trained on
    evaluated: list[str]  # whose loss is measured: these, and those of validation alone
    train: RowStore | Part
    held: list[np.ndarray]  # rows of each of `evaluated`
    loss_chunk: int | None
    micro_batch: int | None
    compiled: bool
    deadline: float | None
    lock_seconds: float
    tokenizer: str  # digest of its file
    origin: dict  # of this attempt: code, versions, devices
    trusted: bool  # shards are read without a look at their digests
    overlapped: bool = False  # gradients are sent in buckets while others are taken
    compressed: bool = False  # they are sent in bf16
    checked: set[str] = field(default_factory=set)  # shards of which the digests were right
    signals: list[int] = field(default_factory=list)
    one_model: bool = False
    learner: "Learner | None" = None  # of the run before, with `one_model`
    waiting: torch.distributed.ProcessGroup | None = None  # in which processes wait longer than in updates

    @property
    def step_tokens(self) -> int:
        """Tokens that one update reads."""
        return self.recipe.batch_rows * self.train.row_length

    @property
    def own_rows(self) -> int:
        """Rows of a global batch that one process has at most."""
        return -(-self.recipe.batch_rows // self.accelerator.num_processes)

    def listen(self) -> None:
        """Take SIGTERM and SIGINT for a stop request from now on.

        Before there is a state, they end the process.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda received, frame: self.signals.append(received))

    def wants_to_stop(self) -> bool:
        """Whether this process has been asked to stop, or its time is up."""
        return bool(self.signals) or (self.deadline is not None and time.monotonic() > self.deadline)

    def circumstances(self) -> dict:
        """What decides, for one run, how many rows fit into memory at once."""
        on_gpu = self.accelerator.device.type == "cuda"
        device = torch.cuda.get_device_name(self.accelerator.device) if on_gpu else self.accelerator.device.type
        where = {"device": device, "processes": self.accelerator.num_processes}
        return where | {"loss_chunk": self.loss_chunk, "compiled": self.compiled}

    def say(self, sentence: str) -> None:
        """Print a sentence once, on standard error."""
        self.accelerator.print(sentence, file=sys.stderr, flush=True)

    def wait(self) -> None:
        """Wait for all processes, of which one may read or write for long.

        By gloo: it sees at once that a process has ended, and lets them wait longer than updates
        do.
        """
        if self.accelerator.num_processes == 1:
            return
        if self.waiting is None:
            self.waiting = torch.distributed.new_group(backend="gloo", timeout=PATIENCE)
        torch.distributed.barrier(self.waiting)

    def settle(self, complaint: str | None) -> None:
        """Go on where no process has a complaint; else all of them end, the first one
        with the sentences of all.
        """
        if complaint is not None and self.accelerator.num_processes > 1:
            complaint = f"process {self.accelerator.process_index} on {socket.gethostname()}: {complaint}"
        self.wait()
        complaints = [one for one in gather_object([complaint]) if one is not None]
        if complaints and not self.accelerator.is_main_process:
            raise SystemExit(1)
        if complaints:
            raise InputError(" ".join(complaints))

    def told(self, thing: object) -> object:
        """What the first process has, in all of them."""
        self.wait()
        return broadcast_object_list([thing])[0]

    def check_shards(self, index: pl.DataFrame) -> None:
        """Hold the shards of a token index against their digests, once.

        The processes of a host share its shards.
        """
        if self.trusted:
            return
        index = index.filter((pl.col("rows") > 0) & ~pl.col("path").is_in(list(self.checked)))
        own, begun = index.sort("path"), time.monotonic()
        if index["tokens"].sum() > MANY_TOKENS:
            self.say(
                f"Holding {index.height} shards against their digests; `verify_shards: no` in launch leaves it out."
            )
        alone = self.accelerator.num_processes == 1
        sharers = 1 if alone else int(os.environ["LOCAL_WORLD_SIZE"])
        own = own.filter(pl.int_range(pl.len()) % sharers == self.accelerator.local_process_index % sharers)
        threads = int(os.environ.get("OMP_NUM_THREADS", len(os.sched_getaffinity(0)) // sharers))
        size = 0
        try:
            complaint, size = None, check_shards(own, self.shape.vocabulary, max(1, threads))
        except InputError as error:
            complaint = str(error)
        self.settle(complaint)
        self.checked.update(index["path"].to_list())
        size, seconds = sum(gather_object([size])), time.monotonic() - begun
        if seconds > PROGRESS_SECONDS:
            self.say(f"{size / 1e9:.1f} GB of shards are as they were written ({size / 1e9 / seconds:.2f} GB/s).")


@contextmanager
def other_processes(session: Session) -> Iterator[None]:
    """A sentence where another process of the run has ended or cannot be reached."""
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


def resume(session: Session, folder: Path) -> dict | None:
    """The state to go on from, None at the start: the first process chooses, the others load
    that very one or all end.
    """
    state, choice, complaint = None, None, None
    if session.accelerator.is_main_process:
        try:
            state, choice, remarks = checkpoints.choose(folder)
            for remark in remarks:
                session.say(remark)
        except InputError as error:
            complaint = str(error)
    session.settle(complaint)
    choice = session.told(choice)
    if choice is not None and not session.accelerator.is_main_process:
        name, checksum = choice
        try:
            state = checkpoints.load(folder / name, checksum, checkpoints.PATIENCE)
        except InputError as error:
            complaint = str(error)
    session.settle(complaint)
    steps = gather_object([0 if state is None else state["step"]])
    if len(set(steps)) > 1:
        raise InputError(
            f"The processes would go on from different updates ({', '.join(map(str, steps))}); start again."
        )
    return state


@dataclass
class Learner:
    """What a run trains: the `plain` model as written here, `model` and `optimizer` as Accelerate
    prepared them.
    """

    session: Session
    plain: Transformer
    model: nn.Module
    optimizer: torch.optim.Optimizer
    micro_batch: int


def prepare(session: Session, plain: Transformer, state: dict, wrapped: bool = True) -> Learner:
    """The learner of a run, from its model and `state`, whose entry `optimizer`
    is taken out.

    A model that is not `wrapped` sums no gradients over processes, and needs no memory for that.
    """
    before = session.learner
    if before is not None:
        before.plain.load_state_dict(plain.state_dict())
        plain = before.plain
    optimizer = build_optimizer(plain.to(session.accelerator.device), session.recipe)
    if "optimizer" in state:
        optimizer.load_state_dict(state.pop("optimizer"))
    if session.compiled and before is None:
        # Accelerate's autocast is another object for each model: a compiled pass of another one
        # never serves again, but counts towards the limit past which torch goes on uncompiled
        torch.compiler.reset()
        compile_whole(plain, session.overlapped)
    model = session.accelerator.prepare_model(plain, evaluation_mode=not wrapped) if before is None else before.model
    if session.compressed and before is None and isinstance(model, DistributedDataParallel):
        model.register_comm_hook(None, send_in_bf16)
    optimizer = session.accelerator.prepare(optimizer)
    micro_batch = session.micro_batch
    if micro_batch is None:
        micro_batch = fit(session, model, state, None if before is None else before.micro_batch)
    learner = Learner(session, plain, model, optimizer, micro_batch)
    session.learner = learner if session.one_model else None
    return learner


def send_in_bf16(
    group: torch.distributed.ProcessGroup | None, bucket: torch.distributed.GradBucket
) -> torch.futures.Future[torch.Tensor]:
    """torch's hook, which by its own name is refused where there is no NCCL, though gloo can do
    it.
    """
    return bf16_compress_hook(group, bucket)


def fit(session: Session, model: nn.Module, state: dict, known: int | None = None) -> int:
    """Rows at once, at most this process's: as many as `state` says for the same
    circumstances, else as are `known` to fit, else as fit now.
    """
    found, alike = state.get("fitted", {}), session.circumstances()
    if found.get("circumstances") != alike:
        rows = known
        if rows is None:
            rows = largest_micro_batch(session.accelerator, model, session.own_rows, session.train.row_length)
        found = {"rows": rows, "circumstances": alike}
    state["fitted"] = found
    return found["rows"]
