"""Products by oneDNN against torch's own, where this processor takes them."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from bimix.model import linear


def test_a_layer_and_its_gradients_are_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    has = hasattr(torch.ops.mkldnn, "_linear_pointwise")
    for size, onednn in (((6, 5, 24), has), ((6, 5, 24), False), ((7, 24), has)):
        monkeypatch.setattr(linear, "HAS_ONEDNN", onednn)  # slower or faster, any processor has it
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


def test_other_precisions_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    states = torch.randn(3, 8)
    monkeypatch.setattr(linear, "HAS_ONEDNN", True)
    assert linear.by_onednn(states)
    assert not linear.by_onednn(states.double())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not linear.by_onednn(states)
        assert linear.Linear(8, 4)(states).dtype == torch.bfloat16


def test_intels_processors_keep_their_own_products() -> None:
    code = "import torch; torch.cpu.get_capabilities = lambda: {'cpu_name': %r};"
    code += " torch.backends.cpu.get_cpu_capability = lambda: 'AVX512';"
    code += " from bimix.model.linear import HAS_ONEDNN; print(HAS_ONEDNN)"
    given = {"env": {"PYTHONPATH": str(Path(linear.__file__).parents[2])}, "capture_output": True, "text": True}
    names = ("Intel Xeon", "AMD EPYC 9B45")
    found = [subprocess.run([sys.executable, "-c", code % name], **given) for name in names]
    has = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    assert [one.stdout.strip() for one in found] == ["False", str(has)], found
