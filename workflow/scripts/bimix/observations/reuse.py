"""Joins runs on earlier corpora to those on a new one, as one tidy pair that every law reads.

A source is a pair of tables. Old domains are mapped to new ones by a linear map of shares; missing
proportions are 0. Tables do not say which tokenizer, recipe and held-out text they are of: these
must be the same.

Seeds and versions may shift the losses of a source. A law would take such a shift for an effect of
the mixture, so the source's losses are corrected by the difference in mixtures that both ran.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import polars as pl

from bimix.digests import digest_file
from bimix.errors import InputError
from bimix.names import shown, unknown
from bimix.observations.tables import ROW, by_mixture, few, read_losses, read_mixtures, run_key
from bimix.tables import parsed_json

ALIKE = 1e-4  # total variation of mixtures that are the same but for rounding
DRAWN = 2.0  # runs' worth of the mean over loss domains in the shift of each
MEANT = {"seed": 1, "metric": False}  # by a table of losses that lacks the column
Map = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Pair:
    """Tidy losses and mixtures of one source."""

    name: str
    losses: pl.DataFrame
    mixtures: pl.DataFrame
    files: dict[str, str] = field(default_factory=dict)  # what it was read from: digest

    def domains(self) -> set[str]:
        """Those that it has shares or losses of."""
        return {name for table in (self.losses, self.mixtures) for name in table["domain"].cast(pl.String).unique()}


def read_source(source: str) -> Pair:
    """The runs of JSON {"losses": file, "mixtures": file}."""
    if not source.lstrip().startswith("{"):
        tables = '{"losses": "losses/MODEL/GROUP.parquet", "mixtures": "mixtures/groups/GROUP.parquet"}'
        raise InputError(f"--reuse {source}: name two tables; of a folder of results as {tables}, below it.")
    given = parsed_json(source, "--reuse")
    if strange := [key for key, value in given.items() if not isinstance(value, str)]:
        raise InputError(f"--reuse: {strange[0]} is {shown(given[strange[0]])}: it must be one path, as text.")
    if set(given) != {"losses", "mixtures"}:
        raise InputError(f"--reuse {source}: a source has losses and mixtures.")
    return read_pair(Path(given["losses"]).parent.name or "old", given["losses"], given["mixtures"])


def read_pair(name: str, losses: Path | str, mixtures: Path | str) -> Pair:
    """The source of two tables."""
    tidy = read_mixtures(mixtures)
    table = read_losses(losses, tidy.names("domain")).table
    files = {str(path): digest_file(Path(path)) for path in (losses, mixtures)}
    return Pair(name, table.drop(ROW), tidy.table.drop(ROW), files)


def checked_map(given: Mapping[str, object]) -> Map:
    """{old domain: {new domain: share}} from a map whose values may also be one new domain."""
    found = {}
    for name, parts in given.items():
        parts = {parts: 1.0} if isinstance(parts, str) else parts
        if not isinstance(parts, Mapping) or not all(
            isinstance(one, float | int) and not isinstance(one, bool) and one >= 0 for one in parts.values()
        ):
            raise InputError(f"--map: {name!r} is {parts!r}: name a domain, or domains with their shares of its text.")
        if abs(sum(parts.values()) - 1) > 1e-3:
            raise InputError(f"--map: the shares of the parts of {name!r} sum to {sum(parts.values()):.6g}, not to 1.")
        found[name] = {part: share / sum(parts.values()) for part, share in parts.items()}
    return found


def mapped(pair: Pair, by: Map) -> Pair:
    """The pair in new domains. A loss domain is renamed where one domain becomes one. Those that
    are split, or that others are merged into, are called older text where a new one has their name.
    """
    numbers = [name for name in ("proportion", "pool") if name in pair.mixtures.columns]
    rows = [(name, part, share) for name, parts in by.items() for part, share in parts.items()]
    shares = pl.DataFrame(rows, schema={"domain": pl.String, "part": pl.String, "share": pl.Float64}, orient="row")
    table = pair.mixtures.with_columns(pl.col("mixture", "domain").cast(pl.String))
    table = table.join(shares, on="domain", how="left", maintain_order="left_right")
    table = table.with_columns(
        pl.coalesce("part", "domain").alias("domain"), pl.col(numbers) * pl.col("share").fill_null(1)
    )
    # an unknown pool makes that of the new domain unknown
    known = [
        pl.when(pl.col(name).is_null().any()).then(None).otherwise(pl.col(name).sum()).alias(name) for name in numbers
    ]
    table = table.group_by("mixture", "domain", maintain_order=True).agg(known)
    into = [new for name in pair.domains() for new in by.get(name, [name])]
    whole = {name: next(iter(by[name])) for name in pair.domains() if len(by.get(name, ())) == 1}
    names = {name: new for name, new in whole.items() if into.count(new) == 1}
    # of other text than the new domain of that name: of what is split, or that another is merged into
    names |= {
        name: f"{name} (older text)" for name in into if name not in names and (name in by or name in whole.values())
    }
    return replace(
        pair, losses=pair.losses.with_columns(pl.col("domain").cast(pl.String).replace(names)), mixtures=table
    )


def join(new: Pair | None, olds: Sequence[Pair], by: Map) -> tuple[pl.DataFrame, pl.DataFrame, list[str]]:
    """Losses and mixtures of the new and all older runs, and remarks. Older mixtures are called
    `name (source)`.

    Errors: sources of one name, or without a step or a loss in common.
    """
    said: list[str] = []
    there = sorted(set().union(*(pair.domains() for pair in olds)))
    if strange := [name for name in by if name not in there]:
        raise InputError(f"--map: {unknown('domain of older runs', strange[0], there)}")
    kept = [new] if new else []  # the new runs are in the new domains already
    for pair in olds:
        pair = mapped(pair, by)
        if kept:
            pair, more = _fitting(kept[0], pair)
            said += more
        called = pl.col("mixture").cast(pl.String) + f" ({pair.name})"
        kept.append(replace(pair, losses=pair.losses.with_columns(called), mixtures=pair.mixtures.with_columns(called)))
    names = [pair.name for pair in kept]
    if len(set(names)) < len(names):
        raise InputError(f"two sources are called {next(n for n in names if names.count(n) > 1)!r}: rename a folder.")
    meant = {key: one for key, one in MEANT.items() if any(key in pair.losses.columns for pair in kept)}
    tables = [
        pair.losses.with_columns(pl.lit(one).alias(key) for key, one in meant.items() if key not in pair.losses.columns)
        for pair in kept
    ]
    losses = _shared_columns(tables)
    mixtures = _shared_columns([pair.mixtures for pair in kept], "pool")
    return losses, mixtures if "tokens" in losses.columns else mixtures.drop("pool", strict=False), said


def _shared_columns(tables: Sequence[pl.DataFrame], *further: str) -> pl.DataFrame:
    """The rows of all tables, in the columns that all have, and in `further` ones that some have."""
    shared = set.intersection(*(set(table.columns) for table in tables)) | set(further)
    return pl.concat(
        [table.select(c for c in table.columns if c in shared) for table in tables], how="diagonal_relaxed"
    )


def _fitting(first: Pair, pair: Pair) -> tuple[Pair, list[str]]:
    """A source's losses that are comparable to the first's, shifted to its level, and remarks."""
    said, losses = [], pair.losses
    if ("parameters" in first.losses.columns) != ("parameters" in losses.columns):
        raise InputError(f"{pair.name}: one of the tables of losses has a column parameters, and the other has not.")
    last = first.losses["step"].max()
    longer = losses.group_by(run_key(losses, "seed"), maintain_order=True).agg(pl.col("step").max())
    longer = longer.filter(pl.col("step") > last)
    if longer.height and (losses["step"] == last).any():
        raise InputError(
            f"{pair.name}: {longer.height} of its runs go on to step {longer['step'].max():,}, those of {first.name} end at"
            f" {last:,} ({few(longer['mixture'].unique(maintain_order=True))}): where a learning rate decays, their losses at"
            " that step are not those of runs that end there. Join runs of one length, or take the rows after it out."
        )
    steps = set(losses["step"].unique()) - set(first.losses["step"].unique())
    losses = losses.filter(~pl.col("step").is_in(list(steps)))
    if steps and losses.height:
        said.append(f"{pair.name}: the losses at steps {few(sorted(steps))} are left out: {first.name} has none there.")
    known = set(first.losses["domain"].unique())
    lacking = sorted(set(losses["domain"].unique()) - known)
    losses = losses.filter(pl.col("domain").is_in(list(known)))
    if lacking and losses.height:
        said.append(f"{pair.name}: the losses on {', '.join(lacking)} are left out: {first.name} has none on it.")
    if not losses.height:
        raise InputError(f"{pair.name}: it has no loss at a step and on a domain of {first.name}: nothing joins.")
    if "tokens" in first.losses.columns and "tokens" not in losses.columns:
        losses = losses.join(first.losses.group_by("step").agg(pl.col("tokens").max()), on="step", how="left")
        said.append(f"{pair.name}: it has no column tokens: its runs count as long as those of {first.name}.")
    shifts, common = _shifts(first, replace(pair, losses=losses))
    if common:
        factor = pl.col("domain").replace_strict(
            shifts, default=float(np.mean(list(shifts.values()))), return_dtype=pl.Float64
        )
        losses = losses.with_columns(pl.col("loss") * factor.exp())
        said.append(
            f"{pair.name}: its losses are shifted by {100 * np.mean(list(shifts.values())):+.2f} % on average, what"
            f" {common} mixtures that both ran differ by."
        )
    else:
        said.append(f"{pair.name}: no mixture was run in both, so their levels are taken to be the same.")
    return replace(pair, losses=losses), said


def _shifts(first: Pair, pair: Pair) -> tuple[dict[str, float], int]:
    """By loss domain, how far a source's log losses are below, of shared mixtures; their number."""
    ours, theirs = by_mixture(first.mixtures), by_mixture(pair.mixtures)
    same = {
        other: name
        for name, own in ours.items()
        for other, old in theirs.items()
        if sum(abs(own.get(one, 0) - old.get(one, 0)) for one in {*own, *old}) <= 2 * ALIKE
    }

    key = [*run_key(first.losses), "step", "domain"]  # seeds are averaged

    def logs(pair: Pair) -> pl.DataFrame:
        typed = pair.losses.with_columns(
            pl.col(name for name in ("loss", "parameters") if name in pair.losses.columns).cast(pl.Float64)
        )
        return typed.group_by(key).agg(pl.col("loss").log().mean())

    both = (
        logs(pair)
        .with_columns(pl.col("mixture").replace_strict(same, default=None, return_dtype=pl.String))
        .drop_nulls("mixture")
    )
    both = both.join(logs(first), on=key, suffix="_new")
    if not both.height:
        return {}, 0
    count = both["mixture"].n_unique()
    found = dict(both.group_by("domain").agg((pl.col("loss_new") - pl.col("loss")).mean()).iter_rows())
    mean = float(np.mean(list(found.values())))
    return {name: mean + count / (count + DRAWN) * (own - mean) for name, own in found.items()}, count
