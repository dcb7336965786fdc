"""Let the models of one run answer the questions of every task, at several of its steps.

weights of the run, task files, tokenizer -> one row per task, step and item, and an account of what was asked

What is done of a task at a step is kept in --parts, under the hash of all that decides it: a call that was killed goes on
from there, and nothing that was changed is taken for done.
"""

import argparse
import inspect
import json
import re
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import torch
from accelerate import Accelerator
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from tokenizers import Tokenizer

from bimix.addresses import hub_commit, masked
from bimix.data.documents import BROKEN_STREAM
from bimix.data.encoders import Encode, reference_encoder
from bimix.data.sources import COMPRESSED, open_stream
from bimix.downstream import answers, prompts, questions
from bimix.downstream.answers import Task, answer_table, build_task, part_name
from bimix.downstream.questions import Faults, Question, read_records, take_questions
from bimix.errors import InputError, run
from bimix.model import generation, transformer
from bimix.model.generation import generate, plan_batches, stop_ids
from bimix.model.transformer import Transformer
from bimix.outputs import write_json, write_table
from bimix.runs.artefacts import check_digest, digest_file
from bimix.runs.checkpoints import kept_weights, lock, read_weights
from bimix.tables import read_json
from bimix.training.launch import check_launch, forget_settings, obey

DECIDING = (answers, generation, transformer, prompts, questions)  # their text decides what is written, too


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
    tasks = [read_task(name, task | files[name], options, encode, room) for name, task in sorted(options.tasks.items())]
    origins = {
        name: {key: origin(task.get(key), files[name][key]) for key in ("items", "shots")}
        for name, task in options.tasks.items()
    }
    stops = stop_ids(
        lambda ids: tokenizer.decode(ids, skip_special_tokens=False), tokenizer.get_vocab_size(), end_of_text
    )
    report = read_json(options.run)
    places = find_weights(options, report)
    noted = report.get("files", {})
    names = {path: path.name if path == options.weights else f"weights/{path.name}" for path in places.values()}

    held = lock(options.parts, options.lock_seconds, "answering") if accelerator.is_main_process else None
    accelerator.wait_for_everyone()
    parts, digests = [], {}
    for step, path in places.items():
        digests[step] = check_digest(path, noted.get(names[path]), options.run)
        settings = [options.new_tokens, options.precision, options.end_of_text, definition]
        decides = [digests[step], *settings, *map(inspect.getsource, DECIDING)]
        planned = {task.name: options.parts / f"{part_name(task, step, decides)}.parquet" for task in tasks}
        parts += planned.values()
        open_tasks = [task for task in tasks if not planned[task.name].exists()]
        accelerator.wait_for_everyone()  # nobody may see the parts that the first process is about to write
        if not open_tasks:
            continue
        network = load_model(path, tokenizer, options).to(accelerator.device)
        for task in open_tasks:
            begun = time.monotonic()
            written = answer(accelerator, network, task, stops, options)
            seconds = time.monotonic() - begun
            if not accelerator.is_main_process:
                continue
            table = answer_table(task, step, written, tokenizer.decode)
            write_table(table, planned[task.name])
            read = sum(len(prompt.ids) for prompt in task.prompts) + sum(map(len, written))
            say = f"step {step}, {task.name}: {table['normalised'].mean():.1%} of {table.height} right,"
            print(
                f"{say} {table.height / seconds:,.1f} items/s, {read / seconds:,.0f} tokens/s",
                file=sys.stderr,
                flush=True,
            )
    if held is not None:
        accounts = {task.name: task.account | {"sources": origins[task.name]} for task in tasks}
        write_json(options.report, {"tasks": accounts, "weights": digests})
        write_table(pl.concat(pl.read_parquet(part, glob=False) for part in parts), options.out)
        for old in set(options.parts.glob("*.parquet")) - set(parts):
            old.unlink()
        held.close()
    accelerator.wait_for_everyone()
    accelerator.end_training()


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


def read_task(name: str, task: dict, options: argparse.Namespace, encode: Encode, room: int) -> Task:
    """The prompts of a task; without `shots` of its own, its other items are the examples."""
    faults = Faults(options.rejects)
    items = read_questions(task["items"], task["kind"], faults)
    shots = items if task.get("shots") is None else read_questions(task["shots"], task["kind"], faults)
    return build_task(name, task["kind"], items, shots, options.seed, encode, room, faults)


def locate(source: str | dict | None) -> str | None:
    """Where a file of questions lies: here, at an address, or, of a data set of the hub, in the local cache."""
    return fetch(**source) if isinstance(source, dict) else source


def origin(source: str | dict | None, path: str | None) -> dict | None:
    """What says which questions were asked: the place, of a data set of the hub its commit, of a file its digest."""
    if path is None:
        return None
    if isinstance(source, dict):
        return {"revision": None} | source | {"commit": hub_commit(path), "digest": digest_file(Path(path))}
    return {"file": masked(source)} | ({} if "://" in source else {"digest": digest_file(Path(source))})


def read_questions(path: str, kind: str, faults: Faults) -> list[Question]:
    """The questions of one file, which lies here or at an address."""
    if "://" not in path and not Path(path).is_file():
        raise InputError(f"There is no task file {path}; set items and shots of the task under downstream.tasks.")
    with open_stream(path) as stream:
        try:
            raw = stream.read()
        except BROKEN_STREAM as error:
            raise InputError(f"{path}: the file breaks off or is damaged ({error}); fetch it again.") from error
    return list(take_questions(read_records(raw, re.sub(COMPRESSED, "", path)), path, kind, faults))


def fetch(hub: str, file: str, revision: str | None = None) -> str:
    """Path of one file of a data set of the hub at a branch, tag or commit (None: main).

    From the local cache where it is there.
    """
    try:
        return hf_hub_download(hub, file, repo_type="dataset", revision=revision)
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        at = f" at {revision!r}" if revision else ""
        raise InputError(
            f"The hub gave no {file!r} of the data set {hub!r}{at} ({error}); check the task and the network, or fetch the"
            f" file by hand and name its path."
        ) from error


def find_weights(options: argparse.Namespace, report: dict) -> dict[int, Path]:
    """Where the weights of each step lie: earlier ones in the folder of the configuration that run.json names."""
    last, own = report["recipe"]["steps"], options.state / report.get("state", "")
    places = {step: options.weights if step == last else kept_weights(own, step) for step in options.steps}
    missing = [str(step) for step, path in places.items() if not path.exists()]
    if missing:
        kept = sorted(int(path.stem.split("-")[1]) for path in kept_weights(own, 0).parent.glob("step-*"))
        raise InputError(
            f"{own} has no weights of step {', '.join(missing)}, only of {', '.join(map(str, [*kept, last]))}: the"
            f" run ended before they were asked for. Take those steps out of downstream.steps, or move that folder away"
            f" to train anew."
        )
    return places


def load_model(path: Path, tokenizer: Tokenizer, options: argparse.Namespace) -> Transformer:
    weights, shape = read_weights(path, "pt")
    if tokenizer.get_vocab_size() != shape.vocabulary:
        raise InputError(
            f"{options.tokenizer} has {tokenizer.get_vocab_size()} ids but the model in {path} was trained on"
            f" {shape.vocabulary}; give the tokenizer of that run."
        )
    model = Transformer(shape)
    model.load_state_dict(weights)
    return model.to(torch.bfloat16) if options.precision == "bf16" else model


def answer(
    accelerator: Accelerator, model: Transformer, task: Task, stops: list[int], options: argparse.Namespace
) -> list[list[int]]:
    """Ids of the continuation of each prompt; processes take batches in turn, which are the same however many there are."""
    prompts = [prompt.ids for prompt in task.prompts]
    batches = plan_batches([len(ids) for ids in prompts], options.new_tokens, options.cache_tokens)
    own = batches[accelerator.process_index :: accelerator.num_processes]
    written = np.zeros((len(prompts), options.new_tokens), dtype=np.int64)  # 0: no token, others one higher
    for position, ids in generate(
        model, prompts, own, options.new_tokens, stops, options.graphs == "yes" and not options.cpu
    ):
        written[position, : len(ids)] = np.array(ids) + 1
    together = accelerator.reduce(torch.from_numpy(written).to(accelerator.device), reduction="sum")
    return [[token - 1 for token in row if token] for row in together.tolist()]


if __name__ == "__main__":
    sys.exit(run(main))
