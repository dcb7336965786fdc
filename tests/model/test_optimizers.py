"""Muon and AdamW as one optimizer: whose weights are whose, torch's steps, state to the byte."""

import io

import torch
from torch import Tensor

from bimix.model.optimizers import MuonAndAdamW, hidden_matrices
from bimix.model.transformer import Shape, Transformer

SHAPE = Shape(layers=2, width=16, heads=2, vocabulary=100)
SETTINGS = (0.01, (0.9, 0.99), 1e-8, 0.1)


def made() -> tuple[Transformer, MuonAndAdamW]:
    torch.manual_seed(0)
    model = Transformer(SHAPE)
    return model, MuonAndAdamW(model, *SETTINGS)


def advance(model: Transformer, optimizer: MuonAndAdamW, updates: range) -> list[dict[str, Tensor]]:
    """Make updates along drawn gradients; gives the gradients of each."""
    seen = []
    for number in updates:
        generator = torch.Generator().manual_seed(number)
        for weight in model.parameters():
            weight.grad = torch.randn(weight.shape, generator=generator)
        seen.append({name: weight.grad.clone() for name, weight in model.named_parameters()})
        optimizer.step()
        optimizer.zero_grad()
    return seen


def test_matrices_of_blocks_are_muons_and_all_else_takes_adamws_steps() -> None:
    model, optimizer = made()
    names = {name.removeprefix("blocks.0.") for name in hidden_matrices(model) if name.startswith("blocks.0.")}
    assert names == {f"{part}.weight" for part in ("attention.query_key_value", "attention.out", "mlp_in", "mlp_out")}
    shapes = [tuple(part.shape) for part in optimizer.muon.param_groups[0]["params"]]
    assert shapes == [(16, 16)] * 4 + [(64, 16), (16, 64)] + [(16, 16)] * 4 + [(64, 16), (16, 64)]
    others = {id(weight) for group in optimizer.adamw.param_groups for weight in group["params"]}
    matrices = hidden_matrices(model)
    assert others == {id(weight) for name, weight in model.named_parameters() if name not in matrices}
    # all other weights take adamws steps
    model, optimizer = made()
    name = "embedding.weight"
    alone = torch.nn.Parameter(dict(model.named_parameters())[name].detach().clone())
    reference = torch.optim.AdamW([alone], lr=0.01, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1, fused=True)
    for gradients in advance(model, optimizer, range(3)):
        alone.grad = gradients[name].clone()
        reference.step()
    assert torch.equal(dict(model.named_parameters())[name], alone)


def test_a_matrix_takes_torchs_own_steps() -> None:
    for name in ("blocks.1.mlp_in.weight", "blocks.0.attention.query_key_value.weight"):
        model, optimizer = made()
        before = dict(model.named_parameters())[name].detach().clone()
        parts = before.split(16) if "query" in name else [before]
        alone = [torch.nn.Parameter(part.clone()) for part in parts]
        reference = torch.optim.Muon(alone, lr=0.01, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
        for gradients in advance(model, optimizer, range(3)):
            own = gradients[name].split(16) if "query" in name else [gradients[name]]
            for weight, gradient in zip(alone, own, strict=True):
                weight.grad = gradient.clone()
            reference.step()
        after = dict(model.named_parameters())[name]
        assert torch.equal(after, torch.cat(list(alone)))
        # a step of so large a root mean square as AdamW's, 0.2 of the rate, in all directions alike
        model, optimizer = made()
        first = dict(model.named_parameters())[name]
        was = first.detach().clone()
        advance(model, optimizer, range(1))
        for part in (first.detach() - was * (1 - 0.01 * 0.1)).split(16 if "query" in name else len(was)):
            singular = torch.linalg.svdvals(part) / (0.01 * 0.2 * max(part.shape) ** 0.5)
            assert singular.min() > 0.3 and singular.max() < 1.5


def test_a_saved_state_goes_on_to_the_same_bytes() -> None:
    whole, optimizer = made()
    advance(whole, optimizer, range(5))
    model, optimizer = made()
    advance(model, optimizer, range(3))
    buffer = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, buffer)
    buffer.seek(0)
    state = torch.load(buffer, weights_only=True)
    again, optimizer = made()
    again.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    advance(again, optimizer, range(3, 5))
    for name, weight in whole.state_dict().items():
        assert torch.equal(again.state_dict()[name], weight), name


def test_a_rate_set_on_the_groups_is_both_optimizers_rate_even_after_a_state_was_loaded() -> None:
    model, optimizer = made()
    advance(model, optimizer, range(1))
    optimizer.load_state_dict(optimizer.state_dict())
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    advance(model, optimizer, range(1, 2))
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert all(weight.grad is None for weight in model.parameters())


def test_weights_that_are_moved_are_still_the_ones_that_are_stepped() -> None:
    # what Accelerate does to a model of several processes on a CPU, after its optimizer was made
    (still, own), (moved, other) = made(), made()
    for weight in moved.parameters():
        weight.data = weight.data.clone()
    advance(still, own, range(2))
    advance(moved, other, range(2))
    for name, weight in still.state_dict().items():
        assert torch.equal(moved.state_dict()[name], weight), name
