"""A part of a swarm as the workflow trains it, run after run and several runs at once, in turns.

-> seconds of a part each way, by the clock and of CPU, and how many times faster at once

    python tests/benchmarks/bench_parts.py --runs 4 --stacked 4 --folder out --cpu
    python tests/benchmarks/bench_parts.py --runs 16 --stacked 16 --steps 400 --folder out

Each part is a process of train_swarm.py on the made-up corpus of bench_chain.py, start-up included.
Parts of `--least` updates are timed too: what is told of updates is the difference to them. It ends
with an error where the ways differ by more than rounding in a loss after so few; later rounding
grows, as it does between two sizes of a micro-batch.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
from bench_chain import DOMAINS, RECIPE, alone, make_corpus, words

TOLERANCE = 1e-4  # of the losses after the first updates, relative


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="of the corpus and the runs; emptied first")
    parser.add_argument("--runs", type=int, required=True, help="of a part")
    parser.add_argument("--stacked", type=int, required=True, help="runs at once")
    parser.add_argument("--steps", type=int, default=40, help="updates of a run")
    parser.add_argument("--least", type=int, default=2, help="updates of the runs that tell what the start takes")
    parser.add_argument("--batch-rows", type=int, default=8, help="rows of 64 tokens of an update of one run")
    parser.add_argument("--width", type=int, default=64, help="of the two layers of two heads")
    parser.add_argument("--compile", choices=("yes", "no"), default="no", help="compile both ways")
    parser.add_argument("--cpu", action="store_true", help="run on the CPU even where there is a GPU")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each way; medians are printed")
    parser.add_argument("--json", type=Path, help="file of the numbers")
    options = parser.parse_args(argv)
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    make_corpus(options.folder)
    rows = []
    for run in range(options.runs):
        first = (run + 1) / (options.runs + 1)
        shares = (first, (1 - first) / 2, (1 - first) / 2)
        rows += [(f"run_{run}", domain, share) for domain, share in zip(DOMAINS, shares, strict=True)]
    table = pl.DataFrame(rows, schema=["mixture", "domain", "proportion"], orient="row")
    table.write_parquet(options.folder / "swarm.parquet")
    spent: dict[tuple[str, str], list[float]] = {}
    for _ in range(options.rounds):
        losses = []
        for way, stacked in (("one by one", 1), ("at once", options.stacked)):
            start = timed(part(options, stacked, options.least))
            losses.append(pl.read_parquet(options.folder / "losses.parquet")["loss"])
            whole = timed(part(options, stacked, options.steps))
            for clock, begun, ended in zip(("s", "s of CPU"), start, whole, strict=True):
                spent.setdefault((way, clock), []).append(ended)
                spent.setdefault((way, f"{clock}, updates"), []).append(ended - begun)
        apart = ((losses[0] - losses[1]).abs() / losses[0]).max()
        if not apart <= TOLERANCE:
            sys.exit(f"the losses of the two ways differ by {apart:.2g} after {options.least} updates")
    numbers = {f"{way}, {clock}": statistics.median(values) for (way, clock), values in spent.items()}
    for clock in ("s", "s of CPU", "s, updates", "s of CPU, updates"):
        pairs = zip(spent["one by one", clock], spent["at once", clock], strict=True)
        numbers[f"times as fast, {clock}"] = statistics.median(one / other for one, other in pairs)
    numbers["largest difference of losses"] = apart
    for name, value in numbers.items():
        print(f"{name:32} {value:9.3g}")
    if options.json:
        options.json.write_text(json.dumps(numbers), encoding="utf-8")


def part(options: argparse.Namespace, stacked: int, steps: int) -> list[str]:
    """The command of a part that begins anew."""
    folder = options.folder
    shutil.rmtree(folder / "state", ignore_errors=True)
    settings = {"steps": steps, "evaluate_every": steps, "batch_rows": options.batch_rows, "precision": "no"}
    flags = {
        "train": folder / "train.parquet",
        "validation": folder / "validation.parquet",
        "tokenizer": folder / "tokenizer.json",
        "mixtures": folder / "swarm.parquet",
        "shape": json.dumps({"layers": 2, "width": options.width, "heads": 2}),
        "recipe": json.dumps(RECIPE | settings),
        "processes": 1,
        "micro-batch": options.batch_rows,
        "loss-chunk": "all",
        "lock-seconds": 30,
        "compile": options.compile,
        "stacked": stacked,
        "state": folder / "state",
        "losses": folder / "losses.parquet",
        "runs": folder / "runs.parquet",
    }
    names = [f"run_{run}" for run in range(options.runs)]
    return [*words("train_swarm.py", flags, options.cpu), "--names", *names]


def timed(command: list[str]) -> tuple[float, float]:
    """Seconds of a command by the clock, and of CPU."""
    begun, before = time.perf_counter(), os.times()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=alone())
    if done.returncode:
        sys.exit(f"{Path(command[1]).name} ended with status {done.returncode}:\n{done.stderr}")
    after = os.times()
    busy = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - begun, busy


if __name__ == "__main__":
    main()
