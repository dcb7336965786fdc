"""Rows at once by probes of memory; its peaks by formula."""

import weakref
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from benchmarks.eager_memory import eager_peak
from refusals import refused
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bimix.model import memory
from bimix.model.transformer import Shape, Transformer

GIB = 2**30


class Made:
    """A model of one weight on a device whose bytes are affine in rows, sometimes more."""

    def __init__(self, limit: int, fixed: int, each: int, more: dict[int, int] | None = None) -> None:
        self.bytes, self.fixed, self.each, self.more = limit, fixed, each, more or {}
        self.tried: list[int] = []
        self.kept: list[bool] = []
        self.model = nn.Linear(1, 1)
        self.model.forward = self.forward

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        self.tried.append(len(rows))
        self.kept.append(self.model.weight.grad is not None)
        if self.needed(len(rows)) > self.bytes:
            raise RuntimeError("Triton Error [CUDA]: out of memory")
        return self.model.weight.sum() * rows.float().mean()

    def needed(self, rows: int) -> int:
        return self.fixed + self.each * rows + self.more.get(rows, 0)

    def limit(self) -> int:
        return self.bytes

    def peak(self, work) -> int:
        work()
        return self.needed(self.tried[-1])

    def free(self) -> None:
        pass

    def search(self, rows: int) -> int:
        return memory.largest_micro_batch(Accelerator(cpu=True), self.model, rows, 8, self)


def test_the_rows_follow_from_two_small_probes() -> None:
    for fixed, each, rows, found in (
        (4 * GIB, GIB, 512, 64),  # (0.9 x 80 - 4) / 1 = 68: of 512 in equal parts 64
        (16 * GIB, 4 * GIB, 512, 8),  # 14, of which 8 divides
        (GIB, GIB // 16, 512, 512),
        (4 * GIB, GIB, 12, 12),  # as few as the probes: tried at once
        (4 * GIB, GIB, 97, 49),  # a prime: two parts, one row apart
    ):
        made = Made(80 * GIB, fixed, each)
        assert made.search(rows) == found
        sizes = [8, 16, found] if rows > 16 else [found]
        # each forward and backward pass twice, the second with the first one's gradients kept
        assert made.tried == [size for size in sizes for _ in range(2)]
        assert made.kept == [False, True] * len(sizes)
        assert made.needed(found) <= 80 * GIB
        assert all(weight.grad is None for weight in made.model.parameters())


def test_trials_that_fail_are_halved_and_a_row_that_does_not_fit_is_a_sentence() -> None:
    made = Made(80 * GIB, 4 * GIB, GIB, more={64: 20 * GIB})  # the line does not hold there
    assert made.search(512) == 32
    assert made.tried == [8, 8, 16, 16, 64, 32, 32]
    made = Made(80 * GIB, 4 * GIB, 12 * GIB)
    assert made.search(512) == 4
    assert made.tried == [8, 16, 8, 4, 4]
    refused("Not one row of an update fits", Made(80 * GIB, 79 * GIB, 2 * GIB).search, 512)


SPELLINGS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."),
    MemoryError(),
    RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
    RuntimeError("Triton Error [CUDA]: out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    RuntimeError("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a non-contiguous"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory: you tried"),
    RuntimeError("HIP out of memory. Tried to allocate"),
]


def test_every_spelling_of_out_of_memory_is_known_and_no_other_error() -> None:
    for error in SPELLINGS:
        assert memory.is_out_of_memory(error), error
        wrapped = ValueError("the compiler failed")
        wrapped.__cause__ = error
        assert memory.is_out_of_memory(wrapped)
    for error in (RuntimeError("mat1 and mat2 shapes"), ValueError("out of memory"), OSError("x")):
        assert not memory.is_out_of_memory(error)


BASE = Shape(layers=12, width=768, heads=12, vocabulary=50277)
LARGE = Shape(layers=16, width=2048, heads=32, vocabulary=50277)


class Living(TorchDispatchMode):
    """Counts the bytes of all storages that operators made and that are still there."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes: dict[int, int] = {}
        self.now = self.peak = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                self.note(tensor.untyped_storage())
        return out

    def note(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key not in self.bytes:
            self.bytes[key] = storage.nbytes()
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self.forget, key)

    def forget(self, key: int) -> None:
        self.now -= self.bytes.pop(key)


def counted(shape: Shape, rows: int, row_length: int, chunk: int | None, precision: str) -> int:
    """The peak of two passes, with moments set aside as in the search for a micro-batch."""
    with ExitStack() as stack:
        stack.enter_context(FakeTensorMode())
        living = stack.enter_context(Living())
        model = Transformer(shape, loss_chunk=chunk)
        moments = [torch.empty_like(weight) for weight in model.parameters() for _ in range(2)]
        for _ in range(2):
            given = torch.zeros(rows, row_length, dtype=torch.int32)
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                loss = model(given)
            loss.backward()
        del moments
        return living.peak


def test_the_peak_is_the_formulas() -> None:
    """Of the paper's models with fewer blocks."""
    base, large = (shape.model_copy(update={"layers": 2}) for shape in (BASE, LARGE))
    for shape, rows, chunk, precision in (
        (base, 8, None, "bf16"),
        (base, 32, 2048, "no"),
        (large, 32, None, "no"),
        (large, 16, 2048, "bf16"),
    ):
        found, said = counted(shape, rows, 1024, chunk, precision), eager_peak(shape, rows, 1024, chunk, precision)
        assert said == pytest.approx(found, rel=1e-3)


def test_the_peaks_of_the_papers_models_are_those_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs/training.md").read_text(encoding="utf-8")
    for name, shape in (("280M", BASE), ("1B", LARGE)):
        for several, where in ((False, "one"), (True, "several")):
            peaks = [eager_peak(shape, rows, 1024, None, "bf16", several) / GIB for rows in (8, 16, 32, 64)]
            assert f"| `{name}` | {where} | {' | '.join(f'{peak:.1f}' for peak in peaks)} |" in page
