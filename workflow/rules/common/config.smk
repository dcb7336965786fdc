# The config checked and completed: all that is wrong stops before the first job, in sentences that name key and line.
import os
import re
import sys
from pathlib import Path

import yaml
from snakemake.logging import logger

sys.path.insert(0, str(Path(workflow.basedir, "workflow/scripts")))
from bimix.addresses import masked
from bimix.errors import InputError
from bimix.config import checks
from bimix.config.complete import complete

# Jobs meet names of domains and files that are UTF-8, in whatever locale they run.
os.environ.update(PYTHONUTF8="1")


def end_planning(error):
    """End Snakemake with a sentence as the last thing it prints: an exception would have a traceback behind it."""
    logger.error(masked(str(error)))
    raise SystemExit(1)


def config_files():
    """The files behind the config in the order in which Snakemake merges them: config.yaml, then those of --configfile."""
    given = [Path(path) for path in workflow.overwrite_configfiles]
    own = [] if workflow.config_settings.replace_workflow_config else [Path("config.yaml")]
    return [path for path in own if path.exists()] + [
        Path(os.path.relpath(path)) if path.is_relative_to(Path.cwd()) else path for path in given
    ]


def check_files():
    """Stop on files that are no config before Snakemake reads config.yaml: it would run code in there."""
    if sys.getfilesystemencoding() != "utf-8":
        end_planning(
            f"Python reads names of files as {sys.getfilesystemencoding()} here, and they are UTF-8: set PYTHONUTF8=1."
        )
    try:
        checks.check_files(config_files() if workflow.is_main_process else [])
    except InputError as error:
        end_planning(error)


def wanted_datasets():
    """Datasets of which everything is to be built: their files must be there. What a single target needs its jobs say.

    Of none where a folder is unlocked: whoever does that wants to go on with single targets, perhaps.
    """
    if any(word.startswith("results/") or word == "--unlock" for word in sys.argv[1:]):
        return []
    return [config["run"]] if isinstance(config.get("run"), str) else config.get("run") or []


def prepare_config():
    """Stop before the first job on a wrong config, print what is to be said on another, and complete that."""
    if workflow.is_main_process:
        code = Path(workflow.basedir)
        schema = yaml.safe_load((code / "workflow/schemas/config.schema.yaml").read_text(encoding="utf-8"))
        given = workflow.config_settings.config
        try:
            checks.check_results(Path("results"))
            remarks = checks.check(config, schema, code, config_files(), wanted_datasets(), given)
        except InputError as error:
            end_planning(error)
        for remark in remarks:
            logger.warning(f"Remark: {remark}")
    else:  # a job of one that was checked
        checks.as_text(config, config_files())
    complete(config)
