"""Pretrain one model on one mixture, from the start or from its last checkpoint.

token index of both splits, mixture, shape, recipe -> losses.parquet, model.safetensors, run.json (and state/)
"""

import argparse
import json
import os
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path

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
from bimix.runs import describe, fingerprint, loss_table
from bimix.training import Recipe, Watch, ahead, batches, build_optimizer, evaluate, largest_micro_batch, update

STOPPED = 75  # the sysexits code for "try again": the state is saved, the run is not finished
PROGRESS_SECONDS = 10
LOOK_EVERY = {"cpu": 1, "cuda": 16}  # updates between two looks at the device, each of which waits for it
LOG_EVERY = 16  # updates between two points of a curve in TensorBoard


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    recipe = Recipe(**options.recipe)
    accelerator = start(options, recipe)
    mixture = json.loads(options.mixture.read_text(encoding="utf-8"))
    indices = {split: pl.read_parquet(getattr(options, split)) for split in ("train", "validation")}
    domains = sorted(indices["validation"]["domain"].unique().to_list())
    check_mixture(mixture, domains, options.mixture)
    train, validation = (RowStore(index, domains, open_rows) for index in indices.values())
    held = [validation.first(number, recipe.validation_rows) for number in range(len(domains))]
    shape = Shape(**options.shape, vocabulary=Tokenizer.from_file(str(options.tokenizer)).get_vocab_size())

    held_lock = None
    if accelerator.is_main_process:
        held_lock = checkpoints.lock(options.state)
        checkpoints.claim(options.state, fingerprint(shape, recipe, mixture, indices))
    accelerator.wait_for_everyone()
    accelerator.init_trackers("tensorboard")

    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, frame: signals.append(received))

    begun = time.monotonic()
    torch.manual_seed(recipe.seed)
    plain = Transformer(shape, loss_chunk=None if options.loss_chunk == "all" else int(options.loss_chunk))
    state, complaints = checkpoints.load_latest(options.state)
    for complaint in complaints:
        say(accelerator, complaint)
    if state is None:
        state = {"step": 0, "taken": [0] * len(domains), "history": [], "seconds": 0.0}
    else:
        plain.load_state_dict(state.pop("model"))
    optimizer = build_optimizer(plain.to(accelerator.device), recipe)
    if "optimizer" in state:
        optimizer.load_state_dict(state.pop("optimizer"))
    if options.compile:
        plain.compile(dynamic=False)
    model, optimizer = accelerator.prepare(plain, optimizer)
    own_rows = -(-recipe.batch_rows // accelerator.num_processes)
    if options.micro_batch == "auto":
        micro_batch = largest_micro_batch(accelerator, model, own_rows, train.row_length)
    else:
        micro_batch = int(options.micro_batch)
    say(
        accelerator,
        f"{shape.parameters:,} parameters on {accelerator.num_processes} x {accelerator.device.type}, {micro_batch} of"
        f" {own_rows} rows at once, update {state['step']} of {recipe.steps}",
    )

    def wants_to_stop() -> bool:
        return bool(signals) or (options.max_seconds is not None and time.monotonic() - begun > options.max_seconds)

    def save() -> None:
        if accelerator.is_main_process:
            parts = state | {"model": plain.state_dict(), "optimizer": optimizer.optimizer.state_dict()}
            parts["seconds"] = state["seconds"] + time.monotonic() - begun
            checkpoints.save(options.state, parts)

    feed = batches(
        train,
        np.array([mixture.get(domain, 0.0) for domain in domains]),
        recipe,
        np.array(state["taken"], dtype=np.int64),
        recipe.steps - state["step"],
        accelerator.process_index,
        accelerator.num_processes,
        pinned=accelerator.device.type == "cuda",
    )
    watch, first, first_at, said_at = Watch(accelerator), state["step"], time.monotonic(), time.monotonic()
    for batch in feed if accelerator.device.type == "cpu" else ahead(feed):
        loss, norm = update(accelerator, model, optimizer, batch.rows, recipe, state["step"], micro_batch)
        state["step"] += 1
        state["taken"] = batch.taken.tolist()
        step = state["step"]
        watch.note(step, batch.counts, loss, norm)
        if step % LOOK_EVERY[accelerator.device.type] and not recipe.evaluates(step):
            continue

        stop, bad = watch.look(wants_to_stop)
        if bad is not None:
            raise InputError(not_finite(*bad, domains, recipe))
        speed = (step - first) / (time.monotonic() - first_at)
        tokens_per_second = speed * recipe.batch_rows * train.row_length
        own_loss = float(loss) * accelerator.num_processes
        if time.monotonic() - said_at > PROGRESS_SECONDS:
            said_at = time.monotonic()
            left = (recipe.steps - step) / speed
            progress = f"loss {own_loss:.4f}, {tokens_per_second:,.0f} tokens/s, {left:,.0f} s left"
            say(accelerator, f"step {step}/{recipe.steps}, {progress}")
        if step % LOG_EVERY == 0:
            curves = {"loss": own_loss, "learning_rate": recipe.rate(step - 1), "gradient_norm": float(norm)}
            curves["tokens_per_second"] = tokens_per_second
            accelerator.log({f"training/{name}": value for name, value in curves.items()}, step=step)
        if recipe.evaluates(step):
            losses = evaluate(accelerator, model, held, micro_batch)
            state["history"].append([step, losses])
            by_domain = zip(domains, losses, strict=True)
            accelerator.log({f"validation/{domain}": loss for domain, loss in by_domain}, step=step)
            say(accelerator, f"step {step}: average validation loss {sum(losses) / len(losses):.4f}")
        if recipe.evaluates(step) or stop:
            save()
        if stop and step < recipe.steps:
            say(accelerator, f"Stopped at step {step} with the state saved; start again to go on.")
            return STOPPED

    if accelerator.is_main_process:
        seconds = state["seconds"] + time.monotonic() - begun
        write_json(options.report, describe(shape, recipe, train.row_length, seconds, accelerator))
        weights = {name: weight.detach().cpu().contiguous() for name, weight in plain.state_dict().items()}
        with replacing(options.weights) as temporary:
            save_file(weights, temporary, metadata={"shape": json.dumps(asdict(shape))})
        # last, since they are what the later stages wait for
        write_table(loss_table(state["history"], domains, recipe.batch_rows * train.row_length), options.losses)
        held_lock.close()
    accelerator.wait_for_everyone()
    accelerator.end_training()
    return 0


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", type=Path, required=True, help="token index of the training split, parquet")
    parser.add_argument("--validation", type=Path, required=True, help="token index of the validation split, parquet")
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json, for the size of the vocabulary")
    parser.add_argument("--mixture", type=Path, required=True, help="{domain: proportion}, JSON")
    parser.add_argument("--shape", type=json.loads, required=True, help="layers, width and heads, JSON")
    parser.add_argument("--recipe", type=json.loads, required=True, help="fields of training.Recipe, JSON")
    parser.add_argument("--processes", type=int, required=True, help="processes asked of the launcher")
    parser.add_argument("--micro-batch", required=True, help="rows at once on one process; auto: as memory allows")
    parser.add_argument("--loss-chunk", required=True, help="tokens whose scores exist at once, or all")
    parser.add_argument("--compile", action="store_true", help="compile the model; pays on a GPU")
    parser.add_argument("--cpu", action="store_true", help="train on the CPU even where there is a GPU")
    parser.add_argument("--max-seconds", type=float, help="save the state and stop after so long")
    parser.add_argument("--state", type=Path, required=True, help="folder of the checkpoints")
    parser.add_argument("--losses", type=Path, required=True, help="step, tokens, domain, loss; parquet")
    parser.add_argument("--weights", type=Path, required=True, help="safetensors")
    parser.add_argument("--report", type=Path, required=True, help="run.json")
    return parser.parse_args(argv)


def start(options: argparse.Namespace, recipe: Recipe) -> Accelerator:
    """The accelerator, of just as many processes as were asked for."""
    accelerator = Accelerator(
        cpu=options.cpu,
        mixed_precision=recipe.precision,
        log_with="tensorboard",
        project_dir=options.state.parent,
        kwargs_handlers=[DistributedDataParallelKwargs(gradient_as_bucket_view=True)],
    )
    if accelerator.num_processes != options.processes:
        raise InputError(
            f"{options.processes} processes were asked for but {accelerator.num_processes} started;"
            f" check the launcher's --num_processes and --multi_gpu."
        )
    if accelerator.device.type == "cpu":
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
    return accelerator


def say(accelerator: Accelerator, sentence: str) -> None:
    accelerator.print(sentence, file=sys.stderr, flush=True)


def open_rows(path: str, dtype: str, rows: int) -> np.ndarray:
    """Map one file of `rows` rows; a file of another size is refused."""
    mapped = np.memmap(path, dtype=np.dtype(dtype).newbyteorder("<"), mode="r")
    if len(mapped) % rows:
        raise InputError(f"{path} holds {len(mapped)} ids, which do not make {rows} rows; tokenise its shard again.")
    return mapped.reshape(rows, -1)


def not_finite(step: int, counts: np.ndarray, loss: float, norm: float, domains: list[str], recipe: Recipe) -> str:
    rows = ", ".join(f"{domain} {count}" for domain, count in zip(domains, counts.tolist(), strict=True) if count)
    return (
        f"At step {step} the loss is {loss} and the gradient norm {norm}, at a rate of {recipe.rate(step - 1):.3g} and with"
        f" these rows in the batch: {rows}. The checkpoints before it are kept; lower the rate or look at that text."
    )


if __name__ == "__main__":
    sys.exit(run(main))
