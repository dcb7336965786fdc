"""Counts of many shards add up to those of all rows, whatever is put aside on the way."""

from collections import Counter

import numpy as np
import polars as pl
import pytest

import merge_counts
from bimix.corpus.counts import NgramCounter


@pytest.mark.parametrize("most", [1, 300, 10**6])
def test_sums_do_not_depend_on_what_is_put_aside(tmp_path, monkeypatch, most):
    monkeypatch.setattr(merge_counts, "MOST_SUMS", most)
    generator = np.random.default_rng(5)
    whole, paths = NgramCounter(), []
    for shard in range(7):
        rows, own = generator.integers(0, 40, (12, 16)).astype("<u2"), NgramCounter()
        whole.add(rows)
        own.add(rows)
        paths.append(str(tmp_path / f"{shard}.bin"))
        columns = dict(zip(("first", "second", "n"), own.pairs(), strict=True))
        pl.DataFrame(columns).write_parquet(tmp_path / f"{shard}.bigrams.parquet")
        columns = dict(zip(("token", "n"), own.tokens(), strict=True))
        pl.DataFrame(columns).write_parquet(tmp_path / f"{shard}.unigrams.parquet")
    index = pl.DataFrame({"domain": ["a"] * 7, "rows": [12] * 7, "path": paths})
    index.write_parquet(tmp_path / "index.parquet")
    out = {name: tmp_path / "out" / f"{name}.parquet" for name in ("bigrams", "unigrams")}
    flags = [argument for name, path in out.items() for argument in (f"--{name}", str(path))]
    merge_counts.main(["--index", str(tmp_path / "index.parquet"), "--domain", "a", *flags])

    found = pl.read_parquet(out["bigrams"])
    expected = dict(zip(("first", "second", "n"), whole.pairs(), strict=True))
    assert found.equals(pl.DataFrame(expected))
    tokens = dict(pl.read_parquet(out["unigrams"]).iter_rows())
    assert tokens == Counter(dict(zip(*(column.tolist() for column in whole.tokens()), strict=True)))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["bigrams.parquet", "unigrams.parquet"]
