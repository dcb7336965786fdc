"""Remarks on held-out text, on what models learnt of it, and on the pieces behind VNE."""

import argparse
import re

import polars as pl
import pytest

from bimix.judge.remarks import below_single_tokens, last_losses, pieces_taken, remarks, thin_text

TOKENS = {"a": 8000, "b": 1000, "c": 1000}
ROWS = {"a": (50, 0, 9), "b": (40, 0, 4), "c": (400, 30, 0)}  # rows, whole documents, ends


def index(**rows: tuple[int, int, int]) -> pl.DataFrame:
    """An index with two shards of each domain."""
    lists = [(domain, *(number // 2 for number in own)) for domain, own in rows.items()]
    lists += [(domain, *(number - number // 2 for number in own)) for domain, own in rows.items()]
    table = pl.DataFrame(lists, ["domain", "rows", "records", "ends"], orient="row")
    return table.with_columns(digest=pl.col("domain"))


@pytest.mark.parametrize(
    ("rows", "weights", "part", "named"),
    [
        (ROWS, {"b": 1.0, "c": 1.0}, 50, "b on 40 rows of 0 whole documents and 4 ends"),
        (ROWS, {}, 33, "b on 40 rows"),  # a plain mean gives `a` less than its share of the tokens
        (ROWS, {"a": 9.0, "b": 1.0}, 90, "a on 50 rows"),
        (ROWS | {"b": (400, 0, 40)}, {}, 33, "b on 400 rows of 0 whole"),
        (ROWS | {"b": (99, 30, 0)}, {}, 33, "b on 99 rows of 30 whole"),
        (ROWS | {"b": (100, 1, 40)}, {}, None, ""),
        (ROWS, {"a": 8.0, "b": 1.0, "c": 1.0}, None, ""),  # the shares of the tokens
        (ROWS | {"only measured": (10, 0, 2)}, {"only measured": 1.0}, 100, "only measured on 10 rows"),
        ({f"d{number}": (5, 1, 0) for number in range(7)}, {}, 100, "and 3 more domains"),
    ],
)
def test_domains_that_weigh_above_their_share_need_rows_and_whole_documents(rows, weights, part, named) -> None:
    said = thin_text(index(**rows), TOKENS, weights)
    assert len(said) == (part is not None)
    if said:
        assert float(re.match(r"(\d+) % of the objective", said[0])[1]) == part and named in said[0]
        assert ("a on" in said[0]) == named.startswith("a on")


def losses(level: float) -> pl.DataFrame:
    """Two runs that end at different steps, one with a metric."""
    rows = [("m", 10, "a", 9.0, False), ("m", 20, "a", level, False), ("m", 20, "b", level + 1, False)]
    rows += [("n", 30, "a", level + 0.2, False), ("n", 30, "b", level + 0.8, False), ("n", 30, "accuracy", 0.1, True)]
    return pl.DataFrame(rows, ["mixture", "step", "domain", "loss", "metric"], orient="row")


@pytest.mark.parametrize(
    ("level", "gap", "little"),
    [(4.0, "1.00 nats below", False), (4.8, "0.20 nats below", True), (5.5, "0.50 nats above", True)],
)
def test_models_are_compared_with_the_entropy_of_single_tokens(level: float, gap: str, little: bool) -> None:
    last = last_losses(losses(level))
    assert last.height == 4
    assert below_single_tokens("proxy", {"not measured": 1.0}, last) == []
    (said,) = below_single_tokens("proxy", {"a": 5.0, "b": 6.0, "not measured": 1.0}, last)
    assert said.startswith(f"proxy ends {gap} the entropy of single tokens of 5.50 nats, mean of 2 domains")
    assert ("little more" in said) == little


def test_few_pieces_are_said() -> None:
    assert pieces_taken(100) == "The von Neumann entropies are of 100 pieces of each domain."
    assert "none can be above 2.89 nats" in pieces_taken(18)


def test_a_dataset_with_text_has_a_line_for_each_model_and_one_without_has_none(tmp_path) -> None:
    entropy = [("a", "SE", 5.0, None, None), ("b", "SE", 6.0, None, None), ("a", "VNE", 2.0, 17, 1)]
    columns = ["domain", "measure", "nats", "documents", "zeros"]
    pl.DataFrame(entropy, columns, orient="row").write_csv(tmp_path / "entropy.csv")
    index(a=(500, 50, 0), b=(500, 50, 0)).write_parquet(tmp_path / "validation.parquet")
    for name, level in (("proxies", 4.8), ("compared", 4.0)):
        losses(level).write_parquet(tmp_path / f"{name}.parquet")
    options = argparse.Namespace(
        entropy=tmp_path / "entropy.csv",
        validation=tmp_path / "validation.parquet",
        tokens=['{"a": 1, "b": 1}'],
        proxies=[tmp_path / "proxies.parquet"],
        compared=tmp_path / "compared.parquet",
        fitted_model="proxy",
        compared_model="target",
    )
    proxy, target, pieces = remarks(options, {})
    assert proxy.startswith("proxy ends 0.20 nats below") and target.startswith("target ends 1.00 nats below")
    assert "18 pieces" in pieces
    options.compared_model = "proxy"
    both, _ = remarks(options, {})
    assert both.startswith("proxy ends 0.60 nats below")
    options.entropy = None
    assert remarks(options, {}) == []
