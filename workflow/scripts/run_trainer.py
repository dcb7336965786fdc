"""Train one model on one mixture by a command of the user's, and read the losses that it leaves.

mixture, command, recipe -> losses.parquet, run.json (and state/, where the command writes)
"""

import argparse
import contextlib
import json
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import export_mixture
from bimix.digests import digest_bytes, digest_file
from bimix.errors import InputError, run
from bimix.exports.formats import FORMATS
from bimix.mixtures.mixture import Mixture
from bimix.outputs import write_table
from bimix.plan.settings import evaluations
from bimix.tables import read_json, read_table
from bimix.training import artefacts, checkpoints, provenance
from bimix.training.attempt import STOPPED
from bimix.training.command_losses import content, read, source, tidy
from bimix.training.command_process import follow
from bimix.training.command_template import OUTPUT, fill
from bimix.training.devices import query
from bimix.training.reports import tokens_of

WORK = "work"  # the folder that the command has for itself, beside what is noted of its run
SETTINGS = ("steps", "batch_rows", "evaluate_every", "seed")  # of the recipe, that a command can hear of


def main(argv: list[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # launch_training.sh ignores it
    options = parse(argv)
    deadline = None if options.max_seconds is None else int(time.time() + options.max_seconds)
    mixture = Mixture.read(options.mixture)
    recipe = {name: options.recipe[name] for name in SETTINGS} | {"sequence_length": options.sequence_length}
    step_tokens = recipe["batch_rows"] * options.sequence_length
    trainer = options.trainer
    name = f"the run {options.losses.parent}"
    with tempfile.TemporaryDirectory() as folder:
        written = digest_file(mixture_file(options, mixture, Path(folder), recipe, recipe["steps"] * step_tokens))
    data = tokens_of(dict(zip(("train", "validation"), map(read_table, options.text), strict=False)))
    defined_by = {
        "command": trainer["command"],
        "format": trainer.get("format"),
        "mixture_file": written,  # its paths and weights
        **{f"training.{key}": value for key, value in recipe.items()},
        **{f"mixture.{domain}": share for domain, share in mixture.flat().items()},
        **data,
    }
    places = {artefacts.REPORT: options.report, "losses.parquet": options.losses}
    with contextlib.closing(checkpoints.lock(options.state, options.lock_seconds)) as held:
        checkpoints.sweep(places.values())
        own, remark = checkpoints.claim(options.state, defined_by)
        say(remark)
        if finished(own, places, {"losses": trainer["losses"], "domains": sorted(options.domains)}):
            return 0
        if not has_ended(own):
            (own / WORK).mkdir(exist_ok=True)
            values = recipe | {
                "mixture": mixture_file(options, mixture, own, recipe, recipe["steps"] * step_tokens).resolve(),
                "tokens": recipe["steps"] * step_tokens,
                "folder": (own / WORK).resolve(),
                "gpus": options.gpus // options.nodes,
                "nodes": options.nodes,
                "threads": options.threads,
                "deadline": "none" if deadline is None else deadline,
            }
            status = attempt(fill(trainer["command"], values), own, held.fileno(), options, deadline, name)
            if status:
                return status
        try:
            rows = read(trainer["losses"], own / WORK, offsets(trainer["losses"], own))
            table, remarks = tidy(rows, options.domains, evaluations(recipe), step_tokens, name)
        except InputError as error:
            said = str(error) if name in str(error) else f"{name}: {error}"
            raise InputError(
                f"{said} The command has ended: mend `losses` in the config, or delete {own} to train again."
            ) from error
        for sentence in remarks:
            say(f"Remark: {sentence}")
        write_table(table, own / "losses.parquet")
        report = describe(options, mixture, recipe, recipe["steps"] * step_tokens, own) | {"data": data}
        artefacts.finish(own, report, ["losses.parquet"], {})
        artefacts.deliver(own, places)
    return 0


def finished(own: Path, places: dict[str, Path], asked: dict) -> bool:
    """Whether this configuration has come to its end before; its files are put back where they are
    missing. Losses that were looked for elsewhere, or of other domains, are read again.
    """
    report = own / artefacts.REPORT
    known = read_json(report) if report.exists() else asked
    changed = [name for name in asked if known.get(name) != asked[name]]
    if changed:
        say(f"{own} holds this run; its losses are read again, for its {' and '.join(changed)} have changed.")
        report.unlink()
    found = artefacts.restore(own, places)
    if found is None:
        return False
    changed, complaint = found
    done = f"{', '.join(path.name for path in changed)} put back" if changed else "nothing to do"
    say(complaint or f"{own} holds this run, which has come to its end: {done}.")
    return complaint is None


def has_ended(own: Path) -> bool:
    """Whether the command has trained this configuration to its end and left losses."""
    lines = checkpoints.attempts(own)
    return bool(lines) and lines[-1]["event"] == "ended"


def offsets(asked: dict, own: Path) -> list[int]:
    """Bytes of the losses when each attempt began, of those after which they were appended to: a
    file that is written again has what one attempt says.
    """
    there = content(source(asked, own / WORK))
    begun = [line for line in checkpoints.attempts(own) if line["event"] == "begun"]
    return [line["bytes"] for line in begun if line["seen"] == digest_bytes(there[: line["bytes"]])]


def attempt(
    words: Sequence[str], own: Path, held: int, options: argparse.Namespace, deadline: float | None, name: str
) -> int:
    """Let the command train once: 0, it has ended and left losses, or STOPPED on request.

    Errors: it failed, or it ended without having written losses since the run began.
    """
    path = source(options.trainer["losses"], own / WORK)
    before = stamp(path)
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, frame: signals.append(received))

    def stop() -> bool:
        late = deadline is not None and time.time() > deadline
        return bool(signals) or late or checkpoints.must_stop(own.parent)

    origin = provenance.code(provenance.PACKAGES) | {"device": device(options), "processes": max(options.gpus, 1)}
    seen = content(path)
    first = next((line for line in checkpoints.attempts(own) if line["event"] == "begun"), {"stamp": before})
    checkpoints.note(
        own, "begun", last_step(options, own), **origin, bytes=len(seen), seen=digest_bytes(seen), stamp=before
    )
    begun = time.monotonic()
    status, asked = follow(words, own / OUTPUT, sys.stderr.fileno(), held, stop)
    spent = {"seconds": round(time.monotonic() - begun, 3), "status": status}
    step = last_step(options, own)
    written = stamp(path) not in (None, first["stamp"])
    if status == 0 and written and (not asked or step == options.recipe["steps"]):
        checkpoints.note(own, "ended", step, **spent)
        return 0
    if asked:
        checkpoints.note(own, "stopped", step, **spent)
        say(f"Stopped at step {step} of {options.recipe['steps']}: another attempt goes on in {own}.")
        return STOPPED
    checkpoints.note(own, "failed", step, **spent)
    if status:
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        raise InputError(f"{name}: its command {how}; {own / OUTPUT} has its last words.")
    raise InputError(
        f"{name}: its command ended with status 0 and has written nothing to {path}: a run that skips itself is no"
        f" success. {own / OUTPUT} has its last words."
    )


def stamp(path: Path) -> list[int] | None:
    """What changes when a file is written; None where it is not there, or empty."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return [found.st_ino, found.st_size, found.st_mtime_ns] if found.st_size else None


def last_step(options: argparse.Namespace, own: Path) -> int:
    """The last step with a loss so far, 0 where none can be read."""
    try:
        asked = options.trainer["losses"]
        return max(row.step for row in read(asked, own / WORK, offsets(asked, own)))
    except InputError:
        return 0


def mixture_file(options: argparse.Namespace, mixture: Mixture, folder: Path, recipe: dict, tokens: int) -> Path:
    """The mixture as the command reads it."""
    if "format" not in options.trainer:
        path = folder / "mixture.json"
        mixture.write(path)
        return path
    form = options.trainer["format"]
    path = folder / f"mixture{FORMATS[form].ending}"
    flags = ["--mixture", options.mixture, "--data", options.data, "--format", form]
    flags += ["--run-tokens", tokens, "--run-steps", recipe["steps"]]
    flags += ["--tokens", options.tokens] if options.tokens else []
    with contextlib.redirect_stdout(sys.stderr):
        export_mixture.main([str(flag) for flag in [*flags, "--out", path]])
    return path


def device(options: argparse.Namespace) -> str:
    """What it trains on, as other runs name it."""
    return query("--query-gpu=name")[0][0] if options.gpus else f"cpu, {options.threads} threads"


def describe(options: argparse.Namespace, mixture: Mixture, recipe: dict, tokens: int, own: Path) -> dict:
    """The content of run.json; FLOPs by 6 a parameter and token (Kaplan et al. 2020, Sec. 2.1)."""
    lines, trainer = checkpoints.attempts(own), options.trainer
    seconds = sum(line.get("seconds", 0) for line in lines)
    origin = provenance.code(provenance.PACKAGES)
    return {
        "parameters": trainer["parameters"],
        "tokens": tokens,
        "flops": 6 * trainer["parameters"] * tokens,
        "seconds": round(seconds, 1),
        "tokens_per_second": round(tokens / seconds) if seconds else None,
        "processes": max(options.gpus, 1),
        "device": device(options),
        "gpu_hours": options.gpus * seconds / 3600,
        "seed": recipe["seed"],
        "command": trainer["command"],
        "losses": trainer["losses"],
        "domains": sorted(options.domains),
        "shape": {},
        "recipe": recipe,
        "mixture": mixture.document(),
        "tokenizer": None,
        "versions": origin["versions"],
        "commit": origin["commit"],
        "state": own.name,
        "attempts": provenance.begun(lines),
        "warnings": provenance.warnings(lines),
    }


def say(sentence: str | None) -> None:
    if sentence is not None:
        print(sentence, file=sys.stderr, flush=True)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mixture", type=Path, required=True, help="{domain: proportion}, JSON")
    parser.add_argument("--trainer", type=json.loads, required=True, help="command, format, losses, parameters; JSON")
    parser.add_argument("--data", nargs="?", help="files of each domain, JSON; where the trainer has a format")
    parser.add_argument("--tokens", nargs="?", help="unique tokens of each domain, likewise")
    parser.add_argument(
        "--text",
        nargs="*",
        type=Path,
        default=[],
        help="token indices of training and validation, if it reads their text",
    )
    parser.add_argument("--recipe", type=json.loads, required=True, help="fields of training.Recipe, JSON")
    parser.add_argument("--sequence-length", type=int, required=True, help="tokens of a row")
    parser.add_argument("--domains", nargs="+", required=True, help="domains whose losses the run must leave")
    parser.add_argument("--gpus", type=int, required=True, help="GPUs of all nodes together")
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True, help="CPU threads of each node")
    parser.add_argument("--processes", type=int, required=True, help="of this script, by the launcher: 1")
    parser.add_argument("--cpu", action="store_true", help="of the launcher: there is no GPU")
    parser.add_argument("--max-seconds", type=float, help="ask the command to stop after so long")
    parser.add_argument("--lock-seconds", type=float, required=True, help="wait so long for another attempt to stop")
    parser.add_argument("--state", type=Path, required=True, help="folder of the run's configurations")
    parser.add_argument("--losses", type=Path, required=True, help="step, tokens, domain, loss; parquet")
    parser.add_argument("--report", type=Path, required=True, help="run.json")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(run(main))
