"""Which runs, and which of their rows, an answer is about, and a remark on each that it is not about."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from bimix.errors import InputError
from bimix.observations.metrics import read_with_metrics
from bimix.observations.observations import Observations, arranged, checked_tables, with_priors
from bimix.observations.tables import few, read_mixtures, run_key

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


def read_chosen(options: argparse.Namespace, weights: Mapping[str, float]) -> tuple[Observations, Chosen]:
    """The runs of two tables that an answer is about, as arrays with the prior, and what was chosen;
    `options` of the tables, --step, --parameters, and --metrics where there is one.
    """
    mixtures, files = read_mixtures(options.mixtures), (str(options.losses), str(options.mixtures))
    metrics = (options.metrics, options.lower_is_better) if "metrics" in options else ()
    losses = read_with_metrics(options.losses, mixtures.names("domain"), *metrics).table
    losses, shares, remarks = checked_tables(losses, mixtures.table, files)
    chosen = choose(losses, weights, options.step, options.parameters)
    observed = with_priors(arranged(chosen.losses, shares, files), options.prior, options.domain_groups)
    return replace(observed, remarks=(*remarks, *chosen.remarks)), chosen


def choose(losses: pl.DataFrame, weights: Mapping[str, float], step: int | None, size: float | None = None) -> Chosen:
    """Choose of tidy, checked losses; `weights` of those that count, without any all; a `step` and a
    model's `size` that are requested.

    The step is the last at which most runs have every loss that counts. With sizes each has its own,
    and that of the requested size, else of the largest, is the comparison's. A law over sizes reads
    runs of any length where their tokens are known, else each at the step of its size.

    Errors: those of `_to_shared_step`.
    """
    losses, said = _without_copies(losses)
    if "parameters" in losses.columns and losses["parameters"].n_unique() > 1:
        parts = {
            float(own["parameters"][0]): _to_shared_step(
                own, weights, None, f"Runs of {own['parameters'][0]:.3g} parameters"
            )
            for own in losses.partition_by("parameters", maintain_order=True)
        }
        compared = pl.concat([rows for rows, _, _ in parts.values()])
        own, at, remarks = parts[size if size in parts else max(parts)]
        if "tokens" not in losses.columns:
            losses, remarks = compared, [sentence for *_, sentences in parts.values() for sentence in sentences]
        names = own["mixture"].unique(maintain_order=True)
        return Chosen(losses, step or at, compared, tuple(names), (*said, *remarks))
    compared, at, remarks = _to_shared_step(losses, weights, step, "Runs")
    if losses["step"].n_unique() == 2 and (losses["step"] == at).any():  # two points are no curve
        other = next(one for one in losses["step"].unique() if one != at)
        losses, compared = (table.filter(pl.col("step") == at) for table in (losses, compared))
        said.append(
            f"Laws are fitted to step {at:,} alone: with step {other:,} there are two, and a curve needs three."
        )
    return Chosen(losses, at, compared, tuple(compared["mixture"].unique(maintain_order=True)), (*said, *remarks))


def _to_shared_step(
    losses: pl.DataFrame, weights: Mapping[str, float], asked: int | None, what: str
) -> tuple[pl.DataFrame, int, list[str]]:
    """The rows up to a step of the runs that have every loss that counts at it, the step, and remarks on
    the other runs. It is the one `asked`, else the last that most runs share. All rows, where no run was
    measured at it.

    Errors: a loss that counts was measured at other steps alone; fewer than LEAST runs were measured
    at the step, and others at another.
    """
    key, weighed = run_key(losses, "seed"), [name for name, one in weights.items() if one > 0]
    if weighed:
        counts = losses.filter(pl.col("domain").is_in(weighed))
    else:
        counts = losses.filter(~pl.col("metric")) if "metric" in losses.columns else losses
    of_run = counts.group_by(*key, "step", maintain_order=True).agg(pl.len())
    whole = of_run.filter(pl.col("len") >= counts["domain"].n_unique())
    by_step = dict(whole.group_by("step").len().sort("step").iter_rows())
    most = max(by_step.values(), default=0)
    enough = [one for one, count in by_step.items() if count >= max(most // 2 + 1, min(LEAST, most))]
    step = int(asked or (enough[-1] if enough else losses["step"].max()))
    here = counts.filter(pl.col("step") == step)
    lacking = sorted(set(counts["domain"]) - set(here["domain"]))
    if lacking and (losses["step"] == step).any():
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
    if not ran.height:
        return losses, step, []
    shared = losses.filter(pl.col("step") <= step).join(
        ran, on=key, how="semi", nulls_equal=True, maintain_order="left"
    )
    return shared, step, _left_out(counts, ran, key, step, asked, what)


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


def _left_out(
    counts: pl.DataFrame, ran: pl.DataFrame, key: Sequence[str], step: int, asked: int | None, what: str
) -> list[str]:
    """Which runs go on after the step, end before it, or lack a loss at it."""
    there = (pl.col("step") == step).any().alias("there")
    last = counts.group_by(key, maintain_order=True).agg(pl.col("step").max(), there)
    out = last.join(ran, on=key, how="anti", nulls_equal=True, maintain_order="left")
    beyond = last.join(ran, on=key, how="semi", nulls_equal=True, maintain_order="left").filter(pl.col("step") > step)
    kinds = {
        # it is what was asked for that longer runs are read before their ends
        "measured beyond it, too": beyond.clear() if asked else beyond,
        "ended before it and left out": out.filter(pl.col("step") < step),
        "not measured at it and left out": out.filter((pl.col("step") > step) & ~pl.col("there")),
        "without a loss that counts at it and left out": out.filter("there"),
    }
    parts = [
        f"{kind}: {few(runs['mixture'].unique(maintain_order=True))}" for kind, runs in kinds.items() if runs.height
    ]
    text = "; ".join(parts)
    why = "" if asked else ", the last that most of them share; --step names another"
    return [f"{what} are compared at step {step:,}{why}. {text[0].upper() + text[1:]}."] if parts else []
