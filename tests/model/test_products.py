"""Products by oneDNN against torch's own, where this processor takes them."""

import pytest
import torch
from torch import nn

from bimix.model import linear


@pytest.mark.parametrize("size", [(6, 5, 24), (1, 3, 24), (7, 24)])
def test_a_layer_and_its_gradients_are_torchs(size: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    ours, theirs = linear.Linear(24, 40), nn.Linear(24, 40)
    theirs.load_state_dict(ours.state_dict())
    left = torch.randn(size).transpose(0, -2).requires_grad_()
    right = left.detach().clone().requires_grad_()
    upstream = torch.randn_like(ours(left))
    torch.testing.assert_close(ours(left), theirs(right))
    ours(left).backward(upstream)
    theirs(right).backward(upstream)
    torch.testing.assert_close(left.grad, right.grad)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_other_precisions_are_left_to_torch() -> None:
    states = torch.randn(3, 8)
    assert linear.by_onednn(states) == linear.HAS_ONEDNN
    assert not linear.by_onednn(states.double())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not linear.by_onednn(states)
        assert linear.Linear(8, 4)(states).dtype == torch.bfloat16
