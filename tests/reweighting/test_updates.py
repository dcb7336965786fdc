"""What an update of DoGE and DoReMi tells beside its weights: loss, costs, what is saved."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from reweighting import proxy
from reweighting.proxy import ROWS, batch, draw, token_losses

from bimix.model.transformer import Transformer
from bimix.reweighting import doge, doremi
from bimix.reweighting.doge import Doge
from bimix.reweighting.doremi import Doremi
from bimix.training.update import Learner


def learner(micro_batch: int = ROWS, largest_norm: float = 1e9) -> Learner:
    return proxy.learner(0.1, largest_norm, None, micro_batch)


def mean_loss(model: Transformer, rows: torch.Tensor) -> float:
    return token_losses(model, rows).mean().item()


def test_the_loss_of_an_update_is_the_mean_of_its_batch() -> None:
    wanted = mean_loss(learner().plain, batch().rows)
    own = learner(2)
    store = SimpleNamespace(domains=["x"], sizes=[3], read=lambda owners, numbers: draw(3, 7).numpy()[numbers])
    mix = doge.Mix(store, 2)
    loss, _ = Doge(own, doge.reserve(own.session), mix).update(batch(), 0)
    assert loss.item() == pytest.approx(wanted, rel=1e-5)
    own = learner(2)
    reference = learner().plain.requires_grad_(False)
    loss, _ = Doremi(own, reference, 1.0, 1e-3).update(batch(), 0)
    assert loss.item() == pytest.approx(wanted, rel=1e-5)


def test_gradients_of_doremi_are_clipped_together() -> None:
    own = learner(largest_norm=0.01)
    before = torch.cat([weight.detach().flatten() for weight in own.plain.parameters()]).clone()
    _, norm = Doremi(own, learner().plain.requires_grad_(False), 1.0, 1e-3).update(batch(), 0)
    after = torch.cat([weight.detach().flatten() for weight in own.plain.parameters()])
    assert norm > 0.1, "the norm is that before"
    assert torch.linalg.vector_norm((before - after) / 0.1).item() == pytest.approx(0.01, rel=1e-2)


def test_gradients_of_all_processes_meet_before_they_are_clipped(monkeypatch: pytest.MonkeyPatch) -> None:
    norms = []
    for factor in (1.0, 3.0):

        def meet(accelerator: Accelerator, parameters: list, factor: float = factor) -> None:
            for weight in parameters:
                weight.grad.mul_(factor)

        monkeypatch.setattr(doremi, "reduce_gradients", meet)
        own = learner(largest_norm=0.01)
        norms.append(Doremi(own, learner().plain.requires_grad_(False), 1.0, 1e-3).update(batch(), 0)[1].item())
    assert norms[1] == pytest.approx(3 * norms[0], rel=1e-5)


def test_weights_move_by_the_score_over_the_regularization() -> None:
    weights, scores = torch.tensor([[0.2, 0.8], [0.03, 0.01]], dtype=torch.float64)
    moved = np.array([0.2 * math.exp(3), 0.8 * math.exp(1)])
    assert doge.reweight(weights, scores).tolist() == pytest.approx((moved / moved.sum()).tolist())
    smoothed = 0.7 * moved / moved.sum() + 0.15
    assert doremi.reweight(weights, scores, 100, 0.3).tolist() == pytest.approx(smoothed.tolist())
    assert doremi.row_weights(
        torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64), torch.tensor([4, 0, 1])
    ).tolist() == pytest.approx([0.2 / 1.3, 0.3 / 1.3, 0.5 / 1.3])
