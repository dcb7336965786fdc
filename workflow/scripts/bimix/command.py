"""The command `bimix`: each word runs one script of the laws, with its own flags, help and exit
status.

`bimix fit --law bimix ...` is `python workflow/scripts/fit_law.py --law bimix ...`.
"""

import ast
import difflib
import sys
from importlib.metadata import version
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from bimix import dropped
from bimix.errors import run

# {word: script}, in the order of use
COMMANDS = {
    "solve": "solve_mixture.py",
    "import": "import_losses.py",
    "reuse": "reuse_runs.py",
    "first": "propose_first.py",
    "fit": "fit_law.py",
    "predict": "predict_losses.py",
    "optimise": "optimize_mixture.py",
    "intervals": "estimate_intervals.py",
    "next": "propose_round.py",
    "explore": "explore_mixtures.py",
    "export": "export_mixture.py",
    "check": "check_config.py",
    "run": "run_workflow.py",
    "verify": "verify_results.py",
    "watch": "watch_runs.py",
    "doctor": "check_cluster.py",
}
# The package's extra for each missing module; `workflow` installs all.
EXTRAS = {"tensorboard": "tensorboard", "lightgbm": "regmix"}
PACKAGE = Path(__file__).parent
# Where pip puts the files that lie next to the package in a checkout: the same tree, so that
# scripts find the schema.
INSTALLED = PACKAGE / "installed" / "workflow" / "scripts"


def scripts() -> Path:
    """The folder of the scripts: next to the package in a checkout, below it where installed."""
    return INSTALLED if INSTALLED.is_dir() else PACKAGE.parent


def about(script: Path) -> str:
    """The first paragraph of a script's docstring in one line; the script is not run."""
    paragraph = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))).split("\n\n")[0]
    return " ".join(paragraph.split())


def usage() -> str:
    """The text of `bimix --help`."""
    lines = [f"  {word:<10} {about(scripts() / script)}" for word, script in COMMANDS.items()]
    return "\n".join(
        ["usage: bimix [-h] [--version] command ...", "", *lines, "", "bimix COMMAND --help lists a command's flags."]
    )


def loaded(script: Path) -> ModuleType:
    """A script as a module."""
    spec = spec_from_file_location(script.stem, script)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> int:
    """Run the script of the first word; return its exit status, or 2 for an unknown word."""
    word, *rest = sys.argv[1:] or [""]
    if word in ("-h", "--help"):
        print(usage())
        return 0
    if word == "--version":
        print(f"bimix {version('bimix')}")
        return 0
    if word in dropped.COMMANDS:
        print(f"bimix {word}: error: {dropped.COMMANDS[word]}", file=sys.stderr)
        return 2
    if word not in COMMANDS:
        near = difflib.get_close_matches(word, COMMANDS, 1)
        meant = f"did you mean {near[0]}?" if near else f"the commands are {', '.join(COMMANDS)}."
        print(f"bimix: error: {word!r} is no command: {meant}" if word else usage(), file=sys.stderr)
        return 2
    sys.argv = [f"bimix {word}", *rest]
    try:
        return run(loaded(scripts() / COMMANDS[word]).main)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "bimix":
            raise
        print(
            f"bimix {word}: error: this needs {error.name}, which is not installed: in a checkout of this project"
            f" run pip install '.[{EXTRAS.get(error.name.split('.')[0], 'workflow')}]'.",
            file=sys.stderr,
        )
        return 1
