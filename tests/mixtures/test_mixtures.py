"""Mixtures: the ways to make one without training, and what is refused as none."""

import csv
import functools
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from refusals import refused
from tokenised import call

import gather_mixtures
import mix_entropy
import mix_given
import mix_tokens
import mix_uniform
from bimix.mixtures.mixture import Mixture, as_mixture, decimals, read_proportions
from bimix.mixtures.pools import pool_rows, pools
from bimix.training.checkpoints import key_of

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "resources/mixtures"


def read(path: Path) -> dict[str, float]:
    return json.loads(path.read_text())


def test_every_published_column_becomes_a_mixture_to_a_millionth(tmp_path: Path) -> None:
    out = tmp_path / "m.json"
    for table, count, other in (("pile", 22, "regmix"), ("slimpajama", 7, "doge")):
        path = PUBLISHED / f"{table}.csv"
        rows = list(csv.DictReader(path.open()))
        domains = [row["domain"] for row in rows]
        assert len(rows) == count and {"baseline", "doremi", "se", "ce", "je", "vne", other} < set(rows[0])
        for column in list(rows[0])[1:]:
            call(mix_given, mixture=path, name=column, domains=domains, out=out)
            mixture, total = read(out), float(sum(Decimal(row[column]) for row in rows))
            assert sum(Decimal(repr(share)) for share in mixture.values()) == 1
            assert list(mixture) == sorted(domains)
            for row in rows:
                assert mixture[row["domain"]] == pytest.approx(float(row[column]) / total, abs=1e-6)
        refused("csv has no mixture 'x'; it has ", call, mix_given, mixture=path, name="x", domains=domains, out=out)


def test_a_published_table_may_have_any_form_of_a_users_table(tmp_path: Path) -> None:
    table, out = tmp_path / "own.csv", tmp_path / "m.json"
    mix = functools.partial(call, mix_given, mixture=table, name="mix", domains=["red", "blue"], out=out)
    for text in (
        "domain;mix\nred;0,6\nblue;0,4\n",
        "sep=,\nDomain,mix\nred,60%\nblue,40%\n",
        "\ufeff,domain,mix\n0,red,.6\n1,blue,.4\n",
    ):
        table.write_text(text)
        mix()
        assert read(out) == {"red": 0.6, "blue": 0.4}
    for text, words in (
        (
            "source,mix\nred,1\n",
            "own.csv has the columns source, mix: it needs one row for one proportion",
        ),
        ("domain,mix\nred,0.6\nblue,\n", "sum to 0.6"),
        ("domain,mix\nred,0.5\nred,0.5\n", "the domain 'red' stands there twice"),
        ("domain,mix\nred,0.6\nblue,0.3\n", "sum to 0.9"),
        ("version https://git-lfs.github.com/spec/v1\n", "is a pointer of git-lfs"),
    ):
        table.write_text(text)
        refused(words, mix)


def test_a_sum_that_is_rounded_is_rescaled_with_a_remark(tmp_path: Path, capsys) -> None:
    path = tmp_path / "m.json"
    for share, said in ((0.3999, True), (0.4049, True), (0.4, False)):
        path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"a": 0.6, "b": share}).encode())
        found = read_proportions(path)
        assert sum(found.values()) == 1 and found["b"] == pytest.approx(share / (0.6 + share), abs=1e-6)
        assert ("rescaled" in capsys.readouterr().err) is said
    path.write_text('{"a": 0.6, "b": 0.406}')
    refused("sum to 1.006, not to 1", read_proportions, path)
    stages = [{"share": share, "mixture": {"a": 1.0}} for share in (0.3333, 0.3333, 0.3333)]
    assert sum(stage.share for stage in Mixture.parse({"stages": stages}, "m").stages) == pytest.approx(1, abs=1e-12)


def test_token_shares_and_equal_shares(tmp_path: Path, corpus: Path) -> None:
    shares, uniform = tmp_path / "b.json", tmp_path / "u.json"
    unused = {"exponent": 0.3, "run_tokens": 1, "most_epochs": 4}
    call(mix_tokens, rule="baseline", index=corpus / "train.parquet", out=shares, **unused)
    assert read(shares) == pytest.approx({"bees": 0.5, "cats": 0.3, "dogs": 0.2}, abs=1e-15)
    call(mix_uniform, domains=["b (x)", "a"], out=uniform)
    assert read(uniform) == {"a": 0.5, "b (x)": 0.5}


def test_entropies_become_mixtures(tmp_path: Path) -> None:
    table = {"domain": ["a", "a", "b", "b"], "measure": ["SE", "CE", "SE", "CE"], "nats": [5.0, 3.0, 6.0, 3.0]}
    pl.DataFrame(table).write_csv(tmp_path / "entropy.csv")
    entropy = functools.partial(call, mix_entropy, entropy=tmp_path / "entropy.csv", out=tmp_path / "m.json")
    for measure, ratio in (("se", np.e), ("ce", 1.0)):
        entropy(measure=measure)
        mixture = read(tmp_path / "m.json")
        assert mixture["b"] / mixture["a"] == pytest.approx(ratio, rel=1e-5)
    refused("no row of the measure VNE", entropy, measure="vne")


def made() -> Iterator[dict[str, float]]:
    """Shares of few and of many domains, with tiny ones and exact zeros among them."""
    for seed in range(60):
        draw = np.random.default_rng(seed)
        shares = draw.dirichlet(np.full(int(draw.integers(1, 60)), draw.choice([0.05, 0.5, 5])))
        shares[1:] *= draw.random(len(shares) - 1) > 0.1
        yield {f"d{n:02}": float(share) for n, share in enumerate(shares / shares.sum())}


def test_proportions_are_whole_millionths_of_exactly_one_and_decimals_none_of_0() -> None:
    for shares in made():
        mixture = as_mixture(list(shares), np.array(list(shares.values()))).document()
        parts = [Decimal(repr(share)) * 10**6 for share in mixture.values()]
        assert sum(parts) == 10**6 and all(part == int(part) for part in parts)
        raised = sum(1e-7 <= share < 1e-6 for share in shares.values())
        for domain, share in shares.items():
            assert abs(mixture[domain] - share) < 1e-6 * max(1, raised)
            assert (mixture[domain] > 0) == (share >= 1e-7)
        assert Mixture.parse(mixture, "m.json").document() == mixture
    # decimals sum to one and none is zero
    for shares in made():
        weights = {key: 3 * weight for key, weight in shares.items() if weight > 0}
        for digits in (6, 9):
            rounded = decimals(weights, digits)
            assert sum(Decimal(f"{weight:.{digits}f}") for weight in rounded.values()) == 1
            assert sum(Decimal(repr(weight)) for weight in rounded.values()) == 1
            assert all(weight > 0 for weight in rounded.values())
            wanted = {key: shares[key] for key in rounded}
            assert rounded == pytest.approx(wanted, abs=60 * 10.0**-digits)


def test_bounds_of_six_decimals_hold_exactly() -> None:
    """A share is rounded to one of the two millionths beside it; both are within the bounds."""
    draw = np.random.default_rng(0)
    for _ in range(100):
        shares = draw.dirichlet(np.ones(6))
        lower, upper = np.floor(shares * 1e4) / 1e4, np.ceil(shares * 1e4) / 1e4
        at_lower = draw.random(6) < 0.3
        shares = np.where(at_lower, lower, shares)
        shares[-1] += 1 - shares.sum()
        found = as_mixture(list("abcdef"), shares).over(list("abcdef"))[0]
        assert (found[:-1] >= lower[:-1]).all() and (found[:-1] <= upper[:-1]).all()
        assert (found[:-1] == lower[:-1])[at_lower[:-1]].all()


def test_rounding_errors_of_another_processor_change_no_mixture_and_no_run() -> None:
    """The law of the demo, fitted by two kernels of OpenBLAS, moved its optimum by 2.9e-13."""
    equal = [np.full(m, 1 / m) for m in (3, 7, 22)]
    bounded = [np.array([0.25, 0.4, 0.35]), np.array([1 / 3, 1 / 6, 0.5])]
    for shares in [*(np.array(list(one.values())) for one in made()), *equal, *bounded]:
        names = [f"d{n:02}" for n in range(len(shares))]
        usual = as_mixture(names, shares)
        for seed in range(5):
            moved = shares + 3e-13 * np.random.default_rng(seed).uniform(-1, 1, len(shares)) * (shares > 0)
            other = as_mixture(names, np.abs(moved))
            assert other == usual
            assert key_of(other.flat()) == key_of(usual.flat())


def test_what_is_no_mixture_is_refused() -> None:
    for mixture, sentence in (
        ({"a": 0.5, "b": 0.4}, "sum to 0.9"),
        ({"a": 0.5, "z": 0.5}, "unknown domain 'z'"),
        ({"a": 1.5, "b": -0.5}, "'b' is -0.5"),
        ({"a": "1", "b": 0.0}, "'a' is '1'"),
        ({"a": True}, "'a' is True"),
        ({}, "an object of domains"),
    ):
        assert "here.json" in refused(sentence, Mixture.parse, mixture, "here.json", ["a", "b"])


def test_a_bad_file_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    for name, text, sentence in (
        ("m.json", '{"a": 0.5,\n "b" 0.5}', r"m\.json is not valid JSON: .* line 2"),
        ("m.json", '{"a": 0.5, "a": 0.5}', "'a' stands there twice"),
        ("m.csv", "domain,share\na,1\n", r"m\.csv has no mixture 'mine'; it has share"),
        ("m.csv", "mixture,domain,proportion\nother,a,1\n", r"m\.csv has no mixture 'mine'"),
    ):
        (tmp_path / name).write_text(text)
        out = tmp_path / "out.json"
        refused(sentence, call, mix_given, mixture=tmp_path / name, name="mine", domains=["a", "b"], out=out)
        assert not out.exists()


def test_own_files_are_completed_and_gathered(tmp_path: Path) -> None:
    mine, group = tmp_path / "mine.json", tmp_path / "group.parquet"
    (tmp_path / "m.csv").write_text("domain,proportion\nb,0.25\na,0.75\n")
    # a table of several, as it is proposed
    rows = "other,a,1,2.5\nmine,b,0.25,3\nmine,a,0.75,3\n"
    (tmp_path / "several.csv").write_text("mixture,domain,proportion,information\n" + rows)
    for name in ("m.csv", "several.csv"):
        call(mix_given, name="mine", domains=["a", "b", "c"], mixture=tmp_path / name, out=mine)
        assert read(mine) == {"a": 0.75, "b": 0.25, "c": 0.0}
    call(gather_mixtures, mixtures=mine, names="mine", out=group)
    assert pl.read_parquet(group).rows() == [("mine", "a", 0.75), ("mine", "b", 0.25), ("mine", "c", 0.0)]


def test_the_digest_of_a_mixture_is_looked_up_where_a_training_made_it(tmp_path: Path) -> None:
    given = tmp_path / "mixture.json"
    given.write_text('{"a": 0.25, "b": 0.75}')
    (tmp_path / "run.json").write_text('{"files": {"mixture.json": "0"}}')
    give = functools.partial(call, mix_given, mixture=given, domains=["a", "b"], out=tmp_path / "out.json")
    give(name="mine")
    refused("is not as it was written", give, name="doremi")


@pytest.fixture
def index(tmp_path: Path) -> Path:
    table = pl.DataFrame(
        {"domain": ["a", "a", "b"], "path": ["1", "2", "3"], "rows": [40, 24, 5], "tokens": [400, 240, 50]}
    )
    table.write_parquet(tmp_path / "train.parquet")
    return tmp_path / "train.parquet"


def test_a_share_of_the_rows_is_rounded_never_none_and_in_tables_of_mixtures(index: Path, tmp_path) -> None:
    assert pool_rows(np.array([64, 5, 0]), 0.25).tolist() == [16, 1, 0]
    assert pool_rows(np.array([64, 5, 0]), 1.0).tolist() == [64, 5, 0]
    assert pool_rows(np.array([64, 5, 0]), 1e-6).tolist() == [1, 1, 0]
    assert pools(index, 1.0) == {"a": 640, "b": 50}
    assert pools(index, 0.25) == {"a": 160, "b": 10}
    # a domain without tokens is refused
    mixture, table = tmp_path / "m.json", tmp_path / "m.parquet"
    mixture.write_text(json.dumps({"a": 0.5, "c": 0.5}))
    gather = functools.partial(call, gather_mixtures, mixtures=mixture, names="m", out=table)
    refused("holds no tokens of 'c'", gather, tokens=index)
    # tables of mixtures have the pools
    mixture.write_text(json.dumps({"a": 0.75, "b": 0.25}))
    gather(tokens=index, pool_share=0.25)
    assert pl.read_parquet(table).rows() == [("m", "a", 0.75, 160), ("m", "b", 0.25, 10)]
    gather(tokens=[])
    assert pl.read_parquet(table).columns == ["mixture", "domain", "proportion"]
