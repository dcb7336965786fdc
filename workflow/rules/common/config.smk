# The config checked and completed: all that is wrong stops before the first job, in sentences that
# name key and line.
import gc
import os
import shlex
import sys
from pathlib import Path

from snakemake.logging import logger

# Of this file, not workflow.basedir: in a module that is the folder of the Snakefile that uses it.
HOME = Path(str(workflow.current_basedir)).parents[2]
sys.path.insert(0, str(HOME / "workflow/scripts"))
from bimix.errors import masked
from bimix.errors import InputError
from bimix.settings import files as settings_files
from bimix.settings.prepare import Call, prepare

# Planning makes millions of objects that stay; looking through them again is a tenth of its time.
gc.set_threshold(200_000, 20, 20)
# Jobs meet names of domains and files that are UTF-8, in whatever locale they run.
os.environ.update(PYTHONUTF8="1")


def end_planning(error):
    """End Snakemake with a sentence as the last thing it prints: an exception would have a
    traceback behind it.
    """
    logger.error(masked(str(error)))
    raise SystemExit(1)


try:
    PREFIX = settings_files.prefix(HOME, Path.cwd())
except InputError as error:
    end_planning(error)

# What a command begins with: the call of a script, from the folder of the results; of a training
# by its launcher, which finds scripts next to it. A variable in the text would do but in a module,
# whose variables Snakemake does not find when it prints a command.
SCRIPTS = shlex.quote(f"{PREFIX}workflow/scripts/")
RUN = f"python {SCRIPTS}"
LAUNCHER = f"exec bash {SCRIPTS}launch_training.sh "


def code(path):
    """A file of the workflow, found from the folder of the results: as it stands where they are
    one.
    """
    return f"{PREFIX}{path}"


def has_own_config():
    """Whether there is a config.yaml in the folder of the results that is not the workflow's."""
    return bool(PREFIX) and Path("config.yaml").exists()


def in_module():
    """Whether another Snakefile uses this one as a module, with a config: Snakemake then reads no
    config file here.
    """
    return workflow.modifier.skip_configfile


def config_files():
    """The files behind the config in the order in which they are merged.

    In a module those that the Snakefile has read that uses it, and none where it gives a block of
    them: keys stand elsewhere there.
    """
    own, replaced = [code("config.yaml")], workflow.config_settings.replace_workflow_config
    if in_module():
        if config is not workflow.modifier.parent_modifier.globals["config"]:
            return []
        own += workflow.configfiles
    elif replaced or has_own_config():
        own = [] if replaced else [*own, "config.yaml"]
    return settings_files.config_files(own, workflow.overwrite_configfiles)


def check_files():
    """Stop on files that are no config before Snakemake reads config.yaml: it would run code in
    there.
    """
    files = config_files() if workflow.is_main_process and not in_module() else []
    try:
        settings_files.check_files(files)
    except InputError as error:
        end_planning(error)


filled = {}  # what was chosen for datasets by their text and the machine


def prepared(config):
    """The config of all files over the workflow's defaults, complete.

    Stop before the first job on a wrong config, and print what is to be said on another.
    """
    given, words = workflow.config_settings.config, sys.argv[1:]
    given_files, plans = len(workflow.overwrite_configfiles), workflow.is_main_process
    try:
        call = Call(HOME, PREFIX, config_files(), given_files, given, words, plans, workflow.output_settings.dryrun)
        ready = prepare(call, config if in_module() else None)
    except InputError as error:
        end_planning(error)
    filled.update(ready.filled)
    for remark in ready.remarks:
        logger.warning(f"Remark: {remark}")
    return ready.config
