"""The name of torch's attention kernel."""

import torch
from torch.nn.attention import SDPBackend

from bimix.model.transformer import Shape


def attention_kernel(shape: Shape, length: int, device: torch.device, precision: str) -> str:
    """The name of the kernel that torch chooses for causal attention in training, with the recipe's precision."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    heads = torch.zeros(1, shape.heads, length, shape.head_width, device=device, dtype=dtype, requires_grad=True)
    return SDPBackend(torch._fused_sdp_choice(heads, heads, heads, is_causal=True)).name.lower()
