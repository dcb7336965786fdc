"""Which runs, and which of their rows, an answer is about, and a remark on each that it is not about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from bimix.errors import InputError
from bimix.observations.tables import few, run_key

LEAST = 3  # runs that a comparison needs, where there are as many
ALIKE = 6  # decimals of log losses in which a copy of a run agrees with it


@dataclass(frozen=True)
class Chosen:
    """The rows that laws are fitted to, the step of the comparison, the rows of the runs that have
    every loss that counts at it, the mixtures of these, and remarks.
    """

    losses: pl.DataFrame
    step: int
    compared: pl.DataFrame
    mixtures: tuple[str, ...]
    remarks: tuple[str, ...]


def choose(losses: pl.DataFrame, weights: Mapping[str, float], step: int | None, size: float | None = None) -> Chosen:
    """Choose of tidy, checked losses; `weights` of those that count, without any all; a `step` and a
    model's `size` that are asked.

    The step is the last at which most runs have every loss that counts. A law over sizes reads the
    end of each run, and its step is the last of the largest size.

    Errors: a loss that counts was measured at other steps alone; fewer than LEAST runs were measured
    at the step, and others at another.
    """
    losses = losses.with_columns(pl.col("mixture", "domain").cast(pl.String), pl.col("step").cast(pl.Int64))
    losses, said = _without_copies(losses)
    counts, size = losses, size or 0.0
    if sized := "parameters" in losses.columns and losses["parameters"].n_unique() > 1:
        sizes = losses["parameters"].cast(pl.Float64)
        counts = losses.filter(sizes == (size if (sizes == size).any() else sizes.max()))
    key, weighed = run_key(losses, "seed"), [name for name, one in weights.items() if one > 0]
    if weighed:
        counts = counts.filter(pl.col("domain").is_in(weighed))
    elif "metric" in losses.columns:
        counts = counts.filter(~pl.col("metric"))
    number = counts["domain"].n_unique()
    whole = counts.group_by(*key, "step", maintain_order=True).agg(pl.len()).filter(pl.col("len") >= number)
    by_step = dict(whole.group_by("step").len().sort("step").iter_rows())
    most = max(by_step.values(), default=0)
    enough = [one for one, count in by_step.items() if count >= max(most // 2 + 1, min(LEAST, most))]
    asked, last = step, counts["step"].max() if counts.height else losses["step"].max()
    step = asked or (enough[-1] if enough else last)
    here = counts.filter(pl.col("step") == step)
    lacking = sorted(set(counts["domain"]) - set(here["domain"]))
    if lacking and not sized and (losses["step"] == step).any():
        there = counts.filter(pl.col("domain") == lacking[0])["step"].unique().sort().to_list()
        raise InputError(
            f"{lacking[0]!r}, which counts, was not measured at step {step:,} but at {few(f'{one:,}' for one in there)}:"
            " name one of these by --step."
        )
    if asked and here.height and by_step.get(step, 0) < min(LEAST, most):
        raise InputError(
            f"--step {step}: {by_step.get(step, 0)} runs have every loss that counts there, and {most} at step"
            f" {max(one for one, count in by_step.items() if count == most)}: name that step."
        )
    ran = whole.filter(pl.col("step") == step)
    compared = losses
    if ran.height and not sized:
        compared = losses.join(ran, on=key, how="semi", nulls_equal=True, maintain_order="left")
        said += _left_out(counts, ran, key, step, asked)
    if not sized and losses["step"].n_unique() == 2 and here.height:  # two points are no curve
        other = next(one for one in losses["step"].unique() if one != step)
        losses, compared = (table.filter(pl.col("step") == step) for table in (losses, compared))
        said.append(
            f"Laws are fitted to step {step:,} alone: with step {other:,} there are two, and a curve needs three."
        )
    names = compared["mixture"] if not sized else counts["mixture"]
    return Chosen(losses, int(step), compared, tuple(names.unique(maintain_order=True)), tuple(said))


def _without_copies(losses: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """The losses without seeds of a run whose losses are those of another of its seeds."""
    if "seed" not in losses.columns:
        return losses, []
    key = run_key(losses, "seed")
    rows = losses.sort("step", "domain", maintain_order=True).group_by(key, maintain_order=True)
    found = rows.agg(pl.col("step"), pl.col("domain"), pl.col("loss").log().round(ALIKE))
    first = found.unique([name for name in found.columns if name != "seed"], keep="first", maintain_order=True)
    if not (copies := found.height - first.height):
        return losses, []
    one = found.join(first, on=key, how="anti", nulls_equal=True).row(0, named=True)
    said = f"{copies} runs have the losses of another seed of their mixture, as that on {one['mixture']!r} with seed"
    said += f" {one['seed']}: a copy is no second run, and is left out."
    return losses.join(first, on=key, how="semi", nulls_equal=True, maintain_order="left"), [said]


def _left_out(counts: pl.DataFrame, ran: pl.DataFrame, key: Sequence[str], step: int, asked: int | None) -> list[str]:
    """Which runs go on after the step, end before it, or lack a loss at it."""
    there = (pl.col("step") == step).any().alias("there")
    last = counts.group_by(key, maintain_order=True).agg(pl.col("step").max(), there)
    out = last.join(ran, on=key, how="anti", nulls_equal=True, maintain_order="left")
    kinds = {
        # it is what was asked for that longer runs are read before their ends
        "measured beyond it, too": last.clear() if asked else last.filter(pl.col("step") > step),
        "ended before it and left out": out.filter(pl.col("step") < step),
        "not measured at it and left out": out.filter((pl.col("step") > step) & ~pl.col("there")),
        "without a loss that counts at it and left out": out.filter("there"),
    }
    parts = [
        f"{what}: {few(runs['mixture'].unique(maintain_order=True))}" for what, runs in kinds.items() if runs.height
    ]
    text = "; ".join(parts)
    why = "" if asked else ", the last that most runs share; --step names another"
    return [f"Runs are compared at step {step:,}{why}. {text[0].upper() + text[1:]}."] if parts else []
