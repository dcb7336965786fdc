"""Joins runs on earlier corpora to those on a new one, as one tidy pair that every law reads.

A source is a folder of results, whose runs report their training and validation text, or a pair of
tables. Old domains are mapped to new ones by a linear map of shares; missing proportions are 0.
Losses are joined where validation text, tokenizer and recipe are the same.

Seeds and versions may shift the losses of a source. A law would take such a shift for an effect of
the mixture, so the source's losses are corrected by the difference in mixtures that both ran.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import polars as pl

from bimix.digests import check, digest_file
from bimix.errors import InputError
from bimix.names import shown, unknown
from bimix.observations.tables import ROW, by_mixture, few, read_losses, read_mixtures, run_key
from bimix.tables import parsed_json, read_json, read_table

ALIKE = 1e-4  # total variation of mixtures that are the same but for rounding
DRAWN = 2.0  # runs' worth of the mean over loss domains in the shift of each
MEANT = {"seed": 1, "metric": False}  # by a table of losses that lacks the column
ROWS = re.compile(r"(\d+) rows of (\d+) tokens, (\w+)")
Map = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Pair:
    """Tidy losses and mixtures of one source; `texts` and `recipe` where its runs report them."""

    name: str
    losses: pl.DataFrame
    mixtures: pl.DataFrame
    recipe: dict = field(default_factory=dict)  # all but the seed
    texts: dict[str, str] = field(default_factory=dict)  # train.{domain}, validation.{domain}: digest
    files: dict[str, str] = field(default_factory=dict)  # what it was read from: digest

    def domains(self) -> set[str]:
        """Those that it has shares or losses of."""
        return {name for table in (self.losses, self.mixtures) for name in table["domain"].cast(pl.String).unique()}


def read_source(source: str, model: str | None) -> Pair:
    """The runs of `model` in a folder, or JSON {"folder"} or {"losses", "mixtures"}, and `map`."""
    given = parsed_json(source, "--reuse") if source.lstrip().startswith("{") else {"folder": source}
    by = checked_map(given.pop("map", {}))
    if strange := [key for key, value in given.items() if not isinstance(value, str)]:
        raise InputError(f"--reuse: {strange[0]} is {shown(given[strange[0]])}: it must be one path, as text.")
    if set(given) == {"folder"}:
        return checked_source(_of_folder(Path(given["folder"]), model), by)
    if set(given) != {"losses", "mixtures"}:
        raise InputError(f"--reuse {source}: a source has a folder, or losses and mixtures; and may have a map.")
    mixtures = read_mixtures(given["mixtures"])
    losses = read_losses(given["losses"], mixtures.names("domain")).table
    files = {path: digest_file(Path(path)) for path in given.values()}
    name = Path(given["losses"]).parent.name or "old"
    return checked_source(Pair(name, losses.drop(ROW), mixtures.table.drop(ROW), files=files), by)


def _of_folder(folder: Path, model: str | None) -> Pair:
    """The finished runs in a folder of results. Errors: there are none; those of `of_runs`."""
    runs = sorted(folder.glob(f"runs/{model or '*'}/*/run.json"))
    if not runs:
        raise InputError(f"{folder} has no run of {model or 'any model'} (runs/{model or '*'}/*/run.json) to reuse.")
    models = sorted({path.parents[1].name for path in runs})
    if len(models) > 1:
        raise InputError(f"{folder} has runs of {', '.join(models)}: --model names one of them.")
    return of_runs(runs, folder.name)


def of_runs(runs: Sequence[Path], name: str) -> Pair:
    """Finished runs with one recipe, from their run.json. Errors: they differ; all have stages."""
    losses, mixtures, recipe, texts, files = [], [], None, None, {}
    for path in runs:
        said, mixture = read_json(path), path.parent.name.partition("@")[0]
        if any(not isinstance(share, float | int) for share in said["mixture"].values()):
            continue  # in stages: no one proportion
        own = {key: value for key, value in said["recipe"].items() if key != "seed"}
        own |= {"shape": said["shape"], "tokenizer": said["tokenizer"]}
        found = {key: ROWS.match(value) for key, value in said["data"].items()}
        digests = {key: match[3] for key, match in found.items() if match}
        if recipe is None:
            recipe, texts = own, digests
        if own != recipe or any(texts.get(key) != one for key, one in digests.items() if key.startswith("validation.")):
            raise InputError(f"{path}: its recipe or its held-out text is not that of {runs[0]}: reuse one kind.")
        measured = check(path.with_name("losses.parquet"))
        digest = digest_file(measured)
        if digest in files.values():
            continue  # a run before it again, as a round after the end of its search is
        files[str(measured)] = digest
        table = read_table(measured)
        losses.append(table.select(pl.lit(mixture).alias("mixture"), pl.lit(said["seed"]).alias("seed"), pl.all()))
        for domain, share in said["mixture"].items():
            match = found.get(f"train.{domain}")
            pool = float(match[1]) * float(match[2]) if match else None
            mixtures.append((mixture, domain, float(share), pool))
    if not losses:
        raise InputError(f"{name}: all of its runs are in stages: a law needs one proportion of each domain.")
    schema = {"mixture": pl.String, "domain": pl.String, "proportion": pl.Float64, "pool": pl.Float64}
    table = pl.DataFrame(mixtures, schema=schema, orient="row").unique(["mixture", "domain"], maintain_order=True)
    return Pair(name, pl.concat(losses, how="diagonal_relaxed"), table, recipe, texts, files)


def checked_map(given: Mapping[str, object]) -> Map:
    """{old domain: {new domain: share}} from a map whose values may also be one new domain."""
    found = {}
    if not isinstance(given, Mapping):
        raise InputError(f"--map is {shown(given)}: it must be an object of old domains and what they are now.")
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


def checked_source(pair: Pair, by: Map) -> Pair:
    """The pair in new domains. Errors: the map names a domain that the source does not have."""
    if strange := [name for name in by if name not in pair.domains()]:
        raise InputError(f"--reuse, map of {pair.name}: {unknown('domain', strange[0], sorted(pair.domains()))}")
    return mapped(pair, by)


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
    losses = pair.losses.with_columns(pl.col("domain").cast(pl.String).replace(names))
    texts = {}
    for key, digest in pair.texts.items():
        split, _, name = key.partition(".")
        texts[f"{split}.{names.get(name, name)}"] = digest
    return replace(pair, losses=losses, mixtures=table, texts=texts)


def join(new: Pair | None, olds: Sequence[Pair], by: Map) -> tuple[pl.DataFrame, pl.DataFrame, list[str]]:
    """Losses and mixtures of the new and all older runs, with the column `source`, and remarks.
    Older mixtures are called `name (source)`.

    Errors: runs of another recipe, model or tokenizer; sources without a step or a loss in common.
    """
    said: list[str] = []
    kept: list[Pair] = []
    there = sorted(set().union(*(pair.domains() for pair in olds)))
    if strange := [name for name in by if name not in there]:
        raise InputError(f"--map: {unknown('domain of older runs', strange[0], there)}")
    for number, pair in enumerate(([new] if new else []) + list(olds)):
        first = kept[0] if kept else None
        if number or new is None:  # the new runs are in the new domains already
            pair = mapped(pair, by | (_same_text(first, pair) if first else {}))
        if first is not None:
            pair, more = _fitting(first, pair)
            said += more
        if number or new is None:
            called = pl.col("mixture").cast(pl.String) + f" ({pair.name})"
            pair = replace(pair, losses=pair.losses.with_columns(called), mixtures=pair.mixtures.with_columns(called))
        kept.append(pair)
    names = [pair.name for pair in kept]
    if len(set(names)) < len(names):
        raise InputError(f"two sources are called {next(n for n in names if names.count(n) > 1)!r}: rename a folder.")
    meant = {key: one for key, one in MEANT.items() if any(key in pair.losses.columns for pair in kept)}
    for n, pair in enumerate(kept):
        lacking = {key: pl.lit(one) for key, one in meant.items() if key not in pair.losses.columns}
        kept[n] = replace(pair, losses=pair.losses.with_columns(**lacking))
    tables = []
    for what in ("losses", "mixtures"):
        parts = [getattr(pair, what).with_columns(source=pl.lit(pair.name)) for pair in kept]
        whole = set.intersection(*(set(part.columns) for part in parts)) | {"pool"}
        tables.append(
            pl.concat([part.select(c for c in part.columns if c in whole) for part in parts], how="diagonal_relaxed")
        )
    losses, mixtures = tables
    if "tokens" not in losses.columns:
        mixtures = mixtures.drop("pool", strict=False)
    return losses, mixtures, said


def _same_text(first: Pair, pair: Pair) -> Map:
    """The domains of a source whose text is in the new runs under another name."""
    now = {digest: key[len("train.") :] for key, digest in first.texts.items() if key.startswith("train.")}
    old = {key[len("train.") :]: digest for key, digest in pair.texts.items() if key.startswith("train.")}
    return {
        name: {now[one]: 1.0} for name, one in old.items() if one in now and name != now[one] and now[one] not in old
    }


def _fitting(first: Pair, pair: Pair) -> tuple[Pair, list[str]]:
    """A source's losses that are comparable to the first's, shifted to its level, and remarks."""
    said, losses = [], pair.losses
    if first.recipe and pair.recipe:
        differ = [key for key in first.recipe if first.recipe[key] != pair.recipe.get(key)]
        if "tokenizer" in differ:
            raise InputError(
                f"{pair.name}: its tokenizer is another: losses in nats a token cannot be compared. Keep the old tokenizer"
                " (`tokenizer: {file: ...}`), or give tables of losses in the new nats."
            )
        if differ:
            raise InputError(f"{pair.name}: {', '.join(differ)} of its runs differ: one recipe alone can be joined.")
    both = {key: one for key, one in pair.texts.items() if key in first.texts and one != first.texts[key]}
    other = sorted(key.partition(".")[2] for key in both if key.startswith("validation."))
    if other:
        losses = losses.filter(~pl.col("domain").is_in(other))
        said.append(f"{pair.name}: the losses on {', '.join(other)} are left out: the held-out text is another now.")
    refiltered = sorted(key.partition(".")[2] for key in both if key.startswith("train."))
    if refiltered:
        said.append(f"{pair.name}: the text of {', '.join(refiltered)} has changed: its runs count as on the new one.")
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
