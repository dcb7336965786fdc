"""A prior for the law `transfer` from text alone: domains with similar n-gram statistics help each
other.

log k_ij = u_i - gap_ij + delta_ij. The gap is the cross-entropy H(i|j) of held-out text of domain i
under an n-gram model of domain j, centred over the domains j that help i. delta has the ridge, so
with many runs the data dominate. H(i|i) is not needed: it would shift a row, as u_i does.

cross_entropy.csv, from measure_cross_entropy.py: domain (i), under (j), nats (H(i|j), per token).
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from bimix.errors import InputError
from bimix.mixtures.by_hand import SOFTNESS, kin
from bimix.tables import read_table

COLUMNS = {"domain": pl.String, "under": pl.String, "nats": pl.Float64}


def read_gaps(path: Path, domains: tuple[str, ...], loss_domains: tuple[str, ...]) -> np.ndarray:
    """Gaps (d, m) of a table of cross-entropies: 0 for a domain itself, NaN rows of loss domains
    that are not in it.

    Errors, each naming the file: a column, a training domain or a pair that is missing, a pair
    twice, a number that is not finite.
    """
    pairs = _read_pairs(path, domains)
    known = {domain for domain, _ in pairs}
    entropies = np.full((len(loss_domains), len(domains)), np.nan)
    for i, name in enumerate(loss_domains):
        if name not in known:
            continue
        for j, under in enumerate(domains):
            if under != name and (name, under) not in pairs:
                raise _no_row(path, name, under)
            entropies[i, j] = pairs.get((name, under), 0.0)
    return centred(entropies, [domains.index(name) if name in domains else -1 for name in loss_domains])


def kin_weights(path: Path, domains: Sequence[str], wanted: Sequence[str], softness: float = SOFTNESS) -> np.ndarray:
    """`by_hand.kin` (m,) of the domains for the wanted ones, from a table of cross-entropies.
    Errors: those of `read_gaps`; a wanted domain that has no row, or none under itself.
    """
    pairs = _read_pairs(path, domains)
    for name in wanted:
        for under in domains:
            if (name, under) not in pairs:
                raise _no_row(path, name, under)
    table = np.array([[pairs[name, under] for under in domains] for name in wanted])
    own = np.array([list(domains).index(name) if name in domains else -1 for name in wanted])
    return kin(table, own, softness)


def _no_row(path: Path, name: str, under: str) -> InputError:
    return InputError(f"{path} has no row of {name!r} under {under!r}: make it again with all domains.")


def _read_pairs(path: Path, domains: Sequence[str]) -> dict[tuple[str, str], float]:
    """{(domain, under): nats} of a table of cross-entropies that has a model of every domain."""
    table = read_table(path)
    absent = [column for column in COLUMNS if column not in table.columns]
    if absent:
        raise InputError(f"{path} has no column {absent[0]!r}: a prior has domain, under and nats.")
    table = table.select(pl.col(name).cast(kind, strict=False) for name, kind in COLUMNS.items())
    bad = table.filter(~pl.col("nats").is_finite().fill_null(False))
    if bad.height:
        domain, under, nats = bad.row(0)
        raise InputError(f"{path}: nats of {domain!r} under {under!r} is {nats}: it must be a finite number.")
    pairs = {(domain, under): nats for domain, under, nats in table.iter_rows()}
    if len(pairs) < table.height:
        domain, under, _ = table.filter(pl.struct("domain", "under").is_duplicated()).row(0)
        raise InputError(f"{path}: {domain!r} under {under!r} is there twice: keep one of the two rows.")
    models = {under for _, under in pairs}
    for name in domains:
        if name not in models:
            raise InputError(
                f"{path} has no domain {name!r} under `under`, which mixtures train on "
                f"(it has {', '.join(sorted(models))}): name both alike, or leave the prior out."
            )
    return pairs


def centred(entropies: np.ndarray, own: list[int]) -> np.ndarray:
    """Gaps (d, m): centred by row, without the domain's `own` column (-1: none), which is 0."""
    others = np.arange(entropies.shape[1]) != np.array(own)[:, None]
    means = np.where(others, entropies, 0.0).sum(axis=1, keepdims=True) / np.maximum(others.sum(axis=1), 1)[:, None]
    return np.where(others | np.isnan(means), entropies - means, 0.0)


def offsets(gaps: np.ndarray | None) -> np.ndarray | None:
    """The gaps (d, m) for the fit: 0 where they are not known; None where none is."""
    if gaps is None or not np.nan_to_num(gaps).any():
        return None
    return np.nan_to_num(gaps)


def written(gaps: np.ndarray, domains: tuple[str, ...], loss_domains: tuple[str, ...]) -> dict:
    """The gaps (d, m) for a law's JSON, without unknown loss domains."""
    rows = zip(loss_domains, gaps, strict=True)
    return {name: dict(zip(domains, map(float, row), strict=True)) for name, row in rows if np.isfinite(row).all()}


def recorded(fitted: dict, domains: tuple[str, ...], loss_domains: tuple[str, ...]) -> np.ndarray | None:
    """The gaps (d, m) in a fitted law's JSON; None where it had no prior."""
    if fitted.get("prior") is None:
        return None
    gaps = np.full((len(loss_domains), len(domains)), np.nan)
    try:
        for i, name in enumerate(loss_domains):
            if name in fitted["prior"]["gaps"]:
                gaps[i] = [fitted["prior"]["gaps"][name][under] for under in domains]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the prior of this fitted law cannot be read ({error!r}): fit it again.") from error
    return gaps
