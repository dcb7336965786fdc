"""Matrix products in fp32 on a CPU by oneDNN, which uses the AVX-512 units of any processor.

torch uses MKL, which on processors that are not Intel's uses only AVX2: half the speed (Zen 5,
torch 2.13; the loss and its gradients differ by rounding only). On Intel's processors MKL is
faster, most of all for the transposed matrices of the backward pass. The operator is the one that
torch's own compiler emits. On a GPU, under autocast, in compiled code and on other processors
torch's default is unchanged.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

HAS_ONEDNN = (
    torch.backends.mkldnn.is_available()
    and torch.backends.cpu.get_cpu_capability() == "AVX512"
    and "Intel" not in torch.cpu.get_capabilities()["cpu_name"]
    and hasattr(torch.ops.mkldnn, "_linear_pointwise")
)


def by_onednn(states: Tensor) -> bool:
    """Whether a product with `states` goes through oneDNN."""
    return (
        HAS_ONEDNN
        and states.device.type == "cpu"
        and states.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


def product(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """left (..., k) times right (n, k) transposed, plus bias (n,), outside autograd."""
    if by_onednn(left):
        return torch.ops.mkldnn._linear_pointwise(left, right, bias, "none", [], "")
    return F.linear(left, right, bias)


def linear(states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """F.linear: states (..., k) times the transpose of weight (n, k), plus bias (n,)."""
    return _Linear.apply(states, weight, bias) if by_onednn(states) else F.linear(states, weight, bias)


class Linear(nn.Linear):
    """nn.Linear that calls `linear`."""

    def forward(self, states: Tensor) -> Tensor:
        return linear(states, self.weight, self.bias)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(states, weight)
        return product(states, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        states, weight = ctx.saved_tensors
        flat = upstream.flatten(0, -2)
        bias_gradient = flat.sum(0) if ctx.needs_input_grad[2] else None
        return product(upstream, weight.T), product(flat.T, states.flatten(0, -2).T), bias_gradient
