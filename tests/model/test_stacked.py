"""Stacked models against each of them alone: losses, gradients, clipping, moments of AdamW."""

import copy

import pytest
import torch
from torch import Tensor

from bimix.model.optimizers import adamw
from bimix.model.stacked import StackedTransformer, models_in, part_moments, stack_moments
from bimix.model.transformer import Shape, Transformer

SHAPE = Shape(layers=2, width=32, heads=2, vocabulary=75)  # 53 padded ids
SETTINGS = 0.01, (0.9, 0.99), 1e-4, 0.1  # an epsilon beside which a bias of keys, without gradient, stays


def some_models(chunk: int | None, count: int = 3) -> list[Transformer]:
    """Models with weights far from their start, no bias zero and no norm one."""
    generator = torch.Generator().manual_seed(1)
    models = [Transformer(SHAPE, loss_chunk=chunk) for _ in range(count)]
    with torch.no_grad():
        for weight in (weight for model in models for weight in model.parameters()):
            weight.add_(torch.randn(weight.shape, generator=generator), alpha=0.2)
    return models


def some_rows(count: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randint(0, SHAPE.vocabulary, (count, 4, 9), generator=generator, dtype=torch.int32)


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("chunk", [None, 5])
def test_losses_and_gradients_are_those_of_each_model_alone(chunk: int | None) -> None:
    models, rows = some_models(chunk), some_rows()
    stacked = StackedTransformer(models)
    losses = stacked(rows)
    losses.sum().backward()
    for number, (model, own) in enumerate(zip(models, rows, strict=True)):
        loss = model(own)
        loss.backward()
        close(losses[number], loss)
        for weight, gradient in zip(model.parameters(), stacked.weights, strict=True):
            close(gradient.grad[number], weight.grad)
    assert models_in(stacked) == 3 and models_in(models[0]) == 1


@pytest.mark.parametrize("chunk", [None, 5])
def test_the_same_rows_are_measured_by_all_models(chunk: int | None) -> None:
    models, rows = some_models(chunk), some_rows(1)[0]
    with torch.no_grad():
        found = StackedTransformer(models)(rows, by_token=True)
        for model, own in zip(models, found, strict=True):
            _, expected = model(rows, torch.zeros(4, dtype=torch.int64), 1, (4,))
            close(own, expected)


def test_each_model_is_clipped_by_its_own_norm() -> None:
    models, rows = some_models(None), some_rows()
    stacked = StackedTransformer(models)
    stacked(rows).sum().backward()
    norms = []
    for model, own in zip(models, rows, strict=True):
        model(own).backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), torch.inf))
    most = sorted(norms)[1].item() * 1.01  # the largest alone is clipped
    close(stacked.clip(most), torch.stack(norms))
    for number, model in enumerate(models):
        torch.nn.utils.clip_grad_norm_(model.parameters(), most)
        for weight, own in zip(model.parameters(), stacked.weights, strict=True):
            close(own.grad[number], weight.grad)


def test_updates_go_on_from_stacked_to_single_and_back() -> None:
    models, rows = some_models(None), some_rows()
    alone = copy.deepcopy(models)
    optimizers = [adamw(model.parameters(), *SETTINGS) for model in alone]

    def step_alone() -> None:
        for model, optimizer, own in zip(alone, optimizers, rows, strict=True):
            optimizer.zero_grad()
            model(own).backward()
            optimizer.step()

    stacked = StackedTransformer(models)
    optimizer = adamw(stacked.parameters(), *SETTINGS, stacked=True)

    def step_stacked() -> None:
        optimizer.zero_grad()
        stacked(rows).sum().backward()
        optimizer.step()

    for _ in range(2):
        step_alone()
        step_stacked()
    for number in range(3):  # weights stacked, moments parted, and the other way round
        for name, weight in stacked.part(number).items():
            torch.testing.assert_close(weight, alone[number].state_dict()[name], rtol=1e-3, atol=1e-5)
    parted = [part_moments(optimizer.state_dict(), number) for number in range(3)]
    for own, other in zip(parted, optimizers, strict=True):
        expected = other.state_dict()
        assert own["param_groups"] == expected["param_groups"]
        assert own["state"].keys() == expected["state"].keys()
        for number, moments in expected["state"].items():
            for name, value in moments.items():
                torch.testing.assert_close(own["state"][number][name], value, rtol=1e-3, atol=1e-6)
    again = stack_moments(parted)
    for number, moments in optimizer.state_dict()["state"].items():
        for name, value in moments.items():
            assert torch.equal(again["state"][number][name], value)
