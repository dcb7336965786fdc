"""Selects torch's attention kernel, and determines the name of the kernel in use."""

from collections.abc import Iterable

import torch
from torch.nn.attention import SDPBackend

from bimix.errors import InputError
from bimix.model.transformer import Shape

# Torch's switch for each backend of scaled_dot_product_attention; they apply on a CPU, too
SWITCHES = {
    "flash": torch.backends.cuda.enable_flash_sdp,
    "cudnn": torch.backends.cuda.enable_cudnn_sdp,
    "math": torch.backends.cuda.enable_math_sdp,
    "efficient": torch.backends.cuda.enable_mem_efficient_sdp,
}
KERNELS = ("sdpa", "flash", "fmha", "attention")  # in the names of CUDA kernels of fused attention


def choose_attention(name: str, device: str, precision: str) -> None:
    """Set the attention kernel of this process; `auto`: torch chooses.

    This is global, not a context: a graph compiled later uses the kernel that is allowed when it is
    compiled. Errors: the kernel does not exist for the device or precision, where torch would stop
    with a backtrace.
    """
    if name == "cudnn" and device == "cpu":
        raise InputError("launch, attention: cudnn is of GPUs alone; set it to auto, flash or math.")
    if name in ("flash", "cudnn") and device == "cuda" and precision == "no":
        raise InputError(f"launch, attention: {name} computes in bf16, not in fp32; set it to auto or math.")
    for kernel, switch in SWITCHES.items():
        switch(name in ("auto", kernel))


def backend_name(shape: Shape, length: int) -> str:
    """Torch's backend for causal attention on a CPU, in fp32 and bf16."""
    heads = torch.zeros(1, shape.heads, length, shape.head_width, requires_grad=True)
    return SDPBackend(torch._fused_sdp_choice(heads, heads, heads, is_causal=True)).name.lower()


def kernel_name(seconds: Iterable[tuple[str, float]]) -> str:
    """The fused attention kernel that took longest among the (name, time) of all kernels of an
    update; `math` if none is fused, `not known` if there are no kernels.

    Names of Triton's kernels list all operations that are fused into them.
    """
    # entries without a time are calls of the host
    kernels = [(time, name) for name, time in seconds if time > 0 and not name.startswith("triton_")]
    fused = [one for one in kernels if any(part in one[1].lower() for part in KERNELS)]
    return max(fused)[1] if fused else "math" if kernels else "not known"
