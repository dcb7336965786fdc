"""Whether n-gram counts and entropies follow from one another and from the token index."""

from pathlib import Path

import numpy as np
import polars as pl

from bimix.corpus.counts import add_up
from bimix.corpus.estimators import entropy_table
from bimix.digests import check
from bimix.errors import InputError
from bimix.results.verify_findings import Findings

KINDS = {"unigrams": ["token"], "bigrams": ["first", "second"]}
MERGED = {"unigrams": "unigrams", "bigrams": "counts"}  # the folder of a kind's sums over the shards
ENTROPY_TOLERANCE = 1e-9  # relative, of entropies that are measured again


def check_counts(folder: Path, indices: dict[str, pl.DataFrame] | None, found: Findings) -> None:
    """Compare counts with the rows that they are of, their sums with those of the shards, and the
    entropies with those of the sums.
    """
    if indices is None:
        return
    for split, index in indices.items():
        for domain, path, rows, tokens in index.select("domain", "path", "rows", "tokens").iter_rows():
            for kind in KINDS if rows else ():
                table = Path(f"{path.removesuffix('.bin')}.{kind}.parquet")
                if not table.is_file():
                    found.unchecked.append(f"{table} is not there: the {kind} of {domain}, {split}.")
                    continue
                with found.noting(table):
                    check_sum(table, kind, rows, tokens, found)
                    found.checked["counts of shards against their rows"] += 1
    train = indices["train"].filter(pl.col("rows") > 0)
    domains = train["domain"].unique(maintain_order=True).to_list()
    sound = [domain for domain in domains if check_merged(folder, domain, train, found)]
    with found.noting(folder / "entropy.csv"):
        check_entropy(folder, sound, found)


def check_sum(table: Path, kind: str, rows: int, tokens: int, found: Findings) -> None:
    """Tokens sum to those of the rows. Pairs do not cross rows: each row has one less than
    tokens.
    """
    expected = tokens if kind == "unigrams" else tokens - rows
    if table in found.unreadable:
        raise InputError(found.unreadable[table])
    total = pl.scan_parquet(check(table), glob=False).select(pl.sum("n")).collect().item()
    found.expect(total == expected, f"{table} counts {total:,} {kind}, but its rows hold {expected:,}.")


def check_merged(folder: Path, domain: str, train: pl.DataFrame, found: Findings) -> bool:
    """Whether the counts of a domain are there, and are the sums of those of its shards."""
    before = len(found.faults)
    own = train.filter(pl.col("domain") == domain)
    for kind, keys in KINDS.items():
        table = folder / MERGED[kind] / f"{domain}.parquet"
        if not table.is_file():
            found.unchecked.append(f"{table} is not there: the {kind} of {domain}.")
            return False
        with found.noting(table):
            check_sum(table, kind, own["rows"].sum(), own["tokens"].sum(), found)
            parts = [Path(f"{path.removesuffix('.bin')}.{kind}.parquet") for path in own["path"]]
            if not all(part.is_file() for part in parts):  # said above
                continue
            merged, start, same = pl.scan_parquet(check(table), glob=False).select(*keys, "n"), 0, True
            for piece in add_up([pl.scan_parquet(check(part), glob=False) for part in parts], keys):
                same = same and merged.slice(start, len(piece)).collect().equals(piece)
                start += len(piece)
            same = same and merged.select(pl.len()).collect().item() == start
            found.expect(same, f"{table} does not hold the sums of the {kind} of its {len(parts)} shards.")
            found.checked["counts of domains against those of their shards"] += 1
    return len(found.faults) == before


def check_entropy(folder: Path, domains: list[str], found: Findings) -> None:
    """Measure the entropies again of the domains whose counts are sound."""
    path = folder / "entropy.csv"
    if not path.is_file():
        return
    written = found.read(path)
    for domain in written["domain"].unique(maintain_order=True):
        own = written.filter(pl.col("domain") == domain)
        if domain not in domains:
            found.unchecked.append(f"{path}: the entropies of {domain}, whose counts are not there or not sound.")
            continue
        vectors = folder / "vectors" / f"{domain}.npz"
        with found.noting(f"{path}, {domain}"):
            tables = ([folder / MERGED[kind] / f"{domain}.parquet"] for kind in KINDS)
            again = entropy_table([domain], *tables, [vectors] if vectors.is_file() else [])
            wanted = own["measure"].to_list()
            if "VNE" in wanted and not vectors.is_file():
                found.unchecked.append(f"{vectors} is not there: the VNE of {domain}.")
                own = own.filter(pl.col("measure") != "VNE")
            again = again.filter(pl.col("measure").is_in(wanted))
            same = own["measure"].equals(again["measure"]) and own.columns == again.columns
            for name in again.columns[2:] if same else ():
                numbers = (table[name].cast(pl.Float64).fill_null(np.nan).to_numpy() for table in (own, again))
                same = same and np.allclose(*numbers, rtol=ENTROPY_TOLERANCE, atol=0, equal_nan=True)
            found.expect(same, f"{path}: the entropies of {domain} are not those of its counts.")
            found.checked["domains whose entropies were measured again"] += 1
