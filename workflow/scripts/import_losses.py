"""Take losses and mixtures out of the logs of other training stacks.

logs, mixtures (one row for one proportion, or one column a domain) -> FOLDER/losses.csv (mixture,
step, domain, loss), FOLDER/mixtures.csv (mixture, domain, proportion, pool where it has one): what
the laws are fitted to

A log is a table of evaluations (csv, parquet, jsonl: a history or a panel of wandb), a
trainer_state.json of Hugging Face's Trainer, a folder of TensorBoard's event files, or lm_eval's
results.
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.errors import InputError, run
from bimix.observations.benchmarks import is_results, metrics_table
from bimix.observations.flags import add_lower
from bimix.observations.imports import REPEATED, joined, losses_of, pattern, read_runs
from bimix.observations.metrics import with_metrics
from bimix.observations.observations import observations
from bimix.outputs import write_table
from bimix.tables import read_json, read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path, nargs="+", help="files, or folders of event files")
    parser.add_argument("--mixtures", type=Path, required=True, help="mixtures, csv or parquet")
    parser.add_argument("--pattern", required=True, help="which metrics are losses, such as eval/{domain}/loss")
    parser.add_argument("--step", help="column of the step, or the step of all rows; else step, _step or Step")
    parser.add_argument("--run", help="column of the run's name; else a run is called as its file, folder or line")
    parser.add_argument("--runs", type=Path, help="csv of run, mixture, if need be seed and parameters")
    parser.add_argument(
        "--metrics", type=Path, nargs="+", default=[], help="further loss domains: a table of mixture and metrics, lower"
        " is better, or lm_eval's results of each run"
    )  # fmt: skip
    parser.add_argument("--repeated", choices=REPEATED, help="which of two losses at one step to take")
    parser.add_argument("--tokens-per-step", type=int, help="adds the column `tokens`, which epochs are counted by")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where the two tables are written")
    add_lower(parser)
    options = parser.parse_args(argv)

    outputs = options.out / "losses.csv", options.out / "mixtures.csv"
    for path in (*options.logs, options.mixtures, *filter(None, [options.runs]), *options.metrics):
        if path.resolve() in [output.resolve() for output in outputs]:
            raise InputError(f"--out {options.out}: {path} would be overwritten by what is taken out of it.")
    if options.tokens_per_step is not None and options.tokens_per_step <= 0:
        raise InputError(f"--tokens-per-step is {options.tokens_per_step}: it must be above 0.")
    form, lower = pattern(options.pattern), options.lower_is_better
    logs = {path.resolve(): path for path in options.logs}.values()
    runs = options.runs and read_runs(options.runs)
    said: dict[str, str] = {}
    found = [loss for path in logs for loss in losses_of(path, form, options.step, options.run, runs, lower, said)]
    losses, mixtures, remarks = joined(found, options.mixtures, runs, options.repeated)
    if options.tokens_per_step is not None:
        losses = losses.with_columns(tokens=pl.col("step") * options.tokens_per_step)
    if options.metrics:
        first, *further = options.metrics
        if first.suffix == ".json" or further:
            table, remark = metrics_table(options.metrics, runs)
            remarks += [remark] if remark else []
        else:
            table = read_table(first)
        losses = with_metrics(losses, table, str(first), "the logs", lower)
    elif all(path.suffix == ".json" and is_results(read_json(path, (dict, list))) for path in logs):
        losses = losses.with_columns(metric=pl.lit(True))  # units of their own, no nats per token
    names = f"the losses for {outputs[0]}", str(options.mixtures)  # which is not written where they are refused
    observed = observations(losses, mixtures, names)
    write_table(losses, outputs[0])
    shares = ["mixture", "domain", "proportion"]
    pool = ["pool"] if "pool" in mixtures.columns else []
    write_table(mixtures.select(*shares, *pool).drop_nulls(shares), outputs[1])
    for remark in (*(f"{place}: {one}" for one, place in said.items()), *remarks, *observed.remarks):
        print(f"Remark: {remark}", file=sys.stderr)
    steps = observed.steps
    at = f"{len(steps)} steps from {steps[0]} to {steps[-1]}" if len(steps) > 1 else f"step {steps[0]}"
    print(
        f"{len(set(observed.mixtures))} mixtures of {len(observed.domains)} domains, losses of {len(observed.loss_domains)} at"
        f" {at}: {outputs[0]}, {outputs[1]}"
    )


if __name__ == "__main__":
    sys.exit(run(main))
