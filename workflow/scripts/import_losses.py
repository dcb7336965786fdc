"""Take losses and mixtures out of the logs and tables of other training stacks.

logs, mixtures (one row for one proportion, or one column a domain) -> FOLDER/losses.csv (mixture,
step, domain, loss), FOLDER/mixtures.csv (mixture, domain, proportion): what the laws are fitted to

Formats, and what is a run of them:
  table        csv, parquet or jsonl, one row an evaluation, one column a metric; the column --run,
               or the file
  wandb        a panel's csv (`run - metric`), or a run's history as csv, parquet or jsonl, called
               as the run
  tensorboard  a folder of event files, or one above those of all runs
  trainer      trainer_state.json of Hugging Face's Trainer; its folder
  olmix        metrics.csv, with ratios.csv as --mixtures; the column `name`
  regmix       its table of losses, with that of train_* as --mixtures; the column `index`
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.errors import InputError, run
from bimix.observations.flags import add_allowed, add_lower
from bimix.observations.imports import FORMATS, REPEATED, Source, read_source
from bimix.observations.metrics import with_metrics
from bimix.observations.observations import observations
from bimix.outputs import write_table
from bimix.tables import read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path, nargs="+", help="files, or folders of event files")
    parser.add_argument("--format", required=True, choices=list(FORMATS), help="the tool that wrote them")
    parser.add_argument("--mixtures", type=Path, required=True, help="mixtures, csv or parquet")
    parser.add_argument(
        "--pattern",
        help="which metrics are losses, such as eval/{domain}/loss; of trainer eval_{domain}_loss, of olmix {domain},"
        " of regmix metric/{domain}_val_loss",
    )
    parser.add_argument(
        "--ratios", help="of olmix and regmix, which columns of --mixtures are proportions: {domain}, train_{domain}"
    )
    parser.add_argument(
        "--step",
        help="column of the step, or the step of all rows; of table `step`, of a history `_step`, of a panel its first",
    )
    parser.add_argument("--run", help="column of the run's name, in table, wandb, olmix and regmix")
    parser.add_argument("--size", help="column of the model's size: its parameters, or a name that --parameters has")
    parser.add_argument("--parameters", help="of all models, or JSON of {size, run or file: parameters}")
    parser.add_argument(
        "--runs", type=Path, help="csv of run, mixture and, of repeated runs, seed; others are left out"
    )
    parser.add_argument(
        "--metrics", type=Path, help="table of mixture and metrics, lower is better: further loss domains"
    )
    parser.add_argument("--rename", type=Path, help="JSON of {domain in the logs: domain}")
    parser.add_argument("--repeated", choices=REPEATED, help="which of two losses at one step to take")
    parser.add_argument("--tokens-per-step", type=int, help="adds the column `tokens`, which epochs are counted by")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where the two tables are written")
    add_allowed(parser)
    add_lower(parser)
    options = parser.parse_args(argv)

    outputs = options.out / "losses.csv", options.out / "mixtures.csv"
    for path in (*options.logs, options.mixtures, *filter(None, [options.runs, options.metrics])):
        if path.resolve() in [output.resolve() for output in outputs]:
            raise InputError(f"--out {options.out}: {path} would be overwritten by what is taken out of it.")
    if options.tokens_per_step is not None and options.tokens_per_step <= 0:
        raise InputError(f"--tokens-per-step is {options.tokens_per_step}: it must be above 0.")
    losses, mixtures, remarks = read_source(Source(**{name: getattr(options, name) for name in Source._fields}))
    if options.tokens_per_step is not None:
        losses = losses.with_columns(tokens=pl.col("step") * options.tokens_per_step)
    if options.metrics is not None:
        losses = with_metrics(
            losses, read_table(options.metrics), str(options.metrics), "the logs", options.lower_is_better
        )
    observed = observations(losses, mixtures, (str(outputs[0]), str(options.mixtures)), options.allow_unmeasured)
    write_table(losses, outputs[0])
    write_table(mixtures.select("mixture", "domain", "proportion").drop_nulls(), outputs[1])
    for remark in (*remarks, *observed.remarks):
        print(f"Remark: {remark}", file=sys.stderr)
    steps = observed.steps
    at = f"{len(steps)} steps from {steps[0]} to {steps[-1]}" if len(steps) > 1 else f"step {steps[0]}"
    print(
        f"{len(observed.mixtures)} mixtures of {len(observed.domains)} domains, losses of {len(observed.loss_domains)} at"
        f" {at}: {outputs[0]}, {outputs[1]}"
    )


if __name__ == "__main__":
    sys.exit(run(main))
