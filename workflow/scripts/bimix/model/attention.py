"""The kernel of torch that computes attention, by its name."""

from collections.abc import Iterable

import torch
from torch.nn.attention import SDPBackend

from bimix.model.transformer import Shape

KERNELS = ("sdpa", "flash", "fmha", "attention")  # in the names of CUDA kernels of fused attention


def backend_name(shape: Shape, length: int) -> str:
    """The backend that torch takes on a CPU for causal attention, in fp32 and bf16 alike."""
    heads = torch.zeros(1, shape.heads, length, shape.head_width, requires_grad=True)
    return SDPBackend(torch._fused_sdp_choice(heads, heads, heads, is_causal=True)).name.lower()


def kernel_name(seconds: Iterable[tuple[str, float]]) -> str:
    """The kernel of fused attention that took longest, of the (name, time) of all kernels of an
    update; `math` where none is one, `not known` where there are no kernels.

    Triton's kernels are named after all that they compute around it.
    """
    # what has no time is a call of the host's
    kernels = [(time, name) for name, time in seconds if time > 0 and not name.startswith("triton_")]
    fused = [one for one in kernels if any(part in one[1].lower() for part in KERNELS)]
    return max(fused)[1] if fused else "math" if kernels else "not known"
