# What the terminal says of a call: a line for each finished job with the share of the work done, in
# the place of Snakemake's paragraphs, which stay in .snakemake/log.
from bimix.progress import terminal
from bimix.progress.nearest import nearest
from bimix.progress.work import work


def jobs_of_call():
    """Number, rule and wildcards of each job of this call."""
    jobs = workflow.dag.needrun_jobs(exclude_finished=False) if workflow.dag else []
    return [(workflow.dag.jobid(job), job.rule.name, job.wildcards_dict) for job in jobs]


def wants_more():
    """Whether the caller has asked for Snakemake's own words, or for fewer of them."""
    said = workflow.output_settings
    return said.verbose or said.printshellcmds or said.debug_dag or said.quiet


call_progress = terminal.Progress(
    jobs_of_call,
    functools.partial(work, config),
    dry=workflow.output_settings.dryrun,
    near=functools.partial(nearest, config),
)
if workflow.is_main_process and not in_module() and not wants_more():
    terminal.install(logger, call_progress)
