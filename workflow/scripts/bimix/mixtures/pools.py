"""Pools: the rows of each domain that a run may read, all of its rows or a share of them."""

import argparse
from pathlib import Path

import numpy as np
import polars as pl

from bimix.errors import InputError, finite
from bimix.tables import read_table


def pool_rows(rows: np.ndarray, share: float) -> np.ndarray:
    """`share` of each domain's `rows` (m,), rounded; at least 1 where there are any."""
    kept = np.maximum(np.rint(share * np.asarray(rows)), 1).astype(np.int64)
    return np.where(np.asarray(rows) > 0, kept, 0)


def pools(index: Path, share: float) -> dict[str, int]:
    """{domain: tokens} for runs that may read `share` of each domain's rows of a token index."""
    table = read_table(index).group_by("domain").agg(pl.col("rows", "tokens").sum()).sort("domain")
    rows, tokens = table["rows"].to_numpy(), table["tokens"].to_numpy()
    kept = pool_rows(rows, share) * (tokens // np.maximum(rows, 1))
    return dict(zip(table["domain"].to_list(), kept.tolist(), strict=True))


def add_pools(parser: argparse.ArgumentParser) -> None:
    """Add the flags for the column `pool` of mixtures; without --tokens there is no such column."""
    parser.add_argument("--tokens", nargs="?", type=Path, help="token index, whose rows are the pools of the runs")
    parser.add_argument("--pool-share", type=finite, default=1.0, help="the share of each domain's rows that a run has")


def with_pools(mixtures: pl.DataFrame, index: Path | None, share: float) -> pl.DataFrame:
    """Mixtures with a column `pool` if there is a token index. Errors: it lacks a domain."""
    if index is None:
        return mixtures
    known = pools(index, share)
    missing = [name for name in mixtures["domain"].unique(maintain_order=True) if name not in known]
    if missing:
        raise InputError(f"{index} holds no tokens of {missing[0]!r}, which is in the mixtures.")
    return mixtures.with_columns(
        pl.col("domain").replace_strict(known, return_dtype=pl.Int64).alias("pool"),
    )
