"""DoReMi: a proxy whose domain weights grow where its loss exceeds that of a reference model (Xie
et al. 2023).

Domains are read uniformly and weighted in the loss. Each update computes the excess of the proxy's
loss over the reference's in every domain of the global batch, moves the weights towards domains of
large excess, and then takes its step with the new weights. The mixture is their average over the
run.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from bimix.model.cross_entropy import sum_by_domain
from bimix.model.transformer import Transformer
from bimix.reweighting.trace import Trace, reduce_gradients, step_along_gradients
from bimix.training.loop import Plain, Run
from bimix.training.update import Batch, to_device

STEP_SIZE = 1.0  # eta, of the log weights for a nat of excess loss (the DoReMi code, as below)
SMOOTHING = 1e-3  # c, the share of the uniform mixture in the weights


def latest_excess(last: Tensor, sums: Tensor, tokens: Tensor) -> Tensor:
    """Excess (m,) in nats per token: `sums` over the `tokens` of a batch, or the `last` excess of a
    domain without tokens in it.

    `sums` (m,) are sums of max(proxy's loss - reference's loss, 0) over the domain's tokens.
    """
    return torch.where(tokens > 0, sums / tokens.clamp(min=1), last)


def reweight(weights: Tensor, excess: Tensor) -> Tensor:
    """The next weights (m,): (1 - c) softmax(log a + eta excess) + c / m."""
    moved = torch.softmax(weights.log() + STEP_SIZE * excess, dim=0)
    return (1 - SMOOTHING) * moved + SMOOTHING / len(weights)


def row_weights(weights: Tensor, rows: Tensor) -> Tensor:
    """Loss weights (m,) of a row by domain, given a batch's `rows` (m,): its sum is one."""
    return weights / (weights * rows).sum()


def extra_flops(proxy: Run) -> int:
    """FLOPs of a run beyond plain pretraining: a forward pass is a third of one forward and backward."""
    session = proxy.session
    tokens = proxy.method.forwards * session.train.row_length
    return tokens * session.shape.flops_per_token(session.train.row_length) // 3


@dataclass
class Doremi(Plain):
    """Training of the proxy, compared with a frozen `reference`.

    The weights depend on all losses of an update. So the graphs of its micro-batches are kept; if
    `keep_graphs` is false, a separate forward pass computes the losses. None: kept, except on a GPU
    that cannot hold all rows at once (on a CPU micro-batches serve the cache, not memory).

    `forwards` counts the rows of forward passes without a backward pass, of both models.
    """

    backwards: ClassVar[bool] = True  # the reference has been trained on the beginning of each domain's order
    reference: Transformer
    keep_graphs: bool | None = None
    forwards: int = 0
    trace: Trace = field(init=False)

    def __post_init__(self) -> None:
        self.trace = Trace.start(self.learner, signal=math.log(self.learner.session.shape.vocabulary), counted=1)

    def own(self, chosen: np.ndarray) -> np.ndarray:
        """This process's rows as in plain pretraining, but sorted by domain."""
        mine = super().own(chosen)
        return mine.start + np.argsort(chosen[mine], kind="stable")

    def update(self, batch: Batch, step: int) -> tuple[Tensor, Tensor]:
        session, proxy = self.learner.session, self.learner.plain
        accelerator, recipe, domains = session.accelerator, session.recipe, len(session.domains)
        parts = self.micro_batches(batch)
        rows = to_device(batch.counts, accelerator.device)
        tokens = rows * (session.train.row_length - 1)
        with torch.no_grad(), accelerator.autocast():
            expected = [self.reference(*part, domains, counts)[1] for *part, counts in parts]
        at_once = self.keep_graphs
        if at_once is None:
            at_once = accelerator.device.type == "cpu" or len(parts) == 1
        with torch.set_grad_enabled(at_once):
            found = [proxy(*part, domains, counts) for *part, counts in parts]
        sums = torch.zeros_like(self.trace.signal)
        for (_, owners, _), (_, losses), reference_losses in zip(parts, found, expected, strict=True):
            above = (losses - reference_losses).clamp(min=0).double().sum(1)
            sums += sum_by_domain(above, owners, domains)
        excess = latest_excess(self.trace.signal, accelerator.reduce(sums, reduction="sum"), tokens)
        weights = reweight(self.trace.weights, excess)
        self.trace.advance(weights, excess, step + 1)
        self.forwards += recipe.batch_rows * (1 if at_once else 2)

        factors = row_weights(weights, rows).float()
        total = torch.zeros((), device=accelerator.device)
        for (part, owners, counts), (shares, _) in zip(parts, found, strict=True):
            total += shares.detach().sum() * (len(part) / recipe.batch_rows)
            if not at_once:
                shares, _ = proxy(part, owners, domains, counts)
            (shares @ factors * len(part)).backward()
        found.clear()
        parameters = list(proxy.parameters())
        reduce_gradients(accelerator, parameters)
        norm = torch.nn.utils.clip_grad_norm_(parameters, recipe.max_gradient_norm)
        step_along_gradients(self.learner, step)
        return total, norm

    def micro_batches(self, batch: Batch) -> list[tuple[Tensor, Tensor, tuple[int, ...]]]:
        """This process's rows, their domains and counts, a micro-batch at a time."""
        session, size = self.learner.session, self.learner.micro_batch
        device, domains = session.accelerator.device, len(session.domains)
        rows = batch.rows.to(device, non_blocking=True).split(size)
        owners = to_device(batch.chosen, device).split(size)
        starts = range(0, len(batch.chosen), size)
        counts = [np.bincount(batch.chosen[start : start + size], minlength=domains) for start in starts]
        return list(zip(rows, owners, (tuple(part.tolist()) for part in counts), strict=True))

    def state_dict(self) -> dict:
        return self.trace.state_dict() | {"forwards": self.forwards}

    def load_state_dict(self, state: dict) -> None:
        self.trace.load_state_dict(state)
        self.forwards = state["forwards"]
