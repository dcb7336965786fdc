"""The training loop: what one update and one evaluation do, on any number of processes of an Accelerator.

The loader and the scheduler are not handed to Accelerate: rows are a pure function of the step (`order`), the rate too
(`schedules`), so each process takes its slice of the global batch by itself and nothing has to be fast-forwarded.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor, nn

from bimix.order import next_rows
from bimix.rowstore import RowStore
from bimix.schedules import SCHEDULES


@dataclass(frozen=True)
class Recipe:
    """How a model is trained; every field changes the result (units: rows, updates, rates per update)."""

    steps: int
    batch_rows: int
    evaluate_every: int
    validation_rows: int
    learning_rate: float
    final_learning_rate: float
    schedule: str
    warmup_share: float
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float
    max_gradient_norm: float
    precision: str
    seed: int

    def rate(self, step: int) -> float:
        """Learning rate of update `step`, the first being 0."""
        return SCHEDULES[self.schedule](
            step, self.steps, self.learning_rate, self.final_learning_rate, self.warmup_share
        )

    def evaluates(self, step: int) -> bool:
        """Whether the losses are measured after `step` updates."""
        return step % self.evaluate_every == 0 or step == self.steps


def build_optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.AdamW:
    """AdamW whose weight decay spares biases and norms (the DoReMi code); fused: one kernel per update."""
    decayed = [weight for weight in model.parameters() if weight.dim() >= 2]
    spared = [weight for weight in model.parameters() if weight.dim() < 2]
    groups = [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": spared, "weight_decay": 0.0}]
    return torch.optim.AdamW(
        groups, lr=recipe.learning_rate, betas=(recipe.beta1, recipe.beta2), eps=recipe.epsilon, fused=True
    )


def own_slice(rows: int, process: int, processes: int) -> slice:
    """Rows of the global batch that fall to one process: contiguous, sizes differ by one at most."""
    return slice(rows * process // processes, rows * (process + 1) // processes)


def batches(
    store: RowStore, proportions: np.ndarray, recipe: Recipe, taken: np.ndarray, process: int, processes: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield for each update this process's rows, int32 (own rows, row length), and the new `taken` (m,)."""
    own = own_slice(recipe.batch_rows, process, processes)
    while True:
        chosen, numbers, taken = next_rows(
            recipe.seed, store.domains, proportions, store.sizes, taken, recipe.batch_rows
        )
        yield store.read(chosen[own], numbers[own]), taken


def to_device(rows: np.ndarray, device: torch.device) -> Tensor:
    """Copy rows to the device, without waiting for it where there is one."""
    tensor = torch.from_numpy(rows)
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


def update(
    accelerator: Accelerator,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    rows: np.ndarray,
    recipe: Recipe,
    step: int,
    micro_batch: int,
) -> tuple[Tensor, Tensor]:
    """One update from this process's `rows`; returns its share of the batch's mean loss and the gradient norm.

    Every micro-batch is weighted by its rows and the sum scaled to the global batch, so that neither the micro-batch
    nor the number of processes changes the gradient (DistributedDataParallel averages over processes).
    """
    for group in optimizer.param_groups:
        group["lr"] = recipe.rate(step)
    total = torch.zeros((), device=accelerator.device)
    parts = range(0, len(rows), micro_batch)
    for start in parts:
        part = to_device(rows[start : start + micro_batch], accelerator.device)
        weight = len(part) / recipe.batch_rows
        with nullcontext() if start == parts[-1] else accelerator.no_sync(model):
            loss = model(part) * weight
            accelerator.backward(loss * accelerator.num_processes)
        total += loss.detach()
    norm = accelerator.clip_grad_norm_(model.parameters(), recipe.max_gradient_norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return total, norm


@torch.no_grad()
def evaluate(accelerator: Accelerator, model: nn.Module, validation: list[np.ndarray], micro_batch: int) -> list[float]:
    """Loss in nats per token of each domain on its `validation` rows, summed in fp64 over all processes (METHODS 2)."""
    model.eval()
    sums = torch.zeros(len(validation), dtype=torch.float64, device=accelerator.device)
    for domain, rows in enumerate(validation):
        own = rows[own_slice(len(rows), accelerator.process_index, accelerator.num_processes)]
        for start in range(0, len(own), micro_batch):
            part = to_device(own[start : start + micro_batch], accelerator.device)
            sums[domain] += model(part).double() * len(part)
    model.train()
    sums = accelerator.reduce(sums, reduction="sum")
    return (sums.cpu().numpy() / [len(rows) for rows in validation]).tolist()


def agree(accelerator: Accelerator, wish: Callable[[], bool]) -> bool:
    """Whether any process wishes it, the same answer in all of them."""
    flag = torch.tensor(int(wish()), device=accelerator.device)
    return bool(accelerator.reduce(flag, reduction="sum").item()) if accelerator.num_processes > 1 else wish()
