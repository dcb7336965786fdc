"""DoGE: a proxy whose domain weights grow where a domain's gradient helps all (Fan et al. 2024).

Domains are read uniformly. Each update computes the gradient of every domain's mean loss. It moves
the weights towards domains whose gradient is aligned with that of the mix, a loss over rows of all
domains in equal parts, which are not trained on (the released configuration; the paper's formula
has the sum over the other domains of the batch). The step is along the weighted sum of the
gradients. The mixture is the average of the weights.

Each process has the gradients of its own domains only. Processes exchange the mix's gradient, the
weighted sum, and two numbers for each domain: an inner product with a sum is the sum of inner
products.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from bimix.reweighting.trace import Trace, set_gradients, step_along_gradients, sum_over_processes
from bimix.training.costs import mix_rows, vector_flops
from bimix.training.loop import Plain
from bimix.training.order import rows_of_domain
from bimix.training.rows import Part, RowStore, set_aside
from bimix.training.session import Session
from bimix.training.update import Batch, to_device

LEAST_NORM = 1e-6  # added to norms that are divided by, as in torch's clipping and the DoGE code
MIX_SHARE = 0.05  # of each domain's rows, kept for the mix; the DoGE code takes the last 2e9 / 7 tokens of each
MU = 0.01  # divides the scores (released configuration, as below)
SCORE_LIMIT = 5.0  # of a score, in learning rates
BLOCK = 1024  # numbers whose products are summed in fp32; the sums of the blocks in fp64


@dataclass(frozen=True)
class Mix:
    """The data of the target: `rows` per update, of the domains in turn, by the seed alone."""

    store: RowStore | Part
    rows: int

    def choose(self, seed: int, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Domains and row numbers (rows,) of update `step`, every domain in turn."""
        store = self.store
        places = step * self.rows + np.arange(self.rows)
        owners, visits = places % len(store.domains), places // len(store.domains)
        numbers = np.empty(self.rows, dtype=np.int64)
        for domain in np.unique(owners):
            here = owners == domain
            size = int(store.sizes[domain])
            numbers[here] = rows_of_domain(seed, store.domains[domain], size, visits[here])
        return owners, numbers


def held_mix(session: Session) -> Mix:
    """The mix of a session's domains; its rows are removed from the training data."""
    session.train, kept = set_aside(session.train, MIX_SHARE)
    return Mix(kept, mix_rows(session.recipe.batch_rows, len(session.domains)))


def clipping(norms: Tensor, largest: float) -> Tensor:
    """Factors (n,) that clip gradients of `norms` (n,) to `largest`, as torch does."""
    return (largest / (norms + LEAST_NORM)).clamp(max=1)


def products(gradients: Tensor, toward: Tensor) -> Tensor:
    """Inner products (n,) of `gradients` (n, numbers) with `toward` (numbers,), summed in fp64.

    In blocks: a single product of such narrow matrices would leave most of a GPU idle. `numbers` is
    a multiple of the block, n may be 0.
    """
    blocks = gradients.view(len(gradients), len(toward) // BLOCK, BLOCK).transpose(0, 1)
    return torch.bmm(blocks, toward.view(-1, BLOCK, 1)).sum(0, dtype=torch.float64)[:, 0]


def alignment(along: Tensor, norms: Tensor, present: Tensor, rate: float, limit: float, last: Tensor) -> Tensor:
    """Scores (m,) of domains from the products `along` (m,) of their clipped gradients with the
    mix's.

    rate * along, divided by the mean of the `norms` (m,) of the domains' gradients and clipped to
    [0, limit * rate]. A domain that is not `present` (m,) in the batch has no gradient: it keeps
    its `last` score (m,) and is left out of the mean (the DoGE code keeps its last gradient).
    """
    norm = (norms * present).sum() / present.sum()
    return torch.where(present, (rate * along / (norm + LEAST_NORM)).clamp(0, limit * rate), last)


def reweight(weights: Tensor, scores: Tensor) -> Tensor:
    """The next weights (m,): softmax(log a + score / mu)."""
    return torch.softmax(weights.log() + scores / MU, dim=0)


def own_gradients(session: Session) -> list[int]:
    """The indices of this process's gradients: domains, then the mix, assigned in turn."""
    return list(range(len(session.domains) + 1))[session.accelerator.process_index :: session.accelerator.num_processes]


def reserve(session: Session) -> Tensor:
    """Memory for this process's gradients (own, parameters) in whole blocks, allocated first."""
    numbers = -(-session.shape.parameters // BLOCK) * BLOCK
    return torch.zeros(len(own_gradients(session)), numbers, device=session.accelerator.device)


def extra_flops(session: Session, mix: Mix) -> int:
    """FLOPs of a run beyond plain pretraining: the mix's rows, and the work on whole gradients.
    Each row of the domains still has one forward and one backward pass.
    """
    length, shape = session.train.row_length, session.shape
    read = mix.rows * length * shape.flops_per_token(length)
    work = vector_flops(shape.parameters, len(session.domains))
    return session.recipe.steps * (read + work)


@dataclass
class Doge(Plain):
    """Training of the proxy; `gradients` by `reserve`."""

    gradients: Tensor
    mix: Mix
    trace: Trace = field(init=False)

    def __post_init__(self) -> None:
        session = self.learner.session
        self.trace = Trace.start(self.learner, signal=0.0, counted=0)
        self.numbers = own_gradients(session)
        self.domains = [number for number in self.numbers if number < len(session.domains)]
        self.places = to_device(np.array(self.domains, dtype=np.int64), session.accelerator.device)

    def own(self, chosen: np.ndarray) -> np.ndarray:
        """All rows of this process's domains, sorted by domain."""
        mine = np.flatnonzero(np.isin(chosen, self.domains))
        return mine[np.argsort(chosen[mine], kind="stable")]

    def update(self, batch: Batch, step: int) -> tuple[Tensor, Tensor]:
        session, count = self.learner.session, len(self.domains)
        accelerator, recipe = session.accelerator, session.recipe
        self.gradients.zero_()
        rows = batch.rows.to(accelerator.device, non_blocking=True)
        losses = self.add_gradients(rows, [int(batch.counts[domain]) for domain in self.domains], first=0)
        shares = batch.counts[self.domains] / recipe.batch_rows
        total = (losses * to_device(shares.astype(np.float32), accelerator.device)).sum()
        self.add_gradients(*self.read_mix(step), first=count)

        norms = torch.linalg.vector_norm(self.gradients, dim=1, dtype=torch.float64)
        factors = clipping(norms, recipe.max_gradient_norm)
        own = self.gradients[:count]
        toward = sum_over_processes(accelerator, factors[count:].float() @ self.gradients[count:])
        clipped = factors[:count] * norms[:count]
        along = factors[:count] * products(own, toward)
        sent = torch.zeros(2, len(session.domains), dtype=torch.float64, device=accelerator.device)
        sent[:, self.places] = torch.stack([along, clipped])
        along, clipped = sum_over_processes(accelerator, sent)
        present = to_device(batch.counts > 0, accelerator.device)
        scores = alignment(along, clipped, present, recipe.rate(step), SCORE_LIMIT, self.trace.signal)
        weights = reweight(self.trace.weights, scores)
        self.trace.advance(weights, scores, step + 1)

        way = sum_over_processes(accelerator, (weights[self.places] * factors[:count]).float() @ own)
        set_gradients(list(self.learner.plain.parameters()), way[: session.shape.parameters])
        step_along_gradients(self.learner, step)
        return total, torch.linalg.vector_norm(way)

    def read_mix(self, step: int) -> tuple[Tensor, list[int]]:
        """The mix's rows at update `step`, and how many; none in processes without its gradient."""
        session = self.learner.session
        if len(self.numbers) == len(self.domains):
            return torch.empty(0), []
        rows = self.mix.store.read(*self.mix.choose(session.recipe.seed, step))
        return to_device(rows, session.accelerator.device), [len(rows)]

    def add_gradients(self, rows: Tensor, counts: list[int], first: int) -> Tensor:
        """Add gradients of the mean losses of consecutive `counts` of `rows`; return the losses."""
        plain, device = self.learner.plain, self.gradients.device
        parameters = list(plain.parameters())
        sizes = [weight.numel() for weight in parameters]
        losses = torch.zeros(len(counts), device=device)
        start = 0
        for number, count in enumerate(counts):
            places = self.gradients[first + number, : sum(sizes)].split(sizes)
            for begin in range(start, start + count, self.learner.micro_batch):
                part = rows[begin : min(begin + self.learner.micro_batch, start + count)]
                loss = plain(part) * (len(part) / count)
                for place, found in zip(places, torch.autograd.grad(loss, parameters), strict=True):
                    place += found.flatten()
                losses[number] += loss.detach()
            start += count
        return losses

    def state_dict(self) -> dict:
        return self.trace.state_dict()

    def load_state_dict(self, state: dict) -> None:
        self.trace.load_state_dict(state)
