"""Checks for valid input that is probably wrong: misspelt names, perplexities, gaps, outliers."""

import math
from difflib import get_close_matches

import numpy as np
import polars as pl

from bimix.errors import InputError
from bimix.names import folded, paired
from bimix.observations.tables import RUN, few, place, run_key

# Nats per token: a uniform guess among 250,000 tokens has 12.4.
MOST_NATS = 15.0
NEAR = 0.85  # of 1, by difflib: two names of which one may be a misspelling of the other
# An outlier, among at least FEWEST runs at its step: its log is this many median absolute
# deviations from the median, and its ratio to the median is this large.
DEVIATIONS, TIMES, FEWEST = 8.0, 3.0, 5
# Runs may be in bits whose mean log loss is about this much above that of the others; a third of it is the
# most that runs of one unit differ by.
BITS, OFF = -math.log(math.log(2)), 0.05


def check_meant(losses: pl.DataFrame, shares: pl.DataFrame, names: tuple[str, str]) -> tuple[str, ...]:
    """Remarks on a domain's name that may be misspelt, on losses that are missing, and on the
    largest outlier among them, if there are any. `losses` and `shares` come from `tables.typed`;
    `names` of the two tables.

    Errors: a loss above MOST_NATS, which is a perplexity or another unit.
    """
    if "metric" in losses.columns:
        losses = losses.filter(~pl.col("metric"))
    for row in losses.filter(pl.col("loss") > MOST_NATS).head(1).iter_rows(named=True):
        raise InputError(
            f"{place(names[0], row)} (mixture {row['mixture']!r}, step {row['step']}, domain {row['domain']!r}): the loss is"
            f" {row['loss']:g}, and losses are in nats a token, of which a guess at random among 250,000 tokens has 12.4."
            " Write the logarithm of a perplexity; what is no loss is a metric: give it by --metrics (in a config"
            " observations/metrics)."
        )
    run = run_key(losses, "seed", "step")
    domains, trained = (table["domain"].unique(maintain_order=True).to_list() for table in (losses, shares))
    matched = {*trained, *paired(domains, trained)}
    others = [name for name in domains if name not in matched]
    counted = f"{names[0]}: losses of no training domain, which count in averages and optima: {few(others)}."
    said = (counted,) if others and len(others) < len(domains) else ()
    return (
        *_misspelt(losses, shares, names, run),
        *said,
        *_missing(losses, names[0], run),
        *_unlike(losses, names[0]),
        *_in_bits(losses, names[0]),
    )


def _misspelt(losses: pl.DataFrame, shares: pl.DataFrame, names: tuple[str, str], key: list[str]) -> tuple[str, ...]:
    """Domains whose names match; else the first domain of one table alone whose name is near that of
    a domain it is never beside.
    """
    measured, mixed = _places(losses, key), _places(shares, ["mixture"])
    if pairs := paired([*measured], [*mixed]):
        each = few(f"{name!r} of {domain!r}" for name, domain in pairs.items())
        return (f"{names[0]}: losses are taken as those of the training domains whose names match: {each}.",)
    for name in [*mixed, *measured]:
        if name in mixed and name in measured:
            continue
        own, table, file = (mixed, shares, names[1]) if name in mixed else (measured, losses, names[0])
        others = {
            folded(one): one for one in [*mixed, *measured] if one != name and not own.get(one, set()) & own[name]
        }
        if near := get_close_matches(folded(name), others, 1, NEAR):
            row = table.filter(pl.col("domain") == name).row(0, named=True)
            lacks = "has no losses" if name in mixed else "is in no mixture"
            return (f"{place(file, row)}: domain {name!r} {lacks}; did you mean {others[near[0]]!r}?",)
    return ()


def _missing(losses: pl.DataFrame, name: str, key: list[str]) -> tuple[str, ...]:
    """The first evaluation without a loss that others have, and their number; `key`: its columns."""
    domains = losses["domain"].unique(maintain_order=True)
    short = losses.filter(pl.len().over(key) < len(domains))
    own = short.join(short[:1], on=key, how="semi")["domain"].to_list()
    lacks, count = few(one for one in domains if one not in own), short.select(key).n_unique()
    return tuple(
        f"{place(name, row)}: mixture {row['mixture']!r} has no loss on {lacks} at step {row['step']}, as others have"
        f" (evaluations that lack one: {count}): it counts as not measured."
        for row in short.head(1).iter_rows(named=True)
    )


def _places(table: pl.DataFrame, key: list[str]) -> dict[str, set]:
    """{domain: the set of `key` values of its rows}."""
    places: dict[str, set] = {}
    for domain, *at in table.select("domain", *key).iter_rows():
        places.setdefault(domain, set()).add(tuple(at))
    return places


def _unlike(losses: pl.DataFrame, name: str) -> tuple[str, ...]:
    """The largest outlier among the losses of a size and schedule at one step."""
    of = [column for column in (*RUN[1:], "step", "domain") if column in losses.columns]
    logs = losses.with_columns(pl.col("loss").log().alias("log"))
    logs = logs.with_columns(pl.col("log").median().over(of).alias("middle"), pl.len().over(of).alias("runs"))
    logs = logs.with_columns((pl.col("log") - pl.col("middle")).abs().alias("off"))
    far = pl.max_horizontal(1.4826 * DEVIATIONS * pl.col("off").median().over(of), pl.lit(TIMES).log())
    odd = logs.filter((pl.col("runs") >= FEWEST) & (pl.col("off") > far)).sort("off", maintain_order=True).tail(1)
    return tuple(
        f"{place(name, row)}: the loss of mixture {row['mixture']!r} on {row['domain']!r} at step {row['step']} is"
        f" {row['loss']:g}, unlike those of the other {row['runs'] - 1} runs there: the law follows it if it stays."
        for row in odd.iter_rows(named=True)
    )


def _in_bits(losses: pl.DataFrame, name: str) -> tuple[str, ...]:
    """Runs of one size whose losses at the last step are as if in bits, unlike those of the others."""
    key = run_key(losses, "seed")
    ends = losses.filter(pl.col("step") == pl.col("step").max())
    levels = ends.group_by(key, maintain_order=True).agg(pl.col("loss").log().mean()).sort("loss")
    if set(key) & set(RUN[1:]) or levels.height < FEWEST:
        return ()
    logs = levels["loss"].to_numpy()
    above = int(np.diff(logs).argmax()) + 1
    low, high = logs[:above], logs[above:]
    if abs(high.mean() - low.mean() - BITS) > OFF or max(np.ptp(low), np.ptp(high)) > BITS / 3:
        return ()
    return (
        f"{name}: the losses of {few(levels['mixture'][above:])} are 1.44 times those of the other runs, as if in bits: multiply them"
        " by ln 2 = 0.693 if they are.",
    )
