"""What is well formed in the tables of losses and mixtures and can hardly be meant: names that are
slips of one another, perplexities, rows that are missing, a loss unlike all others.

Names and perplexities are refused, as they change the answer without a word; the others are
remarked on.
"""

from collections.abc import Collection
from itertools import combinations

import polars as pl

from bimix.errors import InputError
from bimix.names import folded, is_slip
from bimix.observations.tables import RUN, place

# Nats a token: a guess at random among 250,000 tokens has 12.4.
MOST_NATS = 15.0
# A loss is unlike those of the other runs, of which there are FEWEST at its step: its log lies so
# many deviations (of the median) from theirs, and it is so many times theirs.
DEVIATIONS, TIMES, FEWEST = 8.0, 3.0, 5
SHOWN = 3  # of the same kind


def check_names(
    losses: pl.DataFrame, shares: pl.DataFrame, names: tuple[str, str], allowed: Collection[str] = ()
) -> None:
    """Errors: a domain that has losses and no proportions, or proportions and no losses, and whose
    name is a slip of another's; domains that differ by case, blanks or encoding and are in no
    mixture together.

    `losses` and `shares` as `rows.typed` has them; `names` of the two tables; `allowed`: domains
    that are meant. A domain to evaluate on alone is none of these: where the other is measured, it
    is measured, too.
    """
    if "metric" in losses.columns:
        losses = losses.filter(~pl.col("metric"))
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


def _places(table: pl.DataFrame, key: list[str]) -> dict[str, set]:
    """{domain: the rows of `key` that it is in}."""
    places: dict[str, set] = {}
    for domain, *at in table.select("domain", *key).iter_rows():
        places.setdefault(domain, set()).add(tuple(at))
    return places


def _sentence(name: str, other: str, losses: pl.DataFrame, shares: pl.DataFrame, names: tuple[str, str]) -> str:
    """A remark that `name` may be a slip for `other`."""
    mixed, measured = (name in set(table["domain"]) for table in (shares, losses))
    table, file = (shares, names[1]) if mixed else (losses, names[0])
    own = table.filter(pl.col("domain") == name)
    lacks = "" if mixed and measured else " and has no losses" if mixed else ", and no mixture has a proportion of it"
    return (
        f"{place(file, own.row(0, named=True))}: domain {name!r} {'is in' if mixed else 'has losses in'}"
        f" {own['mixture'].n_unique()} of {table['mixture'].n_unique()} mixtures{lacks}; did you mean {other!r}?"
        f" --allow-unmeasured {name!r} (in a config observations/allow_unmeasured) says that it is meant."
    )


def check_nats(losses: pl.DataFrame, name: str) -> None:
    """Errors: a loss above MOST_NATS, which is a perplexity or another unit."""
    if "metric" in losses.columns:
        losses = losses.filter(~pl.col("metric"))
    large = losses.filter(pl.col("loss") > MOST_NATS)
    if large.height:
        row = large.row(0, named=True)
        raise InputError(
            f"{place(name, row)} (mixture {row['mixture']!r}, step {row['step']}, domain {row['domain']!r}): the loss is"
            f" {row['loss']:g}, and losses are in nats a token, of which a guess at random among 250,000 tokens has 12.4."
            " Write the logarithm of a perplexity; what is no loss is a metric: give it by --metrics (in a config"
            " observations/metrics)."
        )


def remarks(losses: pl.DataFrame, name: str) -> tuple[str, ...]:
    """Sentences on missing rows, runs that end early, and losses unlike those of other runs."""
    if "metric" in losses.columns:
        losses = losses.filter(~pl.col("metric"))
    run = [column for column in (*RUN, "seed") if column in losses.columns]
    alike = [column for column in run if column not in ("mixture", "seed")]  # runs of one size and schedule
    return (*_missing(losses, name, run, alike), *_early(losses, name, run, alike), *_unlike(losses, name, run, alike))


def _missing(losses: pl.DataFrame, name: str, run: list[str], alike: list[str]) -> list[str]:
    """Runs that were evaluated at a step, but not on a domain on which most others were."""
    at = losses.select(*run, "step").unique(maintain_order=True)
    runs = at.group_by(*alike, "step").agg(pl.len().alias("runs"))
    usual = losses.group_by(*alike, "step", "domain", maintain_order=True).agg(pl.len().alias("there"))
    usual = usual.join(runs, on=[*alike, "step"]).filter(2 * pl.col("there") > pl.col("runs"))
    wanted = at.join(usual.select(*alike, "step", "domain"), on=[*alike, "step"], maintain_order="left")
    lacking = wanted.join(losses, on=[*run, "step", "domain"], how="anti", nulls_equal=True)
    if not lacking.height:
        return []
    rows = [
        f"{_run(row)} of {row['domain']!r} at step {row['step']}" for row in lacking.head(SHOWN).iter_rows(named=True)
    ]
    return [f"{name}: {_count(lacking.height, 'loss')} missing that most runs have: {_listed(rows, lacking.height)}."]


def _early(losses: pl.DataFrame, name: str, run: list[str], alike: list[str]) -> list[str]:
    """Runs that end before the step that most others end at."""
    ends = losses.group_by(run, maintain_order=True).agg(pl.col("step").max().alias("end"))
    usual = pl.col("end").quantile(0.5, "lower")
    early = ends.with_columns((usual.over(alike) if alike else usual).alias("usual"))
    early = early.filter(pl.col("end") < pl.col("usual"))
    if not early.height or 4 * early.height > ends.height:  # so many are of several lengths by design
        return []
    rows = [
        f"{_run(row)} at step {row['end']}, not {row['usual']:g}" for row in early.head(SHOWN).iter_rows(named=True)
    ]
    return [f"{name}: {_count(early.height, 'run')} ending before most others: {_listed(rows, early.height)}."]


def _unlike(losses: pl.DataFrame, name: str, run: list[str], alike: list[str]) -> list[str]:
    """The loss that is most unlike those of the other runs at its step on its domain."""
    of = [*alike, "step", "domain"]
    logs = losses.with_columns(pl.col("loss").log().alias("log"))
    logs = logs.with_columns(pl.col("log").median().over(of).alias("middle"), pl.len().over(of).alias("runs"))
    logs = logs.with_columns((pl.col("log") - pl.col("middle")).abs().alias("off"))
    logs = logs.with_columns((1.4826 * pl.col("off").median().over(of)).alias("spread"))
    odd = logs.filter(
        (pl.col("runs") >= FEWEST)
        & (pl.col("off") > DEVIATIONS * pl.col("spread"))
        & (pl.col("off") > pl.lit(TIMES).log())
    ).sort("off", descending=True, maintain_order=True)
    if not odd.height:
        return []
    row = odd.row(0, named=True)
    middle = pl.select(pl.lit(row["middle"]).exp()).item()
    more = f" ({odd.height} losses are so unlike the others)" if odd.height > 1 else ""
    return [
        f"{place(name, row)}: the loss of {_run(row)} on {row['domain']!r} at step {row['step']} is {row['loss']:g}, and half"
        f" of the {row['runs']} runs there are below {middle:.4g}{more}: the law follows it if it stays."
    ]


def _run(row: dict) -> str:
    seed = f", seed {row['seed']}" if row.get("seed") is not None else ""
    return f"mixture {row['mixture']!r}{seed}"


def _count(number: int, what: str) -> str:
    plural = {"loss": "losses"}.get(what, f"{what}s")
    return f"{number} {what} is" if number == 1 else f"{number} {plural} are"


def _listed(rows: list[str], total: int) -> str:
    return "; ".join(rows) + (f"; and {total - len(rows)} more" if total > len(rows) else "")
