"""Checks for valid input that is probably wrong: misspelt names, perplexities, gaps, outliers."""

from collections.abc import Collection
from itertools import combinations

import polars as pl

from bimix.errors import InputError
from bimix.names import folded, is_slip
from bimix.observations.tables import RUN, few, place

# Nats per token: a uniform guess among 250,000 tokens has 12.4.
MOST_NATS = 15.0
# An outlier, among at least FEWEST runs at its step: its log is this many median absolute
# deviations from the median, and its ratio to the median is this large.
DEVIATIONS, TIMES, FEWEST = 8.0, 3.0, 5


def check_meant(
    losses: pl.DataFrame, shares: pl.DataFrame, names: tuple[str, str], allowed: Collection[str] = ()
) -> tuple[str, ...]:
    """Remarks on losses that are missing, and on the largest outlier among them, if there are any.

    Errors: a loss above MOST_NATS, which is a perplexity or another unit; a domain with losses but
    no proportions, or the reverse, whose name may be a misspelling of another's; domains that
    differ by case, blanks or encoding and are in no mixture together.

    `losses` and `shares` come from `tables.typed`; `names` of the two tables; `allowed`: domains
    that are not misspelt. A domain for evaluation only is no error: it is measured wherever the
    similar one is.
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
    run = [column for column in (*RUN, "seed", "step") if column in losses.columns]
    measured, mixed = _places(losses, run), _places(shares, ["mixture"])
    known = [name for name in dict.fromkeys([*mixed, *measured]) if name not in allowed]
    for name, other in combinations(known, 2):
        tables = [table for table in (mixed, measured) if name in table and other in table]
        if folded(name) == folded(other):
            meant = len(tables) == 2 and mixed[name] & mixed[other]
        elif (name in mixed) == (name in measured) and (other in mixed) == (other in measured):
            continue  # each has losses and proportions
        else:
            meant = not is_slip(name, other) or any(table[name] & table[other] for table in tables)
        if not meant:
            halves = [one for one in (name, other) if (one in mixed) != (one in measured)]
            rarer = min(halves or [name, other], key=lambda one: len((mixed if one in mixed else measured)[one]))
            slip, right = (name, other) if rarer == name else (other, name)
            raise InputError(_sentence(slip, right, losses, shares, names))
    return _missing(losses, names[0], run) + _unlike(losses, names[0])


def _missing(losses: pl.DataFrame, name: str, key: list[str]) -> tuple[str, ...]:
    """The first evaluation without a loss that others have, and their number; `key`: its columns."""
    domains = losses["domain"].unique(maintain_order=True)
    short = losses.filter(pl.len().over(key) < len(domains), "source" not in losses.columns)  # older runs lack new text
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


def _sentence(name: str, other: str, losses: pl.DataFrame, shares: pl.DataFrame, names: tuple[str, str]) -> str:
    """A sentence that `name` may be a misspelling of `other`."""
    mixed, measured = (name in set(table["domain"]) for table in (shares, losses))
    table, file = (shares, names[1]) if mixed else (losses, names[0])
    own = table.filter(pl.col("domain") == name)
    lacks = "" if mixed and measured else " and has no losses" if mixed else ", and no mixture has a proportion of it"
    return (
        f"{place(file, own.row(0, named=True))}: domain {name!r} {'is in' if mixed else 'has losses in'}"
        f" {own['mixture'].n_unique()} of {table['mixture'].n_unique()} mixtures{lacks}; did you mean {other!r}?"
        f" --allow-unmeasured {name!r} (in a config observations/allow_unmeasured) says that it is meant."
    )


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
