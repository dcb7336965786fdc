"""Observed losses as arrays, from the two tidy tables that every law reads, checked row by row.

losses:   mixture, step, domain, loss   loss in nats per token; further columns are ignored, but for
          seed (optional)               of the runs of a mixture, which are averaged
          parameters (optional)         of the model: with two sizes and more a mixture has a run at
                                        each
          tokens (optional)             of the run's schedule. Where they grow with the steps, those
                                        trained on until then: either way those of a run's last row
                                        are its schedule's
          metric (optional)             true where it came by `metrics` (metrics.py): laws fit
                                        metrics and losses as two groups
mixtures: mixture, domain, proportion   a pair that is not listed has proportion 0
          pool (optional)               unique tokens of the domain there were for the runs of the
                                        mixture

A loss domain need not be a training domain. Runs may have been evaluated at different steps:
unobserved losses are NaN.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import polars as pl

from bimix.digests import noted_digest
from bimix.errors import InputError
from bimix.names import meant, paired
from bimix.observations.doubts import check_meant
from bimix.observations.groups import Groups, by_name, read_groups
from bimix.observations.prior import read_gaps
from bimix.observations.tables import (
    check_amounts,
    check_losses,
    checked_proportions,
    place,
    run_key,
    tidy_losses,
    tidy_mixtures,
    typed,
    with_schedules,
)
from bimix.tables import EXACT, read_table


@dataclass(frozen=True)
class Observations:
    """n mixtures of m training domains at k steps on d loss domains; with sizes, n runs."""

    mixtures: tuple[str, ...]
    domains: tuple[str, ...]
    steps: np.ndarray  # (k,) increasing
    loss_domains: tuple[str, ...]
    proportions: np.ndarray  # (n, m) rows sum to 1
    losses: np.ndarray  # (n, k, d) nats per token, NaN where not observed
    tokens_per_step: float | None = None  # from the losses' optional column `tokens`
    runs: np.ndarray | None = None  # (n,) of each mixture that were averaged; None: one each
    gaps: np.ndarray | None = None  # (d, m) of the prior, in nats (prior.py); None: without one
    noise: float | None = None  # standard deviation of log losses between runs of one mixture; None: one seed each
    parameters: np.ndarray | None = None  # (n,) of each run's model; None: one size, or not known
    tokens: np.ndarray | None = None  # (n,) of each run's schedule; None: not known
    pools: np.ndarray | None = None  # (n, m) unique tokens there were, inf where not limited; None: not known
    metrics: tuple[str, ...] = ()  # those of the loss domains that are metrics
    remarks: tuple[str, ...] = ()  # on a loss unlike the others (doubts.py)
    pairs: Mapping[str, str] = field(default_factory=dict)  # {loss domain: training domain} of names that differ
    sources: Groups | None = None  # {domain: (source, topic)} (groups.py); None: as the names say

    def take(self, rows: np.ndarray | list[int]) -> "Observations":
        """The observations of some mixtures, by index."""
        rows = np.asarray(rows, dtype=int)
        names = tuple(self.mixtures[row] for row in rows)
        each = {
            field: None if getattr(self, field) is None else getattr(self, field)[rows]
            for field in ("runs", "parameters", "tokens", "pools")
        }
        return replace(self, mixtures=names, proportions=self.proportions[rows], losses=self.losses[rows], **each)

    def related(self) -> Groups:
        """The groups of the training domains."""
        return by_name(self.domains) if self.sources is None else self.sources

    def groups(self) -> list["Observations"]:
        """Losses and metrics apart: laws share numbers within one only, as metrics are noisy."""
        of_metrics = np.isin(self.loss_domains, self.metrics)
        if of_metrics.all() or not of_metrics.any():
            return [self]
        return [self.of_domains(np.flatnonzero(kind)) for kind in (~of_metrics, of_metrics)]

    def of_domains(self, rows: np.ndarray) -> "Observations":
        """The observations of some loss domains, by index."""
        names = tuple(self.loss_domains[row] for row in rows)
        metrics = tuple(name for name in self.metrics if name in names)
        gaps = None if self.gaps is None else self.gaps[rows]
        losses = np.ascontiguousarray(self.losses[:, :, rows])  # sums depend on the order in memory, by a last bit
        return replace(self, loss_domains=names, losses=losses, gaps=gaps, metrics=metrics)

    def last(self) -> np.ndarray:
        """Losses (n, d) of each run's last row, NaN where not observed there."""
        there = np.isfinite(self.losses).any(axis=2)
        return self.losses[np.arange(len(there)), there.shape[1] - 1 - there[:, ::-1].argmax(axis=1)]

    def ended(self) -> "Observations":
        """The last row of each run alone, as one step: what a law over sizes or schedules predicts."""
        return replace(self, steps=self.steps[-1:], losses=self.last()[:, None])


def observations(
    losses: pl.DataFrame,
    mixtures: pl.DataFrame,
    names: tuple[str, str] = ("losses", "mixtures"),
    checked: bool = False,
) -> Observations:
    """Check the two tables and arrange them as arrays; `names` are their names in errors. Where they
    were `checked` before there are no remarks (doubts.py).

    Either table may have one column for each domain instead (tables.py).

    Errors, with the line of a csv file or the row of another table. Losses: a missing column, a
    loss that is not finite and positive, a step that is not positive, a row twice. Mixtures: one
    without proportions, a proportion that is not finite or is negative, a sum that is not 1.
    """
    losses, shares, said = checked_tables(losses, mixtures, names, checked)
    return replace(arranged(losses, shares, names), remarks=said)


def arranged(losses: pl.DataFrame, shares: pl.DataFrame, names: tuple[str, str]) -> Observations:
    """The arrays of two tables of `checked_tables`. Runs are sorted by name, so that the order of rows
    changes no fit.
    """
    if "parameters" in losses.columns and losses["parameters"].n_unique() == 1:
        losses = losses.drop("parameters")
    losses, seeds, noise = _averaged(losses)
    run = run_key(losses)
    runs = sorted(losses.select(run).unique().rows())
    mixed, domains = [mixture for mixture, *_ in runs], sorted(shares["domain"].unique().to_list())
    steps = np.sort(losses["step"].unique().to_numpy())
    loss_domains = sorted(losses["domain"].unique().to_list())
    places = {one: n for n, one in enumerate(runs)}
    row = np.array([places[one] for one in losses.select(run).iter_rows()])
    column = np.searchsorted(loss_domains, losses["domain"].to_list())
    array = np.full((len(runs), len(steps), len(loss_domains)), np.nan)
    array[row, np.searchsorted(steps, losses["step"].to_numpy()), column] = losses["loss"].to_numpy()
    tokens, pools = _last_tokens(losses, row, len(runs)), _pools_matrix(shares, mixed, domains)
    if pools is not None and tokens is None:
        raise InputError(
            f"{names[1]} has a column pool, and {names[0]} no column tokens: how often a pool was read is not known;"
            " add the tokens of each run's schedule, or take the column pool out."
        )
    metrics = losses.filter("metric")["domain"].unique().to_list() if "metric" in losses.columns else []
    return Observations(
        mixtures=tuple(mixed),
        domains=tuple(domains),
        steps=steps,
        loss_domains=tuple(loss_domains),
        proportions=_as_matrix(shares, mixed, domains),
        losses=array,
        tokens_per_step=_tokens_per_step(losses),
        runs=np.array([seeds[one] for one in runs]) if max(seeds.values()) > 1 else None,
        noise=noise,
        parameters=np.array([one[run.index("parameters")] for one in runs]) if "parameters" in run else None,
        tokens=tokens,
        pools=pools,
        metrics=tuple(sorted(metrics)),
        pairs=paired([name for name in loss_domains if name not in metrics], domains),
    )


def checked_tables(
    losses: pl.DataFrame, mixtures: pl.DataFrame, names: tuple[str, str], checked: bool = False
) -> tuple[pl.DataFrame, pl.DataFrame, tuple[str, ...]]:
    """The typed and checked rows of the two tables, with the columns of `RUN`, and remarks."""
    mixtures = tidy_mixtures(mixtures, names[1]).table
    domains = mixtures["domain"].cast(pl.String).unique(maintain_order=True).to_list()
    losses = tidy_losses(losses, names[0], domains).table
    losses = typed(losses, names[0], ["mixture", "step", "domain", "loss"], ["tokens", "seed", "parameters", "metric"])
    shares = _shares(mixtures, names[1], "pool")
    check_amounts(losses, "parameters", names[0])
    sized = "parameters" in losses.columns and losses["parameters"].n_unique() > 1
    if "parameters" in losses.columns or "pool" in shares.columns:
        check_amounts(losses, "tokens", names[0])
    if sized or "pool" in shares.columns:
        losses = with_schedules(losses)
    check_losses(losses, names[0])
    unknown = losses.join(shares, on="mixture", how="anti")
    if unknown.height:
        row = unknown.row(0, named=True)
        raise InputError(
            f"{place(names[0], row)}: mixture {row['mixture']!r} has losses but no proportions in {names[1]}: "
            f"{meant(row['mixture'], shares['mixture'].unique())}add its rows there or take its losses out."
        )
    if not losses.height:
        raise InputError(f"{names[0]} has no rows: a law needs observed losses.")
    if checked:
        return losses, shares, ()
    irregular = [] if sized or "pool" in shares.columns else _irregular_tokens(losses, names[0])
    return losses, shares, (*_rescaled(mixtures, names[1]), *check_meant(losses, shares, names), *irregular)


def _irregular_tokens(losses: pl.DataFrame, name: str) -> list[str]:
    """A remark on tokens that are no fixed number a step, of which epochs cannot be counted."""
    if "tokens" not in losses.columns or _tokens_per_step(losses) is not None:
        return []
    rates = losses.with_columns(rate=pl.col("tokens").cast(pl.Float64, strict=False) / pl.col("step"))
    rates = rates.drop_nulls("rate").sort("rate", maintain_order=True)
    if not rates.height:
        return []
    ends = [f"{rates['rate'][row]:.6g} ({rates['mixture'][row]})" for row in (0, -1)]
    return [
        f"{name}: the column tokens has from {ends[0]} to {ends[1]} tokens a step: which a run of so many steps reads is"
        " not known, and epochs are not counted without --run-tokens."
    ]


def _rescaled(mixtures: pl.DataFrame, name: str) -> list[str]:
    """A remark on checked mixtures whose proportions do not sum to exactly 1."""
    sums = mixtures.group_by("mixture").agg(pl.col("proportion").cast(pl.Float64).sum())["proportion"]
    off = sums.filter((sums - 1).abs() > EXACT)
    if not len(off):
        return []
    return [
        f"{name}: the proportions of {len(off)} mixtures sum to {off.min():.6g} to {off.max():.6g} and are rescaled to 1."
    ]


def _shares(mixtures: pl.DataFrame, name: str, *optional: str) -> pl.DataFrame:
    """The typed and checked rows of tidy mixtures."""
    shares = checked_proportions(typed(mixtures, name, ["mixture", "domain", "proportion"], [*optional]), name)
    check_amounts(shares, "pool", name)
    return shares


def read_observations(
    losses: Path,
    mixtures: Path,
    prior: Path | None = None,
    groups: Path | str | None = None,
) -> Observations:
    """`observations` of the tables in two files, csv or parquet, with the gaps of a prior and
    groups of domains; errors name the file.

    Losses with a digest of the workflow were checked when they were written.
    """
    checked = noted_digest(losses) is not None
    found = observations(read_table(losses), read_table(mixtures), (str(losses), str(mixtures)), checked)
    return with_priors(found, prior, groups)


def with_priors(found: Observations, prior: Path | None, groups: Path | str | None) -> Observations:
    """The observations with a prior's gaps and groups of domains, where given."""
    of = tuple(found.pairs.get(name, name) for name in found.loss_domains)
    gaps = None if prior is None else read_gaps(prior, found.domains, of)
    return replace(found, gaps=gaps, sources=read_groups(groups, found.domains) if groups else None)


def proportions_of(
    mixtures: pl.DataFrame, domains: tuple[str, ...], name: str = "mixtures"
) -> tuple[tuple[str, ...], np.ndarray]:
    """(names, proportions (n, m)) of a mixtures table in the order of `domains`. Errors: as in
    `observations`, and a positive proportion of a domain that is not in `domains`.
    """
    shares = _shares(tidy_mixtures(mixtures, name).table, name)
    strange = shares.filter(~pl.col("domain").is_in(list(domains)) & (pl.col("proportion") > 0))
    if strange.height:
        row = strange.row(0, named=True)
        raise InputError(
            f"{place(name, row)}: mixture {row['mixture']!r} trains on {row['domain']!r}, which the fitted law "
            f"does not know: its domains are {', '.join(domains)}."
        )
    used = shares["mixture"].unique(maintain_order=True).to_list()
    return tuple(used), _as_matrix(shares, used, domains)


def mean_over_seeds(losses: pl.DataFrame) -> pl.DataFrame:
    """The columns of a run, step, domain, loss: the geometric mean over `seed`, where that is a column."""
    losses = with_schedules(losses)
    key = [*run_key(losses), "step", "domain"]
    if "seed" not in losses.columns:
        return losses.select(*key, "loss")
    return losses.group_by(key, maintain_order=True).agg(pl.col("loss").log().mean().exp())


def pools_of(mixtures: pl.DataFrame, domains: tuple[str, ...], name: str = "mixtures") -> list[dict[str, float]] | None:
    """Unique tokens of each domain by mixture (`proportions_of`); None without a column pool."""
    shares = _shares(tidy_mixtures(mixtures, name).table, name, "pool")
    used = shares["mixture"].unique(maintain_order=True).to_list()
    pools = _pools_matrix(shares, used, list(domains))
    return None if pools is None else [dict(zip(domains, row, strict=True)) for row in pools.tolist()]


def joined(like: Observations, groups: list[Observations]) -> Observations | None:
    """Groups of mixtures as one, with the domains and loss domains of `like` and without its
    mixtures; None where nothing is left. Of several runs of a mixture at one size the first is
    taken; at any size where a group has unknown sizes. Where only some groups have pools, those of
    the others are unlimited, and their unknown tokens NaN.

    Errors: a positive proportion of a domain that `like` does not have.
    """
    rows: dict[tuple[str, float | None], tuple[Observations, int]] = {}
    sized = all(group.parameters is not None for group in groups)
    for group in groups:
        trained = np.array(group.domains)[group.proportions.any(axis=0)].tolist()
        if strange := [name for name in trained if name not in like.domains]:
            raise InputError(f"held-out mixtures train on {strange[0]!r}, which no fitted mixture does.")
        for n, name in enumerate(group.mixtures):
            if name not in like.mixtures:
                rows.setdefault((name, float(group.parameters[n]) if sized else None), (group, n))
    if not rows:
        return None
    steps = np.unique(np.concatenate([group.steps for group in groups]))
    losses = np.full((len(rows), len(steps), len(like.loss_domains)), np.nan)
    for one, (group, n) in zip(losses, rows.values(), strict=True):
        for d, domain in enumerate(like.loss_domains):
            if domain in group.loss_domains:
                one[np.searchsorted(steps, group.steps), d] = group.losses[n, :, group.loss_domains.index(domain)]

    if any(group.pools is not None for group, _ in rows.values()):
        groups = {id(group): _unlimited(group) for group, _ in rows.values()}
        rows = {key: (groups[id(group)], n) for key, (group, n) in rows.items()}

    def of_rows(field: str, default: float | None = None) -> np.ndarray | None:
        """A field by row, absent domains as in `like`; None where one group lacks it."""
        found = [(group, getattr(group, field)) for group, _ in rows.values()]
        if any(values is None for _, values in found):
            return None
        own = [values[n] for (_, values), (_, n) in zip(found, rows.values(), strict=True)]
        if default is None:
            return np.array(own)
        named = [dict(zip(group.domains, one, strict=True)) for (group, _), one in zip(found, own, strict=True)]
        return np.array([[one.get(domain, default) for domain in like.domains] for one in named])

    seeds = [1 if group.runs is None else group.runs[n] for group, n in rows.values()]
    return replace(
        like,
        mixtures=tuple(name for name, _ in rows),
        steps=steps,
        proportions=of_rows("proportions", 0.0),
        losses=losses,
        parameters=of_rows("parameters"),
        tokens=of_rows("tokens"),
        runs=None if all(group.runs is None for group, _ in rows.values()) else np.array(seeds),
        pools=of_rows("pools", np.inf),
    )


def _unlimited(group: Observations) -> Observations:
    """The group with pools and tokens; where unknown, pools are infinite and tokens NaN."""
    pools = np.full_like(group.proportions, np.inf) if group.pools is None else group.pools
    return replace(group, pools=pools, tokens=np.full(len(pools), np.nan) if group.tokens is None else group.tokens)


def _averaged(losses: pl.DataFrame) -> tuple[pl.DataFrame, dict[tuple, int], float | None]:
    """One row per run (mixture and size), step and domain, with the geometric mean over seeds; the
    number of seeds of each; their pooled noise.

    The noise is the root mean square, over all repeated rows, of the standard deviation of log
    losses, without metrics.
    """
    run = run_key(losses)
    if "seed" not in losses.columns:
        return losses, dict.fromkeys(losses.select(run).iter_rows(), 1), None
    seeds = {tuple(one): count for *one, count in losses.group_by(run).agg(pl.col("seed").n_unique()).iter_rows()}
    if max(seeds.values(), default=1) == 1:
        return losses, seeds, None
    logs = pl.col("loss").log()
    spread = logs.var().alias("variance")
    kept = [pl.col(name).first() for name in ("row", "tokens", "metric") if name in losses.columns]
    key = [*run, "step", "domain"]
    means = losses.group_by(key, maintain_order=True).agg(*kept, logs.mean().exp().alias("loss"), spread)
    of_losses = means.filter(~pl.col("metric")) if "metric" in means.columns else means
    variance = of_losses["variance"].drop_nulls().mean()
    return means, seeds, None if variance is None else float(np.sqrt(variance))


def _as_matrix(
    shares: pl.DataFrame, used: list[str], domains: list[str] | tuple[str, ...], column: str = "proportion"
) -> np.ndarray:
    """Proportions or another `column` (n, m) of the mixtures `used`; 0 where not listed."""
    found = {(mixture, domain): one for mixture, domain, one in shares.select("mixture", "domain", column).iter_rows()}
    matrix = [found.get((mixture, domain), 0.0) for mixture in used for domain in domains]
    return np.array(matrix, dtype=float).reshape(len(used), len(domains))


def _pools_matrix(shares: pl.DataFrame, used: list[str], domains: list[str]) -> np.ndarray | None:
    """Unique tokens (n, m); infinite where the cell is empty."""
    if "pool" not in shares.columns:
        return None
    pools = shares.with_columns(pl.col("pool").cast(pl.Float64, strict=False).fill_null(np.inf))
    matrix = _as_matrix(pools, used, domains, "pool")
    return np.where(matrix > 0, matrix, np.inf)


def _last_tokens(losses: pl.DataFrame, row: np.ndarray, count: int) -> np.ndarray | None:
    """Tokens (n,) of each run's last row."""
    if "tokens" not in losses.columns:
        return None
    tokens = np.zeros(count)
    order = np.argsort(losses["step"].to_numpy(), kind="stable")
    tokens[row[order]] = losses["tokens"].cast(pl.Float64, strict=False).to_numpy()[order]
    return tokens if (tokens > 0).all() else None


def _tokens_per_step(losses: pl.DataFrame) -> float | None:
    """Tokens per step where the column `tokens` gives a constant number; else None."""
    if "tokens" not in losses.columns:
        return None
    ratio = losses["tokens"].cast(pl.Float64, strict=False) / losses["step"]
    low, high = ratio.min(), ratio.max()
    return float(ratio.median()) if low is not None and low > 0 and high - low <= 1e-6 * high else None
