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
from bimix.plan import config as plan_config

# Jobs meet names of domains and files that are UTF-8, in whatever locale they run.
os.environ.update(PYTHONUTF8="1")


def end_planning(error):
    """End Snakemake with a sentence as the last thing it prints: an exception would have a traceback behind it."""
    logger.error(masked(str(error)))
    raise SystemExit(1)


def refuse(key, sentence):
    end_planning(f"config: {key}: {sentence}")


def config_files():
    """The files behind the config in the order in which Snakemake merges them: config.yaml, then those of --configfile."""
    given = [Path(path) for path in workflow.overwrite_configfiles]
    own = [] if workflow.config_settings.replace_workflow_config else [Path("config.yaml")]
    return [path for path in own if path.exists()] + [
        Path(os.path.relpath(path)) if path.is_relative_to(Path.cwd()) else path for path in given
    ]


def check_files():
    """Stop on files that are no config before Snakemake reads config.yaml: it would run code in there."""
    try:
        plan_config.check_files(config_files() if workflow.is_main_process else [])
    except InputError as error:
        end_planning(error)


def wanted_datasets():
    """Datasets of which everything is to be built: their files must be there. What a single target needs its jobs say."""
    if any(word.startswith("results/") for word in sys.argv[1:]):
        return []
    return [config["run"]] if isinstance(config.get("run"), str) else config.get("run") or []


def prepare_config():
    """Stop before the first job on a wrong config, print what is to be said on another, and complete that."""
    schema = yaml.safe_load(Path(workflow.basedir, "workflow/schemas/config.schema.yaml").read_text(encoding="utf-8"))
    main = workflow.is_main_process
    try:
        remarks = plan_config.check(
            config,
            schema,
            Path(workflow.basedir),
            config_files() if main else [],
            wanted_datasets() if main else [],
            workflow.config_settings.config,
        )
    except InputError as error:
        end_planning(error)
    for remark in remarks if main else []:
        logger.warning(f"Remark: {remark}")
    plan_config.complete(config)


def check_swarm(dataset, mixture, key):
    """Refuse a mixture of a law that needs more runs than the swarm has."""
    try:
        plan_config.check_swarm(config, dataset, mixture, key)
    except InputError as error:
        end_planning(error)
