# The config checked and completed: all that is wrong stops before the first job, in sentences that
# name key and line.
import gc
import inspect
import os
import shlex
import sys
from pathlib import Path

from snakemake.common import overwrite_function_params
from snakemake.logging import logger

# All that this workflow uses of Snakemake without its documentation naming it, as in version 9.27.
HOME = Path(str(workflow.current_basedir)).parents[2]
PLANS = workflow.is_main_process  # else this is a job of a call that has planned
DRY_RUN = workflow.output_settings.dryrun
asked = workflow.output_settings
OWN_WORDS = asked.verbose or asked.printshellcmds or asked.debug_dag or asked.quiet  # more or fewer than usual
GIVEN_CONFIG = workflow.config_settings.config  # by --config
GIVEN_FILES = workflow.overwrite_configfiles  # by --configfile
REPLACED = workflow.config_settings.replace_workflow_config  # --replace-workflow-config


def runs_jobs():
    """Whether this call runs what it plans."""
    return workflow.executor_plugin is not None and not workflow.dryrun


def holds_locks():
    """Whether this call locks what it writes."""
    return workflow.execution_settings.lock


def runs_here():
    """Whether jobs run on this machine: of a dry run Snakemake keeps that others would take threads."""
    return not workflow.execution_settings.use_threads


def planned_datasets():
    """The datasets of the jobs that are to run."""
    return sorted({job.wildcards_dict.get("dataset") for job in workflow.dag.needrun_jobs()} - {None})


def planned_trainings(rules):
    """Rule and wildcards of each training that is to run, how many other jobs there are, the cores where
    they run here, and the GPUs that they share (0: none are named).
    """
    jobs = list(workflow.dag.needrun_jobs())
    trained = [(job.rule.name, job.wildcards_dict) for job in jobs if job.rule.name in rules]
    cores = workflow.resource_settings.cores if runs_here() else None
    if cores and DRY_RUN and not any(word.startswith(("--cores", "-c", "-j")) for word in sys.argv[1:]):
        cores = len(os.sched_getaffinity(0))  # a dry run that names none has one
    gpus = dict(workflow.resource_settings.resources).get("gpu")
    return trained, len(jobs) - len(trained), cores, int(getattr(gpus, "value", gpus) or 0)


def of_wildcards(find):
    """The function with its parameters written down, which Snakemake else works out three times
    for each parameter of each job, in a tenth of the time of planning.
    """
    overwrite_function_params(find, inspect.signature(find).parameters)
    return find


sys.path.insert(0, str(HOME / "workflow/scripts"))
from bimix.errors import masked
from bimix.errors import InputError
from bimix.settings import files as settings_files

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
# by its launcher, which finds scripts next to it.
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


def config_files():
    """The files behind the config in the order in which they are merged."""
    return settings_files.config_files(PREFIX, GIVEN_FILES, REPLACED)


def check_files():
    """Stop on files that are no config before Snakemake reads config.yaml: it would run code in
    there.
    """
    try:
        settings_files.check_files(config_files() if PLANS else [])
    except InputError as error:
        end_planning(error)


filled = {}  # what was chosen for datasets by their text and the machine


def prepared():
    """The config of all files over the workflow's defaults, complete.

    Stop before the first job on a wrong config, and print what is to be said on another.
    """
    settings_files.announce_laws(config_files())
    from bimix.settings.prepare import Call, prepare  # here: it imports the table of laws

    try:
        ready = prepare(
            Call(HOME, PREFIX, config_files(), len(GIVEN_FILES), GIVEN_CONFIG, sys.argv[1:], PLANS, DRY_RUN)
        )
    except InputError as error:
        end_planning(error)
    filled.update(ready.filled)
    for remark in ready.remarks:
        logger.warning(f"Remark: {remark}")
    return ready.config
