# What the terminal shows of a call: a line for each finished job instead of Snakemake's
# paragraphs, which stay in .snakemake/log.
from bimix.plan.targets import nearest
from bimix.results import terminal
from bimix.plan.forecast import training_hours

call_lines = terminal.Lines(
    DRY_RUN,
    functools.partial(nearest, DATASETS.values()),
    lambda: terminal.busy() if runs_here() else [],
    lambda: training_hours(config, *planned_trainings(terminal.TRAININGS)),
)
if PLANS and not OWN_WORDS:
    terminal.install(logger, call_lines)
