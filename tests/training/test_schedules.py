"""Learning rates against their formulas."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiny_run
import torch
from tiny_run import RECIPE
from torch.nn.parallel import DistributedDataParallel

from bimix.model.transformer import Shape, Transformer
from bimix.training import recipe
from bimix.training.recipe import Recipe
from bimix.training.update import ahead, build_optimizer, update

PEAK, FINAL = 1e-3, 1e-4


def rates(schedule: str, steps: int, at: list[int], warmup_share: float = 0.06, **more: object) -> list[float]:
    own = {"schedule": schedule, "steps": steps, "learning_rate": PEAK, "final_learning_rate": FINAL}
    own = Recipe(**RECIPE | own | {"warmup_share": warmup_share} | more)
    return [own.rate(step) for step in at]


def test_a_schedule_rises_linearly_to_its_peak_and_falls_to_its_end() -> None:
    """The exponential one decays by its factor and never warms up."""
    expected = [PEAK * 10 ** (-step / 200) for step in range(201)]
    assert rates("exponential", 200, list(range(201))) == pytest.approx(expected, rel=1e-12)
    warm = [PEAK * (step + 1) / 12_000 for step in (0, 5999, 11_999)]
    for schedule, halfway, last in (
        ("warm_exponential", 10**-3.5, FINAL),
        ("doremi", FINAL + 0.9e-3 * (1e-10 / 0.9e-3) ** 0.5, FINAL + 1e-10),
        ("cosine", (PEAK + FINAL) / 2, FINAL),
    ):
        found = rates(schedule, 200_000, [0, 5999, 11_999, 12_000, 106_000, 200_000])
        assert found == pytest.approx([*warm, PEAK, halfway, last], rel=1e-9), schedule
    assert rates("doremi", 100, [6, 50, 100], final_learning_rate=PEAK) == [PEAK] * 3


def test_a_recipe_is_read_without_torch() -> None:
    program = "import sys; import bimix.training.recipe; sys.exit('torch' in sys.modules)"
    package = recipe.__file__.removesuffix("bimix/training/recipe.py")
    subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": package}, check=True)


def test_losses_are_measured_at_each_interval_and_at_the_end() -> None:
    assert [step for step in range(1, 41) if Recipe(**RECIPE).evaluates(step)] == [10, 20, 30, 40]
    assert [step for step in range(1, 41) if Recipe(**RECIPE | {"evaluate_every": 30}).evaluates(step)] == [30, 40]


def test_a_key_at_its_default_is_in_no_fingerprint() -> None:
    assert Recipe(**RECIPE | {"pool_share": 1.0}).settings() == RECIPE
    assert Recipe(**RECIPE | {"pool_share": 0.5}).settings() == RECIPE | {"pool_share": 0.5}


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
