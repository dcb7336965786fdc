"""The board: the right law leads on its own runs, refusals are counted, tables are found."""

from dataclasses import replace

import polars as pl
import pytest
from bench_board import BOARD, Case, cases, judged, main, table
from laws.known import mixtures, observe, with_transfer, write_tables
from public_tables import regmix


def runs(n: int, seed: int = 0):
    return observe(with_transfer(seed, 4), mixtures(seed, n, 4), [1000], 0.002, seed, ["a", "b", "c", "d"])


def test_the_law_that_made_the_runs_leads() -> None:
    rows = judged(Case("made", runs(40), None, (12,)), ["bimix", "transfer", "exponential"], None, 3, 1, 0)
    assert rows.schema == pl.Schema(BOARD) and rows.height == 12
    means = table(rows)
    best = means.sort("error_percent", nulls_last=True)["law"][0]
    assert best == "transfer"
    one = means.row(by_predicate=pl.col("law") == "transfer", named=True)
    assert one["error_percent"] < 1 and one["spearman"] > 0.9 and 0 <= one["regret_percent"] < 1
    assert 0.7 <= one["coverage"] <= 1 and one["draws"] == 3 and one["refused"] == 0
    # only the first draw looks at intervals
    assert rows.filter(pl.col("coverage").is_not_null())["draw"].unique().to_list() == [0]


def test_tables_of_any_runs_in_a_folder_are_ranked(tmp_path, capsys) -> None:
    folder, rows = tmp_path / "ours", tmp_path / "rows.csv"
    folder.mkdir()
    made = runs(20)
    write_tables(replace(made, losses=made.losses / 4), folder / "losses.csv", folder / "mixtures.csv")
    words = ["--laws", "bimix", "transfer", "--draws", "2", "--covered", "0", "--rows", str(rows)]
    main([str(tmp_path), *words])
    found = pl.read_csv(rows)
    assert set(found["case"]) == {"ours"} and set(found["runs"]) == {8, 16} and found.height == 12
    printed = capsys.readouterr().out
    assert all(f" {law} " in printed for law in ("bimix", "transfer", "by_share"))
    with pytest.raises(SystemExit, match="there is no such table of runs"):
        main([str(tmp_path), "--cases", "RegMix", *words])


def test_public_tables_are_read_as_they_were_published(tmp_path) -> None:
    folder = tmp_path / "regmix"
    folder.mkdir()
    for split, size in (("train", "1m"), ("test", "1m"), ("test", "60m"), ("test", "1B")):
        shares = pl.DataFrame({"index": [2, 1], "train_the_pile_b": [0.5, 0.999], "train_the_pile_a": [0.5, 0.0]})
        losses = pl.DataFrame({"index": [1, 2], "metric/the_pile_a_val_loss": [5.0, 3.0]})
        shares.write_csv(folder / f"{split}_mixture_{size}.csv")
        losses.write_csv(folder / f"{split}_pile_loss_{size}.csv")
    found = regmix(folder, "train", "1m")
    assert found.domains == ("b", "a") and found.loss_domains == ("a",)
    both = {tuple(share): loss for share, loss in zip(found.proportions.tolist(), found.losses[:, 0, 0], strict=True)}
    assert both == {(0.5, 0.5): 3.0, (1.0, 0.0): 5.0}
    assert [case.name for case in cases(tmp_path)] == ["RegMix, 1M to 1M", "RegMix, 1M to 60M", "RegMix, 1M to 1B"]
