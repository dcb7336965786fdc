# What the terminal shows of a call: a line for each finished job instead of Snakemake's
# paragraphs, which stay in .snakemake/log.
from bimix.plan.targets import nearest
from bimix.results import terminal
from bimix.settings.ladder import foreseen


def wants_more():
    """Whether the caller has requested Snakemake's own words, or fewer of them."""
    asked = workflow.output_settings
    return asked.verbose or asked.printshellcmds or asked.debug_dag or asked.quiet


def reused():
    """What is said of older runs that join a fit."""
    joining = {
        job.wildcards_dict["dataset"] for job in workflow.dag.needrun_jobs() if job.rule.name == "reuse_mixtures"
    }
    return [inputs.reused_sentence(DATASETS[name]) for name in sorted(joining)]


def took():
    """What the jobs of this call will take, by the config's `hardware`."""
    jobs = list(workflow.dag.needrun_jobs())
    runs = [
        (job.rule.name, job.wildcards_dict["dataset"], job.wildcards_dict.get("model"))
        for job in jobs
        if job.rule.name in terminal.TRAININGS
    ]
    cores = workflow.resource_settings.cores  # none where jobs run elsewhere
    if workflow.output_settings.dryrun and cores == 1:  # --cores is not given
        cores = len(os.sched_getaffinity(0))
    return foreseen(config, runs, len(jobs) - len(runs), cores) if cores else ""


call_lines = terminal.Lines(workflow.output_settings.dryrun, functools.partial(nearest, config), reused, took)
if workflow.is_main_process and not in_module() and not wants_more():
    terminal.install(logger, call_lines)
