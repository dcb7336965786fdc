"""Remarks on the text that losses and entropies are measured on, and on what models learnt of it."""

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

import polars as pl

from bimix.observations.tables import run_key, with_schedules
from bimix.tables import read_table, read_tokens

FEW_ROWS = 100  # validation rows of a domain
FEW_PIECES = 100  # of each domain, for its von Neumann entropy
LEARNT = 0.3  # nats below the entropy of single tokens
NAMED = 4  # domains in a sentence


def add_text(parser: argparse.ArgumentParser) -> None:
    """Add the tables of a dataset with text."""
    parser.add_argument("--entropy", type=Path, nargs="?", help="entropy.csv, of a dataset with text")
    parser.add_argument("--validation", type=Path, nargs="?", help="index of the validation split, likewise")


def remarks(options: argparse.Namespace, weights: Mapping[str, float]) -> list[str]:
    """All of these remarks, and how far each model ends below the entropy of single tokens.

    Reads of `options` those of `add_text`, and tokens, proxies, compared, fitted_model and
    compared_model; none without text.
    """
    if not (options.entropy and options.validation):
        return []
    entropy = read_table(options.entropy)
    single = dict(entropy.filter(measure="SE").select("domain", "nats").iter_rows())
    ends: dict[str, list[pl.DataFrame]] = {}
    for model, path in [
        *((options.fitted_model, one) for one in options.proxies),
        (options.compared_model, options.compared),
    ]:
        ends.setdefault(model, []).append(last_losses(read_table(path)))
    said = []
    for model, tables in ends.items():
        said += below_single_tokens(model, single, pl.concat(tables))
    held_out = read_table(options.validation)
    said += thin_text(held_out, read_tokens(options.tokens[0]), weights) + same_text(held_out)
    vectors = entropy.filter(measure="VNE").select(pl.col("documents") + pl.col("zeros"))
    return [*said, *(pieces_taken(pieces) for (pieces,) in vectors.head(1).iter_rows())]


def last_losses(table: pl.DataFrame) -> pl.DataFrame:
    """domain, loss of the last step of each run in tidy losses, without metrics."""
    if "metric" in table.columns:
        table = table.filter(~pl.col("metric"))
    table = with_schedules(table)
    run = run_key(table, "seed")
    table = table.filter(pl.col("step") == pl.col("step").max().over(run))
    return table.select(pl.col("domain").cast(pl.String), pl.col("loss").cast(pl.Float64))


def below_single_tokens(model: str, entropies: Mapping[str, float], ends: pl.DataFrame) -> list[str]:
    """By how many nats a model ends below the entropy of single tokens: the plain mean over domains
    of both, the losses of all runs; and that it learnt little where that is under LEARNT.
    """
    losses = dict(ends.group_by("domain").agg(pl.mean("loss")).iter_rows())
    domains = [domain for domain in entropies if domain in losses]
    if not domains:  # of a command that measures other text
        return []
    level = fmean(entropies[domain] for domain in domains)
    gap = level - fmean(losses[domain] for domain in domains)
    where = "below" if gap >= 0 else "above"
    said = f"{model} ends {abs(gap):.2f} nats {where} the entropy of single tokens of {level:.2f} nats, mean of"
    said += f" {len(domains)} domains and all runs"
    if gap < LEARNT:
        said += f": under {LEARNT} nats below it, a model has learnt token frequencies and little more"
    return [f"{said}."]


def thin_text(index: pl.DataFrame, tokens: Mapping[str, float], weights: Mapping[str, float]) -> list[str]:
    """A sentence on domains that weigh more than their share of the training tokens and have few
    validation rows or no whole document held out; `index` is that of the validation split.

    Without `weights` all domains weigh the same. One sentence names them all, with the part of the
    objective that they are, so that a plain mean over scarce domains gives one remark.
    """
    found = index.group_by("domain").agg(pl.sum("rows", "records", "ends")).sort("domain")
    weights = weights or dict.fromkeys(found["domain"], 1.0)
    total, text = sum(weights.values()), sum(tokens.values())
    thin, part = [], 0.0
    for domain, rows, whole, ends in found.iter_rows():
        weight = weights.get(domain, 0.0) / total
        if weight > tokens.get(domain, 0.0) / text and (rows < FEW_ROWS or not whole):
            part += weight
            thin.append(
                f"{domain} on {rows:,} rows of {whole:,} whole documents and {ends:,} ends of documents that train"
            )
    if not thin:
        return []
    more = [f"and {len(thin) - NAMED} more domains"] if len(thin) > NAMED else []
    said = "; ".join([*thin[:NAMED], *more])
    return [f"{100 * part:.0f} % of the objective is measured on little held-out text, or none that is whole: {said}."]


def same_text(index: pl.DataFrame) -> list[str]:
    """A sentence on each group of domains that have a shard of the same rows."""
    named = index.filter(pl.col("rows") > 0).group_by("digest").agg(pl.col("domain").unique().sort())
    groups = sorted({tuple(names) for names in named["domain"].to_list() if len(names) > 1})
    return [
        f"{' and '.join(names)} have the same text: no law can tell them apart; keep one of them." for names in groups
    ]


def pieces_taken(pieces: int) -> str:
    """How many pieces of each domain von Neumann entropies are of, and where these are few."""
    said = f"The von Neumann entropies are of {pieces:,} pieces of each domain"
    if pieces < FEW_PIECES:
        said += (
            f": none can be above {math.log(max(pieces, 1)):.2f} nats, and the mixture vne is close to equal shares;"
        )
        said += f" a smaller corpus/cut_characters gives more pieces, of which {FEW_PIECES} are enough"
    return f"{said}."
