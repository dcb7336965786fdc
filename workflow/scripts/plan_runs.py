"""Say what a dataset's trainings will cost before any is started: runs, FLOPs, hours, disk.

list of runs, models, recipes, hardware -> plan.csv, and the same as a table on standard output
"""

import argparse
import json
import sys
from pathlib import Path

from tokenizers import Tokenizer

from bimix.errors import run
from bimix.judge.budget import cost, with_totals
from bimix.model.shape import Shape
from bimix.outputs import write_table
from bimix.plan.budget import PlannedRuns
from bimix.results import layout
from bimix.training.costs import Device, Stated


def brief(number: float) -> str:
    """A number to three digits, from a thousand on with all digits before the point."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


# What is printed of each row: the heading, and how its number is written.
PRINTED = {
    "what": ("what", str),
    "model": ("model", str),
    "runs": ("runs", "{:,}".format),
    "done": ("done", "{:,}".format),
    "tokens_per_run": ("tokens a run", "{:.3g}".format),
    "flops_per_run": ("FLOPs a run", "{:.3g}".format),
    "devices_per_run": ("devices a run", str),
    "device": ("device", str),
    "utilisation": ("at a share of its peak of", "{:.2f}".format),
    "hours_per_run": ("hours a run", brief),
    "device_hours_left": ("device hours left", brief),
    "storage_gb": ("GB on disk", brief),
}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=json.loads, required=True, help="list of plan.budget.PlannedRuns, JSON")
    parser.add_argument("--models", type=json.loads, required=True, help="{model: {shape, launch}}, JSON")
    parser.add_argument("--hardware", type=json.loads, required=True, help="{gpu, cpu: fields of budget.Device}, JSON")
    parser.add_argument("--vocabulary", type=int, help="ids of the tokenizer")
    parser.add_argument("--tokenizer", type=Path, nargs="?", help="tokenizer.json, where --vocabulary is not given")
    parser.add_argument("--sequence-length", type=int, required=True, help="tokens of a row")
    parser.add_argument("--domains", type=int, required=True, help="number of domains that losses are measured of")
    parser.add_argument("--out", type=Path, required=True, help="plan.csv")
    options = parser.parse_args(argv)

    vocabulary = options.vocabulary or Tokenizer.from_file(str(options.tokenizer)).get_vocab_size()
    rows = []
    for planned in (PlannedRuns(**entry) for entry in options.runs):
        model = options.models[planned.model]
        launch = model["launch"]
        kind, devices = ("gpu", launch["gpus"]) if launch["gpus"] else ("cpu", launch["threads"])
        devices *= launch["nodes"]
        # of a model that a command trains only its parameters are known
        shape = Shape(**model["shape"], vocabulary=vocabulary) if "shape" in model else Stated(model["parameters"])
        device = Device(**options.hardware[kind])
        rows.append(cost(planned, shape, options.sequence_length, options.domains, device, devices))
    plan = with_totals(rows)
    write_table(plan, options.out)
    header, written = zip(*PRINTED.values(), strict=True)
    lines = [
        ["" if value is None else write(value) for value, write in zip(row, written, strict=True)]
        for row in plan.select(PRINTED.keys()).iter_rows()
    ]
    print("\n".join(layout.table(list(header), lines, ragged=(0, 1))))


if __name__ == "__main__":
    sys.exit(run(main))
