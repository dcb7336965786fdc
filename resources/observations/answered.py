"""What the answers of registered proofs share: objectives of runs, their noise, intervals by t, and pages
that are made again between their marks.
"""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill

import numpy as np
import polars as pl
from scipy.stats import t

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "workflow" / "scripts"))

from bimix.judge.noise import Noise, levels

LEVEL = 0.95  # one-sided
WORTH = -0.01  # of the decision rules: the least mean of D at which it pays
MARK = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
Runs = dict[str, dict[int, float]]  # {mixture: {seed: value}}


def weights_of(domains: Sequence[str], wanted: Sequence[str], part: float) -> dict[str, float]:
    """`part` of an objective for the wanted domains together, the rest for the others; they sum to one."""
    others = [name for name in domains if name not in wanted]
    own = dict.fromkeys(wanted, part / len(wanted))
    return own | (dict.fromkeys(others, (1 - part) / len(others)) if part < 1 else {})


def objective(table: pl.DataFrame, weights: Mapping[str, float] | None) -> Runs:
    """The objective of each run of (mixture, seed, domain, loss); without weights the plain mean."""
    weight = pl.lit(1.0) if weights is None else pl.col("domain").replace_strict(weights, default=0.0)
    sums = (
        table.with_columns(weight=weight.cast(pl.Float64))
        .group_by("mixture", "seed", maintain_order=True)
        .agg(value=(pl.col("loss") * pl.col("weight")).sum() / pl.col("weight").sum())
    )
    found: Runs = {}
    for mixture, seed, value in sums.sort("mixture", "seed").iter_rows():
        found.setdefault(mixture, {})[seed] = value
    return found


def log_mean(runs: Mapping[int, float], seeds: Sequence[int]) -> float:
    """The log of the mean objective over seeds."""
    return float(np.log(np.mean([runs[seed] for seed in seeds])))


def noise(runs: Runs) -> tuple[list[str], np.ndarray, Noise | None]:
    """Names of all mixtures, their log objectives without the effects of seeds, and the noise of a run."""
    seeds = sorted({seed for own in runs.values() for seed in own})
    values = np.array([[own.get(seed, np.nan) for seed in seeds] for own in runs.values()])
    return list(runs), *levels(values)


def bounds_by_t(values: Sequence[float]) -> tuple[float, float, float]:
    """One-sided bounds of a mean, each with LEVEL, and the p of a mean below nothing. Differences
    that are all the same have no width.
    """
    mean, error = float(np.mean(values)), float(np.std(values, ddof=1)) / len(values) ** 0.5
    width = float(t.ppf(LEVEL, len(values) - 1)) * error
    p = float(t.cdf(mean / error, len(values) - 1)) if error else float(mean >= 0)
    return mean - width, mean + width, p


def interval(values: Sequence[float]) -> tuple[int, float, float, float]:
    """Number, mean and two-sided 95 % interval by t."""
    mean, error = float(np.mean(values)), float(np.std(values, ddof=1)) / len(values) ** 0.5
    width = float(t.ppf(0.975, len(values) - 1)) * error
    return len(values), mean, mean - width, mean + width


def holm(tests: Mapping[str, float]) -> dict[str, float]:
    """{question: p} by Holm's order, from the p of each."""
    order, found, most = sorted(tests, key=lambda name: tests[name]), {}, 0.0
    for at, name in enumerate(order):
        most = max(most, min(1.0, (len(order) - at) * tests[name]))
        found[name] = most
    return found


# The page


def percent(value: float | None, digits: int = 1) -> str:
    """A difference of logs as a change in percent."""
    return "" if value is None else f"{100 * np.expm1(value):+.{digits}f} %"


def wrapped(said: str) -> str:
    """A sentence in lines of the page; a number keeps its percent sign."""
    return fill(said.replace(" %", "\0%"), 106).replace("\0", " ")


def markdown(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def filled(page: str, parts: Mapping[str, str]) -> str:
    """The page with these parts between their marks; what stands between other marks stays."""
    return MARK.sub(lambda found: f"{found[1]}\n{parts[found[2]]}\n{found[3]}" if found[2] in parts else found[0], page)


def flags(doc: str, folder: Path) -> argparse.ArgumentParser:
    """What every script of answers takes; `folder`: where its tables are kept."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=folder, help="of the tables")
    parser.add_argument("--page", type=Path, help="written again between its marks")
    return parser


def report(page: Path | None, parts: Mapping[str, str], sentences: Sequence[str]) -> None:
    """Write the parts into the page, and print the sentences."""
    if page:
        page.write_text(filled(page.read_text(encoding="utf-8"), parts), encoding="utf-8")
    for sentence in sentences:
        print(sentence)
