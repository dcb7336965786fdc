"""What an update leaves in memory, where several processes share it, and batches made ahead."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiny_run
import torch
from torch.nn.parallel import DistributedDataParallel

from bimix.model.transformer import Shape, Transformer
from bimix.training.recipe import Recipe
from bimix.training.update import ahead, build_optimizer, update

SHAPE = Shape(layers=2, width=32, heads=2, vocabulary=70)


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    """A group of one process, in which a model can be wrapped as for several."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def trained(wrapped: bool, micro_batch: int) -> tuple[list[int], list[torch.Tensor]]:
    """How many storages the gradients have after each part of three updates, and the weights."""
    torch.manual_seed(0)
    model, storages = Transformer(SHAPE), []
    plain = model
    if wrapped:
        model = DistributedDataParallel(plain, gradient_as_bucket_view=True, bucket_cap_mb=1024)

    def backward(loss: torch.Tensor) -> None:
        loss.backward()
        storages.append(len({weight.grad.untyped_storage().data_ptr() for weight in plain.parameters()}))

    accelerator = SimpleNamespace(
        device=torch.device("cpu"),
        num_processes=1,
        no_sync=DistributedDataParallel.no_sync if wrapped else nullcontext,
        backward=backward,
        clip_grad_norm_=torch.nn.utils.clip_grad_norm_,
    )
    recipe = Recipe(**tiny_run.RECIPE | {"batch_rows": 6})
    optimizer, rows = build_optimizer(plain, recipe), torch.randint(0, SHAPE.vocabulary, (6, 9))
    for step in range(3):
        update(accelerator, model, optimizer, rows, recipe, step, micro_batch)
    return storages, list(plain.parameters())


def test_gradients_of_several_parts_stay_in_the_bucket_that_is_sent(group: None) -> None:
    storages, weights = trained(wrapped=True, micro_batch=2)
    apart = len(weights)
    assert storages == [apart, apart, 1, 1, 1, 1, 1, 1, 1]
    _, alone = trained(wrapped=False, micro_batch=2)
    for one, other in zip(weights, alone, strict=True):
        torch.testing.assert_close(one, other)


def test_batches_are_made_a_few_ahead_and_their_error_is_raised_where_they_are_read() -> None:
    made, read = [], []

    def items() -> Iterator[int]:
        for number in range(8):
            made.append(number)
            yield number
        raise OSError("the disk is gone")

    def consume() -> None:
        for number in ahead(items(), depth=3):
            read.append(number)
            assert len(made) <= len(read) + 3

    with pytest.raises(OSError, match="the disk is gone"):
        consume()
    assert read == list(range(8))
    left = ahead(items(), depth=3)
    assert next(left) == 0
    left.close()  # the thread ends with who reads
    assert list(ahead(iter([1, 2]), depth=3)) == [1, 2]
