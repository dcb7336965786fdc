"""Measure how good recommendations are on made laws, and how often a lead is seen (no test: run it
by hand).

python tests/benchmarks/bench_judge.py recommend 100 110   # laws 100 to 109: regrets in percent
python tests/benchmarks/bench_judge.py leads 1000          # draws a cell: shares of leads seen
"""

import contextlib
import io
import json
import tempfile
import time
from pathlib import Path

import bench
import made_laws
import numpy as np
import polars as pl

import solve_mixture
from bimix.judge.noise import best_quantile, levels


def main() -> None:
    parser = bench.parser(__doc__)
    parser.add_argument("what", choices=["recommend", "leads"])
    parser.add_argument("numbers", nargs="+", type=int)
    options = parser.parse_args()
    if options.what == "recommend":
        recommend(range(*options.numbers))
    else:
        leads(options.numbers[0])


def recommend(seeds: range) -> None:
    """Regret of the recommended mixture, of uniform, of the best measured run, and the seconds."""
    rows = []
    for seed in seeds:
        true = made_laws.law(seed)
        losses, mixtures = made_laws.tables(true, seed)
        begin = time.process_time()
        with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()) as page:
            folder = Path(name)
            losses.write_csv(folder / "losses.csv")
            mixtures.write_csv(folder / "mixtures.csv")
            files = ["--losses", f"{folder}/losses.csv", "--mixtures", f"{folder}/mixtures.csv"]
            solve_mixture.main([*files, "--out", str(folder)])
            found = json.loads((folder / "mixture.json").read_text())
        seconds = time.process_time() - begin
        least = made_laws.best(true)

        def regret(shares: np.ndarray, true: made_laws.Law = true, least: float = least) -> float:
            return 100 * (true(shares, made_laws.STEPS[-1]).mean() / least - 1)

        ends = losses.filter(step=made_laws.STEPS[-1]).group_by("mixture").agg(pl.col("loss").mean())
        means = ends.sort("loss")["mixture"]
        lowest = dict(mixtures.filter(mixture=means[0]).select("domain", "proportion").iter_rows())
        own, run = (np.array([one[name] for name in made_laws.DOMAINS]) for one in (found, lowest))
        rows.append((regret(own), regret(np.full(5, 0.2)), regret(run), seconds))
        print(f"{seed:4d}  {rows[-1][0]:.3f}  uniform {rows[-1][1]:.3f}  lowest run {rows[-1][2]:.3f}  ", end="")
        print(f"{seconds:.1f} s  {page.getvalue().splitlines()[0]}", flush=True)
    table = np.array(rows)
    print(f"mean {table[:, 0].mean():.3f} % (worst {table[:, 0].max():.3f}), uniform {table[:, 1].mean():.3f},", end="")
    print(f" lowest run {table[:, 2].mean():.3f}; worst to uniform {(table[:, 0] - table[:, 1]).max():+.3f}")


def leads(draws: int) -> None:
    """How often a lead of `noise` deviations is significant; a seed moves all by three."""
    for mixtures in (3, 5, 8):
        for seeds in (2, 3, 4):
            quantile = best_quantile(mixtures - 1, (mixtures - 1) * (seeds - 1)) * np.sqrt(2 / seeds)
            cells = []
            for lead in (0, 2, 4):
                draw, seen = np.random.default_rng([mixtures, seeds, lead]), 0
                for _ in range(draws):
                    logs = 3 * draw.standard_normal(seeds) + draw.standard_normal((mixtures, seeds))
                    logs[0] -= lead
                    found, noise = levels(np.exp(0.003 * logs))
                    best = found.argmin()
                    others = np.delete(found, best)
                    seen += (best == 0 or lead == 0) and others.min() - found[best] > quantile * noise.deviation
                cells.append(f"{lead}: {100 * seen / draws:5.1f} %")
            print(f"{mixtures} mixtures, {seeds} seeds; significant at a lead of {'  '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
