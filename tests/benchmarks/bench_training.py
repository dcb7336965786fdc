"""Tokens per second of the training loop, of one model on one device or on several, and beside
nanoGPT's in one run.

workflow/defaults.yaml, rows made in memory -> tokens/s, FLOPs used, peak memory,
share of the time in loading

    python tests/benchmarks/bench_training.py --model proxy --batch-rows 8 --context 128 \
        --vocabulary 2048 --cpu
    python tests/benchmarks/bench_training.py --model 280M --batch-rows 64 --context 1024 \
        --vocabulary 50277 --precision bf16 --compile
    accelerate launch --multi_gpu --num_processes 8 --num_machines 1 --mixed_precision no \
        --dynamo_backend no --main_process_port 0 \
        tests/benchmarks/bench_training.py --model 1B --batch-rows 512 ...

The loop is the project's own: `training.update` on rows that `training.batches` takes from a
`RowStore`. A token is one id of a row, of which the last is never an input, as in run.json.
Utilisation is 6N + 12 L d T FLOPs per token against the best of several products of square matrices
in the same precision, taken between the rounds. The FLOPs of rows that causal attention leaves out
count, as is the custom. With `--nanogpt`, a checkout of github.com/karpathy/nanoGPT, the model of
that folder is trained by that project's plain loop, round about with ours. Both have the same
layers, width, heads, padded vocabulary, context, micro-batch, precision and rows. OMP_NUM_THREADS
sets the threads on a CPU; with one of them its own time counts, without that of other processes.

`--profile` adds one update by kernel: share of the device's time, launches, and which kernel
computes attention.
"""

import argparse
import contextlib
import importlib.util
import io
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import bench
import numpy as np
import polars as pl
import torch
from accelerate import Accelerator
from eager_memory import eager_peak
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from bimix.model.memory import largest_micro_batch
from bimix.model.transformer import Shape, Transformer, attention_kernel
from bimix.training.order import Schedule
from bimix.training.recipe import Recipe
from bimix.training.rows import RowStore
from bimix.training.session import wrapping
from bimix.training.update import ahead, batches, build_optimizer, compile_whole, own_slice, update

DOMAINS, ROWS = 22, 64  # as many domains as the Pile; rows of each that are made up
PRODUCT = {"cpu": 1024, "cuda": 8192}  # width of the square matrices whose product is the yardstick
PRODUCTS = 5
KERNELS = 12  # of a profile that are printed
ATTENTION = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}


def main(argv: list[str] | None = None) -> None:
    parser = bench.parser(__doc__, "--cpu", "--json", "--model", "--vocabulary", "--precision", "--compile", "--rounds")
    parser.add_argument("--batch-rows", type=int, required=True, help="rows of one update, over all processes")
    parser.add_argument("--context", type=int, required=True, help="tokens of a row")
    parser.add_argument("--micro-batch", type=int, help="rows at once on one process (default: the model's entry)")
    parser.add_argument(
        "--loss-chunk", type=int, help="tokens whose scores exist at once, 0: all (default: the model's entry)"
    )
    parser.add_argument("--warm-up", type=int, default=5, help="updates before the first round")
    parser.add_argument("--steps", type=int, default=10, help="updates of one round")
    parser.add_argument("--nanogpt", type=Path, help="folder of a nanoGPT checkout to run beside")
    parser.add_argument("--attention", choices=ATTENTION, help="torch's kernel of attention (default: torch chooses)")
    parser.add_argument("--profile", action="store_true", help="show one update by kernel")
    options = parser.parse_args(argv)
    # the kernel is chosen when a graph is made and, uncompiled, at each call
    with sdpa_kernel(ATTENTION[options.attention]) if options.attention else contextlib.nullcontext():
        measure(parser, options)


def measure(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Make the rounds that the flags ask for and print what they took."""
    config = bench.shipped()
    if options.model not in config["models"]:
        parser.error(f"no model {options.model!r} in workflow/defaults.yaml; it has {', '.join(config['models'])}.")
    entry = config["models"][options.model]
    launch = {"micro_batch": options.batch_rows, "loss_chunk": "all"} | entry["launch"]
    if options.micro_batch is not None:
        launch["micro_batch"] = options.micro_batch
    if options.loss_chunk is not None:
        launch["loss_chunk"] = options.loss_chunk or "all"
    loss_chunk = None if launch["loss_chunk"] == "all" else launch["loss_chunk"]
    settings = {"batch_rows": options.batch_rows, "precision": options.precision}
    recipe = Recipe(**config["training"]["paper"] | settings)

    accelerator = Accelerator(cpu=options.cpu, mixed_precision=recipe.precision, kwargs_handlers=wrapping())
    if options.nanogpt and accelerator.num_processes > 1:
        parser.error("--nanogpt is for one process.")
    store = make_store(options.vocabulary, options.context)
    shape = Shape(**entry["shape"], vocabulary=options.vocabulary)
    torch.manual_seed(recipe.seed)
    model, optimizer = own_model(accelerator, shape, recipe, loss_chunk, options.compile)
    own_rows = -(-recipe.batch_rows // accelerator.num_processes)
    micro_batch = launch["micro_batch"]
    if micro_batch != "auto":
        micro_batch = min(micro_batch, own_rows)
    else:
        micro_batch = largest_micro_batch(accelerator, model, own_rows, store.row_length)
    sides = {"bimix": own_loop(accelerator, model, optimizer, recipe, store, micro_batch)}
    # Read before there is a second model.
    memory, first = warm_up(accelerator, sides["bimix"], options.warm_up)
    if options.nanogpt:
        sides["nanoGPT"] = peer_loop(accelerator, options, shape, recipe, store, micro_batch)
        warm_up(accelerator, sides["nanoGPT"], options.warm_up)
    speeds = {name: [] for name in sides}
    loading, products = [], []
    tokens = options.steps * recipe.batch_rows * store.row_length
    for _ in range(options.rounds):
        products.append(product_flops(accelerator.device, recipe.precision))
        for name, advance in sides.items():
            accelerator.wait_for_everyone()
            started = clock()
            in_loading = advance(options.steps)
            synchronize(accelerator.device)
            seconds = clock() - started
            speeds[name].append(tokens / seconds)
            if name == "bimix":
                loading.append(in_loading / seconds)

    profile = profiled(accelerator, sides["bimix"], shape, store.row_length) if options.profile else {}
    if accelerator.is_main_process:
        device = (
            torch.cuda.get_device_name() if accelerator.device.type == "cuda" else f"{torch.get_num_threads()} threads"
        )
        print(
            f"{shape.layers} x {shape.width}, {shape.heads} heads, {shape.vocabulary:,} ids, {store.row_length} tokens a row,"
            f" {recipe.batch_rows} rows an update, {micro_batch} at once, loss chunk {launch['loss_chunk']}, precision"
            f" {recipe.precision}, {'compiled' if options.compile else 'not compiled'}; {accelerator.num_processes} x"
            f" {accelerator.device.type} ({device}), torch {torch.__version__}"
        )
        for name, values in speeds.items():
            print(f"{name:9} {statistics.median(values):12,.0f} tokens/s   {min(values):,.0f} to {max(values):,.0f}")
        used = statistics.median(speeds["bimix"]) * shape.flops_per_token(store.row_length) / accelerator.num_processes
        print(f"FLOPs     {used / 1e12:12.3f} TFLOP/s a process, {used / max(products):.1%} of a product of matrices")
        print(f"memory    {memory / 2**30:12.2f} GiB at the peak, of one process")
        print(f"loading   {statistics.median(loading):12.2%} of the time")
        numbers = {
            "tokens/s": statistics.median(speeds["bimix"]),
            "TFLOP/s": used / 1e12,
            "of a product": used / max(products),
            "peak GiB": memory / 2**30,
            "eager GiB": eager_peak(
                shape, micro_batch, store.row_length, loss_chunk, recipe.precision, accelerator.num_processes > 1
            )
            / 2**30,
            "loading": statistics.median(loading),
            "rows at once": micro_batch,
            "first update s": first,  # that of a compiled model compiles it
        } | profile
        for name, value in profile.items():
            print(f"{name:9} {value}")
        if options.nanogpt:
            pairs = zip(speeds["bimix"], speeds["nanoGPT"], strict=True)
            numbers["times nanoGPT"] = statistics.median(own / peer for own, peer in pairs)
            print(f"ratio     {numbers['times nanoGPT']:12.3f} times nanoGPT's tokens/s")
        bench.keep(options.json, numbers)
    accelerator.end_training()


def clock() -> float:
    """Seconds of the wall or, where one thread computes on a CPU, its own, without other work on the
    machine.
    """
    alone = torch.get_num_threads() == 1 and not torch.cuda.is_initialized()
    return time.process_time() if alone else time.perf_counter()


def make_store(vocabulary: int, context: int, domains: int = DOMAINS) -> RowStore:
    """Rows of uniformly drawn ids, in memory."""
    dtype = "uint16" if vocabulary <= 2**16 else "uint32"
    rows = np.random.default_rng(0).integers(0, vocabulary, (domains, ROWS, context)).astype(dtype)
    names = [str(number) for number in range(domains)]
    index = pl.DataFrame({"domain": names, "path": names}).with_columns(
        rows=pl.lit(ROWS), tokens=pl.lit(ROWS * context), dtype=pl.lit(dtype)
    )
    return RowStore(index, names, lambda path, dtype, count: rows[int(path)])


def rows_of(accelerator: Accelerator, recipe: Recipe, store: RowStore) -> Iterator[torch.Tensor]:
    """This process's rows of each update, of all domains alike."""
    shares, taken = np.full(len(store.domains), 1 / len(store.domains)), np.zeros(len(store.domains), dtype=np.int64)
    place, on_gpu = (accelerator.process_index, accelerator.num_processes), accelerator.device.type == "cuda"
    own = own_slice(recipe.batch_rows, *place)
    feed = batches(store, Schedule(shares[None]), recipe, taken, recipe.steps, lambda chosen: own, pinned=on_gpu)
    return (batch.rows for batch in (ahead(feed) if on_gpu else feed))


def own_model(
    accelerator: Accelerator, shape: Shape, recipe: Recipe, loss_chunk: int | None, compiled: bool
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Our model and its optimizer, prepared as a training prepares them."""
    model = Transformer(shape, loss_chunk=loss_chunk).to(accelerator.device)
    if compiled:
        compile_whole(model)
    optimizer = build_optimizer(model, recipe)
    return accelerator.prepare_model(model), accelerator.prepare(optimizer)


def own_loop(
    accelerator: Accelerator,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    recipe: Recipe,
    store: RowStore,
    micro_batch: int,
) -> Callable[[int], float]:
    """A function that makes so many updates of our model; it returns the seconds of loading."""
    feed = rows_of(accelerator, recipe, store)
    done = 0

    def advance(steps: int) -> float:
        nonlocal done
        waited = 0.0
        for _ in range(steps):
            started = clock()
            rows = next(feed)
            waited += clock() - started
            update(accelerator, model, optimizer, rows, recipe, done, micro_batch)
            done += 1
        return waited

    return advance


def peer_loop(
    accelerator: Accelerator,
    options: argparse.Namespace,
    shape: Shape,
    recipe: Recipe,
    store: RowStore,
    micro_batch: int,
) -> Callable[[int], float]:
    """The same for nanoGPT: its model, optimizer and loop (train.py), without logging."""
    spec = importlib.util.spec_from_file_location("nanogpt_model", options.nanogpt / "model.py")
    peer = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = peer
    spec.loader.exec_module(peer)
    device = accelerator.device
    size = {"n_layer": shape.layers, "n_head": shape.heads, "n_embd": shape.width, "bias": True, "dropout": 0.0}
    with contextlib.redirect_stdout(io.StringIO()):
        model = peer.GPT(peer.GPTConfig(block_size=store.row_length, vocab_size=shape.padded_vocabulary, **size)).to(
            device
        )
        betas = (recipe.beta1, recipe.beta2)
        optimizer = model.configure_optimizers(recipe.weight_decay, recipe.learning_rate, betas, device.type)
    if options.compile:
        model = torch.compile(model)
    mixed = recipe.precision == "bf16"
    feed = rows_of(accelerator, recipe, store)
    parts = -(-recipe.batch_rows // micro_batch)
    done = 0

    def take() -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Inputs and targets of one update's micro-batches, as train.py's get_batch."""
        rows = next(feed).long()
        pairs = []
        for start in range(0, len(rows), micro_batch):
            part = rows[start : start + micro_batch]
            pair = part[:, :-1].contiguous(), part[:, 1:].contiguous()
            if device.type == "cuda":
                pair = tuple(tensor.pin_memory().to(device, non_blocking=True) for tensor in pair)
            pairs.append(pair)
        return pairs

    upcoming = take()

    def advance(steps: int) -> float:
        nonlocal done, upcoming
        for _ in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = recipe.rate(done)
            current = upcoming
            for inputs, targets in current:
                with torch.autocast(device.type, dtype=torch.bfloat16) if mixed else contextlib.nullcontext():
                    _, loss = model(inputs, targets)
                    loss = loss / parts
                if inputs is current[0][0]:
                    upcoming = take()
                loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), recipe.max_gradient_norm)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            done += 1
        return 0.0

    return advance


def warm_up(accelerator: Accelerator, advance: Callable[[int], float], steps: int) -> tuple[int, float]:
    """Make updates before the timed ones; peak bytes so far, and seconds of the first one."""
    started = clock()
    advance(1)
    synchronize(accelerator.device)
    first = clock() - started
    advance(steps - 1)
    synchronize(accelerator.device)
    if accelerator.device.type == "cuda":
        return torch.cuda.max_memory_allocated(), first
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, first


def profiled(accelerator: Accelerator, advance: Callable[[int], float], shape: Shape, row_length: int) -> dict:
    """One update by kernel, on a CPU by operator: how many were launched, the name of that of
    attention, and those that take the most of the time with their shares.
    """
    on_gpu = accelerator.device.type == "cuda"
    activity = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[activity.CUDA if on_gpu else activity.CPU]) as profile:
        advance(1)
        synchronize(accelerator.device)
    seen = [
        (one.key, one.self_device_time_total if on_gpu else one.self_cpu_time_total, one.count)
        for one in profile.key_averages()
    ]
    times = [(name, time) for name, time, _ in seen if time > 0]
    whole = sum(time for _, time in times) or 1.0
    longest = sorted(times, key=lambda one: -one[1])[:KERNELS]
    return {
        "launches": sum(count for _, time, count in seen if time > 0),
        "attention": attention_kernel(shape, row_length - 1, accelerator.device, accelerator.mixed_precision),
    } | {f"kernel {place}": f"{time / whole:.1%} {name[:60]}" for place, (name, time) in enumerate(longest, 1)}


def product_flops(device: torch.device, precision: str) -> float:
    """FLOP/s of the fastest product of two square matrices in the matrix units' precision."""
    width = PRODUCT[device.type]
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    left, right = torch.randn(2, width, width, device=device).to(kind)
    seconds = []
    for _ in range(PRODUCTS):
        synchronize(device)
        started = clock()
        torch.nn.functional.linear(left, right)
        synchronize(device)
        seconds.append(clock() - started)
    return 2 * width**3 / min(seconds)


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all that was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main()
