"""Let the models of one run answer the questions of every task, at several of its steps.

weights of the run, task files, tokenizer -> one row per task, step and item, and a report on the
questions

The answers to a task at a step are kept in --parts, under the hash of all that decides them: a
killed call continues from there, and changed inputs are answered again.
"""

import argparse
import json
import sys
from pathlib import Path

from accelerate import Accelerator
from tokenizers import Tokenizer

from bimix.corpus.encoders import reference_encoder
from bimix.downstream.answers import (
    answer,
    answer_parts,
    check_weights,
    find_weights,
    gather_parts,
    load_model,
    open_tasks,
    plan_parts,
    score,
    sweep,
)
from bimix.downstream.prompts import Task
from bimix.errors import InputError, run
from bimix.model.generation import stop_ids
from bimix.model.transformer import Transformer
from bimix.outputs import write_json, write_table
from bimix.tables import read_json
from bimix.training.checkpoints import lock
from bimix.training.session import check_launch, end_by_sigterm, forget_settings


def main(argv: list[str] | None = None) -> None:
    options = parse(argv)
    end_by_sigterm()
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
    tasks, origins = open_tasks(options.tasks, options.seed, options.rejects, encode, room)
    stops = stop_ids(
        lambda ids: tokenizer.decode(ids, skip_special_tokens=False), tokenizer.get_vocab_size(), end_of_text
    )
    report = read_json(options.run)
    places = find_weights(report, options.weights, options.state, options.steps)

    def load(step: int) -> Transformer:
        return load_model(places[step], tokenizer, options.tokenizer, options.precision).to(accelerator.device)

    def ask(model: Transformer, task: Task) -> tuple[list[list[int]], list[list[float]]]:
        graphs = options.graphs == "yes" and not options.cpu
        written = answer(accelerator, model, task, stops, options.new_tokens, options.cache_tokens, graphs)
        return written, score(accelerator, model, task, options.sequence_length, options.cache_tokens)

    held = lock(options.parts, options.lock_seconds, "answering") if accelerator.is_main_process else None
    accelerator.wait_for_everyone()
    digests = check_weights(places, options.weights, report, options.run)
    settings = (options.new_tokens, options.sequence_length, options.precision, options.end_of_text, definition)
    parts = plan_parts(tasks, digests, settings, options.parts)
    answer_parts(accelerator, tasks, parts, load, ask, tokenizer.decode)
    if held is not None:
        accounts = {task.name: task.account | {"sources": origins[task.name]} for task in tasks}
        write_json(options.report, {"tasks": accounts, "weights": digests})
        write_table(gather_parts(parts), options.out)
        sweep(parts, options.parts)
        held.close()
    accelerator.wait_for_everyone()
    accelerator.end_training()


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--tasks", type=json.loads, required=True, help="{name: {kind, items, shots}}, JSON")
    add("--run", type=Path, required=True, help="run.json of the run")
    add("--weights", type=Path, required=True, help="its last weights, safetensors")
    add("--state", type=Path, required=True, help="its folder of states, where earlier weights lie")
    add("--steps", type=int, nargs="+", required=True, help="steps whose weights answer")
    add("--tokenizer", type=Path, required=True, help="tokenizer.json of the run")
    add("--end-of-text", required=True, help="the token after each document")
    add("--sequence-length", type=int, required=True, help="tokens of a row in training")
    add("--new-tokens", type=int, required=True, help="tokens of an answer, at most")
    add("--cache-tokens", type=int, required=True, help="tokens whose keys and values exist at once")
    add("--seed", type=int, required=True, help="of the draw of the shots")
    add("--rejects", type=float, required=True, help="share of bad items that is left out; 0: stop")
    add("--precision", choices=["no", "bf16"], required=True, help="no: fp32")
    add("--processes", type=int, required=True, help="processes requested of the launcher")
    add("--lock-seconds", type=float, required=True, help="wait so long for another attempt to end")
    add("--cpu", action="store_true", help="compute on the CPU even where there is a GPU")
    add("--graphs", choices=("yes", "no"), default="no", help="on a GPU, replay the step of a token as a CUDA graph")
    add("--parts", type=Path, required=True, help="folder of what is done, task by task")
    add("--out", type=Path, required=True, help="parquet")
    add("--report", type=Path, required=True, help="items asked, cut and rejected, by task; JSON")
    options = parser.parse_args(argv)
    if options.sequence_length <= options.new_tokens:
        raise InputError(
            f"{options.new_tokens} new tokens leave no room for a prompt in rows of {options.sequence_length};"
            f" lower downstream.new_tokens."
        )
    return options


if __name__ == "__main__":
    sys.exit(run(main))
