"""A training from its last checkpoint to its end, for any method.

A method defines an update: plain pretraining here, others in `reweighting`. A run is a folder of
checkpoints with a lock.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import polars as pl
import torch
from torch import Tensor

from bimix.digests import digest_file
from bimix.errors import InputError
from bimix.model.export import write_weights
from bimix.model.transformer import Transformer
from bimix.training import checkpoints, provenance
from bimix.training.costs import STATE_BYTES
from bimix.training.order import Schedule
from bimix.training.session import PROGRESS_SECONDS, Session
from bimix.training.update import Batch, Learner, ahead, batches, evaluate, own_slice, prepare, update

LOOK_SECONDS = 5  # between two looks at the device: a stop, a bad loss and a due checkpoint are seen no later
LOOK_EVERY = {"cpu": 1, "cuda": 16}  # updates between two looks at most, as each waits for the device
SAVE_SECONDS = 1800  # a node that dies costs so much at most, where evaluations are further apart
LOG_EVERY = 16  # updates between two points of a curve in TensorBoard


@dataclass
class Plain:
    """Plain pretraining: every update lowers the mean loss of its rows. Other methods derive from it."""

    learner: Learner
    backwards: ClassVar[bool] = False  # whether each domain's order is read from its end

    def own(self, chosen: np.ndarray) -> np.ndarray | slice:
        """This process's rows of a global batch, in order, from the domains `chosen` (rows,)."""
        accelerator = self.learner.session.accelerator
        return own_slice(len(chosen), accelerator.process_index, accelerator.num_processes)

    def update(self, batch: Batch, step: int) -> tuple[Tensor, Tensor]:
        """Make update `step`; return this process's share of the loss and the gradient norm."""
        learner, session = self.learner, self.learner.session
        prepared = session.accelerator, learner.model, learner.optimizer
        return update(*prepared, batch.rows, session.recipe, step, learner.micro_batch)

    def state_dict(self) -> dict:
        """What a checkpoint keeps of the method: tensors, numbers, lists and dicts of them."""
        return {}

    def load_state_dict(self, state: dict) -> None:
        """Go on from the `state` in a checkpoint."""


def train(
    session: Session,
    folder: Path,
    schedule: Schedule,
    method: Callable[[Learner], Plain] = Plain,
    keep: Collection[int] = (),
    wrapped: bool = True,
) -> "Run | None":
    """Train on a schedule of the domains' proportions, with checkpoints in `folder`, that of one
    configuration (`attempt.holding`); the finished run, or None: stopped on request, with the state
    saved.

    `keep`: evaluations whose weights stay. `wrapped`: the model sums its gradients over processes;
    otherwise the method does.
    """
    schedule = schedule.scaled()
    run = begin(session, folder, schedule, method, wrapped)
    run.note("begun", attention=session.attention, **session.origin)
    run.show("running")
    for warning in provenance.warnings(checkpoints.attempts(folder)):
        session.say(warning)
    for batch in run.feed(schedule):
        loss, norm = run.advance(batch)
        evaluates = session.recipe.evaluates(run.step)
        if not evaluates and run.step < run.next_look:
            continue
        stop = run.look()
        run.say(loss, norm)
        if evaluates:
            run.evaluate(keep)
        if evaluates or stop or run.due:
            run.save()
        if stop and run.step < session.recipe.steps:
            session.say(f"Stopped at step {run.step} with the state saved; start again to go on.")
            run.note("stopped")
            run.show("stopped")
            return None
    run.note("finished")
    run.show("finished")
    return run


def begin(
    session: Session, folder: Path, schedule: Schedule, method: Callable[[Learner], Plain], wrapped: bool
) -> "Run":
    """The run in `folder`, resumed from its last checkpoint or new, with checked shards."""
    begun, recipe = time.monotonic(), session.recipe
    torch.manual_seed(recipe.seed)
    state = resume(session, folder)
    # no random weights for a model from a checkpoint: they take 10 s for 1B, in each process
    with torch.device("cpu" if state is None else "meta"):
        plain = Transformer(session.shape, loss_chunk=session.loss_chunk)
    if state is None:
        none = [0] * len(session.domains)
        state = {"step": 0, "taken": none, "before": none, "history": [], "seconds": 0.0, "gpu_seconds": 0.0}
    else:
        plain.to_empty(device="cpu").load_state_dict(state.pop("model"))
    if state["step"] < recipe.steps:
        read = [name for name, reads in zip(session.domains, schedule.reads(), strict=True) if reads]
        session.check_shards(session.indices["train"].filter(pl.col("domain").is_in(read)))
        session.check_shards(session.indices["validation"].filter(pl.col("domain").is_in(session.evaluated)))
    if state["step"] == 0:
        with session.agreeing():
            if session.accelerator.is_main_process:
                checkpoints.check_room(folder, STATE_BYTES * session.shape.parameters)
    learner = prepare(session, plain, state, wrapped)
    advance = method(learner)
    if "method" in state:
        advance.load_state_dict(state.pop("method"))
    accelerator = session.accelerator
    session.say(
        f"{session.shape.parameters:,} parameters on {accelerator.num_processes} x {accelerator.device.type},"
        f" {learner.micro_batch} of {session.own_rows} rows at once, update {state['step']} of {recipe.steps}"
    )
    return Run(learner, advance, folder, state, begun)


def resume(session: Session, folder: Path) -> dict | None:
    """The state to resume from, or None; the first process chooses, others load it or all end."""
    state, choice = None, None
    with session.agreeing():
        if session.accelerator.is_main_process:
            state, choice, remarks = checkpoints.choose(folder)
            for remark in remarks:
                session.say(remark)
    choice = session.broadcast(choice)
    with session.agreeing():
        if choice is not None and not session.accelerator.is_main_process:
            name, checksum = choice
            state = checkpoints.load(folder / name, checksum, checkpoints.PATIENCE)
    return state


class Run:
    """A run in progress in the `folder` of its configuration, with its reports, notes, checkpoints.

    `state` is the checkpoint without the model, the optimizer and the method: the number of updates
    (`step`), the rows `taken` (m,) of the domains and those `before` (m,) its stage, the `history`
    of losses, the `seconds` of earlier attempts, those times their GPUs (`gpu_seconds`) and, if
    measured, the number of rows that `fitted` into memory. `begun` is the time.monotonic() of this
    attempt's start.
    """

    def __init__(self, learner: Learner, method: Plain, folder: Path, state: dict, begun: float) -> None:
        self.learner, self.method = learner, method
        self.folder, self.state, self.begun = folder, state, begun
        self.session = learner.session
        self.recipe, self.accelerator = self.session.recipe, self.session.accelerator
        self.gpus = self.accelerator.num_processes if self.accelerator.device.type == "cuda" else 0
        # of updates since the last look: step, rows by domain (m,), own loss, gradient norm
        self.seen: list[tuple[int, np.ndarray, Tensor, Tensor]] = []
        self.next_look = self.step + 1
        self.logged_step = self.step
        self.saved_at = self.said_at = time.monotonic()
        # speed counts from the first look on: what comes before it may compile
        self.first_step, self.first_at = None, 0.0
        self.due = False  # at the last look, a checkpoint by the first process's clock: all save, or none

    @property
    def step(self) -> int:
        """The number of updates, including earlier attempts."""
        return self.state["step"]

    @property
    def seconds(self) -> float:
        """The seconds of all attempts."""
        return self.state["seconds"] + time.monotonic() - self.begun

    @property
    def gpu_seconds(self) -> float:
        """The seconds of all attempts, times the GPUs of each."""
        return self.state["gpu_seconds"] + (self.seconds - self.state["seconds"]) * self.gpus

    def feed(self, schedule: Schedule) -> Iterator[Batch]:
        """The batches of all remaining updates; on a GPU they are prefetched."""
        on_gpu = self.accelerator.device.type == "cuda"
        taken, before = (np.array(self.state[name], dtype=np.int64) for name in ("taken", "before"))
        made = batches(
            self.session.train,
            schedule,
            self.recipe,
            taken,
            self.recipe.steps - self.step,
            self.method.own,
            pinned=on_gpu,
            backwards=self.method.backwards,
            made=self.step,
            before=before,
        )
        return ahead(made) if on_gpu else made

    def advance(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Make the next update; return this process's share of the loss, and the gradient norm."""
        loss, norm = self.method.update(batch, self.step)
        self.state["step"] += 1
        self.state |= {"taken": batch.taken.tolist(), "before": batch.before.tolist()}
        self.seen.append((self.step, batch.counts, loss, norm))
        return loss, norm

    def look(self) -> bool:
        """Whether any process wants to stop. All processes agree on the update of the next call.

        Between two evaluations only this waits for the device. Errors, in all processes: a loss or
        a gradient since the last look is not finite.
        """
        device = self.accelerator.device
        shares = [loss for _, _, loss, _ in self.seen]
        due = self.accelerator.is_main_process and time.monotonic() - self.saved_at > SAVE_SECONDS
        flags = torch.tensor([self.wants_to_stop(), due], dtype=torch.float32, device=device)
        losses = self.accelerator.reduce(torch.cat([torch.stack(shares), flags]), reduction="sum")
        *losses, requests, due = losses.tolist()
        self.due = due > 0
        norms = torch.stack([norm for _, _, _, norm in self.seen]).tolist()
        seen, self.seen = self.seen, []
        for (step, counts, _, _), loss, norm in zip(seen, losses, norms, strict=True):
            if np.isfinite(loss) and np.isfinite(norm):
                continue
            pairs = zip(self.session.domains, counts.tolist(), strict=True)
            rows = ", ".join(f"{domain} {count}" for domain, count in pairs if count)
            raise InputError(
                f"At step {step} the loss is {loss} and the gradient norm {norm}, at a rate of"
                f" {self.recipe.rate(step - 1):.3g} and with these rows in the batch: {rows}. The checkpoints before it"
                f" are kept; lower the rate or look at that text. Attention is computed by {self.session.attention}."
            )
        if self.first_step is None:  # the device has done its work by now
            self.first_step, self.first_at = self.step, time.monotonic()
        seconds = max(time.monotonic() - self.first_at, 1e-9)
        updates = LOOK_SECONDS * (self.step - self.first_step) / seconds
        own = int(min(max(updates, 1), LOOK_EVERY[device.type]))
        sum_of_all = self.accelerator.reduce(torch.tensor(own, device=device), reduction="sum")
        self.next_look = self.step + int(sum_of_all) // self.accelerator.num_processes
        return requests > 0

    def wants_to_stop(self) -> bool:
        """Whether to stop: by a signal, the deadline or another attempt at the run."""
        if self.session.wants_to_stop():
            return True
        return self.accelerator.is_main_process and checkpoints.must_stop(self.folder.parent)

    def say(self, loss: Tensor, norm: Tensor) -> None:
        """Report the progress: to standard error every few seconds, to TensorBoard by updates."""
        step, now = self.step, time.monotonic()
        if step == self.first_step:
            return  # no speed is known yet
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
            curves = {"loss": own_loss, "learning_rate": self.recipe.rate(step - 1), "gradient_norm": float(norm)}
            curves["tokens_per_second"] = tokens_per_second
            self.accelerator.log({f"training/{name}": value for name, value in curves.items()}, step=step)

    def evaluate(self, keep: Collection[int]) -> None:
        """Measure the losses of all domains; of the steps to `keep` write the weights, before the
        checkpoint of that step, so that a kill in between repeats it.
        """
        domains, plain, step = self.session.evaluated, self.learner.plain, self.step
        losses = evaluate(self.accelerator, plain, self.session.validation_rows, self.learner.micro_batch)
        self.state["history"].append([step, losses])
        by_domain = zip(domains, losses, strict=True)
        self.accelerator.log({f"validation/{domain}": loss for domain, loss in by_domain}, step=step)
        self.session.say(f"step {step}: average validation loss {sum(losses) / len(losses):.4f}")
        # the last weights are an output anyhow
        if step in keep and step < self.recipe.steps and self.accelerator.is_main_process:
            path = checkpoints.kept_weights(self.folder, step)
            write_weights(plain, path)
            self.note("kept", file=str(path.relative_to(self.folder)), digest=digest_file(path))

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
        """Write a checkpoint on the main process, while the others wait."""
        self.saved_at = time.monotonic()
        if self.accelerator.is_main_process:
            optimizer = self.learner.optimizer.optimizer
            parts = {"model": self.learner.plain.state_dict(), "optimizer": optimizer.state_dict()}
            parts |= {"method": self.method.state_dict(), "seconds": self.seconds, "gpu_seconds": self.gpu_seconds}
            checkpoints.save(self.folder, self.state | parts)
        self.note("saved")
        self.session.wait()

    def note(self, event: str, **more: object) -> None:
        """Add a line to the attempts.jsonl of the run, on the main process."""
        if self.accelerator.is_main_process:
            checkpoints.note(self.folder, event, self.step, **more)
