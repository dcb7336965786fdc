"""Train one model on one mixture by a user's command, and read the losses that it writes.

mixture, command, recipe -> losses.parquet, run.json (and state/, where the command writes)
"""

import argparse
import contextlib
import functools
import json
import signal
import sys
from pathlib import Path

import export_mixture
from bimix.errors import run
from bimix.exports.formats import FORMATS
from bimix.mixtures.mixture import Mixture
from bimix.training.command_run import CommandRun


def main(argv: list[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # launch_training.sh ignores it
    options = parse(argv)
    return CommandRun(options, functools.partial(write_mixture, options)).bring_to_end()


def write_mixture(options: argparse.Namespace, folder: Path) -> Path:
    """The mixture as the command reads it, in its own file of a folder."""
    form, recipe = options.trainer.get("format"), options.recipe
    if form is None:
        Mixture.read(options.mixture).write(folder / "mixture.json")
        return folder / "mixture.json"
    path = folder / f"mixture{FORMATS[form].ending}"
    tokens = recipe["steps"] * recipe["batch_rows"] * options.sequence_length
    flags = ["--mixture", options.mixture, "--data", options.data, "--format", form]
    flags += ["--run-tokens", tokens, "--run-steps", recipe["steps"]]
    flags += ["--tokens", options.tokens] if options.tokens else []
    with contextlib.redirect_stdout(sys.stderr):
        export_mixture.main([str(flag) for flag in [*flags, "--out", path]])
    return path


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mixture", type=Path, required=True, help="{domain: proportion}, JSON")
    parser.add_argument("--trainer", type=json.loads, required=True, help="command, format, losses, parameters; JSON")
    parser.add_argument("--data", nargs="?", help="files of each domain, JSON; where the trainer has a format")
    parser.add_argument("--tokens", nargs="?", help="unique tokens of each domain, likewise")
    parser.add_argument("--text", nargs="*", type=Path, default=[], help="token indices of both splits, if it is read")
    parser.add_argument("--recipe", type=json.loads, required=True, help="fields of training.Recipe, JSON")
    parser.add_argument("--sequence-length", type=int, required=True, help="tokens of a row")
    parser.add_argument("--domains", nargs="+", required=True, help="domains whose losses the run must leave")
    parser.add_argument("--gpus", type=int, required=True, help="GPUs of all nodes together")
    parser.add_argument("--nodes", type=int, required=True, help="nodes of the run")
    parser.add_argument("--threads", type=int, required=True, help="CPU threads of each node")
    parser.add_argument("--processes", type=int, required=True, help="of this script, by the launcher: 1")
    parser.add_argument("--cpu", action="store_true", help="of the launcher: there is no GPU")
    parser.add_argument("--max-seconds", type=float, help="request the command to stop after so long")
    parser.add_argument("--lock-seconds", type=float, required=True, help="wait so long for another attempt to stop")
    parser.add_argument("--state", type=Path, required=True, help="folder of the run's configurations")
    parser.add_argument("--losses", type=Path, required=True, help="step, tokens, domain, loss; parquet")
    parser.add_argument("--report", type=Path, required=True, help="run.json")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(run(main))
