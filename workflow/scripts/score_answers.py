"""Let the models of one run answer the questions of every task, at several of its steps.

weights of the run, task files, tokenizer -> one row per task, step and item, and an account of what was asked

What is done of a task at a step is kept in --parts, under the hash of all that decides it: a call that was killed goes on
from there, and nothing that was changed is taken for done.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import polars as pl
from accelerate import Accelerator
from tokenizers import Tokenizer

from bimix.data.encoders import reference_encoder
from bimix.downstream.answers import Task, answer_table, part_name
from bimix.downstream.tasks import answer, find_weights, load_model, locate, origin, read_task, what_decides
from bimix.errors import InputError, run
from bimix.model.generation import stop_ids
from bimix.outputs import write_json, write_table
from bimix.runs.artefacts import check_digest
from bimix.runs.checkpoints import lock
from bimix.tables import read_json
from bimix.training.launch import check_launch, forget_settings, obey


def main(argv: list[str] | None = None) -> None:
    options = parse(argv)
    obey()
    forget_settings()
    accelerator = Accelerator(cpu=options.cpu)
    check_launch(accelerator, options.processes, options.cpu)
    definition = options.tokenizer.read_text(encoding="utf-8")
    tokenizer = Tokenizer.from_str(definition)
    end_of_text = tokenizer.token_to_id(options.end_of_text)
    if end_of_text is None:
        raise InputError(f"{options.tokenizer} has no token {options.end_of_text!r}; name the one that ends documents.")
    room = options.sequence_length - options.new_tokens
    encode = reference_encoder(definition)
    files = {name: {key: locate(task.get(key)) for key in ("items", "shots")} for name, task in options.tasks.items()}
    tasks = [
        read_task(name, task | files[name], options.seed, options.rejects, encode, room)
        for name, task in sorted(options.tasks.items())
    ]
    origins = {
        name: {key: origin(task.get(key), files[name][key]) for key in ("items", "shots")}
        for name, task in options.tasks.items()
    }
    stops = stop_ids(
        lambda ids: tokenizer.decode(ids, skip_special_tokens=False), tokenizer.get_vocab_size(), end_of_text
    )
    report = read_json(options.run)
    places = find_weights(report, options.weights, options.state, options.steps)
    noted = report.get("files", {})
    names = {path: path.name if path == options.weights else f"weights/{path.name}" for path in places.values()}

    held = lock(options.parts, options.lock_seconds, "answering") if accelerator.is_main_process else None
    accelerator.wait_for_everyone()
    parts, digests = [], {}
    for step, path in places.items():
        digests[step] = check_digest(path, noted.get(names[path]), options.run)
        decides = what_decides(digests[step], options.new_tokens, options.precision, options.end_of_text, definition)
        planned = {task.name: options.parts / f"{part_name(task, step, decides)}.parquet" for task in tasks}
        parts += planned.values()
        open_tasks = [task for task in tasks if not planned[task.name].exists()]
        accelerator.wait_for_everyone()  # nobody may see the parts that the first process is about to write
        if not open_tasks:
            continue
        model = load_model(path, tokenizer, options.tokenizer, options.precision).to(accelerator.device)
        for task in open_tasks:
            begun = time.monotonic()
            graphs = options.graphs == "yes" and not options.cpu
            written = answer(accelerator, model, task, stops, options.new_tokens, options.cache_tokens, graphs)
            seconds = time.monotonic() - begun
            if accelerator.is_main_process:
                table = answer_table(task, step, written, tokenizer.decode)
                write_table(table, planned[task.name])
                tell(task, step, written, table, seconds)
    if held is not None:
        accounts = {task.name: task.account | {"sources": origins[task.name]} for task in tasks}
        write_json(options.report, {"tasks": accounts, "weights": digests})
        write_table(pl.concat(pl.read_parquet(part, glob=False) for part in parts), options.out)
        for old in set(options.parts.glob("*.parquet")) - set(parts):
            old.unlink()
        held.close()
    accelerator.wait_for_everyone()
    accelerator.end_training()


def tell(task: Task, step: int, written: list[list[int]], table: pl.DataFrame, seconds: float) -> None:
    """Say on standard error how many of a task's items were right, and how fast it went."""
    read = sum(len(prompt.ids) for prompt in task.prompts) + sum(map(len, written))
    say = f"step {step}, {task.name}: {table['normalised'].mean():.1%} of {table.height} right,"
    rates = f"{table.height / seconds:,.1f} items/s, {read / seconds:,.0f} tokens/s"
    print(f"{say} {rates}", file=sys.stderr, flush=True)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=json.loads, required=True, help="{name: {kind, items, shots}}, JSON")
    parser.add_argument("--run", type=Path, required=True, help="run.json of the run")
    parser.add_argument("--weights", type=Path, required=True, help="its last weights, safetensors")
    parser.add_argument("--state", type=Path, required=True, help="its folder of states, where earlier weights lie")
    parser.add_argument("--steps", type=int, nargs="+", required=True, help="steps whose weights answer")
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json of the run")
    parser.add_argument("--end-of-text", required=True, help="the token after each document")
    parser.add_argument("--sequence-length", type=int, required=True, help="tokens of a row in training")
    parser.add_argument("--new-tokens", type=int, required=True, help="tokens of an answer, at most")
    parser.add_argument("--cache-tokens", type=int, required=True, help="tokens whose keys and values exist at once")
    parser.add_argument("--seed", type=int, required=True, help="of the draw of the shots")
    parser.add_argument("--rejects", type=float, required=True, help="share of bad items that is left out; 0: stop")
    parser.add_argument("--precision", choices=["no", "bf16"], required=True, help="no: fp32")
    parser.add_argument("--processes", type=int, required=True, help="processes asked of the launcher")
    parser.add_argument("--lock-seconds", type=float, required=True, help="wait so long for another attempt to end")
    parser.add_argument("--cpu", action="store_true", help="compute on the CPU even where there is a GPU")
    parser.add_argument(
        "--graphs",
        choices=("yes", "no"),
        default="no",
        help="on a GPU, replay the step between two tokens as a CUDA graph",
    )
    parser.add_argument("--parts", type=Path, required=True, help="folder of what is done, task by task")
    parser.add_argument("--out", type=Path, required=True, help="parquet")
    parser.add_argument("--report", type=Path, required=True, help="items asked, cut and rejected, by task; JSON")
    options = parser.parse_args(argv)
    if options.sequence_length <= options.new_tokens:
        raise InputError(
            f"{options.new_tokens} new tokens leave no room for a prompt in rows of {options.sequence_length};"
            f" lower downstream.new_tokens."
        )
    return options


if __name__ == "__main__":
    sys.exit(run(main))
