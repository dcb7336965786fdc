"""Learning rates against their formulas."""

import itertools
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
from bimix.training.recipe import Recipe, schedule_fault
from bimix.training.update import ahead, build_optimizer, update

PEAK, FINAL = 1e-3, 1e-4
ANNEALED = RECIPE | {"steps": 40, "evaluate_every": 5, "schedule": "wsds", "warmup_share": 0.1, "horizons": [10, 20]}


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


def test_wsds_decays_to_each_horizon_and_goes_on_at_the_full_rate() -> None:
    # the authors' own run: horizons 12,500, 26,250 and the end, decays a tenth of them
    ends = (12_500, 26_250, 53_750)
    found = rates("wsds", ends[-1], list(range(ends[-1])), warmup_share=0.04, horizons=ends[:-1])
    assert found[:2150] == pytest.approx([PEAK * (step + 1) / 2150 for step in range(2150)], rel=1e-12)
    for end in ends:
        length = round(end / 10)
        begin = end - length
        assert found[begin - 1] == PEAK and found[end - 1] == pytest.approx(FINAL, rel=1e-12)
        expected = [PEAK - (PEAK - FINAL) * (k + 1) / length for k in range(length)]
        assert found[begin:end] == pytest.approx(expected, rel=1e-9)
    assert set(found[2150:11_250]) == {PEAK}
    for end, following in itertools.pairwise(ends):
        assert set(found[end : following - round(following / 10)]) == {PEAK}


def test_the_losses_of_wsds_are_measured_where_a_decay_ends_and_nowhere_else() -> None:
    own = Recipe(**ANNEALED)
    assert [step for step in range(1, 41) if own.evaluates(step)] == [10, 20, 40]
    assert [own.rate(step - 1) for step in (10, 20, 40)] == pytest.approx([own.final_learning_rate] * 3)
    assert own.rate(10) == own.rate(20) == own.learning_rate
    assert [step for step in range(1, 41) if Recipe(**RECIPE).evaluates(step)] == [10, 20, 30, 40]
    assert [step for step in range(1, 41) if Recipe(**RECIPE | {"evaluate_every": 30}).evaluates(step)] == [30, 40]


def test_keys_at_their_defaults_are_in_no_fingerprint() -> None:
    assert Recipe(**RECIPE | {"horizons": [], "decay_share": 0.1, "pool_share": 1.0}).settings() == RECIPE
    assert Recipe(**ANNEALED | {"decay_share": 0.2}).settings() == ANNEALED | {"decay_share": 0.2}


def test_what_does_not_go_together_in_a_schedule_is_one_sentence() -> None:
    assert schedule_fault(ANNEALED) is None and schedule_fault(RECIPE) is None
    for changes, sentence in (
        ({"horizons": [12]}, "12 is not measured, as losses are every 5 steps (evaluate_every)."),
        ({"horizons": [10, 40]}, "40 is not before the end of the run, 40, which is a horizon anyway."),
        ({"horizons": [5], "warmup_share": 0.2}, "the decay to 5 begins at step 4, before the warm-up ends, 8:"),
        ({"decay_share": 0.8}, "the decay to 20 begins at step 4, before the one before it ends, 10:"),
        ({"schedule": "cosine"}, "only the schedule wsds decays to horizons, and this recipe's is cosine."),
    ):
        key, found = schedule_fault(ANNEALED | {"warmup_share": 0.0} | changes)
        assert key == "horizons" and found.startswith(sentence)
    lowered = "0.001 is above the peak, learning_rate 0.0001: lower it as well."
    assert schedule_fault(RECIPE | {"learning_rate": 1e-4, "final_learning_rate": 1e-3}) == (
        "final_learning_rate",
        lowered,
    )


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
