"""The law scripts from tables to tables, as another program calls them."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from laws.known import observe, write_tables
from refusals import refused

import fit_law
import optimize_mixture
import predict_losses
import score_law
import tabulate_scores
from bimix.errors import InputError

STEPS = np.arange(1000, 10_001, 1000)
DOMAINS = ["code", "law", "web"]
ALPHA, B, BETA, C = (
    np.array([0.1, 0.2, 0.05]),
    np.array([20.0, 9, 15]),
    np.array([0.4, 0.3, 0.5]),
    np.array([1.0, 2, 3]),
)


def truth(shares, steps):
    return shares[:, None, :] ** -ALPHA * (B / np.asarray(steps)[:, None] ** BETA + C)


def tables(folder, names, seed):
    shares = np.random.default_rng(seed).dirichlet(np.ones(3) * 3, len(names))
    observed = replace(observe(truth, shares, STEPS, domains=DOMAINS), mixtures=tuple(names))
    flags = write_tables(observed, folder / f"{names[0]}_l.csv", folder / f"{names[0]}_m.parquet", 512)
    return flags[1], flags[3]


@pytest.fixture
def fitted(tmp_path):
    losses, mixtures = tables(tmp_path, ["se", "je", "ce", "vne"], 1)
    out = str(tmp_path / "coefficients.json")
    assert not fit_law.main(["--law", "bimix", "--losses", losses, "--mixtures", mixtures, "--out", out])
    return tmp_path, out, losses, mixtures


def test_predictions(fitted):
    folder, coefficients, _, _ = fitted
    _, mixtures = tables(folder, ["new", "newer"], 2)
    out = folder / "predictions.parquet"
    predict_losses.main(
        ["--coefficients", coefficients, "--mixtures", mixtures, "--steps", "1000", "20000", "--out", str(out)]
    )
    predictions = pl.read_parquet(out)
    assert predictions.columns == ["mixture", "step", "domain", "loss"]
    shares = pl.read_parquet(mixtures)["proportion"].to_numpy().reshape(2, 3)
    assert np.allclose(predictions["loss"].to_numpy().reshape(2, 2, 3), truth(shares, [1000, 20000]), rtol=1e-6)
    assert predictions.row(0)[:3] == ("new", 1000, "code") and predictions.row(-1)[:3] == ("newer", 20000, "web")


def test_optimum(fitted, capsys):
    folder, coefficients, _, _ = fitted
    out = folder / "mixture.json"
    optimize_mixture.main(["--coefficients", coefficients, "--step", "10000", "--out", str(out)])
    mixture = json.loads(out.read_text())
    assert list(mixture) == sorted(mixture) == DOMAINS and abs(sum(mixture.values()) - 1) < 1e-12
    best = truth(np.array([list(mixture.values())]), [10000]).sum()
    random = np.random.default_rng(0).dirichlet(np.ones(3), 10_000)
    assert best <= truth(random, [10000]).sum(axis=(1, 2)).min()
    assert "average loss predicted at step 10000" in capsys.readouterr().out


def test_optimum_with_weights_bounds_and_epochs(fitted):
    folder, coefficients, _, _ = fitted
    out = folder / "mixture.json"
    (folder / "lower.json").write_text('{"web": 0.5}')
    (folder / "tokens.json").write_text('{"code": 1000000, "law": 256000, "web": 9000000}')
    common = ["--coefficients", coefficients, "--step", "10000", "--out", str(out)]
    epochs = ["--max-epochs", "4", "--tokens", str(folder / "tokens.json")]
    optimize_mixture.main([*common, "--lower", str(folder / "lower.json"), *epochs])
    mixture = json.loads(out.read_text())
    # 10,000 steps of 512 tokens (the losses' column tokens) and 4 epochs of 256,000 tokens.
    assert mixture["law"] == pytest.approx(0.2, abs=1e-12) and mixture["web"] == pytest.approx(0.5, abs=1e-12)
    optimize_mixture.main([*common, "--weights", '{"code": 1}', "--upper", '{"code": 0.9}'])
    mixture = json.loads(out.read_text())
    assert mixture["code"] == pytest.approx(0.9)
    refused("weights name 'poems'", optimize_mixture.main, [*common, "--weights", '{"poems": 1}'])
    with pytest.raises(InputError, match=r"upper bounds sum to 0\.9"):
        optimize_mixture.main([*common, "--upper", '{"code": 0.3, "law": 0.3, "web": 0.3}'])
    refused("--max-epochs needs --tokens", optimize_mixture.main, [*common, "--max-epochs", "4"])
    for flag, value in (
        ("--max-epochs", "nan"),
        ("--max-epochs", "-1"),
        ("--run-tokens", "inf"),
        ("--strengths", "nan"),
    ):
        with pytest.raises(SystemExit) as ended:
            optimize_mixture.main([*common, *epochs[2:], flag, value])
        assert ended.value.code == 2


def test_a_loss_that_weighs_0_need_not_be_defined(fitted, capsys):
    """All weight on one domain: no other loss of the law bimix exists at its optimum."""
    for law in ("bimix", "transfer"):
        folder, coefficients, losses, mixtures = fitted
        out, law_of = folder / "mixture.json", ["--coefficients", coefficients]
        fit_law.main(["--law", law, "--losses", losses, "--mixtures", mixtures, "--out", coefficients])
        capsys.readouterr()
        optimize_mixture.main([*law_of, "--step", "10000", "--weights", '{"law": 1}', "--out", str(out)])
        shares = json.loads(out.read_text())
        said = capsys.readouterr().out
        assert shares["law"] == pytest.approx(1, abs=0.2 if law == "transfer" else 1e-12)
        assert "(weighted: law 1)" in said and "nan" not in said
        if law == "bimix":
            assert f"{B[1] / 10000 ** BETA[1] + C[1]:.4f}" in said
            assert "the losses of code, web; they weigh 0" in said
        optimize_mixture.main(
            [*law_of, "--step", "10000", "--weights", '{"law": 1}', "--lower", '{"web": 0.2}', "--out", str(out)]
        )
        assert json.loads(out.read_text())["web"] >= 0.2


def test_losses_that_a_law_does_not_define_are_null_and_said(fitted, capsys):
    folder, coefficients, _, _ = fitted
    rows = {"mixture": ["pure"] * 3 + ["even"] * 3, "domain": DOMAINS * 2, "proportion": [0, 1, 0, 0.3, 0.3, 0.4]}
    pl.DataFrame(rows, strict=False).write_csv(folder / "new.csv")
    out = str(folder / "p.parquet")
    predict_losses.main(
        ["--coefficients", coefficients, "--mixtures", str(folder / "new.csv"), "--steps", "1000", "--out", out]
    )
    table = pl.read_parquet(out)
    assert table["loss"].is_null().to_list() == [True, False, True, False, False, False]
    assert "mixture 'pure': the law bimix does not define the losses of code, web" in capsys.readouterr().err


def test_scores_and_tables(fitted):
    folder, coefficients, losses, mixtures = fitted
    held_losses, held_mixtures = tables(folder, ["baseline", "uniform"], 3)
    arguments = ["--coefficients", coefficients, "--losses", losses, "--mixtures", mixtures]
    held = ["--held-out-losses", held_losses, losses, "--held-out-mixtures", held_mixtures, mixtures]
    out = ["--extrapolation", str(folder / "extrapolation.csv"), "--generalization", str(folder / "generalization.csv")]
    score_law.main([*arguments, *held, *out])
    extrapolation = pl.read_csv(folder / "extrapolation.csv")
    assert extrapolation.columns == ["law", "mixture", "domain", "step", "observed", "predicted", "relative_error"]
    assert extrapolation.height == 6 * 3 and set(extrapolation["step"]) == {10_000}
    assert extrapolation["relative_error"].max() < 1e-6
    generalization = pl.read_csv(folder / "generalization.csv")
    assert generalization.columns == ["law", "mixture", "domain", "r2_log", "mre"]
    assert set(generalization["mixture"]) == {"baseline", "uniform"}
    assert generalization["r2_log"].min() > 1 - 1e-9 and generalization["mre"].max() < 1e-6

    table2, table3 = folder / "t2.csv", folder / "t3.csv"
    other = pl.read_csv(out[1]).with_columns(law=pl.lit("transfer"))
    other.write_csv(folder / "transfer.csv")  # for one mixture the same curve
    scores = [out[1], str(folder / "transfer.csv")]
    tabulate_scores.main(["--table", "extrapolation", "--scores", *scores, "--out", str(table2)])
    tabulate_scores.main(["--table", "generalization", "--scores", out[3], "--out", str(table3)])
    assert pl.read_csv(table2)["mixture"].to_list() == ["ce", "je", "se", "vne", "baseline", "uniform"]
    assert set(pl.read_csv(table2)["law"]) == {"curve"} and set(pl.read_csv(table2)["domains"]) == {3}
    assert {"mean_percent", "worst_percent", "best_percent"} <= set(pl.read_csv(table2).columns)
    assert {"r2_mean", "r2_worst", "r2_best", "mre_mean_percent"} <= set(pl.read_csv(table3).columns)


def test_without_held_out_groups_a_law_has_no_scores_on_them(fitted):
    folder, coefficients, losses, mixtures = fitted
    out = ["--extrapolation", str(folder / "e.csv"), "--generalization", str(folder / "g.csv")]
    score_law.main(["--coefficients", coefficients, "--losses", losses, "--mixtures", mixtures, *out])
    assert pl.read_csv(folder / "g.csv").height == 0


def test_bad_files_are_refused_and_nothing_is_written(tmp_path):
    _, mixtures = tables(tmp_path, ["se", "je"], 1)
    out = tmp_path / "out.json"
    arguments = ["--law", "bimix", "--mixtures", mixtures, "--out", str(out), "--losses"]
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    lines = (tmp_path / "se_l.csv").read_text().splitlines()
    (tmp_path / "bad.csv").write_text("\n".join([*lines[:5], "se,2000,1024000,code,nan", *lines[6:]]))
    (tmp_path / "one.csv").write_text("\n".join([line for line in lines if not line.startswith("je")]))
    for name, words in (
        ("nothing.csv", "does not exist"),
        ("losses.txt", "none of .csv, .tsv and .parquet"),
        ("broken.parquet", "cannot be read"),
        ("bad.csv", r"bad\.csv, line 6 .*the loss is nan"),
        ("one.csv", "only one mixture"),
    ):
        refused(words, fit_law.main, [*arguments, str(tmp_path / name)])
    assert not out.exists()
