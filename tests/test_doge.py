"""DoGE's update against a computation in float64 by hand: clipping, absent domains, scores, averages, targets elsewhere."""

import math
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch
from accelerate import Accelerator

from bimix import doge
from bimix.doge import Doge, Targets
from bimix.model import Shape, Transformer
from bimix.rowstore import RowStore
from bimix.session import Running
from bimix.training import Batch

SHAPE = Shape(layers=1, width=16, heads=2, vocabulary=30)
DOMAINS = ["ants", "bees", "cats", "dogs"]
ROWS, LENGTH, RATE = 5, 9, 0.02
CHOSEN = np.array([2, 0, 0, 2, 3])  # no row of bees


def running(largest_norm: float, loss_chunk: int | None = None, micro_batch: int = ROWS) -> Running:
    """A proxy about to be trained by plain gradient descent, so that its move tells the gradient."""
    torch.manual_seed(0)
    plain = Transformer(SHAPE, loss_chunk=loss_chunk)
    for weight in plain.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    recipe = SimpleNamespace(rate=lambda step: RATE, batch_rows=ROWS, max_gradient_norm=largest_norm, steps=3, seed=1)
    session = SimpleNamespace(accelerator=Accelerator(cpu=True), shape=SHAPE, recipe=recipe, domains=DOMAINS)
    return Running(session, plain, plain, torch.optim.SGD(plain.parameters(), lr=RATE), micro_batch)


def draw(rows: int, seed: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, SHAPE.vocabulary, (rows, LENGTH)).astype(np.int32))


def batch() -> Batch:
    counts = np.bincount(CHOSEN, minlength=len(DOMAINS))
    return Batch(draw(ROWS, 5), CHOSEN, counts, counts)


def gradient(rows: torch.Tensor) -> np.ndarray:
    """Gradient of the mean loss of `rows` in float64, flat."""
    model, rows = running(1.0).plain.double(), rows.long()
    log_shares = torch.log_softmax(model.logits(rows[:, :-1]), dim=-1)
    (-log_shares.gather(2, rows[:, 1:, None]).mean()).backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters()]).numpy()


def clipped(vector: np.ndarray, largest: float) -> np.ndarray:
    return vector * min(1, largest / (np.linalg.norm(vector) + 1e-6))


def targets() -> Targets:
    """Two targets of three rows each, of which an update reads two."""
    rows = {"x": draw(3, 7).numpy(), "y": draw(3, 8).numpy()}
    index = pl.DataFrame({"domain": ["x", "y"], "path": ["x", "y"]}).with_columns(
        rows=pl.lit(3), tokens=pl.lit(3 * LENGTH), dtype=pl.lit("uint16")
    )
    return Targets(RowStore(index, ["x", "y"], lambda path, dtype, count: rows[path]), rows=2)


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize(("largest_norm", "micro_batch", "loss_chunk"), [(1e9, 5, None), (0.65, 5, None), (0.65, 1, 4)])
def test_one_update_equals_the_computation_by_hand(
    elsewhere: bool, largest_norm: float, micro_batch: int, loss_chunk: int | None
) -> None:
    own, given = running(largest_norm, loss_chunk, micro_batch), batch()
    goals = targets() if elsewhere else None
    before = torch.cat([weight.detach().flatten() for weight in own.plain.parameters()]).clone()
    method = Doge(own, torch.zeros(6 if elsewhere else 4, SHAPE.parameters), 0.01, 5.0, goals)
    last = torch.tensor([0.0, 0.003, 0.0, 0.0], dtype=torch.float64)
    method.trace.signal = last
    loss, norm = method.update(given, 0)

    gradients = {d: gradient(given.rows[torch.from_numpy(d == CHOSEN)]) for d in (0, 2, 3)}
    too_long = [np.linalg.norm(vector) > largest_norm for vector in gradients.values()]
    assert sum(too_long) == (2 if largest_norm < 1 else 0)
    gradients = {d: clipped(vector, largest_norm) for d, vector in gradients.items()}
    scores = last.numpy().copy()
    mean_norm = np.mean([np.linalg.norm(vector) for vector in gradients.values()])
    toward = {}
    if elsewhere:
        numbers = [goals.read(1, 0, process, 2)[0] for process in range(2)]  # as two processes would have them
        read = torch.from_numpy(np.concatenate(numbers))
        toward = {name: clipped(gradient(read[k : k + 2]), largest_norm) for name, k in (("x", 0), ("y", 2))}
    for d, vector in gradients.items():
        others = toward.values() if elsewhere else [other for e, other in gradients.items() if e != d]
        scores[d] = np.clip(RATE * sum(vector @ other for other in others) / (mean_norm + 1e-6), 0, 5 * RATE)
    weights = np.full(4, 0.25) * np.exp(scores / 0.01)
    weights /= weights.sum()
    step = sum(weights[d] * vector for d, vector in gradients.items())

    np.testing.assert_allclose(method.trace.signal, scores, rtol=1e-4, atol=1e-8)
    np.testing.assert_allclose(method.trace.weights, weights, rtol=1e-4)
    np.testing.assert_allclose(method.trace.average, weights, rtol=1e-4)
    after = torch.cat([weight.detach().flatten() for weight in own.plain.parameters()])
    np.testing.assert_allclose((before - after) / RATE, step, rtol=1e-3, atol=2e-4 * np.abs(step).max())
    assert norm.item() == pytest.approx(np.linalg.norm(step), rel=1e-4)
    assert math.isfinite(loss.item())
    first = method.trace.weights
    method.update(given, 1)
    torch.testing.assert_close(method.trace.average, (first + method.trace.weights) / 2)
    assert method.trace.average.sum().item() == pytest.approx(1, abs=1e-12)


def test_a_score_lies_between_nothing_and_its_limit() -> None:
    gradients = torch.tensor([[3.0, 0.0], [30.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    scores = doge.alignment(gradients @ gradients.T, torch.tensor([True] * 3), 0.1, 5.0, torch.zeros(3).double())
    assert scores.tolist() == pytest.approx([0.5, 0.5, 0.0])


def test_targets_are_read_in_turn_and_alike_by_any_number_of_processes() -> None:
    goals = targets()
    whole = [goals.read(1, step, 0, 1) for step in range(3)]
    for step, (rows, owners) in enumerate(whole):
        parts = [goals.read(1, step, process, 3) for process in range(3)]
        assert np.array_equal(np.concatenate([part for part, _ in parts]), rows)
        assert owners.tolist() == [0, 0, 1, 1]
    of_x = np.concatenate([rows[:2] for rows, _ in whole])
    assert len({row.tobytes() for row in of_x[:3]}) == 3  # an epoch of the three rows, then another
    assert len({row.tobytes() for row in of_x}) == 3
