"""Tables of a swarm: RegMix' own, another shape, and what is missing or doubled."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import import_losses
from bimix.errors import InputError

REGMIX = Path(__file__).parents[3] / "shared" / "data" / "regmix"
SIZES = {"1M": 1e6, "60M": 6e7, "1B": 1e9}
RATIOS = "run,name,web,code\n0,a,0.25,0.75\n1,b,1,0\n"
METRICS = "run,name,web,code\n0,a,3,2\n1,b,4,5\n"


def imported(
    folder: Path, kind: str, logs: list[Path], mixtures: Path, *flags: str
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The two tables that come out."""
    flags = ["--format", kind, *map(str, logs), "--mixtures", str(mixtures), *flags, "--out", str(folder / "out")]
    import_losses.main(flags)
    types = {"schema_overrides": {"mixture": pl.String}}
    return pl.read_csv(folder / "out" / "losses.csv", **types), pl.read_csv(folder / "out" / "mixtures.csv", **types)


def both(folder: Path, ratios: str = RATIOS, metrics: str = METRICS) -> tuple[list[Path], Path]:
    for name, text in (("ratios.csv", ratios), ("metrics.csv", metrics)):
        (folder / name).write_text(text)
    return [folder / "metrics.csv"], folder / "ratios.csv"


@pytest.mark.skipif(not REGMIX.is_dir(), reason="the public runs of RegMix are not there")
@pytest.mark.parametrize(("size", "runs"), [("1m", 256), ("60m", 256), ("1B", 64)])
def test_regmix_own_tables_are_read(tmp_path: Path, size: str, runs: int, capsys) -> None:
    """17 domains, 13 losses; the names of domains and of losses are the same."""
    tables = [REGMIX / f"test_pile_loss_{size}.csv"], REGMIX / f"test_mixture_{size}.csv"
    losses, mixtures = imported(tmp_path, "regmix", *tables, "--step", "1000", "--parameters", "1e6")
    wide = pl.read_csv(tables[0][0])
    assert losses.height == runs * 13 and mixtures["domain"].n_unique() == 17
    assert set(losses["domain"]) < set(mixtures["domain"])
    assert losses["parameters"].unique().to_list() == [1e6]
    first = losses.filter(pl.col("mixture") == str(wide["index"][0]), pl.col("domain") == "the_pile_arxiv")
    assert first["loss"].to_list() == [wide["metric/the_pile_arxiv_val_loss"][0]]
    assert "Taken as losses, of which lower is better: metric/the_pile_arxiv_val_loss" in capsys.readouterr().err


def other_shape(folder: Path, name: str = "swarm.csv", rows: int = 4) -> tuple[pl.DataFrame, Path]:
    """One table of runs at three sizes, with 19 ratios and 17 benchmarks, in any order."""
    draw = np.random.default_rng(0)
    shares = draw.dirichlet(np.ones(19), rows)
    lines = []
    for number in range(rows):
        for size in SIZES:
            ratios = {
                f"ratio {domain}": share for domain, share in zip("abcdefghijklmnopqrs", shares[number], strict=True)
            }
            metrics = {f"bench/{task}": value for task, value in enumerate(draw.uniform(0.5, 2, 17))}
            lines.append({"experiment": f"x{number}", "size": size, "tokens_b": 3, **metrics, **ratios, "gpu": "h100"})
    table = pl.DataFrame(lines).sample(fraction=1, shuffle=True, seed=0)
    table.write_csv(folder / name)
    return table, folder / name


SHAPE = ["--run", "experiment", "--pattern", "bench/{domain}", "--ratios", "ratio {domain}", "--step", "100"]


@pytest.mark.parametrize("mapped", [True, False])
def test_one_table_of_19_ratios_17_benchmarks_and_three_sizes(tmp_path: Path, mapped: bool) -> None:
    """Sizes are names that a mapping has, or numbers in their column."""
    table, path = other_shape(tmp_path)
    if not mapped:
        table = table.with_columns(pl.col("size").replace_strict(SIZES))
        table.write_csv(path)
    (tmp_path / "sizes.json").write_text(json.dumps(SIZES))
    flags = [*SHAPE, "--size", "size", *(["--parameters", str(tmp_path / "sizes.json")] if mapped else [])]
    losses, mixtures = imported(tmp_path, "olmix", [path], path, *flags, "--tokens-per-step", "1000")
    assert losses.columns == ["mixture", "step", "domain", "loss", "parameters", "tokens"]
    assert losses.height == 4 * 3 * 17
    assert mixtures.height == 4 * 19
    long = table.unpivot([f"bench/{task}" for task in range(17)], index=["experiment", "size"])
    expected = {
        (run, metric.removeprefix("bench/"), SIZES.get(size, size)): value for run, size, metric, value in long.rows()
    }
    found = {(run, str(domain), size): value for run, domain, size, value in
             losses.select("mixture", "domain", "parameters", "loss").rows()}  # fmt: skip
    assert found == expected
    shares = mixtures.filter(pl.col("mixture") == "x2")
    (row,) = table.filter(pl.col("experiment") == "x2").head(1).to_dicts()
    assert dict(shares.select("domain", "proportion").rows()) == {
        name.removeprefix("ratio "): share for name, share in row.items() if name.startswith("ratio ")
    }


def test_columns_that_are_taken_and_left_are_said_and_runs_counted_by_size(tmp_path: Path, capsys) -> None:
    _, path = other_shape(tmp_path)
    (tmp_path / "sizes.json").write_text(json.dumps(SIZES))
    imported(tmp_path, "olmix", [path], path, *SHAPE, "--size", "size", "--parameters", str(tmp_path / "sizes.json"))
    said = capsys.readouterr().err
    assert "Taken as losses, of which lower is better: bench/0, bench/1, " in said
    assert "Left: experiment, size, tokens_b, ratio a, " in said and "ratio s, gpu." in said
    assert "Runs by parameters: 1e+06: 4, 6e+07: 4, 1e+09: 4." in said


def test_accuracies_are_refused_unless_less_is_said_to_be_better(tmp_path: Path) -> None:
    logs, ratios = both(tmp_path, metrics=METRICS.replace("web,code", "arc_acc,bleu score"))
    with pytest.raises(InputError, match=r"metrics\.csv: of 'arc_acc' more is better, by its name, and the laws fit"):
        imported(tmp_path, "olmix", logs, ratios, "--step", "5")
    with pytest.raises(InputError, match="of 'bleu score' more is better"):
        imported(tmp_path, "olmix", logs, ratios, "--step", "5", "--lower-is-better", "arc_acc")
    imported(tmp_path, "olmix", logs, ratios, "--step", "5", "--lower-is-better", "arc_acc", "bleu score")
    logs, ratios = both(tmp_path, metrics=METRICS.replace("web,code", "mmlu_acc_error,exact_match_bpb"))
    imported(tmp_path, "olmix", logs, ratios, "--step", "5")


def test_runs_that_are_not_named_are_left_out_however_they_are(tmp_path: Path, capsys) -> None:
    logs, ratios = both(tmp_path, metrics=METRICS + "2,c,,\n3,c,,\n")
    (tmp_path / "runs.csv").write_text("run,mixture\na,a\n")
    losses, _ = imported(tmp_path, "olmix", logs, ratios, "--step", "5", "--runs", str(tmp_path / "runs.csv"))
    assert losses["mixture"].unique().to_list() == ["a"]
    assert "Left out, for --runs does not name them: b, c." in capsys.readouterr().err


ROW = "0,a,3,2\n"
WRONG = [
    (RATIOS, METRICS.replace("1,b,4,5\n", ""), "metrics.csv has no run 'b', which is in", "missing"),
    (RATIOS.replace("1,b,1,0\n", ""), METRICS, "ratios.csv has no mixture 'b', of which there are losses", "no ratios"),
    (RATIOS, METRICS.replace("1,b", "1,bb"), "metrics.csv has no run 'b', which is in", "misnamed"),
    (RATIOS, METRICS + ROW, "metrics.csv, line 4, run 'a': it is there twice, first in", "doubled, alike"),
    (RATIOS, METRICS + ROW.replace("3", "9"), "line 4, run 'a': it is there twice, first in", "doubled, unlike"),
    (
        RATIOS + "2,a,0.25,0.75\n",
        METRICS,
        "ratios.csv, line 4: run 'a' is there twice, first in line 2",
        "ratios doubled",
    ),
    (RATIOS, METRICS.replace("4,5", ","), "line 3, run 'b': column 'web' is empty: evaluate the run", "an empty row"),
    (RATIOS, METRICS.replace("4,5", "4,"), "line 3, run 'b': column 'code' is empty", "an empty cell"),
    (RATIOS, METRICS.replace("4,5", "4,nan"), "line 3, run 'b', column 'code': 'nan' is no loss", "not a number"),
    (RATIOS, METRICS.replace("1,b", "1,"), "line 3: column 'name' is empty: it names the run", "no name"),
    (RATIOS.replace("0.75", "0.7"), METRICS, "the proportions of mixture 'a' sum to 0.95: they must sum to 1", "sums"),
    (RATIOS.replace("0.75", ""), METRICS, "line 2, run 'a': column 'code' is empty: write 0 for none", "no ratio"),
    (RATIOS, METRICS.replace("name", "who"), "metrics.csv has no column 'name'", "no column"),
]


@pytest.mark.parametrize(("ratios", "metrics", "words"), [case[:3] for case in WRONG], ids=[case[3] for case in WRONG])
def test_what_a_fit_would_take_without_a_word_stops_with_the_run(tmp_path: Path, ratios, metrics, words) -> None:
    logs, path = both(tmp_path, ratios, metrics)
    with pytest.raises(InputError) as error:
        imported(tmp_path, "olmix", logs, path, "--step", "5")
    assert words in str(error.value)
    assert not (tmp_path / "out").exists()


def test_a_size_that_is_missing_or_no_number_stops_with_the_run(tmp_path: Path) -> None:
    _, path = other_shape(tmp_path)
    for content, words in (
        ({"1M": 1e6, "60M": 6e7}, r"has no '1B', the size of the model of .*run 'x\d'"),
        ({**SIZES, "1B": "big"}, r"key '1B': 'big' is no number of parameters"),
        ({**SIZES, "1B": -1}, r"key '1B': -1 is no number of parameters"),
    ):
        (tmp_path / "sizes.json").write_text(json.dumps(content))
        with pytest.raises(InputError, match=words):
            imported(
                tmp_path, "olmix", [path], path, *SHAPE, "--size", "size", "--parameters", str(tmp_path / "sizes.json")
            )
    with pytest.raises(InputError, match=r"run 'x\d', column .*'(1M|60M|1B)' is no number of parameters"):
        imported(tmp_path, "olmix", [path], path, *SHAPE, "--size", "size")
    with pytest.raises(InputError, match=r"run 'x\d': it is there twice"):
        imported(tmp_path, "olmix", [path], path, *SHAPE)


def test_flags_of_swarms_are_refused_elsewhere(tmp_path: Path) -> None:
    logs, ratios = both(tmp_path)
    with pytest.raises(InputError, match="--ratios is of olmix, regmix, not of table"):
        imported(tmp_path, "table", logs, ratios, "--pattern", "{domain}", "--ratios", "{domain}")


def test_a_run_of_the_trainer_has_the_parameters_of_its_name(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        entry = {"step": 5, "eval_web_loss": 3.0}
        (tmp_path / name / "trainer_state.json").write_text(json.dumps({"log_history": [entry]}))
    (tmp_path / "ratios.csv").write_text("mixture,web\na,1\nb,1\n")
    (tmp_path / "sizes.json").write_text('{"a": 1000000, "b": 2000000}')
    logs = [tmp_path / name / "trainer_state.json" for name in "ab"]
    flags = ["--parameters", str(tmp_path / "sizes.json"), "--tokens-per-step", "10"]
    losses, _ = imported(tmp_path, "trainer", logs, tmp_path / "ratios.csv", *flags)
    assert losses.select("mixture", "parameters").rows() == [("a", 1e6), ("b", 2e6)]
