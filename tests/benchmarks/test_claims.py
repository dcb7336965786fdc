"""docs/paper.md says what the kept and the public runs hold: its tables are made again."""

import re
from pathlib import Path

import measure_claims
import numpy as np
import polars as pl
import pytest
from public_tables import mixing_curves, mixing_laws

ROOT = Path(__file__).parents[2]
PUBLIC = ROOT / "../shared/data"
PAGE = (ROOT / "docs/paper.md").read_text(encoding="utf-8")
public = pytest.mark.skipif(not (PUBLIC / "mixinglaws").is_dir(), reason="Ye et al.'s runs are not in ../shared/data")


def marked() -> list[str]:
    return re.findall(r"<!-- made: (\w+) -->", PAGE)


def test_the_tables_of_the_proof_are_made_of_the_kept_runs() -> None:
    tables = measure_claims.of_proof()
    assert set(tables) < set(marked())
    assert measure_claims.filled(PAGE, tables) == PAGE
    error = re.findall(r"\| 13 random draws \| \d+ of 22 \| \S+ \S+ \| (\S+) ", tables["generalisation"])
    assert f"from {error[0]} to {error[1]} %" in PAGE


@public
def test_the_tables_of_public_runs_are_made_of_them() -> None:
    tables = measure_claims.of_public(PUBLIC)
    assert {*tables, *measure_claims.of_proof()} == set(marked())
    assert measure_claims.filled(PAGE, tables) == PAGE


@public
def test_the_ends_of_the_curves_are_the_runs_at_their_last_step() -> None:
    curves = mixing_curves(PUBLIC / "mixinglaws", "3Mix", "70M")
    runs = mixing_laws(PUBLIC / "mixinglaws", "3Mix", "70M")
    assert len(curves.steps) > 100 and np.isnan(curves.losses).any()  # a run that began later
    columns = [curves.loss_domains.index(name) for name in runs.loss_domains]
    assert (curves.proportions == runs.proportions).all() and (curves.losses[:, -1, columns] == runs.losses[:, 0]).all()


@pytest.mark.parametrize(("table", "said"), [("pile", "Pile"), ("slimpajama", "SlimPajama")])
def test_the_papers_joint_entropy_is_the_sum_of_the_shannon_and_the_conditional(table: str, said: str) -> None:
    columns = pl.read_csv(ROOT / f"resources/mixtures/{table}.csv")
    product = (columns["se"] * columns["ce"]).to_numpy()
    apart = np.abs(product / product.sum() - columns["je"].to_numpy()).max()
    assert apart < 2e-7 and f"{apart:.1e} ({said})" in PAGE


def test_the_paper_extrapolates_as_far_as_is_said() -> None:
    columns = pl.read_csv(ROOT / "resources/mixtures/pile.csv")
    own = columns.select("se", "je", "ce", "vne").to_numpy()
    shares = columns["baseline"].to_numpy()
    outside = (shares < own.min(axis=1)) | (shares > own.max(axis=1))
    assert f"({outside.sum()} of {len(shares)} shares)" in PAGE
