"""Several runs of one shape and recipe trained at once, with stacked weights, by the loop of one.

Each has its own folder, rows, losses and checkpoints, which are those of the run alone. So runs
that were stopped together can go on alone, and the other way round.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from bimix.errors import InputError
from bimix.model.stacked import StackedTransformer
from bimix.training import checkpoints
from bimix.training.loop import Plain, Run, announce, follow, open_run
from bimix.training.order import Schedule, as_schedule
from bimix.training.session import Learner, Session, prepare
from bimix.training.stacked_states import join, part
from bimix.training.update import Batch, ahead, evaluate_stacked, not_finite


class StackedRun(Run):
    """The runs `names` under way, a folder each; `state` as `states.join` gives it."""

    def __init__(self, learner: Learner, names: Sequence[str], folders: list[Path], state: dict, begun: float) -> None:
        super().__init__(learner, Plain(learner), folders, state, begun)
        self.names = names

    @property
    def share(self) -> float:
        """Seconds of this attempt that fall to each of the runs."""
        return (time.monotonic() - self.begun) / len(self.names)

    def feed(self, schedules: Sequence[Schedule]) -> Iterable[Batch]:
        """The batches of all updates that are left, those of the runs' own `schedules` joined."""
        own = zip(schedules, self.state["taken"], self.state["before"], strict=True)
        parts = [self.batches(*one, pinned=False) for one in own]
        made = joined(parts, pinned=self.accelerator.device.type == "cuda")
        return made if self.accelerator.device.type == "cpu" else ahead(made)

    def inspect(self) -> bool:
        """Whether this process has been asked to stop.

        Errors: a loss or a gradient of one of the runs is not finite.
        """
        seen = list(self.watch.seen)
        self.watch.seen.clear()
        losses = torch.stack([loss for _, _, loss, _ in seen]).tolist()
        norms = torch.stack([norm for _, _, _, norm in seen]).tolist()
        for (step, counts, _, _), *found in zip(seen, losses, norms, strict=True):
            for name, own, loss, norm in zip(self.names, counts, *found, strict=True):
                if not np.isfinite(loss) or not np.isfinite(norm):
                    sentence = not_finite(step, own, loss, norm, self.session.domains, self.recipe)
                    raise InputError(f"{name}: {sentence}")
        return self.wants_to_stop()

    def evaluate(self, evaluated: None = None) -> None:
        """Measure the losses of all domains of each run."""
        learner, step = self.learner, self.step
        found = evaluate_stacked(self.accelerator, learner.plain, self.session.held, learner.micro_batch)
        for history, losses in zip(self.state["history"], found, strict=True):
            history.append([step, losses])
        self.session.say(f"step {step}: average validation loss {np.mean(found):.4f}")

    def save(self) -> None:
        """Write a checkpoint of each run."""
        self.saved_at = time.monotonic()
        optimizer, share = self.learner.optimizer.optimizer.state_dict(), self.share
        for number, folder in enumerate(self.folders):
            state = part(self.state, self.learner.plain.part(number), optimizer, share, number)
            checkpoints.save(folder, state)
        self.note("saved")


def joined(parts: Sequence[Iterator[Batch]], pinned: bool) -> Iterator[Batch]:
    """Batches of several runs as one, with a first dimension of the runs."""
    for own in zip(*parts, strict=True):
        rows = torch.stack([batch.rows for batch in own])
        others = [np.stack([getattr(one, name) for one in own]) for name in ("chosen", "counts", "taken", "before")]
        yield Batch(rows.pin_memory() if pinned else rows, *others)


def train_together(
    session: Session, folders: dict[str, Path], proportions: Sequence[np.ndarray]
) -> list[tuple[list, float]] | None:
    """Train the runs in `folders`, which stand at one step, on `proportions` (m,) of the domains
    each; None: stopped on request, the states saved.

    Gives of each its history of losses, and its share of the seconds.
    """
    begun = time.monotonic()
    schedules = [as_schedule(own).scaled() for own in proportions]
    opened = [open_run(session, *one) for one in zip(folders.values(), schedules, strict=True)]
    state = join(list(folders), [own for _, own in opened])
    learner = prepare(session, StackedTransformer([model for model, _ in opened]), state)
    announce(learner, state["step"])
    run = StackedRun(learner, list(folders), list(folders.values()), state, begun)
    if not follow(run, run.feed(schedules)):
        return None
    return [(history, own + run.share) for history, own in zip(state["history"], state["seconds"], strict=True)]
