"""Measure what a run costs inside a swarm and alone (no test: run it by hand).

snakemake --cores all results/demo/mixtures/groups/swarm.parquet results/demo/tokens/train.parquet
OMP_NUM_THREADS=1 python tests/benchmarks/bench_swarm.py results/demo \
    [--steps 50 --runs 64 --together 16 --compile no] -> standard output

Before each part of the swarm a run is started alone, as the rule pretrain_model does it; both train
the same steps on the same mixtures with the demo's settings. A part of --together runs is a
process, start-up included. Seconds of CPU (user and system) are given beside those of the clock: on
a shared machine they are the steadier ones.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
import yaml

sys.path.insert(0, str(Path(__file__).parents[2] / "workflow/scripts"))

from bimix.settings.complete import whole_recipes

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "workflow/scripts"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path, help="results/demo, with tokens and the swarm's mixtures")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--evaluate-every", type=int, default=None, help="without it only at the end")
    parser.add_argument("--runs", type=int, default=64)
    parser.add_argument("--together", type=int, default=16)
    parser.add_argument("--compile", choices=("yes", "no"), default="no", help="compile the model of both")
    options = parser.parse_args()
    config = yaml.safe_load((ROOT / "workflow/defaults.yaml").read_text())
    config["training"] = whole_recipes(config["training"])
    model = config["models"][options.model]
    changes = {"steps": options.steps, "evaluate_every": options.evaluate_every or options.steps}
    recipe = config["training"]["demo"] | changes
    launch = model["launch"]
    flags = [
        "--cpu",
        "--lock-seconds",
        "0",
        "--processes",
        "1",
        "--micro-batch",
        launch["micro_batch"],
        "--loss-chunk",
        launch["loss_chunk"],
        "--compile",
        options.compile,
    ]
    for name in ("train", "validation"):
        flags += [f"--{name}", options.dataset / f"tokens/{name}.parquet"]
    flags += ["--tokenizer", options.dataset / "tokenizer.json", "--shape", json.dumps(model["shape"])]
    flags = [*map(str, flags), "--recipe", json.dumps(recipe)]
    table = pl.read_parquet(options.dataset / "mixtures/groups/swarm.parquet")
    mixtures = {
        name[0]: dict(part.select("domain", "proportion").iter_rows()) for name, part in table.group_by("mixture")
    }
    drawn = sorted(mixtures)

    alone, swarm = [], []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for part in range(options.runs // options.together):
            first = mixtures[drawn[part]]
            alone.append(start_alone(place / f"alone{part}", first, flags))
            # the same drawn mixtures may come again under other names: a run's cost does not depend
            # on which they are
            chosen = {f"run{part}_{k}": mixtures[drawn[k % len(drawn)]] for k in range(options.together)}
            swarm.append(start_part(place / f"part{part}", chosen, flags) / options.together)
            print(f"part {part + 1}: alone {alone[-1]}, in the swarm {swarm[-1]} a run (clock, CPU)", flush=True)
    print(f"{options.model}, {options.steps} steps, {options.runs} runs, {options.together} a process:")
    for name, one, other in zip(("clock", "CPU"), np.mean(alone, axis=0), np.mean(swarm, axis=0), strict=True):
        print(f"  {name}: alone {one:.2f} s; in the swarm {other:.2f} s a run, {other / one:.1%} of that")


def start_alone(place: Path, mixture: dict, flags: list[str]) -> np.ndarray:
    """Seconds (clock, CPU) of one run, started as the rule pretrain_model does it."""
    place.mkdir()
    (place / "mixture.json").write_text(json.dumps(mixture))
    launcher = "accelerate launch --main_process_port 0 --cpu --num_processes 1 --num_machines 1 --mixed_precision no"
    outputs = {"state": "state", "losses": "losses.parquet", "weights": "model.safetensors", "report": "run.json"}
    own = [word for flag, name in outputs.items() for word in (f"--{flag}", str(place / name))]
    own += ["--mixture", str(place / "mixture.json")]
    return timed([*launcher.split(), "--dynamo_backend", "no", str(SCRIPTS / "pretrain_model.py"), *flags, *own])


def start_part(place: Path, mixtures: dict, flags: list[str]) -> np.ndarray:
    """Seconds (clock, CPU) of a part of a swarm."""
    place.mkdir()
    rows = [(name, *pair) for name, mixture in mixtures.items() for pair in mixture.items()]
    pl.DataFrame(rows, schema=["mixture", "domain", "proportion"], orient="row").write_parquet(place / "swarm.parquet")
    own = ["--mixtures", place / "swarm.parquet", "--names", *mixtures, "--state", place / "state"]
    own += ["--losses", place / "losses.parquet", "--runs", place / "runs.parquet"]
    return timed([sys.executable, str(SCRIPTS / "train_swarm.py"), *flags, *map(str, own)])


def timed(command: list[str]) -> np.ndarray:
    """Seconds (clock, CPU of it and what it started) of a command."""
    begun, before = time.perf_counter(), os.times()
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"})
    after = os.times()
    busy = after.children_user + after.children_system - before.children_user - before.children_system
    return np.array([time.perf_counter() - begun, busy])


if __name__ == "__main__":
    main()
