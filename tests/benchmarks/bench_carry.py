"""Whether the order of mixtures under one schedule and optimizer is their order under another.

results/demo, with tokens -> losses.csv and mixtures.csv of the runs, and what a pick under one
setting costs under another (no test: run it by hand)

    snakemake --cores all results/demo/tokens/train.parquet results/demo/tokens/validation.parquet
    OMP_NUM_THREADS=1 python tests/benchmarks/bench_carry.py results/demo --out FOLDER

Drawn mixtures are trained with the same seeds under each setting: AdamW with half a cosine, Muon
with the same, WSD-S with AdamW, and AdamW with half a cosine over half of the steps. Printed are,
for each pair of settings, of the losses averaged over domains and seeds: Spearman's rank
correlation, and the regret of the mixture that is best under the first, measured under the second.
Beside them stand the same numbers of two seeds of one setting, which are chance. Tables that are
there are read, not made anew: those of resources/observations/carry need no results/demo.
"""

import argparse
import itertools
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "workflow/scripts"))

import numpy as np
import polars as pl
import yaml
from scipy.stats import spearmanr

import train_swarm
from bimix.settings.complete import whole_recipes

ROOT = Path(__file__).parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path, help="results/demo, with tokens; paths in its tables are read from here")
    parser.add_argument("--out", type=Path, required=True, help="folder of losses.csv and mixtures.csv")
    parser.add_argument("--mixtures", type=int, default=12)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--batch-rows", type=int, default=4)
    parser.add_argument("--shape", type=json.loads, default={"layers": 2, "width": 32, "heads": 2})
    options = parser.parse_args()
    if not (options.out / "losses.csv").exists():
        options.out.mkdir(parents=True, exist_ok=True)
        measure(options)
    compare(pl.read_csv(options.out / "losses.csv"))


def settings(steps: int) -> dict[str, dict]:
    """What each setting changes of the demo's recipe."""
    cosine = {"schedule": "cosine", "warmup_share": 0.1, "steps": steps, "evaluate_every": steps // 2}
    return {
        "adamw": cosine,
        "muon": cosine | {"optimizer": "muon"},
        "wsds": cosine | {"schedule": "wsds", "horizons": [steps // 2]},
        "half": cosine | {"steps": steps // 2},
    }


def measure(options: argparse.Namespace) -> None:
    """Train all runs and write both tables."""
    config = yaml.safe_load((ROOT / "workflow/defaults.yaml").read_text(encoding="utf-8"))
    config["training"] = whole_recipes(config["training"])
    own = {"batch_rows": options.batch_rows, "validation_rows": 16}
    domains = sorted(pl.read_parquet(options.dataset / "tokens/train.parquet")["domain"].unique())
    draws = np.random.default_rng(0).dirichlet(np.ones(len(domains)), options.mixtures)
    names = [f"drawn_{number:02d}" for number in range(1, len(draws) + 1)]
    shares = [
        {"mixture": name, "domain": domain, "proportion": share}
        for name, draw in zip(names, draws, strict=True)
        for domain, share in zip(domains, draw, strict=True)
    ]
    tables = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        pl.DataFrame(shares).write_parquet(place / "mixtures.parquet")
        for seed, (setting, changes) in itertools.product(options.seeds, settings(options.steps).items()):
            recipe = config["training"]["demo"] | own | changes | {"seed": seed}
            flags = ["--cpu", "--lock-seconds", "0", "--processes", "1", "--micro-batch", str(options.batch_rows)]
            flags += ["--loss-chunk", "all", "--tokenizer", str(options.dataset / "tokenizer.json")]
            for split in ("train", "validation"):
                flags += [f"--{split}", str(options.dataset / f"tokens/{split}.parquet")]
            flags += ["--shape", json.dumps(options.shape), "--recipe", json.dumps(recipe), "--names", *names]
            flags += ["--mixtures", str(place / "mixtures.parquet"), "--state", str(place / f"{setting}_{seed}")]
            losses = place / f"{setting}_{seed}.parquet"
            if train_swarm.main([*flags, "--losses", str(losses), "--runs", str(place / "runs.parquet")]):
                sys.exit("stopped")
            tables.append(pl.read_parquet(losses).with_columns(pl.lit(setting).alias("setting")))
    columns = ["setting", "mixture", "seed", "step", "tokens", "domain", "loss"]
    losses = pl.concat(tables).select(columns).sort(columns[:-1]).with_columns(pl.col("loss").round(5))
    pl.DataFrame(shares).with_columns(pl.col("proportion").round(6)).write_csv(options.out / "mixtures.csv")
    losses.write_csv(options.out / "losses.csv")


def compare(table: pl.DataFrame) -> None:
    """Print how well picks carry over."""
    last = table["step"].max()
    by_run = table.group_by("setting", "seed", "step", "mixture").agg(pl.col("loss").mean()).sort("mixture")
    seeds = by_run["seed"].unique().sort().to_list()

    def losses(setting: str, step: int, wanted: list[int]) -> np.ndarray:
        """The average loss of each mixture, over the wanted seeds."""
        own = by_run.filter(pl.col("setting") == setting, pl.col("step") == step, pl.col("seed").is_in(wanted))
        return own.group_by("mixture", maintain_order=True).agg(pl.col("loss").mean())["loss"].to_numpy()

    def line(words: str, picked: np.ndarray, measured: np.ndarray) -> None:
        regret = measured[picked.argmin()] - measured.min()
        print(f"{words:44} {spearmanr(picked, measured).statistic:8.3f} {regret:9.4f}")

    ends = [("adamw", last), ("muon", last), ("wsds", last), ("wsds", last // 2), ("half", last // 2)]
    ends.append(("adamw", last // 2))
    for setting, step in ends:
        own = losses(setting, step, seeds)
        print(f"{setting} at {step}: from {own.min():.4f} to {own.max():.4f} nats a token, mean {own.mean():.4f}")
    print(f"{'picked under, measured under':44} {'Spearman':>8} {'regret':>9}")
    pairs = [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1), (3, 4), (4, 3), (5, 4), (4, 5), (4, 0), (3, 2)]
    for one, other in pairs:
        words = f"{ends[one][0]} at {ends[one][1]}, {ends[other][0]} at {ends[other][1]}"
        line(words, losses(*ends[one], seeds), losses(*ends[other], seeds))
    print("chance: one seed picks, the other measures")
    for setting, step in ends:
        for one, other in itertools.permutations(seeds[:2]):
            words = f"{setting} at {step}, seed {one}, seed {other}"
            line(words, losses(setting, step, [one]), losses(setting, step, [other]))


if __name__ == "__main__":
    main()
