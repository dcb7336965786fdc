"""A proxy of four domains, trained by plain gradient descent: its move tells the gradient."""

from types import SimpleNamespace

import numpy as np
import torch
from accelerate import Accelerator

from bimix.model.transformer import Shape, Transformer
from bimix.training.update import Batch, Learner

SHAPE = Shape(layers=1, width=16, heads=2, vocabulary=30)
DOMAINS = ["ants", "bees", "cats", "dogs"]
ROWS, LENGTH = 5, 9
CHOSEN = np.array([0, 0, 2, 2, 3])  # no row of bees


def learner(
    rate: float, largest_norm: float = 1e9, loss_chunk: int | None = None, micro_batch: int = ROWS, scale: float = 0.3
) -> Learner:
    torch.manual_seed(0)
    plain = Transformer(SHAPE, loss_chunk=loss_chunk)
    for weight in plain.parameters():
        torch.nn.init.normal_(weight, std=scale)
    recipe = SimpleNamespace(rate=lambda step: rate, batch_rows=ROWS, max_gradient_norm=largest_norm, steps=3, seed=1)
    session = SimpleNamespace(accelerator=Accelerator(cpu=True), shape=SHAPE, recipe=recipe, domains=DOMAINS)
    session.train = SimpleNamespace(row_length=LENGTH)
    return Learner(session, plain, plain, torch.optim.SGD(plain.parameters(), lr=rate), micro_batch)


def draw(rows: int, seed: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, SHAPE.vocabulary, (rows, LENGTH)).astype(np.int32))


def batch(order: tuple[int, ...] = (0, 1, 2, 3, 4)) -> Batch:
    counts = np.bincount(CHOSEN, minlength=len(DOMAINS))
    return Batch(draw(ROWS, 5)[list(order)], CHOSEN, counts, counts, np.zeros_like(counts))


def token_losses(model: Transformer, rows: torch.Tensor) -> torch.Tensor:
    """Losses (rows, length - 1) from the model's scores, in float64."""
    rows = rows.long()
    log_shares = torch.log_softmax(model.double().logits(rows[:, :-1]), dim=-1)
    return -log_shares.gather(2, rows[:, 1:, None])[..., 0]
