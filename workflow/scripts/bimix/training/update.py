"""The model of a run, one update and one evaluation, on any number of processes of an Accelerator.

Loader and scheduler are not prepared by Accelerate: rows (`order`) and learning rate (`recipe`) are
pure functions of the step, so each process takes its own slice of the global batch, and resuming
needs no fast-forward.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from bimix.model.memory import even_part, largest_micro_batch
from bimix.model.transformer import Transformer
from bimix.training.order import Schedule, next_rows
from bimix.training.recipe import Recipe
from bimix.training.rows import Part, RowStore
from bimix.training.session import Session

RECOMPILATIONS = 64  # torch's own limit is 8: DoGE has parts of several sizes, evaluations and probes others


@dataclass
class Learner:
    """The model of a run: `plain` as defined here, `model` and `optimizer` as prepared."""

    session: Session
    plain: Transformer
    model: nn.Module
    optimizer: torch.optim.Optimizer
    micro_batch: int


def prepare(session: Session, plain: Transformer, state: dict, wrapped: bool = True) -> Learner:
    """The learner of a run, from its model and `state`, whose entry `optimizer` is removed. A model
    that is not `wrapped` does not sum gradients over processes, which saves memory.
    """
    optimizer = build_optimizer(plain.to(session.accelerator.device), session.recipe)
    if "optimizer" in state:
        optimizer.load_state_dict(state.pop("optimizer"))
    if session.compiled:
        # Accelerate's autocast is a new object for each model: compiled passes of others are not
        # reused, but count towards the limit above which torch runs uncompiled
        torch.compiler.reset()
        compile_whole(plain)
    model = session.accelerator.prepare_model(plain, evaluation_mode=not wrapped)
    optimizer = session.accelerator.prepare(optimizer)
    micro_batch = session.micro_batch or fit(session, model, state)
    if session.compiled:
        micro_batch = even_part(session.own_rows, micro_batch)  # parts of one size are one graph
    if wrapped and session.accelerator.num_processes > 1:
        settle_order(session, model, micro_batch)
    return Learner(session, plain, model, optimizer, micro_batch)


def settle_order(session: Session, model: nn.Module, micro_batch: int) -> None:
    """Make one pass whose gradients are dropped.

    DistributedDataParallel orders the gradients in its bucket by the first backward pass, and a
    gradient's place decides in which order those of three and more processes are summed. Without
    this pass the first update of a resumed run would be rounded differently.
    """
    accelerator = session.accelerator
    own = own_slice(session.recipe.batch_rows, accelerator.process_index, accelerator.num_processes)
    rows = min(micro_batch, own.stop - own.start)  # as in an update: a compiled model has a graph for it
    trial = torch.zeros(rows, session.train.row_length, dtype=torch.int32, device=accelerator.device)
    accelerator.backward(model(trial))
    model.zero_grad(set_to_none=True)


def fit(session: Session, model: nn.Module, state: dict) -> int:
    """The micro-batch, at most this process's rows: that in `state` for the same circumstances,
    else a measured one.
    """
    found, alike = state.get("fitted", {}), session.circumstances()
    if found.get("circumstances") != alike:
        rows = largest_micro_batch(session.accelerator, model, session.own_rows, session.train.row_length)
        found = {"rows": rows, "circumstances": alike}
    state["fitted"] = found
    return found["rows"]


def build_optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """AdamW without weight decay on biases and norms, as in the DoReMi code; fused: one kernel per
    update. The model must already be on its device.
    """
    decayed = [weight for weight in model.parameters() if weight.dim() >= 2]
    spared = [weight for weight in model.parameters() if weight.dim() < 2]
    groups = [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": spared, "weight_decay": 0.0}]
    betas = recipe.beta1, recipe.beta2
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=betas, eps=recipe.epsilon, fused=True)


def compile_whole(model: nn.Module) -> None:
    """Compile a model in place: one graph for each number of rows, under any wrapper and in any
    number of runs.

    Torch must not split the graph at the borders of DistributedDataParallel's buckets. With its
    default of 25 MB that makes 14 graphs of 280M and 50 of 1B, which costs more than the
    communication within a node (0.5 and 3.6 GB against 0.4 and 3 s on eight A100). Above its limit
    of graphs torch would silently run uncompiled: here that is an error.
    """
    torch._dynamo.config.optimize_ddp = False
    torch._dynamo.config.recompile_limit = RECOMPILATIONS
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    model.compile(dynamic=False)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give all groups of parameters the same learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def own_slice(rows: int, process: int, processes: int) -> slice:
    """This process's rows of the global batch: contiguous, with sizes that differ by at most 1."""
    return slice(rows * process // processes, rows * (process + 1) // processes)


@dataclass(frozen=True)
class Batch:
    """Rows of one update: this process's `rows` (own rows, length) of the domains numbered `chosen`
    (own rows,), the global batch's `counts` (m,) of domains and, after it, the rows `taken` (m,) of
    each domain since the run began, `before` (m,) of them until its stage began.
    """

    rows: Tensor
    chosen: np.ndarray
    counts: np.ndarray
    taken: np.ndarray
    before: np.ndarray


def batches(
    store: RowStore | Part,
    schedule: Schedule,
    recipe: Recipe,
    taken: np.ndarray,
    steps: int,
    own: Callable[[np.ndarray], np.ndarray | slice],
    pinned: bool,
    backwards: bool = False,
    made: int = 0,
    before: np.ndarray | None = None,
) -> Iterator[Batch]:
    """Yield the batches of the next `steps` updates; `pinned` rows can be copied to
    a GPU while it computes.

    `own` selects and orders this process's rows of a global batch, given all rows' domains; with
    `backwards` each domain's order is read from its end (`order`). `made` updates were made before
    these; `before` (m,) are the rows `taken` before the current stage (None: none).
    """
    before = np.zeros_like(taken) if before is None else before
    for step in range(made, made + steps):
        if step and step in schedule.starts:
            before = taken
        shares = schedule.proportions_at(step)
        chosen, numbers, after = next_rows(
            recipe.seed, store.domains, shares, store.sizes, taken, recipe.batch_rows, backwards, before
        )
        mine = own(chosen)
        rows = torch.from_numpy(store.read(chosen[mine], numbers[mine]))
        yield Batch(rows.pin_memory() if pinned else rows, chosen[mine], after - taken, after, before)
        taken = after


def to_device(array: np.ndarray, device: torch.device) -> Tensor:
    """A copy of an array on the device; asynchronous if the array is in pinned memory."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def ahead(items: Iterator[Batch], depth: int = 4) -> Iterator[Batch]:
    """The items, prefetched by a thread up to `depth` ahead; its error is raised here."""
    with ThreadPoolExecutor(1) as maker:
        waiting = deque(maker.submit(next, items, None) for _ in range(depth))
        while (item := waiting.popleft().result()) is not None:
            waiting.append(maker.submit(next, items, None))
            yield item


def update(
    accelerator: Accelerator,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    rows: Tensor,
    recipe: Recipe,
    step: int,
    micro_batch: int,
) -> tuple[Tensor, Tensor]:
    """One update from this process's `rows` (own rows, length): its share of the batch's mean loss
    and the gradient norm.

    Every micro-batch is weighted by its rows and the sum scaled to the global batch, so that
    neither the micro-batch nor the number of processes changes the gradient
    (DistributedDataParallel averages over processes). Nothing in here waits for the device.
    """
    set_rate(optimizer, recipe.rate(step))
    total = torch.zeros((), device=accelerator.device)
    parts = rows.split(micro_batch)
    for number, part in enumerate(parts, 1):
        with nullcontext() if number == len(parts) else accelerator.no_sync(model):
            loss = model(part.to(accelerator.device, non_blocking=True)) * (len(part) / recipe.batch_rows)
            accelerator.backward(loss * accelerator.num_processes)
        total = total + loss.detach()
    norm = accelerator.clip_grad_norm_(model.parameters(), recipe.max_gradient_norm)
    optimizer.step()
    # gradients of several parts stay views of the buckets: else each update copies them all
    stay = isinstance(model, DistributedDataParallel) and len(parts) > 1
    optimizer.zero_grad(set_to_none=not stay)
    return total, norm


@torch.no_grad()
def evaluate(
    accelerator: Accelerator, plain: Transformer, validation: list[np.ndarray], micro_batch: int
) -> list[float]:
    """Loss in nats per token of each domain on its `validation` rows, summed in
    fp64 over all processes.

    It uses the `plain` model, not its wrapper, whose forward pass may wait for processes without
    rows. The last part is padded, since a compiled model is compiled for every number of rows.
    """
    rows = np.concatenate(validation)
    size = min(micro_batch, -(-len(rows) // accelerator.num_processes))
    own = own_slice(len(rows), accelerator.process_index, accelerator.num_processes)
    sums = torch.zeros(len(rows), dtype=torch.float64, device=accelerator.device)
    nobody = torch.zeros(size, dtype=torch.int64, device=accelerator.device)
    for start in range(own.start, own.stop, size):
        part = rows[start : min(start + size, own.stop)]
        filled = np.zeros((size, rows.shape[1]), dtype=rows.dtype)
        filled[: len(part)] = part
        _, losses = plain(torch.from_numpy(filled).to(accelerator.device), nobody, 1, (size,))
        sums[start : start + len(part)] = losses[: len(part)].double().sum(-1)
    means = accelerator.reduce(sums, reduction="sum").cpu().numpy() / (rows.shape[1] - 1)
    owners = np.repeat(np.arange(len(validation)), [len(own) for own in validation])
    return (np.bincount(owners, means, len(validation)) / np.bincount(owners)).tolist()
