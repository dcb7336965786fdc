"""What the summary says of a law over sizes: what it was fitted on, how far beyond that it was
asked, how well it tells larger runs.
"""

import polars as pl

from bimix.results.layout import table
from bimix.transfer.run import far_apart, size_read

# By tests/benchmarks/bench_size.py on public runs: the error without a run of the large size, of
# 410M parameters from 160M and of 1B from 60M.
LEVEL = "without runs of that size the level was 2 to 14 % off on public runs, while the order of the mixtures held"


def asked(law: dict, models: str, model: str) -> str:
    """On which sizes a law was fitted and at which it is read, how far that is beyond the largest,
    and where its word ends; `models` and `model` are their names. Nothing of a law of one size.
    """
    if size_read(law) is None:
        return ""
    first = next(iter(law["coefficients"].values()))
    sizes, run = first["size"]["sizes"], first["run"]
    fitted = ", ".join(f"{_brief(one['parameters'])} ({one['runs']} runs)" for one in sizes)
    largest, longest = sizes[-1]["parameters"], max(one["tokens"] for one in sizes)
    text = f"fitted on {models} of {fitted} parameters, asked at {model} of {_brief(run['parameters'])} on"
    text += f" {_brief(run['tokens'])} tokens: {run['parameters'] / largest:.3g} times the largest size fitted and"
    text += f" {run['tokens'] / longest:.3g} times its longest run. "
    if far := far_apart(law["coefficients"], run["parameters"]):
        return text + far[0].upper() + far[1:]
    if run["parameters"] > largest:
        return f"{text}There it extrapolates, and its intervals do not know by how much it is wrong: {LEVEL}."
    return f"{text}The size lies among those fitted."


def by_large_runs(scores: pl.DataFrame, model: str) -> list[str]:
    """A table: large runs fitted, the error on the others in percent, their order; the mean over
    the draws.
    """
    means = scores.group_by("large_runs", maintain_order=True).agg(pl.col("error", "spearman").mean())
    rows = [
        [str(row["large_runs"]), f"{row['error']:.2f}", "-" if row["spearman"] is None else f"{row['spearman']:.2f}"]
        for row in means.sort("large_runs").iter_rows(named=True)
    ]
    title = f"  Runs of {model} that were not fitted, by how many of them were"
    return [title, *table(["fitted", "error %", "order"], rows), ""]


def _brief(number: float) -> str:
    """A number to three digits, in thousands, millions or billions."""
    for unit, name in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:.3g}{name}"
    return f"{number:.3g}"
