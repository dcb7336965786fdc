"""The answers of a run's models to the tasks of one call.

The answers to a task at a step are a file of their own, a part, whose name has the hash of all that
decides them: a killed call continues after its last part.
"""

import hashlib
import inspect
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import torch
from accelerate import Accelerator
from tokenizers import Tokenizer

from bimix.corpus.encoders import Encode
from bimix.corpus.sources import Rejects
from bimix.downstream import prompts, questions
from bimix.downstream.prompts import Task, build_task, judge, likeliest, read_prediction
from bimix.downstream.questions import origin, read_questions
from bimix.errors import InputError
from bimix.model import generation, transformer
from bimix.model.generation import generate, negative_log_likelihoods, plan_batches
from bimix.model.transformer import Transformer
from bimix.outputs import write_table
from bimix.training.artefacts import check_digest
from bimix.training.checkpoints import kept_weights, read_weights

# Modules whose text also enters the hash.
DECIDING = (sys.modules[__name__], prompts, questions, generation, transformer)

ANSWERS = {
    "task": pl.String,
    "step": pl.Int64,
    "item": pl.String,
    "prompt_hash": pl.String,
    "prompt_tokens": pl.Int64,
    "cut_tokens": pl.Int64,
    "prediction": pl.String,
    "exact": pl.Boolean,
    "normalised": pl.Boolean,
    "gold": pl.String,  # of the accepted answers the one with the least bits per byte
    "gold_tokens": pl.Int64,
    "gold_bytes": pl.Int64,  # UTF-8, with the space before it
    "gold_bits": pl.Float64,  # sum of -log2 p of its tokens, after the prompt
}


def open_tasks(
    given: dict[str, dict], seed: int, rejects: float, encode: Encode, room: int
) -> tuple[list[Task], dict[str, dict]]:
    """The tasks of {name: {kind, items, shots}} in the order of their names, and {name: origin of
    its files}. A task without `shots` takes its examples from its other items.

    `seed` is for drawing the shots, `rejects` the share of records that may be invalid, `room` the
    tokens of a prompt. Errors: those of `build_task` and `read_questions`.
    """
    tasks, origins = [], {}
    for name, task in sorted(given.items()):
        kind, faults = task["kind"], Rejects(rejects, "downstream.rejects")
        items = read_questions(task["items"], kind, faults)
        shots = items if task.get("shots") is None else read_questions(task["shots"], kind, faults)
        tasks.append(build_task(name, kind, items, shots, seed, encode, room, faults))
        origins[name] = {key: origin(task.get(key)) for key in ("items", "shots")}
    return tasks, origins


def find_weights(report: dict, weights: Path, state: Path, steps: Sequence[int]) -> dict[int, Path]:
    """The file of the weights at each of `steps`: the last in `weights`, earlier ones in the folder
    `state`.

    `report` is run.json, which names the subfolder of its configuration. Errors: a step whose
    weights were not kept.
    """
    last, own = report["recipe"]["steps"], state / report.get("state", "")
    places = {step: weights if step == last else kept_weights(own, step) for step in steps}
    missing = [str(step) for step, path in places.items() if not path.exists()]
    if missing:
        kept = sorted(int(path.stem.split("-")[1]) for path in kept_weights(own, 0).parent.glob("step-*"))
        raise InputError(
            f"{own} has no weights of step {', '.join(missing)}, only of {', '.join(map(str, [*kept, last]))}: the"
            f" run ended before they were requested. Take those steps out of downstream.steps, or move that folder away"
            f" to train again."
        )
    return places


def check_weights(places: dict[int, Path], last: Path, report: dict, path: Path) -> dict[int, str]:
    """{step: digest} of the weights at `places`, compared with the digests in the `report`,
    run.json at `path`.

    `last` are the run's last weights, which the report names without a folder. Errors: weights that
    differ from their digest.
    """
    noted = report.get("files", {})
    names = {step: own.name if own == last else f"weights/{own.name}" for step, own in places.items()}
    return {step: check_digest(own, noted.get(names[step]), path) for step, own in places.items()}


def load_model(path: Path, tokenizer: Tokenizer, place: Path, precision: str) -> Transformer:
    """The model in a file, in fp32 or `bf16`. Errors: the tokenizer at `place` has other ids."""
    weights, shape = read_weights(path, "pt")
    if tokenizer.get_vocab_size() != shape.vocabulary:
        raise InputError(
            f"{place} has {tokenizer.get_vocab_size()} ids but the model in {path} was trained on"
            f" {shape.vocabulary}; give the tokenizer of that run."
        )
    model = Transformer(shape)
    model.load_state_dict(weights)
    return model.to(torch.bfloat16) if precision == "bf16" else model


def answer(
    accelerator: Accelerator,
    model: Transformer,
    task: Task,
    stops: list[int],
    new_tokens: int,
    cache_tokens: int,
    graphs: bool,
) -> list[list[int]]:
    """Ids of the continuation of each prompt, at most `new_tokens`; a batch caches at most
    `cache_tokens` keys and values.

    Processes take batches in turn; the batches do not depend on the number of processes.
    """
    prompts = [prompt.ids for prompt in task.prompts]
    batches = plan_batches([len(ids) for ids in prompts], new_tokens, cache_tokens)
    own = batches[accelerator.process_index :: accelerator.num_processes]
    written = np.zeros((len(prompts), new_tokens), dtype=np.int64)  # 0: no token, others one higher
    for position, ids in generate(model, prompts, own, new_tokens, stops, graphs):
        written[position, : len(ids)] = np.array(ids) + 1
    together = accelerator.reduce(torch.from_numpy(written).to(accelerator.device), reduction="sum")
    return [[token - 1 for token in row if token] for row in together.tolist()]


def score(
    accelerator: Accelerator, model: Transformer, task: Task, length: int, cache_tokens: int
) -> list[list[float]]:
    """Negative log-likelihoods, in nats, of each prompt's golds after it, in batches of
    `cache_tokens` at most.

    The model sees `length` tokens: before a long answer the prompt is cut further. Processes take
    batches in turn, as in `answer`.
    """
    pairs = [(prompt.ids[-(length - len(gold.ids)) :], gold.ids) for prompt in task.prompts for gold in prompt.golds]
    batches = plan_batches([len(before) + len(ids) for before, ids in pairs], 0, cache_tokens)
    own = batches[accelerator.process_index :: accelerator.num_processes]
    found = np.zeros(len(pairs))
    for position, nats in negative_log_likelihoods(model, pairs, own):
        found[position] = nats
    together = iter(accelerator.reduce(torch.from_numpy(found).to(accelerator.device), reduction="sum").tolist())
    return [[next(together) for _ in prompt.golds] for prompt in task.prompts]


def plan_parts(
    tasks: Sequence[Task], digests: dict[int, str], settings: Sequence[object], folder: Path
) -> dict[int, dict[str, Path]]:
    """{step: {task: its part in `folder`}}; `digests` are those of the weights of each step,
    `settings` the arguments on which an answer depends.

    The name of a part has the hash of these, of the prompts and of the text of the modules.
    """
    code = [inspect.getsource(module) for module in DECIDING]
    parts = {}
    for step, weights in digests.items():
        parts[step] = {}
        for task in tasks:
            content = [[weights, *settings, *code]]
            for prompt in task.prompts:
                content.append([prompt.question.identity, prompt.question.answers, prompt.digest, prompt.ids.tolist()])
            digest = hashlib.blake2b(json.dumps(content).encode(), digest_size=8).hexdigest()
            parts[step][task.name] = folder / f"{task.name}-{step:09d}-{digest}.parquet"
    return parts


def answer_parts(
    accelerator: Accelerator,
    tasks: Sequence[Task],
    parts: dict[int, dict[str, Path]],
    load: Callable[[int], Transformer],
    ask: Callable[[Transformer, Task], tuple[list[list[int]], list[list[float]]]],
    decode: Callable[[list[int]], str],
) -> None:
    """Answer the tasks whose parts are missing with the model of each step, from `load`.

    The main process writes the parts. `ask` returns, in all processes, the ids of the answers to a
    task's prompts, which `decode` turns into text, and the nats of the accepted answers.
    """
    for step, planned in parts.items():
        missing = [task for task in tasks if not planned[task.name].exists()]
        accelerator.wait_for_everyone()  # nobody may see the parts that the main process is about to write
        model = load(step) if missing else None
        for task in missing:
            begun = time.monotonic()
            written, nats = ask(model, task)
            seconds = time.monotonic() - begun
            if accelerator.is_main_process:
                table = answer_table(task, step, written, nats, decode)
                write_table(table, planned[task.name])
                _tell(task, step, written, table, seconds)


def answer_table(
    task: Task,
    step: int,
    written: Sequence[list[int]],
    nats: Sequence[Sequence[float]],
    decode: Callable[[list[int]], str],
) -> pl.DataFrame:
    """One row for each prompt of a task at a step, in the order of its file; `written` are the ids
    of the answers, `nats` the negative log-likelihoods of the prompt's golds.
    """
    rows = []
    for prompt, ids, own in zip(task.prompts, written, nats, strict=True):
        prediction = read_prediction(decode(ids))
        verdict = judge(prediction, prompt.question.answers)
        place = (task.name, step, prompt.question.identity, prompt.digest)
        gold, bits = likeliest(prompt.golds, own)
        scored = (gold.text, len(gold.ids), gold.bytes, bits)
        rows.append((*place, len(prompt.ids), prompt.cut, prediction, *verdict, *scored))
    return pl.DataFrame(rows, schema=ANSWERS, orient="row")


def _tell(task: Task, step: int, written: list[list[int]], table: pl.DataFrame, seconds: float) -> None:
    """Report on standard error the number of right answers of a task, and the speed."""
    read = sum(len(prompt.ids) for prompt in task.prompts) + sum(map(len, written))
    bits = (table["gold_bits"] / table["gold_bytes"]).mean()
    say = f"step {step}, {task.name}: {table['normalised'].mean():.1%} of {table.height} right, {bits:.3f} bits/byte,"
    rates = f"{table.height / seconds:,.1f} items/s, {read / seconds:,.0f} tokens/s"
    print(f"{say} {rates}", file=sys.stderr, flush=True)


def gather_parts(parts: dict[int, dict[str, Path]]) -> pl.DataFrame:
    """The rows of all parts, step after step."""
    paths = [path for planned in parts.values() for path in planned.values()]
    return pl.concat(pl.read_parquet(path, glob=False) for path in paths)


def sweep(parts: dict[int, dict[str, Path]], folder: Path) -> None:
    """Remove the parts in `folder` whose hash is out of date."""
    wanted = {path for planned in parts.values() for path in planned.values()}
    for old in set(folder.glob("*.parquet")) - wanted:
        old.unlink()
