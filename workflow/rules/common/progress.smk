# What the terminal shows of a call: a line for each finished job instead of Snakemake's
# paragraphs, which stay in .snakemake/log.
import collections

from bimix.plan.targets import nearest
from bimix.results import terminal
from bimix.settings.ladder import foreseen


def remarks():
    """What is said of a busy machine, of new text whose tokenizer is kept, and of older runs."""
    names = collections.defaultdict(lambda: collections.defaultdict(set))  # {rule: {dataset: its shards}}
    for job in workflow.dag.needrun_jobs():
        names[job.rule.name][job.wildcards_dict.get("dataset")].add(job.wildcards_dict.get("shard"))
    made = names["train_tokenizer"].keys() | names["fetch_tokenizer"].keys()
    tokenised = {name: own for name, own in names["tokenize_shard"].items() if name not in made}
    said = [line for name, own in tokenised.items() for line in growth(shards(name), own)]
    busy = terminal.busy() if runs_here() else []
    return busy + said + [inputs.reused_sentence(DATASETS[name]) for name in sorted(names["reuse_mixtures"])]


def runs_here():
    """Whether jobs run on this machine: of a dry run Snakemake keeps that others would take threads."""
    return not workflow.execution_settings.use_threads


def took():
    """What the trainings of this call will take, by the config's `hardware`."""
    jobs = list(workflow.dag.needrun_jobs())
    trained = [(job.rule.name, job.wildcards_dict) for job in jobs if job.rule.name in terminal.TRAININGS]
    cores = workflow.resource_settings.cores if runs_here() else None
    if cores and workflow.output_settings.dryrun and not terminal.names_cores(sys.argv[1:]):
        cores = len(os.sched_getaffinity(0))
    gpus = dict(workflow.resource_settings.resources).get("gpu")  # that all jobs share, or none is named
    return foreseen(config, trained, len(jobs) - len(trained), cores, int(getattr(gpus, "value", gpus) or 0))


call_lines = terminal.Lines(
    workflow.output_settings.dryrun, functools.partial(nearest, DATASETS.values()), remarks, took
)
asked = workflow.output_settings  # of Snakemake's own words more, or fewer
own_words = asked.verbose or asked.printshellcmds or asked.debug_dag or asked.quiet
if workflow.is_main_process and not in_module() and not own_words:
    terminal.install(logger, call_lines)
