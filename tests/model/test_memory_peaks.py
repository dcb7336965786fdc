"""The formula of a model's memory against the storages that torch would have, without having them:
fake tensors of the paper's shapes, counted as they come and go.
"""

import weakref
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from benchmarks.eager_memory import eager_peak
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bimix.model import linear
from bimix.model.transformer import Shape, Transformer

BASE = Shape(layers=12, width=768, heads=12, vocabulary=50277)
LARGE = Shape(layers=16, width=2048, heads=32, vocabulary=50277)
THREE = Shape(layers=28, width=2816, heads=22, vocabulary=50277)
SEVEN = Shape(layers=32, width=4096, heads=32, vocabulary=50277)
GIB = 2**30


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


def test_what_is_counted_is_what_lives() -> None:
    with FakeTensorMode(), Living() as living:
        first = torch.zeros(100)
        second = (first.view(10, 10) + 1).T  # a view is no memory
        assert living.now == living.peak == 800
        del first
        assert living.now == 400 and living.peak == 800
        assert second.shape == (10, 10)


def test_the_peak_is_the_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    for shape, rows, chunk, precision in (
        (BASE, 8, None, "bf16"),
        (BASE, 32, 2048, "no"),
        (LARGE, 32, None, "no"),
        (LARGE, 16, 2048, "bf16"),
    ):
        monkeypatch.setattr(linear, "HAS_ONEDNN", False)  # products as on a GPU
        found, said = counted(shape, rows, 1024, chunk, precision), eager_peak(shape, rows, 1024, chunk, precision)
        assert said == pytest.approx(found, rel=1e-3)


def test_the_peaks_of_the_papers_models_are_those_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs/training.md").read_text(encoding="utf-8")
    for name, shape in (("280M", BASE), ("1B", LARGE)):
        for several, where in ((False, "one"), (True, "several")):
            peaks = [eager_peak(shape, rows, 1024, None, "bf16", several) / GIB for rows in (8, 16, 32, 64)]
            assert f"| `{name}` | {where} | {' | '.join(f'{peak:.1f}' for peak in peaks)} |" in page
    for name, shape in (("28 x 2816 | 2.8e9", THREE), ("32 x 4096 | 6.7e9", SEVEN)):
        peaks = [eager_peak(shape, rows, 2048, 2048, "bf16", shards=8) / GIB for rows in (1, 2, 4, 8)]
        assert f"| {name} | {' | '.join(f'{peak:.1f}' for peak in peaks)} |" in page
