# What the terminal shows of a call: a line for each finished job instead of Snakemake's
# paragraphs, which stay in .snakemake/log.
from bimix.plan.targets import nearest
from bimix.results import terminal


def wants_more():
    """Whether the caller has requested Snakemake's own words, or fewer of them."""
    asked = workflow.output_settings
    return asked.verbose or asked.printshellcmds or asked.debug_dag or asked.quiet


call_lines = terminal.Lines(workflow.output_settings.dryrun, functools.partial(nearest, config))
if workflow.is_main_process and not in_module() and not wants_more():
    terminal.install(logger, call_lines)
