"""Pools: what there is of each domain for a run, beside the mixtures."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from refusals import refused

import gather_mixtures
import sample_mixtures
from bimix.mixtures.pools import pool_rows, pools


@pytest.fixture
def index(tmp_path: Path) -> Path:
    table = pl.DataFrame(
        {"domain": ["a", "a", "b"], "path": ["1", "2", "3"], "rows": [40, 24, 5], "tokens": [400, 240, 50]}
    )
    table.write_parquet(tmp_path / "train.parquet")
    return tmp_path / "train.parquet"


def test_a_share_of_the_rows_is_rounded_and_never_none(index: Path) -> None:
    assert pool_rows(np.array([64, 5, 0]), 0.25).tolist() == [16, 1, 0]
    assert pool_rows(np.array([64, 5, 0]), 1.0).tolist() == [64, 5, 0]
    assert pool_rows(np.array([64, 5, 0]), 1e-6).tolist() == [1, 1, 0]
    assert pools(index, 1.0) == {"a": 640, "b": 50}
    assert pools(index, 0.25) == {"a": 160, "b": 10}


def test_tables_of_mixtures_carry_the_pools(tmp_path: Path, index: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps({"a": 0.75, "b": 0.25}))
    given = ["--mixtures", str(tmp_path / "m.json"), "--names", "m", "--out", str(tmp_path / "m.parquet")]
    gather_mixtures.main([*given, "--tokens", str(index), "--pool-share", "0.25"])
    assert pl.read_parquet(tmp_path / "m.parquet").rows() == [("m", "a", 0.75, 160), ("m", "b", 0.25, 10)]
    gather_mixtures.main([*given, "--tokens"])
    assert pl.read_parquet(tmp_path / "m.parquet").columns == ["mixture", "domain", "proportion"]
    flags = ["--baseline", str(tmp_path / "m.json"), "--names", "s1", "s2", "--seed", "0", "--tokens", str(index)]
    sample_mixtures.main([*flags, "--out", str(tmp_path / "s.parquet")])
    assert pl.read_parquet(tmp_path / "s.parquet")["pool"].to_list() == [640, 50, 640, 50]


def test_a_domain_without_tokens_is_refused(tmp_path: Path, index: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps({"a": 0.5, "c": 0.5}))
    given = ["--mixtures", str(tmp_path / "m.json"), "--names", "m", "--tokens", str(index)]
    refused("holds no tokens of 'c'", gather_mixtures.main, [*given, "--out", str(tmp_path / "o")])
