"""What a GPU does, against what is known: compiled against eager, bf16 against fp32, parts against
the whole, two processes against one, killed against undisturbed.

Those that a CPU can make too are made on both: here the tests themselves are tested. The others are
for a GPU alone, `pytest -m gpu`.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import tiny_run
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch.nn.attention import SDPBackend, sdpa_kernel
from training_runs import SCRIPTS, command

from bimix.model.memory import largest_micro_batch
from bimix.model.transformer import Shape, Transformer
from bimix.training.devices import allowed_devices, busy_devices
from bimix.training.recipe import Recipe
from bimix.training.update import build_optimizer, compile_whole, update

SMALL = Shape(layers=2, width=64, heads=4, vocabulary=270)
RECIPE = Recipe(**tiny_run.RECIPE)
REASON = "there is no CUDA device"
on_gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason=REASON)]
BOTH = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_gpu)])
# on a CPU test_pretraining shows it too
FULL_ON_CPU = pytest.mark.parametrize(
    "device", [pytest.param("cpu", marks=pytest.mark.full), pytest.param("cuda", marks=on_gpu)]
)


def only_on_gpu(test):
    for mark in on_gpu:
        test = mark(test)
    return test


@pytest.fixture(autouse=True)
def as_new() -> Iterator[None]:
    """Neither Accelerate's settings nor what was compiled are left to other tests."""
    torchs_own = {"recompile_limit": 8, "optimize_ddp": True, "fail_on_recompile_limit_hit": False}
    with torch._dynamo.config.patch(**torchs_own):
        AcceleratorState._reset_state(reset_partial_state=True)
        torch.compiler.reset()
        yield
        torch.compiler.reset()
        AcceleratorState._reset_state(reset_partial_state=True)


def made(device: str, shape: Shape = SMALL, chunk: int | None = None) -> Transformer:
    torch.manual_seed(0)
    return Transformer(shape, loss_chunk=chunk).to(device)


def some_rows(count: int, length: int = 33, shape: Shape = SMALL) -> torch.Tensor:
    ids = np.random.default_rng(0).integers(0, shape.vocabulary, (count, length))
    return torch.from_numpy(ids.astype(np.int32))


@only_on_gpu
def test_a_gpu_is_claimed_where_the_real_nvidia_smi_says_that_it_is_free(tmp_path: Path) -> None:
    """This process may itself be the one that computes there; then the claim waits."""
    allowed = allowed_devices(os.environ.get("CUDA_VISIBLE_DEVICES"))
    free = [device for device in allowed if device not in busy_devices()]
    assert allowed
    told = "import os, torch; print(os.environ['CUDA_VISIBLE_DEVICES'], torch.ones(3, device='cuda').sum().item())"
    command = [sys.executable, str(SCRIPTS / "claim_gpus.py"), "--count", "1", "--locks", str(tmp_path / "locks")]
    command += ["--every", "0.1", "--", sys.executable, "-c", told]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if free:
        out, error = started.communicate(timeout=120)
        device, total = out.split()
        assert device in free and total == "3.0", error
    else:
        assert started.stderr.readline() == f"Waiting until 1 of {len(allowed)} GPUs are free.\n"
        started.kill()
        started.communicate()


@pytest.mark.slow
@BOTH
def test_a_compiled_model_has_the_loss_and_the_gradients_of_the_eager_one(device: str) -> None:
    """By torch's own compiler, TorchInductor, on a CPU as on a GPU; the model is small for it."""
    shape = SMALL if device == "cuda" else Shape(layers=1, width=16, heads=2, vocabulary=100)
    for chunk in (None, 32) if device == "cuda" else (None,):
        plain, compiled = (made(device, shape, chunk) for _ in range(2))
        compile_whole(compiled)
        rows = some_rows(4, shape=shape).to(device)
        for model in (plain, compiled):
            model(rows).backward()
        torch.testing.assert_close(compiled(rows), plain(rows), rtol=1e-5, atol=1e-5)
        for one, other in zip(plain.parameters(), compiled.parameters(), strict=True):
            torch.testing.assert_close(other.grad, one.grad, rtol=1e-3, atol=1e-5)


def trained(device: str, precision: str, rows: torch.Tensor, micro_batch: int, steps: int) -> tuple[list[float], dict]:
    """Losses of some updates on the same rows, and the weights after them."""
    AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = Accelerator(cpu=device == "cpu", mixed_precision=precision)
    plain = made(device)
    recipe = Recipe(**tiny_run.RECIPE | {"batch_rows": len(rows), "learning_rate": 1e-3})
    model, optimizer = accelerator.prepare(plain, build_optimizer(plain, recipe))
    losses = [update(accelerator, model, optimizer, rows, recipe, step, micro_batch)[0] for step in range(steps)]
    return [loss.item() for loss in losses], {name: weight.cpu() for name, weight in plain.state_dict().items()}


@BOTH
def test_bf16_learns_what_fp32_learns(device: str) -> None:
    rows = some_rows(8)
    (exact, _), (rounded, weights) = (trained(device, precision, rows, 8, 30) for precision in ("no", "bf16"))
    assert rounded != exact
    assert exact[-1] < exact[0] - 0.3
    assert rounded == pytest.approx(exact, abs=0.03)
    assert {weight.dtype for weight in weights.values()} == {torch.float32}


@FULL_ON_CPU
def test_micro_batches_are_one_batch(device: str) -> None:
    rows = some_rows(8)
    (whole, weights), *cut = (trained(device, "no", rows, size, 4) for size in (8, 1, 3))
    for parts, others in cut:
        assert parts == pytest.approx(whole, abs=1e-5)
        for name, weight in weights.items():
            # where a gradient is nearly zero AdamW's step has the sign of rounding
            torch.testing.assert_close(others[name], weight, rtol=0, atol=2e-3)
            assert (others[name] - weight).abs().mean() < 2e-5, name


@only_on_gpu
@pytest.mark.parametrize("kernel", [SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION])
@pytest.mark.parametrize("length", [1024, 192])
def test_each_kernel_of_attention_has_the_gradients_of_the_plain_one(kernel: SDPBackend, length: int) -> None:
    """At the lengths 1,023 and 191, which kernels that work in blocks of 128 must fill up."""
    rows = some_rows(2, length).cuda()
    gradients = {}
    for name in (kernel, SDPBackend.MATH):
        model = made("cuda")
        for block in model.blocks:  # so that attention looks at some tokens more than at others
            torch.nn.init.normal_(block.attention.query_key_value.weight, std=0.3)
        with sdpa_kernel(name), torch.autocast("cuda", dtype=torch.bfloat16):
            model(rows).backward()
        gradients[name] = [weight.grad for weight in model.parameters()]
    for own, plain in zip(gradients[kernel], gradients[SDPBackend.MATH], strict=True):
        assert torch.isfinite(own).all()
        assert (own - plain).norm() <= 0.03 * plain.norm()


@only_on_gpu
def test_the_size_that_the_probe_finds_fits_and_more_does_not() -> None:
    """Of a device with four GiB: torch may use no more, which the probe does not know."""
    total = torch.cuda.get_device_properties(0).total_memory
    shape, rows = Shape(layers=4, width=512, heads=8, vocabulary=50277), 512
    accelerator, model = Accelerator(), made("cuda", shape)
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(min(1.0, 4 * 2**30 / total))
    try:
        found = largest_micro_batch(accelerator, model, rows, 256)
        assert 1 <= found < rows
        model(some_rows(found, 256, shape).cuda()).backward()
        model.zero_grad(set_to_none=True)
        with pytest.raises(torch.OutOfMemoryError):
            model(some_rows(4 * found, 256, shape).cuda()).backward()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


WORKER = """
import sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
meeting, place, device, backend, scripts, rows = sys.argv[1:]
sys.path.insert(0, scripts)
if device != "cpu":
    torch.cuda.set_device(device)
from bimix.model.transformer import Shape, Transformer
dist.init_process_group(backend, init_method="file://" + meeting, rank=int(place), world_size=2)
torch.manual_seed(0)
model = Transformer(Shape(layers=2, width=64, heads=4, vocabulary=270)).to(device)
wrapped = DistributedDataParallel(model, gradient_as_bucket_view=True)
own = torch.load(rows).chunk(2)[int(place)].to(device)
wrapped(own).backward()
if place == "0":
    torch.save([weight.grad.cpu() for weight in model.parameters()], rows + ".gradients")
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.slow
@FULL_ON_CPU
def test_two_processes_have_the_gradient_of_one(device: str, tmp_path: Path) -> None:
    rows = some_rows(8)
    torch.save(rows, tmp_path / "rows")
    places = ["cpu", "cpu"]
    if device == "cuda":  # two devices where there are two
        places = ["cuda:0", f"cuda:{min(torch.cuda.device_count(), 2) - 1}"]
    words = ["gloo" if device == "cpu" else "nccl", str(SCRIPTS), str(tmp_path / "rows")]
    command = [sys.executable, "-c", WORKER, str(tmp_path / "meeting")]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    workers = [
        subprocess.Popen(
            [*command, str(place), places[place], *words], stderr=subprocess.PIPE, text=True, env=environment
        )
        for place in range(2)
    ]
    try:
        told = [worker.communicate(timeout=180)[1] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    if "Duplicate GPU detected" in "".join(told):
        pytest.skip("NCCL: Duplicate GPU detected")
    assert [worker.returncode for worker in workers] == [0, 0], told
    model = made(device)
    model(rows.to(device)).backward()
    for own, both in zip(model.parameters(), torch.load(f"{tmp_path}/rows.gradients"), strict=True):
        torch.testing.assert_close(both, own.grad.cpu(), rtol=1e-3, atol=1e-5)


def pretraining(corpus: Path, out: Path, device: str) -> list[str]:
    """A run of pretrain_model.py, on a GPU as there: compiled, in bf16, as many rows as fit."""
    on_cpu = device == "cpu"
    precision = "no" if on_cpu else "bf16"
    given = {
        "micro_batch": "auto",
        "shape": {"layers": 1, "width": 32, "heads": 2},
        "steps": 80,
        "precision": precision,
    }
    launch = ("--lock-seconds", "5", *(("--cpu",) if on_cpu else ("--compile", "yes")))
    return command(corpus, out, launch=launch, **given)


@pytest.mark.slow
@FULL_ON_CPU
def test_a_killed_run_goes_on_to_the_losses_of_one_undisturbed(device: str, corpus: Path, tmp_path: Path) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    settings = {"capture_output": True, "text": True, "check": False, "env": environment}
    whole = subprocess.run(pretraining(corpus, tmp_path / "whole/run", device), **settings)
    assert whole.returncode == 0, whole.stderr
    killed = subprocess.Popen(
        pretraining(corpus, tmp_path / "killed/run", device), stderr=subprocess.PIPE, text=True, env=environment
    )
    evaluations = 0
    for line in killed.stderr:
        evaluations += "average validation loss" in line
        if evaluations == 2:
            break
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    resumed = subprocess.run(pretraining(corpus, tmp_path / "killed/run", device), **settings)
    assert resumed.returncode == 0 and "update 0 of 80" not in resumed.stderr, resumed.stderr
    tables = [pl.read_parquet(tmp_path / name / "run/losses.parquet") for name in ("whole", "killed")]
    assert tables[0].height == 8 * 3
    furthest = (tables[0]["loss"] - tables[1]["loss"]).abs().max()
    assert furthest == 0 if device == "cpu" else furthest < 0.02  # atomics sum in any order there
