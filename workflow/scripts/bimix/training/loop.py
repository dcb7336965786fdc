"""A training from its last checkpoint to its end, whatever one of its updates does.

What updates a model is a method: plain pretraining here, others in `reweighting`. A run is a folder
of checkpoints, held by a lock.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
import polars as pl
import torch
from torch import Tensor

from bimix.errors import InputError
from bimix.model.attention import backend_name, kernel_name
from bimix.model.transformer import Transformer
from bimix.training import checkpoints, provenance
from bimix.training.order import Schedule, as_schedule
from bimix.training.session import PROGRESS_SECONDS, Learner, Session, prepare, resume
from bimix.training.update import Batch, Watch, ahead, batches, evaluate, not_finite, own_slice, update

LOOK_SECONDS = 5  # between two looks at the device: a stop, a bad loss and a due checkpoint are seen no later
LOOK_EVERY = {"cpu": 1, "cuda": 16}  # updates between two looks at most, as each waits for the device
SAVE_SECONDS = 1800  # a node that dies costs so much at most, where evaluations are further apart
LOG_EVERY = 16  # updates between two points of a curve in TensorBoard


class Method(Protocol):
    """What one update does, on which rows, and what must be saved of it beside the
    model and the optimizer.
    """

    backwards: bool  # whether each domain's order is read from its end

    def own(self, chosen: np.ndarray) -> np.ndarray | slice:
        """Which rows of a global batch this process takes, in which order, given the domains
        `chosen` (rows,) of all.
        """

    def update(self, batch: Batch, step: int) -> tuple[Tensor, Tensor]:
        """Make update `step`.

        Gives this process's share of the loss and the gradient norm, both on the device.
        """

    def state_dict(self) -> dict:
        """What goes into a checkpoint: tensors, numbers, lists and dicts of them."""

    def load_state_dict(self, state: dict) -> None:
        """Go on from what `state_dict` gave."""


@dataclass
class Plain:
    """Plain pretraining: every update lowers the mean loss of its rows."""

    learner: Learner
    backwards: ClassVar[bool] = False

    def own(self, chosen: np.ndarray) -> slice:
        accelerator = self.learner.session.accelerator
        return own_slice(len(chosen), accelerator.process_index, accelerator.num_processes)

    def update(self, batch: Batch, step: int) -> tuple[Tensor, Tensor]:
        session = self.learner.session
        own = self.learner.model, self.learner.optimizer
        return update(session.accelerator, *own, batch.rows, session.recipe, step, self.learner.micro_batch)

    def state_dict(self) -> dict:
        return {}

    def load_state_dict(self, state: dict) -> None:
        pass


@dataclass(frozen=True)
class Finished:
    """A run that came to its end: its model, losses [[step, [loss of each domain]]], seconds of all
    attempts together, and the state of its method.
    """

    model: Transformer
    history: list
    seconds: float
    method: dict


class Run:
    """A run under way in the `folder` of its configuration, and what is said, noted and saved of
    it.

    `state` is what a checkpoint holds beside the model, the optimizer and the method: the updates
    made (`step`), the rows `taken` (m,) of the domains and those `before` (m,) its stage, the
    `history` of losses, the `seconds` of earlier attempts and, where it was measured, how many rows
    `fitted` into memory. This attempt has `begun` at that time.monotonic().
    """

    def __init__(self, learner: Learner, method: Method, folder: Path, state: dict, begun: float) -> None:
        self.learner, self.method = learner, method
        self.folder, self.state, self.begun = folder, state, begun
        self.session = learner.session
        self.recipe, self.accelerator = self.session.recipe, self.session.accelerator
        self.watch = Watch(self.accelerator)
        self.first_step = self.step
        self.next_look = self.step + 1
        self.logged_step = self.went_on_step = self.step
        self.first_at = self.saved_at = self.said_at = self.went_on_at = time.monotonic()

    @property
    def step(self) -> int:
        """Updates made, those of earlier attempts included."""
        return self.state["step"]

    @property
    def seconds(self) -> float:
        """Seconds of all attempts together."""
        return self.state["seconds"] + time.monotonic() - self.begun

    def feed(self, schedule: Schedule) -> Iterable[Batch]:
        """The batches of all updates that are left; on a GPU they are made ahead."""
        pinned = self.accelerator.device.type == "cuda"
        made = self.batches(schedule, self.state["taken"], self.state["before"], pinned)
        return made if self.accelerator.device.type == "cpu" else ahead(made)

    def batches(self, schedule: Schedule, taken: list[int], before: list[int], pinned: bool) -> Iterator[Batch]:
        """The batches after those that have `taken` so many rows (m,) of the domains, `before` (m,)
        of them until their stage began.
        """
        return batches(
            self.session.train,
            schedule,
            self.recipe,
            np.array(taken, dtype=np.int64),
            self.recipe.steps - self.step,
            self.method.own,
            pinned=pinned,
            backwards=self.method.backwards,
            made=self.step,
            before=np.array(before, dtype=np.int64),
        )

    def advance(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Make the next update; on a GPU the attempt's second is profiled for its kernel of
        attention, as the first compiles.
        """
        if self.accelerator.device.type == "cpu":
            if self.step == self.first_step:
                self.note("attention", kernel=backend_name(self.session.shape, batch.rows.shape[-1] - 1))
            return self.method.update(batch, self.step)
        seen = torch.profiler.supported_activities() & {torch.profiler.ProfilerActivity.CUDA}
        if self.step != self.first_step + 1 or not self.accelerator.is_main_process or not seen:
            return self.method.update(batch, self.step)
        with torch.profiler.profile(activities=seen) as profile:
            made = self.method.update(batch, self.step)
            torch.cuda.synchronize(self.accelerator.device)
        times = ((one.key, one.self_device_time_total) for one in profile.key_averages())
        self.note("attention", kernel=kernel_name(times))
        return made

    def count(self, batch: Batch, loss: Tensor, norm: Tensor) -> None:
        """Take an update as made: `loss` is this process's share of the batch's,
        `norm` that of the gradient.
        """
        self.state["step"] += 1
        self.state |= {"taken": batch.taken.tolist(), "before": batch.before.tolist()}
        self.watch.note(self.step, batch.counts, loss, norm)

    def is_due(self) -> bool:
        """Whether the device is looked at after this update; it is before each evaluation."""
        return self.step >= self.next_look or self.recipe.evaluates(self.step)

    def look(self) -> bool:
        """Whether any process has been asked to stop; all agree on the update of the next look.

        Errors: a loss or a gradient since the last look is not finite.
        """
        stop = self.inspect()
        seconds = max(time.monotonic() - self.went_on_at, 1e-9)  # the device has done its work by now
        updates = LOOK_SECONDS * (self.step - self.went_on_step) / seconds
        own = int(min(max(updates, 1), LOOK_EVERY[self.accelerator.device.type]))
        sum_of_all = self.accelerator.reduce(torch.tensor(own, device=self.accelerator.device), reduction="sum")
        self.next_look = self.step + int(sum_of_all) // self.accelerator.num_processes
        return stop

    def go_on(self) -> None:
        """Time updates from here: what came between was no update."""
        self.went_on_step, self.went_on_at = self.step, time.monotonic()

    def inspect(self) -> bool:
        """What `look` gives, and its errors."""
        stop, bad = self.watch.look(self.wants_to_stop)
        if bad is not None:
            raise InputError(not_finite(*bad, self.session.domains, self.recipe))
        return stop

    def wants_to_stop(self) -> bool:
        """Whether this process has been asked to stop, by a signal, its deadline or
        another attempt at the run.
        """
        if self.session.wants_to_stop():
            return True
        return self.accelerator.is_main_process and checkpoints.must_stop(self.folder.parent)

    def say(self, loss: Tensor, norm: Tensor) -> None:
        """Tell how far the run has come: on standard error every few seconds, in
        TensorBoard every few updates.
        """
        step, now = self.step, time.monotonic()
        speed = (step - self.first_step) / (now - self.first_at)
        tokens_per_second = speed * self.session.step_tokens
        own_loss = float(loss) * self.accelerator.num_processes
        if now - self.said_at > PROGRESS_SECONDS:
            self.said_at = now
            left = (self.recipe.steps - step) / speed
            progress = f"loss {own_loss:.4f}, {tokens_per_second:,.0f} tokens/s, {left:,.0f} s left"
            self.session.say(f"step {step}/{self.recipe.steps}, {progress}")
            self.show("running", loss=own_loss, tokens_per_second=tokens_per_second, seconds_left=left)
        if step // LOG_EVERY > self.logged_step // LOG_EVERY:
            self.logged_step = step
            curves = {
                "loss": own_loss,
                "learning_rate": self.recipe.rate(step - 1),
                "gradient_norm": float(norm),
            }
            curves["tokens_per_second"] = tokens_per_second
            self.accelerator.log({f"training/{name}": value for name, value in curves.items()}, step=step)

    def evaluate(self, evaluated: Callable[[int, Transformer], None] | None) -> None:
        """Measure the losses of all domains, and call `evaluated` on the main process."""
        domains, plain, step = self.session.evaluated, self.learner.plain, self.step
        losses = evaluate(self.accelerator, plain, self.session.held, self.learner.micro_batch)
        self.state["history"].append([step, losses])
        by_domain = zip(domains, losses, strict=True)
        self.accelerator.log({f"validation/{domain}": loss for domain, loss in by_domain}, step=step)
        self.session.say(f"step {step}: average validation loss {sum(losses) / len(losses):.4f}")
        if evaluated is not None and self.accelerator.is_main_process:
            evaluated(step, plain)

    def show(self, state: str, **more: float) -> None:
        """Write progress.json, on the main process: `state` is running, stopped or finished.

        `more`: the loss of the last batch, tokens_per_second, seconds_left; None until known.
        """
        history = self.state["history"]
        content = {"state": state, "step": self.step, "steps": self.recipe.steps}
        content |= dict.fromkeys(("loss", "tokens_per_second", "seconds_left")) | more
        content["validation_loss"] = sum(history[-1][1]) / len(history[-1][1]) if history else None
        content["log"] = os.environ.get("TRAINING_LOG")
        if self.accelerator.is_main_process:
            checkpoints.show_progress(self.folder, content)

    def save(self) -> None:
        """Write a checkpoint, on the main process, for which the others wait."""
        self.saved_at = time.monotonic()
        if self.accelerator.is_main_process:
            optimizer = self.learner.optimizer.optimizer
            parts = {"model": self.learner.plain.state_dict(), "optimizer": optimizer.state_dict()}
            parts |= {"method": self.method.state_dict(), "seconds": self.seconds}
            checkpoints.save(self.folder, self.state | parts)
        self.note("saved")
        self.session.wait()

    def note(self, event: str, **more: object) -> None:
        """Add a line to the run's attempts, on the main process."""
        if self.accelerator.is_main_process:
            checkpoints.note(self.folder, event, self.step, **more)


def train(
    session: Session,
    folder: Path,
    proportions: np.ndarray | Schedule,
    method: Callable[[Learner], Method] = Plain,
    evaluated: Callable[[int, Transformer], None] | None = None,
    wrapped: bool = True,
) -> Finished | None:
    """Train on `proportions` (m,) of the domains, or a schedule of them, checkpoints in `folder`;
    None: stopped on request, the state saved.

    `folder` is that of one configuration, as `attempt.holding` gives it.

    `evaluated(step, model)` is called once after each evaluation, on the main process, before the
    checkpoint of that step: what it writes cannot be missed by a kill in between. `wrapped`: the
    model sums its gradients over processes, which the method does itself where it is not.
    """
    schedule = as_schedule(proportions).scaled()
    run = begin(session, folder, schedule, method, wrapped)
    if not follow(run, run.feed(schedule), evaluated):
        return None
    return Finished(run.learner.plain, run.state["history"], run.seconds, run.method.state_dict())


def follow(run: Run, feed: Iterable[Batch], evaluated: Callable[[int, Transformer], None] | None = None) -> bool:
    """Bring a run to its end by the batches of all updates that are left; False: stopped on
    request, the state saved.
    """
    session = run.session
    run.note("begun", **session.origin)
    run.show("running")
    for warning in provenance.mixed(checkpoints.attempts(run.folder)):
        session.say(warning)
    for batch in feed:
        loss, norm = run.advance(batch)
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
            run.show("stopped")
            return False
    run.note("finished")
    run.show("finished")
    return True


def begin(
    session: Session, folder: Path, schedule: Schedule, method: Callable[[Learner], Method], wrapped: bool = True
) -> Run:
    """The run in `folder` as its last checkpoint has it, or a new one."""
    begun = time.monotonic()
    plain, state = open_run(session, folder, schedule)
    learner = prepare(session, plain, state, wrapped)
    advance = method(learner)
    advance.load_state_dict(state.pop("method", {}))
    announce(learner, state["step"])
    return Run(learner, advance, folder, state, begun)


def open_run(session: Session, folder: Path, schedule: Schedule) -> tuple[Transformer, dict]:
    """The model of the run in `folder`, and the rest of its state, by its last checkpoint or new.

    The shards that it will read are checked.
    """
    recipe = session.recipe
    torch.manual_seed(recipe.seed)
    state = resume(session, folder)
    # a model that a checkpoint gives its weights draws none: 10 s for 1B, in each process
    with torch.device("cpu" if state is None else "meta"):
        plain = Transformer(session.shape, loss_chunk=session.loss_chunk)
    if state is None:
        state = {"step": 0, "taken": [0] * len(session.domains), "history": [], "seconds": 0.0}
        state["before"] = state["taken"]
    else:
        plain.to_empty(device="cpu").load_state_dict(state.pop("model"))
        state.setdefault("before", [0] * len(session.domains))  # of a version without stages
    if state["step"] < recipe.steps:
        read = [name for name, read in zip(session.domains, schedule.read(), strict=True) if read]
        session.check_shards(session.indices["train"].filter(pl.col("domain").is_in(read)))
        session.check_shards(session.indices["validation"].filter(pl.col("domain").is_in(session.evaluated)))
    return plain, state


def announce(learner: Learner, step: int) -> None:
    """Say what is trained, where, and from which update on."""
    session, accelerator = learner.session, learner.session.accelerator
    session.say(
        f"{session.shape.parameters:,} parameters on {accelerator.num_processes} x {accelerator.device.type},"
        f" {learner.micro_batch} of {session.own_rows} rows at once, update {step} of {session.recipe.steps}"
    )
