"""The largest micro-batch that fits into a device's memory: measured with few rows, extrapolated,
then tried once.

The peak of a forward and a backward pass is affine in the rows: weights, moments and gradients,
plus a constant for each row.
"""

import gc
from collections.abc import Callable
from dataclasses import dataclass

import torch
from accelerate import Accelerator
from torch import nn

from bimix.errors import InputError

PROBES = (8, 16)  # rows, whose peaks determine the line
MARGIN = 0.9  # of the memory there is: the allocator's gaps, and what the products' libraries take later
SPELLINGS = (
    "out of memory",  # CUDA, HIP, XPU, MPS; "Triton Error [CUDA]: out of memory"
    "cublas_status_alloc_failed",
    "cudnn_status_alloc_failed",
    "cufft_alloc_failed",
    "cudnn_status_not_supported",  # what cuDNN says when no algorithm fits into the memory left
    "can't allocate memory",  # the CPU's allocator
    "not enough memory",
)


@dataclass(frozen=True)
class CudaMemory:
    """The memory of one GPU, by torch's own allocator; sizes in bytes."""

    device: torch.device

    def limit(self) -> int:
        """The most memory that this process may use."""
        return torch.cuda.mem_get_info(self.device)[0] + torch.cuda.memory_reserved(self.device)

    def peak(self, work: Callable[[], None]) -> int:
        """The peak memory of this process during `work`."""
        torch.cuda.reset_peak_memory_stats(self.device)
        work()
        torch.cuda.synchronize(self.device)
        return torch.cuda.max_memory_allocated(self.device)

    def free(self) -> None:
        torch.cuda.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error, or its cause, is one of torch's out-of-memory errors."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, torch.OutOfMemoryError | MemoryError):
            return True
        if isinstance(seen, RuntimeError) and any(words in str(seen).lower() for words in SPELLINGS):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def rows_on_line(rows: tuple[int, int], peaks: tuple[int, int], limit: int) -> int:
    """The most rows with a peak within the margin of `limit` bytes, by a line through two `peaks`."""
    slope = (peaks[1] - peaks[0]) / (rows[1] - rows[0])
    fixed = peaks[0] - slope * rows[0]
    if slope <= 0:
        return rows[1]  # no line: nothing is promised beyond what was seen
    return max(int((MARGIN * limit - fixed) / slope), 1)


def even_part(rows: int, most: int) -> int:
    """Rows of each part, at most `most`; equal parts, for one graph, where a divisor is near."""
    if most >= rows:
        return rows
    divisor = max(part for part in range(1, most + 1) if rows % part == 0)
    return divisor if 2 * divisor >= most else -(-rows // -(-rows // most))


def largest_micro_batch(
    accelerator: Accelerator, model: nn.Module, rows: int, row_length: int, memory: CudaMemory | None = None
) -> int:
    """The micro-batch, at most `rows`, whose forward and backward passes fit into the device's
    memory, the same in all processes.

    Both passes run twice, since an update of several parts keeps the gradients of the first, and
    memory is reserved for the optimizer's two moments. On a CPU, whose memory is not measured, all
    rows. Errors: not even one row fits.
    """
    if memory is None:
        if accelerator.device.type != "cuda":
            return rows
        memory = CudaMemory(accelerator.device)
    moments = [torch.empty_like(weight) for weight in model.parameters() for _ in range(2)]

    def passes(size: int) -> None:
        trial = torch.zeros(size, row_length, dtype=torch.int32, device=accelerator.device)
        for _ in range(2):
            with accelerator.no_sync(model):
                accelerator.backward(model(trial).sum())

    def attempt(size: int) -> int | None:
        """The peak with `size` rows, None where memory ran out."""
        peak = None
        try:
            peak = memory.peak(lambda: passes(size))
        except Exception as error:  # each library has a type of its own for it
            if not is_out_of_memory(error):
                raise
        # outside the handler, whose traceback would keep the activations
        model.zero_grad(set_to_none=True)
        gc.collect()
        memory.free()
        return peak

    def least(number: int) -> int:
        """The minimum over all processes."""
        return int(accelerator.gather(torch.tensor([number], device=accelerator.device)).min())

    few = tuple(min(probe, rows) for probe in PROBES)
    size = rows
    if few[1] < rows:
        # uncompiled: their graphs would not be used again, and the peaks are higher, so the line is safe
        with torch.compiler.set_stance("force_eager"):
            peaks = attempt(few[0]), attempt(few[1])
        size = few[0] if None in peaks else rows_on_line(few, peaks, memory.limit())
    size = least(even_part(rows, size))
    while not least(attempt(size) is not None):
        if size == 1:
            raise InputError(
                "Not one row of an update fits into the device's memory: give the model more memory, or a number of"
                " tokens as `loss_chunk` in its `launch`."
            )
        size = even_part(rows, size // 2)
    del moments
    return size
