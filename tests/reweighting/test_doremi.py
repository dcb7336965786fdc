"""DoReMi's update in float64 by hand, in one or several micro-batches; paths of weights."""

import math

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from reweighting import proxy
from reweighting.proxy import CHOSEN, LENGTH, ROWS, SHAPE, batch, token_losses

from bimix.reweighting import doremi
from bimix.reweighting.doremi import Doremi
from bimix.reweighting.trace import Trace, path_table
from bimix.training.update import Learner

RATE = 0.5


def learner(loss_chunk: int | None = None, micro_batch: int = ROWS, scale: float = 0.3) -> Learner:
    return proxy.learner(RATE, 1e9, loss_chunk, micro_batch, scale)


def test_one_update_equals_the_computation_by_hand() -> None:
    for loss_chunk, micro_batch in ((None, 5), (4, 2), (100, 1)):
        own = learner(loss_chunk, micro_batch)
        reference = learner(scale=0.2).plain.requires_grad_(False)
        method = Doremi(own, reference)
        given = batch()
        by_hand, before = learner().plain, [weight.detach().clone() for weight in own.plain.parameters()]
        loss, norm = method.update(given, 0)

        losses = token_losses(by_hand, given.rows)
        above = (losses - token_losses(learner(scale=0.2).plain, given.rows)).clamp(min=0).detach().numpy()
        excess = np.full(4, math.log(SHAPE.vocabulary))
        for domain in (0, 2, 3):
            excess[domain] = above[domain == CHOSEN].mean()
        weights = np.full(4, 0.25) * np.exp(excess)  # eta is 1 and c is 1e-3, as in the code
        weights = 0.999 * weights / weights.sum() + 0.001 / 4
        counted = torch.tensor(weights[CHOSEN])[:, None].expand(ROWS, LENGTH - 1)
        ((losses * counted).sum() / counted.sum()).backward()

        np.testing.assert_allclose(method.trace.signal, excess, rtol=1e-5)
        np.testing.assert_allclose(method.trace.weights, weights, rtol=1e-5)
        np.testing.assert_allclose(method.trace.average, (weights + 0.25) / 2, rtol=1e-5)
        assert loss.item() == pytest.approx(losses.mean().item(), rel=1e-5)
        squares = 0.0
        for weight, old, wanted in zip(own.plain.parameters(), before, by_hand.parameters(), strict=True):
            torch.testing.assert_close((old - weight) / RATE, wanted.grad.float(), rtol=2e-4, atol=2e-5)
            squares += wanted.grad.square().sum().item()
        assert norm.item() == pytest.approx(math.sqrt(squares), rel=1e-5)


def test_losses_taken_in_a_pass_of_their_own_change_nothing() -> None:
    once, twice = learner(micro_batch=2), learner(micro_batch=2)
    reference = learner(scale=0.2).plain.requires_grad_(False)
    first, second = Doremi(once, reference), Doremi(twice, reference, keep_graphs=False)
    for step in range(2):
        losses = [method.update(batch(), step)[0] for method in (first, second)]
        assert losses[0] == losses[1]
    assert torch.equal(first.trace.average, second.trace.average)
    for one, other in zip(once.plain.parameters(), twice.plain.parameters(), strict=True):
        assert torch.equal(one, other)
    assert (first.forwards, second.forwards) == (2 * ROWS, 4 * ROWS)


def test_weights_sum_to_one_and_keep_their_floor_and_an_absent_domain_its_last_excess() -> None:
    weights = torch.full((5,), 0.2, dtype=torch.float64)
    for excess in np.random.default_rng(0).exponential(3.0, (200, 5)):
        weights = doremi.reweight(weights, torch.from_numpy(excess * [1, 1, 1, 1, 0]))
        assert weights.sum().item() == pytest.approx(1, abs=1e-12)
    assert weights[4].item() == pytest.approx(1e-3 / 5, rel=1e-2)
    assert weights.min() >= 1e-3 / 5
    last, sums = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.0, 6.0, 0.0])
    found = doremi.latest_excess(last, sums, torch.tensor([0, 4, 5]))
    assert found.tolist() == [1.0, 1.5, 0.0]


def test_a_path_resumes_and_ends_at_the_last_step() -> None:
    uniform = torch.full((2,), 0.5, dtype=torch.float64)
    trace = Trace(uniform, torch.zeros_like(uniform), counted=1, every=2)
    again = Trace(uniform, torch.zeros_like(uniform), counted=1, every=2)
    for step, share in enumerate([0.6, 0.7, 0.8], start=1):
        trace.advance(torch.tensor([share, 1 - share], dtype=torch.float64), uniform * step, step)
        again.load_state_dict(trace.state_dict())
    table = path_table(again, 3, ["a", "b"], "excess")
    assert table["step"].to_list() == [0, 0, 2, 2, 3, 3]
    assert table["domain"].to_list() == ["a", "b"] * 3
    assert table["weight"].to_list() == pytest.approx([0.5, 0.5, 0.7, 0.3, 0.8, 0.2])
    assert table["average"].to_list() == pytest.approx([0.5, 0.5, 0.6, 0.4, 0.65, 0.35])
    assert table["excess"].to_list() == pytest.approx([0, 0, 1, 1, 1.5, 1.5])


def test_gradients_are_clipped_together_after_those_of_all_processes_have_met(monkeypatch: pytest.MonkeyPatch) -> None:
    norms = []
    for factor in (1.0, 3.0):

        def meet(accelerator: Accelerator, parameters: list, factor: float = factor) -> None:
            for weight in parameters:
                weight.grad.mul_(factor)

        monkeypatch.setattr(doremi, "reduce_gradients", meet)
        own = proxy.learner(RATE, 0.01)
        before = torch.cat([weight.detach().flatten() for weight in own.plain.parameters()]).clone()
        norms.append(Doremi(own, learner().plain.requires_grad_(False)).update(batch(), 0)[1].item())
        after = torch.cat([weight.detach().flatten() for weight in own.plain.parameters()])
        assert torch.linalg.vector_norm((before - after) / RATE).item() == pytest.approx(0.01, rel=1e-2)
    assert norms[0] > 0.1, "the norm is that before"
    assert norms[1] == pytest.approx(3 * norms[0], rel=1e-5)
