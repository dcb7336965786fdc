"""The board: the right law leads on its own runs, refusals are counted, tables are found."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from bench_board import BOARD, by_share, judged, main, table
from laws.known import mixtures, observe, with_transfer, write_tables
from public_runs import Case, cases, mixing_laws, regmix, repetition

from bimix.mixtures.by_hand import SHARE_FLOOR


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


def test_the_rule_without_runs_ranks_by_the_shares_of_what_is_asked() -> None:
    asked = runs(30)
    _, ranks, of_average, regret, coverage = by_share(asked)
    assert ranks > 0.5 and of_average > 0 and regret >= 0 and coverage is None
    one = asked.take([0, 1, 2])
    shares = one.proportions + SHARE_FLOOR
    pick = np.log(shares).sum(axis=1).argmax()
    average = one.losses[:, -1].mean(axis=1)
    assert by_share(one)[3] == pytest.approx(100 * (average[pick] / average.min() - 1))
    assert by_share(replace(asked, domains=("w", "x", "y", "z"))) is None


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


def test_mixing_laws_are_read_at_the_last_step_that_all_runs_have(tmp_path) -> None:
    rows = [
        (run, step, 0.3 * run, 1 - 0.3 * run, "web", 4.0 - run - step / 100)
        for run in (1, 2)
        for step in (10, 20, 30)
        if (run, step) != (2, 30)
    ]
    names = ["run_id", "step", "r1", "r2", "val_domain", "loss"]
    path = tmp_path / "t.parquet"
    pl.DataFrame(rows, schema=names, orient="row").with_columns(model_size=pl.lit("70M")).write_parquet(path)
    found = mixing_laws(path, "70M", ("x", "y"))
    assert found.losses[:, 0, 0] == pytest.approx([2.8, 1.8]) and found.proportions[:, 0] == pytest.approx([0.3, 0.6])


def test_a_repeated_pool_is_read_with_its_epochs(tmp_path) -> None:
    path = tmp_path / "w.csv"
    pl.DataFrame(
        {
            "tokens": [233766912, 467533824, 467533824],
            "horizon_over_pool": [2, 4, 4],
            "subsample": [1, 1, 4],
            "share_fineweb": [0.25, 0.5, 0.5],
            "val_loss_target": [3.2, 3.1, 3.15],
        }
    ).write_csv(path)
    found = repetition(path, 2, 4)  # not the run on a part of the pool
    own = found.domains.index("wikipedia")
    epochs = found.proportions[:, own] * found.tokens / found.pools[:, own]
    assert epochs == pytest.approx([1.5, 2.0]) and np.isfinite(found.pools).all()


def test_the_regret_is_what_the_law_s_best_run_loses_on_the_best(monkeypatch) -> None:
    asked = runs(20, 1)
    average = asked.losses[:, -1].mean(axis=1)
    guess = np.tile(np.arange(20.0, 0, -1)[:, None, None], (1, 1, 4))  # the last run is said to be the best
    monkeypatch.setattr("bench_board.predict_observed", lambda *_: guess)
    rows = judged(Case("made", runs(12), asked, (12,)), ["transfer"], None, 1, 0, 0)
    assert rows["regret_percent"][0] == pytest.approx(100 * (average[-1] / average.min() - 1))
    assert rows["error_percent"][0] == pytest.approx(100 * np.abs(guess[:, 0] / asked.losses[:, -1] - 1).mean())
