"""A training from its last checkpoint to its end, whatever one of its updates does.

What updates a model is a method: plain pretraining here, others beside it. A session is what the runs of one process
share: the device, the tokens, the settings, the wish to stop. A run is a folder of checkpoints, held by a lock.
"""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
import polars as pl
import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object
from torch import Tensor, nn

from bimix.errors import InputError
from bimix.model.memory import largest_micro_batch
from bimix.model.transformer import Shape, Transformer
from bimix.runs import checkpoints, provenance
from bimix.training.recipe import Recipe
from bimix.training.rows import Part, RowStore, check_shards
from bimix.training.update import (
    Batch,
    Watch,
    ahead,
    batches,
    build_optimizer,
    compile_whole,
    evaluate,
    own_slice,
    update,
)

PROGRESS_SECONDS = 10
LOOK_EVERY = {"cpu": 1, "cuda": 16}  # updates between two looks at the device, each of which waits for it
MANY_TOKENS = 4e9  # of shards that are held against their digests: from here on it takes seconds to minutes
SAVE_SECONDS = 1800  # a node that dies costs so much at most, where evaluations are further apart
LOG_EVERY = 16  # updates between two points of a curve in TensorBoard


@dataclass
class Session:
    """What the runs of one process share; `loss_chunk` and `micro_batch` None: the whole, as memory allows.

    `deadline` by time.monotonic(); `lock_seconds`: how long another attempt at a run is waited for.
    """

    accelerator: Accelerator
    shape: Shape
    recipe: Recipe
    indices: dict[str, pl.DataFrame]
    domains: list[str]
    train: RowStore | Part
    held: list[np.ndarray]
    loss_chunk: int | None
    micro_batch: int | None
    compiled: bool
    deadline: float | None
    lock_seconds: float
    tokenizer: str  # digest of its file
    origin: dict  # of this attempt: code, versions, devices
    trusted: bool  # shards are read without a look at their digests
    checked: set[str] = field(default_factory=set)  # shards of which the digests were right
    signals: list[int] = field(default_factory=list)

    @property
    def step_tokens(self) -> int:
        """Tokens that one update reads."""
        return self.recipe.batch_rows * self.train.row_length

    def listen(self) -> None:
        """Take SIGTERM and SIGINT for a wish to stop, from now on; before there is a state, they end the process."""
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

    def settle(self, complaint: str | None) -> None:
        """Go on where no process has a complaint; else all of them end, the first one with the sentences of all."""
        if complaint is not None and self.accelerator.num_processes > 1:
            complaint = f"process {self.accelerator.process_index} on {socket.gethostname()}: {complaint}"
        complaints = [one for one in gather_object([complaint]) if one is not None]
        if complaints and not self.accelerator.is_main_process:
            raise SystemExit(1)
        if complaints:
            raise InputError(" ".join(complaints))

    def told(self, thing: object) -> object:
        """What the first process has, in all of them."""
        return broadcast_object_list([thing])[0]

    def check_shards(self, index: pl.DataFrame) -> None:
        """Hold the shards of a token index against their digests, once; the processes of a host share its shards."""
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


class Method(Protocol):
    """What one update does, on which rows, and what must be saved of it beside the model and the optimizer."""

    backwards: bool  # whether each domain's order is read from its end

    def own(self, chosen: np.ndarray) -> np.ndarray | slice:
        """Which rows of a global batch this process takes, in which order, given the domains `chosen` (rows,) of all."""

    def update(self, batch: Batch, step: int) -> tuple[Tensor, Tensor]:
        """Make update `step`; this process's share of the loss and the gradient norm, both on the device."""

    def state_dict(self) -> dict:
        """What goes into a checkpoint: tensors, numbers, lists and dicts of them."""

    def load_state_dict(self, state: dict) -> None:
        """Go on from what `state_dict` gave."""


@dataclass
class Running:
    """A run under way: `plain` is the model as written here, `model` and `optimizer` are as Accelerate prepared them."""

    session: Session
    plain: Transformer
    model: nn.Module
    optimizer: torch.optim.Optimizer
    micro_batch: int


@dataclass
class Plain:
    """Plain pretraining: every update lowers the mean loss of its rows."""

    running: Running
    backwards: ClassVar[bool] = False

    def own(self, chosen: np.ndarray) -> slice:
        accelerator = self.running.session.accelerator
        return own_slice(len(chosen), accelerator.process_index, accelerator.num_processes)

    def update(self, batch: Batch, step: int) -> tuple[Tensor, Tensor]:
        session = self.running.session
        own = self.running.model, self.running.optimizer
        return update(session.accelerator, *own, batch.rows, session.recipe, step, self.running.micro_batch)

    def state_dict(self) -> dict:
        return {}

    def load_state_dict(self, state: dict) -> None:
        pass


@dataclass(frozen=True)
class Finished:
    """A run that came to its end: its model, losses [[step, [loss of each domain]]], seconds of all attempts together,
    and the state of its method."""

    model: Transformer
    history: list
    seconds: float
    method: dict


def resume(session: Session, folder: Path) -> dict | None:
    """The state to go on from, None at the start: the first process chooses, the others load that very one or all end."""
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


class Run:
    """A run under way in the `folder` of its configuration, and what is said, noted and saved of it.

    `state` is what a checkpoint holds beside the model, the optimizer and the method: the updates made (`step`), the
    rows `taken` (m,) of the domains, the `history` of losses, the `seconds` of earlier attempts and, where it was
    measured, how many rows `fitted` into memory. This attempt has `begun` at that time.monotonic().
    """

    def __init__(self, running: Running, method: Method, folder: Path, state: dict, begun: float) -> None:
        self.running, self.method = running, method
        self.folder, self.state, self.begun = folder, state, begun
        self.session = running.session
        self.recipe, self.accelerator = self.session.recipe, self.session.accelerator
        self.watch = Watch(self.accelerator)
        self.first_step = self.step
        self.first_at = self.saved_at = self.said_at = time.monotonic()

    @property
    def step(self) -> int:
        """Updates made, those of earlier attempts included."""
        return self.state["step"]

    @property
    def seconds(self) -> float:
        """Seconds of all attempts together."""
        return self.state["seconds"] + time.monotonic() - self.begun

    def feed(self, proportions: np.ndarray) -> Iterable[Batch]:
        """The batches of all updates that are left; on a GPU they are made ahead."""
        on_cpu = self.accelerator.device.type == "cpu"
        made = batches(
            self.session.train,
            proportions,
            self.recipe,
            np.array(self.state["taken"], dtype=np.int64),
            self.recipe.steps - self.step,
            self.method.own,
            pinned=self.accelerator.device.type == "cuda",
            backwards=self.method.backwards,
        )
        return made if on_cpu else ahead(made)

    def count(self, batch: Batch, loss: Tensor, norm: Tensor) -> None:
        """Take an update as made: `loss` is this process's share of the batch's, `norm` that of the gradient."""
        self.state["step"] += 1
        self.state["taken"] = batch.taken.tolist()
        self.watch.note(self.step, batch.counts, loss, norm)

    def is_due(self) -> bool:
        """Whether the device is looked at after this update; it is before each evaluation."""
        return self.step % LOOK_EVERY[self.accelerator.device.type] == 0 or self.recipe.evaluates(self.step)

    def look(self) -> bool:
        """Whether any process has been asked to stop. Errors: a loss or a gradient since the last look is not finite."""
        stop, bad = self.watch.look(self.wants_to_stop)
        if bad is not None:
            raise InputError(not_finite(*bad, self.session.domains, self.recipe))
        return stop

    def wants_to_stop(self) -> bool:
        """Whether this process has been asked to stop, by a signal, its deadline or another attempt at the run."""
        if self.session.wants_to_stop():
            return True
        return self.accelerator.is_main_process and checkpoints.must_stop(self.folder.parent)

    def say(self, loss: Tensor, norm: Tensor) -> None:
        """Tell how far the run has come: on standard error every few seconds, in TensorBoard every few updates."""
        step, now = self.step, time.monotonic()
        speed = (step - self.first_step) / (now - self.first_at)
        tokens_per_second = speed * self.session.step_tokens
        own_loss = float(loss) * self.accelerator.num_processes
        if now - self.said_at > PROGRESS_SECONDS:
            self.said_at = now
            left = (self.recipe.steps - step) / speed
            progress = f"loss {own_loss:.4f}, {tokens_per_second:,.0f} tokens/s, {left:,.0f} s left"
            self.session.say(f"step {step}/{self.recipe.steps}, {progress}")
        if step % LOG_EVERY == 0:
            curves = {"loss": own_loss, "learning_rate": self.recipe.rate(step - 1), "gradient_norm": float(norm)}
            curves["tokens_per_second"] = tokens_per_second
            self.accelerator.log({f"training/{name}": value for name, value in curves.items()}, step=step)

    def evaluate(self, evaluated: Callable[[int, Transformer], None] | None) -> None:
        """Measure the losses of all domains, and call `evaluated` on the main process."""
        domains, plain, step = self.session.domains, self.running.plain, self.step
        losses = evaluate(self.accelerator, plain, self.session.held, self.running.micro_batch)
        self.state["history"].append([step, losses])
        by_domain = zip(domains, losses, strict=True)
        self.accelerator.log({f"validation/{domain}": loss for domain, loss in by_domain}, step=step)
        self.session.say(f"step {step}: average validation loss {sum(losses) / len(losses):.4f}")
        if evaluated is not None and self.accelerator.is_main_process:
            evaluated(step, plain)

    def save(self) -> None:
        """Write a checkpoint, on the main process."""
        self.saved_at = time.monotonic()
        if self.accelerator.is_main_process:
            optimizer = self.running.optimizer.optimizer
            parts = {"model": self.running.plain.state_dict(), "optimizer": optimizer.state_dict()}
            parts |= {"method": self.method.state_dict(), "seconds": self.seconds}
            checkpoints.save(self.folder, self.state | parts)
        self.note("saved")

    def note(self, event: str, **more: object) -> None:
        """Add a line to the run's attempts, on the main process."""
        if self.accelerator.is_main_process:
            checkpoints.note(self.folder, event, self.step, **more)


def train(
    session: Session,
    folder: Path,
    proportions: np.ndarray,
    method: Callable[[Running], Method] = Plain,
    evaluated: Callable[[int, Transformer], None] | None = None,
) -> Finished | None:
    """Train on `proportions` (m,) of the domains, checkpoints in `folder`; None: stopped on a wish, the state saved.

    `folder` is that of one configuration, as `attempt.holding` gives it.

    `evaluated(step, model)` is called once after each evaluation, on the main process, before the checkpoint of that
    step: what it writes cannot be missed by a kill in between.
    """
    # a mixture may sum to one within 1e-6: of 10^8 rows a hundred would go astray to the first domain
    proportions = proportions / proportions.sum()
    run = begin(session, folder, proportions, method)
    run.note("begun", **session.origin)
    for warning in provenance.mixed(checkpoints.attempts(folder)):
        session.say(warning)
    for batch in run.feed(proportions):
        loss, norm = run.method.update(batch, run.step)
        run.count(batch, loss, norm)
        if not run.is_due():
            continue
        stop = run.look()
        run.say(loss, norm)
        evaluates = session.recipe.evaluates(run.step)
        if evaluates:
            run.evaluate(evaluated)
        if evaluates or stop or time.monotonic() - run.saved_at > SAVE_SECONDS:
            run.save()
        if stop and run.step < session.recipe.steps:
            session.say(f"Stopped at step {run.step} with the state saved; start again to go on.")
            run.note("stopped")
            return None
    run.note("finished")
    return Finished(run.running.plain, run.state["history"], run.seconds, run.method.state_dict())


def begin(session: Session, folder: Path, proportions: np.ndarray, method: Callable[[Running], Method]) -> Run:
    """The run in `folder` as its last checkpoint has it, or a new one; the shards that it will read are checked."""
    accelerator, recipe = session.accelerator, session.recipe
    begun = time.monotonic()
    torch.manual_seed(recipe.seed)
    plain = Transformer(session.shape, loss_chunk=session.loss_chunk)
    state = resume(session, folder)
    if state is None:
        state = {"step": 0, "taken": [0] * len(session.domains), "history": [], "seconds": 0.0}
    else:
        plain.load_state_dict(state.pop("model"))
    if state["step"] < recipe.steps:
        read = [name for name, share in zip(session.domains, proportions, strict=True) if share > 0]
        session.check_shards(session.indices["train"].filter(pl.col("domain").is_in(read)))
        session.check_shards(session.indices["validation"].filter(pl.col("domain").is_in(session.domains)))
    optimizer = build_optimizer(plain.to(accelerator.device), recipe)
    if "optimizer" in state:
        optimizer.load_state_dict(state.pop("optimizer"))
    if session.compiled:
        # Accelerate's autocast is another object in each run: a compiled pass of the run before never serves again, but
        # counts towards the limit past which torch goes on uncompiled
        torch.compiler.reset()
        compile_whole(plain)
    model, optimizer = accelerator.prepare(plain, optimizer)
    own_rows = -(-recipe.batch_rows // accelerator.num_processes)
    micro_batch = session.micro_batch
    if micro_batch is None:
        micro_batch = fit(session, model, own_rows, state)
    running = Running(session, plain, model, optimizer, micro_batch)
    advance = method(running)
    advance.load_state_dict(state.pop("method", {}))
    session.say(
        f"{session.shape.parameters:,} parameters on {accelerator.num_processes} x {accelerator.device.type},"
        f" {micro_batch} of {own_rows} rows at once, update {state['step']} of {recipe.steps}"
    )
    return Run(running, advance, folder, state, begun)


def fit(session: Session, model: nn.Module, own_rows: int, state: dict) -> int:
    """Rows at once, at most `own_rows`: as many as `state` says for the same circumstances, else as fit now."""
    found, alike = state.get("fitted", {}), session.circumstances()
    if found.get("circumstances") != alike:
        rows = largest_micro_batch(session.accelerator, model, own_rows, session.train.row_length)
        found = {"rows": rows, "circumstances": alike}
    state["fitted"] = found
    return found["rows"]


def not_finite(step: int, counts: np.ndarray, loss: float, norm: float, domains: list[str], recipe: Recipe) -> str:
    rows = ", ".join(f"{domain} {count}" for domain, count in zip(domains, counts.tolist(), strict=True) if count)
    return (
        f"At step {step} the loss is {loss} and the gradient norm {norm}, at a rate of {recipe.rate(step - 1):.3g} and with"
        f" these rows in the batch: {rows}. The checkpoints before it are kept; lower the rate or look at that text."
    )
