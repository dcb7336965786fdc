"""Measure whether one exponent k that couples size and tokens makes the level at a larger run
better known (no test: run it by hand). Published for models of one source (arXiv 2608.07222):

    level = log((D^(1/k) + B^(1/k))^k 2^(1 - k) + C)    D, B: the parts of size and of tokens

k = 1 is the additive form; the factor keeps the sum of two equal parts.

python tests/benchmarks/bench_coupling.py folder -> tables on standard output; `folder` holds
regmix/, mixinglaws/ and repetition/single_source_epochs.csv.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parents[2] / "workflow" / "scripts"))
sys.path.insert(0, str(Path(__file__).parent))

from bench_size import Group, score, tables

from bimix.transfer import run, sizes

COUPLINGS = (1.0, 0.7, 0.5, 0.4)
DRAWS = 24
MOST_EPOCHS, LEAST_TOKENS, SMALL = 4.5, 1e8, 1.1e9  # of runs of one source


class Coupled(sizes.Curve):
    k = 1.0

    def level(self, parameters, tokens) -> np.ndarray:
        by_tokens = self.heights[:, 0] - self.b * np.log(np.asarray(tokens) / self.tokens)[..., None]
        by_size = self.heights[:, 1] - self.g * np.log(np.asarray(parameters) / self.parameters)[..., None]
        falling = self.k * np.logaddexp(by_tokens / self.k, by_size / self.k) + (1 - self.k) * np.log(2)
        return np.logaddexp(falling, self.heights[:, 2])


def one_source(path: Path) -> pl.DataFrame:
    """Median losses by size and tokens, of runs that repeat little."""
    rows = pl.read_csv(path, infer_schema_length=None).filter(
        (pl.col("epochs") <= MOST_EPOCHS) & (pl.col("tokens") >= LEAST_TOKENS) & (pl.col("val_loss") < 7)
    )
    return rows.group_by("params", "tokens").agg(pl.col("val_loss").median()).sort("params", "tokens")


def errors(rows: pl.DataFrame, fitted: np.ndarray, asked: np.ndarray) -> list[float]:
    """Mean error, %, on the runs `asked`, for each k."""
    parameters, tokens, losses = (rows[name].to_numpy() for name in ("params", "tokens", "val_loss"))
    plan = sizes.Design(parameters[fitted], tokens[fitted], None, None, None)
    found = []
    for Coupled.k in COUPLINGS:
        level = sizes.curve(plan, np.log(losses[fitted])[:, None]).level(parameters[asked], tokens[asked])[:, 0]
        found.append(100 * np.abs(np.exp(level) / losses[asked] - 1).mean())
    return found


def print_row(name: str, cells: list) -> None:
    print(f"{name:44s}", *(f"{one:6.2f}" for one in np.mean(cells, axis=0)), f" ({len(cells)} draws)", flush=True)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the public runs")
    parser.add_argument("--draws", type=int, default=3, help="of mixtures")
    options = parser.parse_args(argv)
    sizes.Curve = run.Curve = Coupled
    print("error %, k =", *COUPLINGS)
    rows = one_source(options.folder / "repetition" / "single_source_epochs.csv")
    parameters, tokens = rows["params"].to_numpy(), rows["tokens"].to_numpy()
    for least in (2e8, 5e8, 1e9, 2.2e9):
        cut = np.flatnonzero(parameters < least), np.flatnonzero(parameters >= least)
        print_row(f"one source, all below {least:g} -> all above", [errors(rows, *cut)])
    for count in (4, 6, 8, 12, 20):
        cells = []
        for draw in range(DRAWS):
            drawn = np.random.default_rng([draw, count]).permutation(np.flatnonzero(parameters <= SMALL))[:count]
            beyond = (parameters > 2 * parameters[drawn].max()) & (tokens >= tokens[drawn].max())
            if beyond.any():
                cells.append(errors(rows, drawn, np.flatnonzero(beyond)))
        print_row(f"one source, {count} small runs -> larger and longer", cells)
    cells = []
    for draw in range(DRAWS):
        order = np.random.default_rng(draw).permutation(len(rows))
        cells.append(errors(rows, order[len(rows) // 5 :], order[: len(rows) // 5]))
    print_row("one source, a fifth left out", cells)
    sets = tables(options.folder)
    small, middle, large = sets["RegMix 1M, 60M -> 1B"]
    sets["RegMix 1M, 1B -> 60M"] = [
        small,
        Group(large.runs, large.parameters, large.tokens),
        middle._replace(fitted=None),
    ]
    for name, counts in (
        ("3Mix 70M, 160M -> 410M", (0, 2)),
        ("RegMix 1M, 60M -> 1B", (0, 2)),
        ("RegMix 1M, 1B -> 60M", (0,)),
    ):
        for count in counts:
            cells = []
            for draw in range(options.draws):
                cells.append([])
                for Coupled.k in COUPLINGS:
                    cells[-1].append(score(sets[name], count, draw).error)
            print_row(f"{name}, {count} large runs", cells)


if __name__ == "__main__":
    main()
