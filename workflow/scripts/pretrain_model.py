"""Pretrain one model on one mixture, from the start or from its last checkpoint.

token index of both splits, mixture, shape, recipe -> losses.parquet, model.safetensors, run.json (and state/)
"""

import argparse
import json
import os
import platform
import signal
import sys
import time
from pathlib import Path

import accelerate
import numpy as np
import polars as pl
import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs
from safetensors.torch import save_file
from tokenizers import Tokenizer

from bimix import checkpoints
from bimix.errors import InputError, run
from bimix.mixtures import check_mixture
from bimix.model import Shape, Transformer
from bimix.outputs import replacing, write_json, write_table
from bimix.rowstore import RowStore
from bimix.training import Recipe, agree, batches, build_optimizer, evaluate, update

STOPPED = 75  # the sysexits code for "try again": state is saved, the run is not finished
PROGRESS_SECONDS = 10


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", type=Path, required=True, help="token index of the training split, parquet")
    parser.add_argument("--validation", type=Path, required=True, help="token index of the validation split, parquet")
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json, for the size of the vocabulary")
    parser.add_argument("--mixture", type=Path, required=True, help="{domain: proportion}, JSON")
    parser.add_argument("--shape", type=json.loads, required=True, help="layers, width and heads, JSON")
    parser.add_argument("--recipe", type=json.loads, required=True, help="fields of training.Recipe, JSON")
    parser.add_argument("--processes", type=int, required=True, help="processes asked of the launcher")
    parser.add_argument("--micro-batch", type=int, required=True, help="rows at once on one process")
    parser.add_argument("--loss-chunk", type=int, required=True, help="tokens whose scores exist at once; 0: all")
    parser.add_argument("--cpu", action="store_true", help="train on the CPU even where there is a GPU")
    parser.add_argument("--max-seconds", type=float, help="save the state and stop after so long")
    parser.add_argument("--state", type=Path, required=True, help="folder of the checkpoints")
    parser.add_argument("--losses", type=Path, required=True, help="step, tokens, domain, loss; parquet")
    parser.add_argument("--weights", type=Path, required=True, help="weights, safetensors")
    parser.add_argument("--report", type=Path, required=True, help="run.json")
    options = parser.parse_args(argv)

    started = time.monotonic()
    recipe = Recipe(**options.recipe)
    accelerator = Accelerator(
        cpu=options.cpu,
        mixed_precision=recipe.precision,
        kwargs_handlers=[DistributedDataParallelKwargs(gradient_as_bucket_view=True)],
    )
    if accelerator.num_processes != options.processes:
        raise InputError(
            f"{options.processes} processes were asked for but {accelerator.num_processes} started;"
            f" check the launcher's --num_processes and --multi_gpu."
        )
    threads = int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads()))
    torch.set_num_threads(threads)

    train_index, validation_index = pl.read_parquet(options.train), pl.read_parquet(options.validation)
    mixture = json.loads(options.mixture.read_text(encoding="utf-8"))
    domains = sorted(validation_index["domain"].unique().to_list())
    check_mixture(mixture, domains, options.mixture)
    shape = Shape(**options.shape, vocabulary=Tokenizer.from_file(str(options.tokenizer)).get_vocab_size())
    proportions = np.array([mixture.get(domain, 0.0) for domain in domains])
    train, validation = RowStore(train_index, domains, open_rows), RowStore(validation_index, domains, open_rows)
    held = [validation.first(number, recipe.validation_rows) for number in range(len(domains))]

    leads = accelerator.is_main_process
    if leads:
        held_lock = checkpoints.lock(options.state)  # noqa: F841 (alive as long as this function runs)
        checkpoints.claim(options.state, fingerprint(shape, recipe, mixture, train_index, validation_index))
    accelerator.wait_for_everyone()

    torch.manual_seed(recipe.seed)
    model = Transformer(shape, loss_chunk=options.loss_chunk or None)
    state, complaints = checkpoints.load_latest(options.state)
    step, taken, history, seconds = 0, np.zeros(len(domains), dtype=np.int64), [], 0.0
    if state is not None:
        model.load_state_dict(state["model"])
        step, history, seconds = state["step"], state["history"], state["seconds"]
        taken = np.array(state["taken"], dtype=np.int64)
    optimizer = build_optimizer(model.to(accelerator.device), recipe)
    if state is not None:
        optimizer.load_state_dict(state["optimizer"])
    plain = model
    model, optimizer = accelerator.prepare(model, optimizer)
    for complaint in complaints:
        accelerator.print(complaint, file=sys.stderr)
    accelerator.print(
        f"{shape.parameters:,} parameters on {accelerator.device} x {accelerator.num_processes},"
        f" update {step} of {recipe.steps}",
        file=sys.stderr,
    )

    def save() -> None:
        if leads:
            parts = {"model": plain.state_dict(), "optimizer": optimizer.optimizer.state_dict(), "step": step}
            so_far = seconds + time.monotonic() - started
            parts |= {"taken": taken.tolist(), "history": history, "seconds": so_far}
            checkpoints.save(options.state, step, parts)

    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, frame: signals.append(received))

    def wants_to_stop() -> bool:
        late = options.max_seconds is not None and time.monotonic() - started > options.max_seconds
        return bool(signals) or late

    begun, first, said = time.monotonic(), step, time.monotonic()
    row_tokens = train.row_length
    feed = batches(train, proportions, recipe, taken, accelerator.process_index, accelerator.num_processes)
    while step < recipe.steps:
        rows, taken = next(feed)
        loss, norm = update(accelerator, model, optimizer, rows, recipe, step, options.micro_batch)
        step += 1
        if recipe.evaluates(step):
            check_finite(accelerator, loss, norm, step, recipe)
            losses = evaluate(accelerator, model, held, options.micro_batch)
            history.append([step, losses])
            mean = sum(losses) / len(losses)
            accelerator.print(f"step {step}: average validation loss {mean:.4f}", file=sys.stderr, flush=True)
            save()
        if time.monotonic() - said > PROGRESS_SECONDS:
            said = time.monotonic()
            speed = (step - first) / (said - begun)
            accelerator.print(
                f"step {step}/{recipe.steps}, loss {accelerator.reduce(loss).item():.4f},"
                f" {speed * recipe.batch_rows * row_tokens:,.0f} tokens/s, {(recipe.steps - step) / speed:,.0f} s left",
                file=sys.stderr,
                flush=True,
            )
        if step < recipe.steps and agree(accelerator, wants_to_stop):
            save()
            accelerator.print(f"Stopped at step {step} with its state saved; start again to go on.", file=sys.stderr)
            return STOPPED

    if leads:
        seconds += time.monotonic() - started
        write_outputs(options, shape, recipe, plain, domains, history, row_tokens, seconds, accelerator)
    accelerator.wait_for_everyone()
    accelerator.end_training()
    return 0


def open_rows(path: str, dtype: str, rows: int) -> np.ndarray:
    """Map one file of `rows` rows; a file of another size is refused."""
    mapped = np.memmap(path, dtype=np.dtype(dtype).newbyteorder("<"), mode="r")
    if len(mapped) % rows:
        raise InputError(f"{path} holds {len(mapped)} ids, which do not make {rows} rows; tokenise its shard again.")
    return mapped.reshape(rows, -1)


def fingerprint(shape: Shape, recipe: Recipe, mixture: dict, train: pl.DataFrame, validation: pl.DataFrame) -> dict:
    """What defines a run's result: two runs of one fingerprint give the same losses."""
    settings = {f"shape.{key}": value for key, value in vars(shape).items()}
    settings |= {f"training.{key}": value for key, value in vars(recipe).items()}
    settings |= {f"mixture.{domain}": share for domain, share in mixture.items()}
    for name, index in (("train", train), ("validation", validation)):
        rows = index.group_by("domain").agg(pl.col("rows").sum(), pl.col("tokens").sum()).sort("domain")
        settings |= {f"{name}.{domain}": f"{count} rows, {tokens} tokens" for domain, count, tokens in rows.iter_rows()}
    return settings


def check_finite(accelerator: Accelerator, loss: torch.Tensor, norm: torch.Tensor, step: int, recipe: Recipe) -> None:
    """Stop a run whose loss or gradient is not a number before it overwrites a good checkpoint."""
    mean = accelerator.reduce(loss.detach().clone()).item()
    if not np.isfinite(mean) or not np.isfinite(float(norm)):
        raise InputError(
            f"At step {step} the loss is {mean} and the gradient norm {float(norm)} (rate {recipe.rate(step - 1):.3g});"
            f" the last checkpoint is kept. Lower the learning rate or look at the data."
        )


def write_outputs(options, shape, recipe, model, domains, history, row_tokens, seconds, accelerator) -> None:
    """Losses, weights and report, each whole; the losses last, since they are what the later stages wait for."""
    step_tokens = recipe.batch_rows * row_tokens
    tokens = recipe.steps * step_tokens
    flops = tokens * shape.flops_per_token(row_tokens)
    write_json(
        options.report,
        {
            "parameters": shape.parameters,
            "tokens": tokens,
            "flops": flops,
            "seconds": round(seconds, 1),
            "tokens_per_second": round(tokens / seconds),
            "processes": accelerator.num_processes,
            "device": torch.cuda.get_device_name() if accelerator.device.type == "cuda" else platform.processor(),
            "gpu_hours": accelerator.num_processes * seconds / 3600 if accelerator.device.type == "cuda" else 0.0,
            "seed": recipe.seed,
            "shape": vars(shape),
            "recipe": vars(recipe),
            "versions": {
                "python": platform.python_version(),
                "torch": torch.__version__,
                "accelerate": accelerate.__version__,
                "numpy": np.__version__,
            },
        },
    )
    weights = {name: weight.detach().cpu().contiguous() for name, weight in model.state_dict().items()}
    with replacing(options.weights) as temporary:
        save_file(weights, temporary, metadata={"shape": json.dumps(vars(shape))})
    table = [
        (step, step * step_tokens, domain, loss)
        for step, losses in history
        for domain, loss in zip(domains, losses, strict=True)
    ]
    schema = {"step": pl.Int64, "tokens": pl.Int64, "domain": pl.String, "loss": pl.Float64}
    write_table(pl.DataFrame(table, schema=schema, orient="row"), options.losses)


if __name__ == "__main__":
    sys.exit(run(main))
