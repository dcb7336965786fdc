"""Common code of DoReMi and DoGE: the path of the weights, and a step along a gradient."""

from dataclasses import dataclass, field

import numpy as np
import polars as pl
import torch
from accelerate import Accelerator
from torch import Tensor, nn

from bimix.training.update import Learner, set_rate

POINTS = 1000  # of a path that are kept, evenly over the steps


@dataclass
class Trace:
    """Domain weights (m,) in float64 with the `signal` (m,) of their last change, their sum over
    steps, and their path.

    `counted` is the number of weights in the sum: 1 at the start where the initial weights enter
    the average, else 0.
    """

    weights: Tensor
    signal: Tensor
    counted: int
    every: int
    total: Tensor = field(init=False)
    points: list[tuple[int, Tensor]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.total = self.weights * self.counted
        self.note(0)

    @classmethod
    def start(cls, learner: Learner, signal: float, counted: int) -> "Trace":
        """Uniform weights over the session's domains, each with the same `signal`."""
        domains, device = len(learner.session.domains), learner.session.accelerator.device
        weights = torch.full((domains,), 1 / domains, dtype=torch.float64, device=device)
        return cls(weights, torch.full_like(weights, signal), counted, max(1, learner.session.recipe.steps // POINTS))

    @property
    def average(self) -> Tensor:
        """Mean (m,) of the weights so far."""
        return self.total / self.counted if self.counted else self.weights

    def advance(self, weights: Tensor, signal: Tensor, step: int) -> None:
        """Record the weights after `step` updates, and the signal of their change."""
        self.weights, self.signal = weights, signal
        self.total = self.total + weights
        self.counted += 1
        if step % self.every == 0:
            self.note(step)

    def note(self, step: int) -> None:
        self.points.append((step, self.now()))

    def now(self) -> Tensor:
        """Weights, their average and the signal (3, m)."""
        return torch.stack([self.weights, self.average, self.signal])

    def state_dict(self) -> dict:
        steps, values = zip(*self.points, strict=True)
        now = {"weights": self.weights, "signal": self.signal, "total": self.total, "counted": self.counted}
        return now | {"steps": list(steps), "points": torch.stack(values)}

    def load_state_dict(self, state: dict) -> None:
        device = self.weights.device
        for name in ("weights", "signal", "total"):
            setattr(self, name, state[name].to(device))
        self.counted = state["counted"]
        self.points = list(zip(state["steps"], state["points"].to(device), strict=True))


def path_table(trace: Trace, steps: int, domains: list[str], signal: str) -> pl.DataFrame:
    """The path in a trace as a table: step, domain, weight, average so far, and the signal in a
    column called `signal`.

    Step 0 is the start, `steps` the last; about a thousand of the steps between are kept.
    """
    points = trace.points if trace.points[-1][0] == steps else [*trace.points, (steps, trace.now())]
    numbers, values = zip(*points, strict=True)
    weights, averages, signals = torch.stack(values).cpu().transpose(0, 1).flatten(1).numpy()
    return pl.DataFrame(
        {
            "step": np.repeat(np.array(numbers, dtype=np.int64), len(domains)),
            "domain": domains * len(numbers),
            "weight": weights,
            "average": averages,
            signal: signals,
        }
    )


def sum_over_processes(accelerator: Accelerator, tensor: Tensor) -> Tensor:
    """The sum of a tensor over all processes."""
    if accelerator.num_processes > 1:
        torch.distributed.all_reduce(tensor)
    return tensor


def reduce_gradients(accelerator: Accelerator, parameters: list[nn.Parameter]) -> None:
    """Sum the gradients over all processes in place; missing ones count as zeros."""
    if accelerator.num_processes == 1:
        return
    sent = []
    for weight in parameters:
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
        sent.append(torch.distributed.all_reduce(weight.grad, async_op=True))
    for one in sent:
        one.wait()


def set_gradients(parameters: list[nn.Parameter], flat: Tensor) -> None:
    """Set the parameters' gradients to views of one gradient `flat` (sum of their sizes,)."""
    for weight, part in zip(parameters, flat.split([weight.numel() for weight in parameters]), strict=True):
        weight.grad = part.view_as(weight)


def step_along_gradients(learner: Learner, step: int) -> None:
    """Take step `step` of the optimizer along the current gradients."""
    set_rate(learner.optimizer, learner.session.recipe.rate(step))
    learner.optimizer.step()
    learner.optimizer.zero_grad(set_to_none=True)
