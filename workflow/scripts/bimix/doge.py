"""DoGE: a proxy is trained on the domains whose gradients help the others, or given targets (METHODS 4, Fan et al. 2024).

Domains are read uniformly. Each update takes the gradient of every domain's mean loss, moves the weights towards domains
whose gradient points where the others' do, and takes its step along the weighted sum of the gradients; the mixture is
the average of the weights. All gradients exist at once: one model's size for each domain and target, and one more.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from bimix.order import rows_of_domain
from bimix.reweighting import Trace, set_gradients, step_along_gradients
from bimix.rowstore import RowStore
from bimix.session import Running, Session
from bimix.training import Batch, own_slice

LEAST_NORM = 1e-6  # added to norms that are divided by, as in torch's clipping and the DoGE code


def clipping(norms: Tensor, largest: float) -> Tensor:
    """Factors (n,) that bring gradients of the `norms` (n,) to `largest` at most, as torch.nn.utils.clip_grad_norm_ has it."""
    return (largest / (norms + LEAST_NORM)).clamp(max=1)


def alignment(products: Tensor, present: Tensor, rate: float, limit: float, last: Tensor) -> Tensor:
    """Scores (m,) of the domains from the inner `products` of clipped gradients, (m + targets,) squared.

    rate * sum over the targets of <g_i, g_j>, without targets over the other domains, divided by the mean norm of the
    domains' gradients and clipped to [0, limit * rate]. A domain that is not `present` (m,) in the batch has no gradient:
    it keeps its `last` score (m,) and is in no mean (the DoGE code keeps its last gradient).
    """
    domains = len(present)
    inner = products[:domains, :domains]
    along = products[:domains, domains:].sum(1) if len(products) > domains else inner.sum(1) - inner.diag()
    norm = (inner.diag().sqrt() * present).sum() / present.sum()
    return torch.where(present, (rate * along / (norm + LEAST_NORM)).clamp(0, limit * rate), last)


def reweight(weights: Tensor, scores: Tensor, regularization: float) -> Tensor:
    """The next weights (m,): softmax(log a + score / mu), with the regularization mu (METHODS 4)."""
    return torch.softmax(weights.log() + scores / regularization, dim=0)


@dataclass(frozen=True)
class Targets:
    """Domains to be helped: `rows` of each are read for an update, in an order of the seed and the update alone."""

    store: RowStore
    rows: int

    def read(self, seed: int, step: int, process: int, processes: int) -> tuple[np.ndarray, np.ndarray]:
        """This process's rows for update `step` and the numbers of their domains."""
        store, visits = self.store, step * self.rows + np.arange(self.rows)
        sizes = store.sizes.tolist()
        numbers = [rows_of_domain(seed, name, size, visits) for name, size in zip(store.domains, sizes, strict=True)]
        owners = np.repeat(np.arange(len(store.domains)), self.rows)
        own = own_slice(len(owners), process, processes)
        return store.read(owners[own], np.concatenate(numbers)[own]), owners[own]


def reserve(session: Session, targets: Targets | None) -> Tensor:
    """Room for the gradients of all domains and targets (m + targets, parameters), taken before rows are fitted into memory."""
    count = len(session.domains) + (len(targets.store.domains) if targets else 0)
    return torch.zeros(count, session.shape.parameters, device=session.accelerator.device)


def extra_flops(session: Session, targets: Targets | None) -> int:
    """What a run costs beyond plain pretraining: the targets' rows, all inner products and the weighted sum.

    Each row still has one forward and one backward pass.
    """
    domains = len(session.domains)
    count, length = domains, session.train.row_length
    read = 0
    if targets is not None:
        count += len(targets.store.domains)
        read = targets.rows * len(targets.store.domains) * length * session.shape.flops_per_token(length)
    return session.recipe.steps * (read + 2 * session.shape.parameters * (count**2 + domains))


@dataclass
class Doge:
    """Training of the proxy; `gradients` is what `reserve` gave."""

    backwards: ClassVar[bool] = False
    running: Running
    gradients: Tensor
    regularization: float
    score_limit: float
    targets: Targets | None = None
    trace: Trace = field(init=False)

    def __post_init__(self) -> None:
        self.trace = Trace.start(self.running, signal=0.0, counted=0)

    def own(self, chosen: np.ndarray) -> slice:
        accelerator = self.running.session.accelerator
        return own_slice(len(chosen), accelerator.process_index, accelerator.num_processes)

    def update(self, batch: Batch, step: int) -> tuple[Tensor, Tensor]:
        session, domains = self.running.session, len(self.running.session.domains)
        accelerator, recipe = session.accelerator, session.recipe
        self.gradients.zero_()
        counts = batch.counts
        losses = self.add_gradients(batch.rows, batch.chosen, counts, first=0)
        total = (losses * torch.from_numpy(counts / recipe.batch_rows).to(losses)).sum()
        if self.targets is not None:
            rows, owners = self.targets.read(recipe.seed, step, accelerator.process_index, accelerator.num_processes)
            counts = np.full(len(self.gradients) - domains, self.targets.rows)
            self.add_gradients(torch.from_numpy(rows), owners, counts, domains)
        if accelerator.num_processes > 1:
            for gradient in self.gradients:
                gradient.copy_(accelerator.reduce(gradient, reduction="sum"))

        products = (self.gradients @ self.gradients.T).double()
        factors = clipping(products.diag().sqrt(), recipe.max_gradient_norm)
        products = products * factors[:, None] * factors
        present = torch.from_numpy(batch.counts > 0).to(accelerator.device)
        scores = alignment(products, present, recipe.rate(step), self.score_limit, self.trace.signal)
        weights = reweight(self.trace.weights, scores, self.regularization)
        self.trace.advance(weights, scores, step + 1)

        along = (weights * factors[:domains]).float() @ self.gradients[:domains]
        set_gradients(list(self.running.plain.parameters()), along)
        step_along_gradients(self.running, step)
        return total, torch.linalg.vector_norm(along)

    def add_gradients(self, rows: Tensor, owners: np.ndarray, counts: np.ndarray, first: int) -> Tensor:
        """Add this process's part of each domain's gradient, from row `first` on; its parts of their mean losses.

        `counts` are the rows of each domain in the global batch, of which `owners` says what this process has.
        """
        plain, device = self.running.plain, self.gradients.device
        parameters = list(plain.parameters())
        sizes = [weight.numel() for weight in parameters]
        rows = rows.to(device, non_blocking=True)
        losses = torch.zeros(len(counts), device=device)
        for owner in np.unique(owners).tolist():
            places = self.gradients[first + owner].split(sizes)
            mine = torch.from_numpy(np.flatnonzero(owners == owner)).to(device)
            for part in rows[mine].split(self.running.micro_batch):
                loss = plain(part) * (len(part) / counts[owner])
                for place, found in zip(places, torch.autograd.grad(loss, parameters), strict=True):
                    place += found.flatten()
                losses[owner] += loss.detach()
        return losses

    def state_dict(self) -> dict:
        return self.trace.state_dict()

    def load_state_dict(self, state: dict) -> None:
        if state:
            self.trace.load_state_dict(state)
