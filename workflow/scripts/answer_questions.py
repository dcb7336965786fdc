"""Let the model of a run at a step answer the questions of lm_eval's tasks.

weights of the run, tokenizer, task files -> lm_eval's results as it writes them, JSON

The results of each task are kept in --parts, under the hash of all that decides them: a killed call
continues from there, and what changed is answered again.
"""

import argparse
import shutil
import sys
from pathlib import Path

from bimix.downstream.answers import answer, find_weights, load_model, merge, open_tasks, plan_parts, print_values
from bimix.errors import run
from bimix.model.export import export_model
from bimix.outputs import write_json
from bimix.tables import read_json
from bimix.training.artefacts import check_digest
from bimix.training.checkpoints import lock
from bimix.training.session import end_by_sigterm


def main(argv: list[str] | None = None) -> None:
    options = parse(argv)
    end_by_sigterm()
    manager = open_tasks(options.tasks, options.task_files)
    path, expected = find_weights(read_json(options.run), options.weights, options.state, options.step)
    decisive = (options.end_of_text, options.sequence_length, options.backend, options.shots, options.limit)
    with lock(options.parts, options.lock_seconds):
        settings = check_digest(path, expected, options.run), options.tokenizer.read_text(encoding="utf-8"), *decisive
        parts = plan_parts(options.tasks, manager, options.task_files, settings, options.parts)
        missing = [name for name in options.tasks if not parts[name].exists()]
        if missing:
            folder = options.parts / "model"
            export_model(path, options.tokenizer, options.end_of_text, options.sequence_length, folder)
            model = load_model(options.backend, folder, options.batch_size, "cpu" if options.cpu else None)
            for name in missing:
                found = answer(model, name, manager, options.shots, options.limit)
                write_json(parts[name], found)
                print_values(name, found)
            shutil.rmtree(folder)
        write_json(options.out, merge(read_json(part) for part in parts.values()))
        for old in set(options.parts.glob("*.json")) - set(parts.values()):
            old.unlink()


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--tasks", nargs="+", required=True, help="names of tasks or groups")
    add("--task-files", nargs="+", required=True, help="folders of task files, the last of which wins")
    add("--run", type=Path, required=True, help="run.json of the run")
    add("--weights", type=Path, required=True, help="its last weights, safetensors")
    add("--state", type=Path, required=True, help="its folder of states, where earlier weights lie")
    add("--step", type=int, required=True, help="the step whose weights answer")
    add("--tokenizer", type=Path, required=True, help="tokenizer.json of the run")
    add("--end-of-text", required=True, help="the token after each document")
    add("--sequence-length", type=int, required=True, help="tokens of a row in training")
    add("--shots", type=number, required=True, help="solved examples before a question; none: as each task says")
    add("--limit", type=number, required=True, help="questions of each task at most; none: all")
    add("--batch-size", required=True, help="questions at once, or auto")
    add("--backend", required=True, help="hf or vllm")
    add("--processes", type=int, choices=[1], default=1, help="processes of the launcher")
    add("--lock-seconds", type=float, required=True, help="wait so long for another attempt to end")
    add("--cpu", action="store_true", help="compute on the CPU even where there is a GPU")
    add("--parts", type=Path, required=True, help="folder of what is done, task by task")
    add("--out", type=Path, required=True, help="JSON")
    return parser.parse_args(argv)


def number(text: str) -> int | None:
    """A whole number; None for `none`."""
    return None if text == "none" else int(text)


if __name__ == "__main__":
    sys.exit(run(main))
