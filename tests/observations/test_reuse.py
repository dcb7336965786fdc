"""Runs of an earlier corpus joined to those of a new one: domains that are new, renamed, split and
merged; levels that differ; what cannot be compared is refused or left out.
"""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from laws.known import mixtures, observe, with_transfer
from refusals import refused

import fit_law
import propose_round
import reuse_runs
import solve_mixture
import take_observations
from bimix.observations import reuse
from bimix.observations.observations import read_observations
from bimix.tables import read_table

DOMAINS = ("code", "papers", "web")


def tables(runs: dict, seed: int | None = None) -> list[pl.DataFrame]:
    """Losses and mixtures of runs {name: (shares, losses)}."""
    more = {} if seed is None else {"seed": seed}
    losses = [
        {"mixture": name, **more, "step": 100, "tokens": 1000, "domain": one, "loss": loss}
        for name, (_, own) in runs.items()
        for one, loss in own.items()
    ]
    shares = [
        {"mixture": name, "domain": one, "proportion": share}
        for name, (own, _) in runs.items()
        for one, share in own.items()
    ]
    return [pl.DataFrame(losses), pl.DataFrame(shares)]


def source(tmp_path: Path, runs: dict, name: str = "old", drop: tuple = ()) -> str:
    """The JSON of a source of two tables in a folder."""
    folder, files = tmp_path / name, {}
    folder.mkdir(exist_ok=True)
    for what, table in zip(("losses", "mixtures"), tables(runs), strict=True):
        files[what] = str(folder / f"{what}.csv")
        table.drop(drop, strict=False).write_csv(files[what])
    return json.dumps(files)


def joined(tmp_path: Path, *flags: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    out = [str(tmp_path / name) for name in ("losses.parquet", "mixtures.parquet")]
    reuse_runs.main([*flags, "--out-losses", out[0], "--out-mixtures", out[1]])
    return read_table(out[0]), read_table(out[1])


def shares_of(table: pl.DataFrame, mixture: str) -> dict:
    return dict(table.filter(pl.col("mixture") == mixture).select("domain", "proportion").iter_rows())


OLD = {
    "baseline": ({"code": 0.4, "web": 0.6}, {"code": 2.0, "web": 3.0}),
    "uniform": ({"code": 0.5, "web": 0.5}, {"code": 1.9, "web": 3.1}),
}
NEW = {"baseline": ({"code": 0.3, "papers": 0.2, "web": 0.5}, {"code": 2.1, "papers": 2.5, "web": 3.05})}


def pair(tmp_path: Path, runs: dict) -> list[str]:
    for name, table in zip(("losses", "mixtures"), tables(runs), strict=True):
        table.write_csv(tmp_path / f"new_{name}.csv")
    return ["--losses", str(tmp_path / "new_losses.csv"), "--mixtures", str(tmp_path / "new_mixtures.csv")]


def of_old(losses: pl.DataFrame) -> pl.DataFrame:
    return losses.filter(pl.col("mixture").str.ends_with("(old)"))


def test_older_runs_join_with_the_new_domain_at_0_and_a_folder_is_refused(tmp_path, capsys) -> None:
    report = tmp_path / "report.json"
    flags = [*pair(tmp_path, NEW), "--reuse", source(tmp_path, OLD), "--report", str(report)]
    losses, table = joined(tmp_path, *flags)
    assert set(table["mixture"]) == {"baseline", "baseline (old)", "uniform (old)"}
    assert shares_of(table, "uniform (old)") == {"code": 0.5, "web": 0.5}
    assert sorted(of_old(losses)["loss"]) == [1.9, 2.0, 3.0, 3.1] and losses.height == 3 + 4
    assert "no mixture was run in both" in capsys.readouterr().err
    assert len(json.loads(report.read_text())["sources"]["old"]) == 2
    refused("name two tables", joined, tmp_path, "--reuse", str(tmp_path / "old"))


def test_the_joined_pair_is_fitted(tmp_path, capsys) -> None:
    law, made = with_transfer(0, 3), []
    for name, shares in (("old", mixtures(0, 8, 3)), ("new", mixtures(1, 4, 3))):
        if name == "old":
            shares[:, 1] = 0
            shares /= shares.sum(axis=1, keepdims=True)
        runs = observe(law, shares, [100], 0.0)
        made.append({
            f"{name}{n}": (dict(zip(DOMAINS, own.tolist(), strict=True)), dict(zip(DOMAINS, (0.3 * one[0]).tolist(), strict=True)))
            for n, (own, one) in enumerate(zip(runs.proportions, runs.losses, strict=True))
        })  # fmt: skip
    flags = [*pair(tmp_path, made[1]), "--reuse", source(tmp_path, made[0])]
    joined(tmp_path, *flags)
    fit_law.main(["--law", "transfer", "--losses", str(tmp_path / "losses.parquet"), "--mixtures",
        str(tmp_path / "mixtures.parquet"), "--out", str(tmp_path / "law.json")])  # fmt: skip
    fitted = json.loads((tmp_path / "law.json").read_text())
    assert len(fitted["mixtures"]) == 12 and fitted["proportions_seen"]["papers"]["min"] == 0


def test_a_map_renames_splits_and_merges(tmp_path, capsys) -> None:
    by = {"web": {"web_good": 0.25, "web_bad": 0.75}, "code": "programs"}
    new = {"a": ({"programs": 0.5, "web_good": 0.5}, {"programs": 2.0, "web_good": 3.0})}
    old = source(tmp_path, OLD)
    losses, table = joined(tmp_path, *pair(tmp_path, new), "--reuse", old, "--map", json.dumps(by))
    assert shares_of(table, "baseline (old)") == pytest.approx({"programs": 0.4, "web_good": 0.15, "web_bad": 0.45})
    assert set(of_old(losses)["domain"]) == {"programs"}
    assert "the losses on web are left out: new has none on it" in capsys.readouterr().err
    losses, table = joined(tmp_path, "--reuse", old, "--map", json.dumps({"web": "all", "code": "all"}))
    assert shares_of(table, "baseline (old)") == pytest.approx({"all": 1.0})


def test_a_map_leaves_the_new_runs_and_no_loss_on_other_text_of_the_same_name(tmp_path, capsys) -> None:
    own = pair(tmp_path, {"a": ({"code": 0.4, "rest": 0.1, "web": 0.5}, {"code": 2.0, "rest": 3.3, "web": 2.8})})
    old = source(tmp_path, OLD)
    for name, by, shares, kept in (
        ("split", {"web": {"web": 0.25, "rest": 0.75}}, {"code": 0.4, "web": 0.15, "rest": 0.45}, {"code"}),
        ("renamed", {"code": "web", "web": "rest"}, {"web": 0.4, "rest": 0.6}, {"web", "rest"}),
    ):
        losses, table = joined(tmp_path, *own, "--reuse", old, "--map", json.dumps(by))
        assert shares_of(table, "a") == {"code": 0.4, "rest": 0.1, "web": 0.5}, name
        assert shares_of(table, "baseline (old)") == pytest.approx(shares), name
        assert set(of_old(losses)["domain"]) == kept, name
    assert "old: the losses on web (older text) are left out" in capsys.readouterr().err
    merged = pair(tmp_path, {"a": ({"rest": 0.4, "web": 0.6}, {"rest": 3.3, "web": 2.8})})
    words = "no loss at a step and on a domain of new"
    refused(words, joined, tmp_path, *merged, "--reuse", old, "--map", json.dumps({"code": "web"}))


def test_seeds_and_metrics_stay_where_one_table_alone_has_them(tmp_path, capsys) -> None:
    flags = pair(tmp_path, NEW)
    pl.concat([tables(NEW, seed)[0] for seed in (1, 2)]).write_csv(flags[1])
    pl.DataFrame({"mixture": ["baseline"], "exam_error": [0.5]}).write_csv(tmp_path / "metrics.csv")
    new = [str(tmp_path / f"new_{name}.parquet") for name in ("losses", "mixtures")]
    flags += ["--metrics", str(tmp_path / "metrics.csv"), "--group-losses", new[0], "--group-mixtures", new[1]]
    take_observations.main([*flags, "--names"])
    older = source(tmp_path, {"before": OLD["uniform"]})
    joined(tmp_path, "--losses", new[0], "--mixtures", new[1], "--reuse", older)
    found = read_observations(tmp_path / "losses.parquet", tmp_path / "mixtures.parquet")
    assert found.metrics == ("exam_error",) and found.runs.tolist() == [2, 1]


def test_a_level_that_both_ran_is_taken_off(tmp_path, capsys) -> None:
    higher = {
        name: (shares, {one: 1.02 * loss for one, loss in losses.items()}) for name, (shares, losses) in OLD.items()
    }
    losses, _ = joined(tmp_path, *pair(tmp_path, OLD), "--reuse", source(tmp_path, higher))
    old = of_old(losses).sort("mixture", "domain")["loss"].to_list()
    assert old == pytest.approx([2.0, 3.0, 1.9, 3.1])
    assert "shifted by -1.98 % on average, what 2 mixtures that both ran differ by" in capsys.readouterr().err


def test_older_runs_without_tokens_are_as_long_as_the_new_ones_and_repeat_nothing(tmp_path, capsys) -> None:
    flags = pair(tmp_path, NEW)
    pl.read_csv(flags[3]).with_columns(pool=pl.Series([100, 400, 500])).write_csv(flags[3])
    joined(tmp_path, *flags, "--reuse", source(tmp_path, {"before": OLD["uniform"]}, drop=("tokens",)))
    assert "old: it has no column tokens: its runs count as long as those of new" in capsys.readouterr().err
    found = read_observations(tmp_path / "losses.parquet", tmp_path / "mixtures.parquet")
    assert found.pools.tolist() == [[100, 400, 500], [np.inf] * 3] and found.tokens.tolist() == [1000, 1000]


def test_a_wrong_map_or_source_is_refused(tmp_path) -> None:
    old = source(tmp_path, OLD)
    parts = '{"web": {"a": 0.4, "b": 0.5}}'
    refused(r"the shares of the parts of 'web' sum to 0\.9", joined, tmp_path, "--reuse", old, "--map", parts)
    refused("--reuse: losses is 3", joined, tmp_path, "--reuse", '{"losses": 3, "mixtures": "m.csv"}')
    refused("a source has losses and mixtures", joined, tmp_path, "--reuse", '{"folder": "old"}')
    for by in ({"wbe": {"a": 0.5, "b": 0.5}}, {"web": "a", "cod": "b"}):
        words = 'no domain of older runs "wbe"; did you mean web?' if "wbe" in by else "did you mean code?"
        refused(words, joined, tmp_path, "--reuse", old, "--map", json.dumps(by))


def test_old_runs_without_a_loss_on_the_new_text_are_fitted_and_not_compared(tmp_path, capsys) -> None:
    law, made = with_transfer(0, 3), []
    for seed, count in ((0, 8), (1, 2)):
        shares = mixtures(seed, count, 3)
        if count == 8:
            shares[:, 1] = 0
            shares /= shares.sum(axis=1, keepdims=True)
        runs = observe(law, shares, [100], 0.001)
        whole = {
            f"m{seed}{n}": tuple(
                dict(zip(DOMAINS, one, strict=True)) for one in (own.tolist(), (0.3 * losses[0]).tolist())
            )
            for n, (own, losses) in enumerate(zip(runs.proportions, runs.losses, strict=True))
        }
        made.append(whole)
    old = {
        name: (shares, {key: loss for key, loss in own.items() if key != "papers"})
        for name, (shares, own) in made[0].items()
    }
    joined(tmp_path, *pair(tmp_path, made[1]), "--reuse", source(tmp_path, old))
    tables = ["--losses", str(tmp_path / "losses.parquet"), "--mixtures", str(tmp_path / "mixtures.parquet")]
    propose_round.main([*tables, "--out", str(tmp_path / "next.csv")])
    said = capsys.readouterr()
    assert "8 runs lack a loss that counts: the law alone is fitted to them" in said.err
    assert "best of the runs: m1" in said.out
    assert shares_of(read_table(tmp_path / "next.csv"), "round1")["papers"] > 0.02
    solve_mixture.main([*tables, "--laws", "transfer", "--out", str(tmp_path / "solved")])
    facts = json.loads((tmp_path / "solved/verdict.json").read_text())
    assert "m10" in facts["measured"]["mixtures"] and not any("(old)" in name for name in facts["measured"]["mixtures"])
    assert "left out: m00 (old)" in capsys.readouterr().err


def test_a_size_of_a_run_is_shifted_by_its_own_difference_and_no_longer_run_joins(tmp_path) -> None:
    mixed = pl.DataFrame([("m", "web", 1.0)], ["mixture", "domain", "proportion"], orient="row")
    columns = ["mixture", "step", "domain", "loss", "parameters"]
    old = [("m", 100, "web", 3.0, 1e6), ("m", 100, "web", 2.4, 1e7)]
    losses = pl.DataFrame([("m", 100, "web", 3.0 * 1.03, 1e6)], columns, orient="row")
    new = reuse.Pair("new", losses, mixed)
    joined, _, _ = reuse.join(new, [reuse.Pair("old", pl.DataFrame(old, columns, orient="row"), mixed)], {})
    assert of_old(joined)["loss"].to_list() == pytest.approx([3.0 * 1.03, 2.4 * 1.03])
    longer = [*old, ("m", 200, "web", 2.9, 1e6), ("m", 50, "web", 3.3, 1e6)]
    pair = reuse.Pair("old", pl.DataFrame(longer, columns, orient="row"), mixed)
    refused("200.*100", reuse.join, new, [pair], {})
    pair = reuse.Pair("old", pair.losses.filter(pl.col("step") <= 100), mixed)
    assert any("50" in said for said in reuse.join(new, [pair], {})[2])
