"""Mixtures in stages between the scripts: made of others, taken in, gathered, and their losses."""

import json
from pathlib import Path

import polars as pl
import pytest

import gather_losses
import gather_mixtures
import mix_given
import mix_stages
from bimix.errors import InputError
from bimix.mixtures.mixture import read_proportions
from bimix.results.provenance import gather

FIRST, EVEN, SECOND = {"ants": 0.7, "bees": 0.3}, {"ants": 0.5, "bees": 0.5}, {"ants": 0.2, "bees": 0.8}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, mixture in {"first": FIRST, "even": EVEN, "second": SECOND}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(mixture))
    staged(tmp_path, "one", "first", "even")
    staged(tmp_path, "two", "first", "second")
    return tmp_path


def staged(folder: Path, name: str, *parts: str, shares: tuple = (0.75, 0.25)) -> dict:
    paths = [str(folder / f"{part}.json") for part in parts]
    out = folder / f"{name}.json"
    mix_stages.main(["--mixtures", *paths, "--shares", *map(str, shares), "--out", str(out)])
    return json.loads(out.read_text())


def gathered(folder: Path, *names: str, more: tuple = ()) -> dict[str, dict[str, float]]:
    paths = [str(folder / f"{name}.json") for name in names]
    out = folder / "table.parquet"
    gather_mixtures.main(["--mixtures", *paths, "--names", *names, *more, "--out", str(out)])
    found: dict[str, dict[str, float]] = {}
    for name, domain, share in pl.read_parquet(out).select("mixture", "domain", "proportion").iter_rows():
        found.setdefault(name, {})[domain] = share
    return found


def test_mixtures_are_put_one_after_the_other(folder: Path) -> None:
    stages = [{"share": 0.75, "mixture": FIRST}, {"share": 0.25, "mixture": SECOND}]
    assert json.loads((folder / "two.json").read_text()) == {"stages": stages}


@pytest.mark.parametrize(
    ("parts", "shares", "sentence"),
    [
        (("first", "even"), (0.5, 0.4), r"--shares: the shares of the stages sum to 0\.9"),
        (("first", "even"), (1.0,), "--shares has 1 numbers for 2 mixtures"),
        (("first", "two"), (0.5, 0.5), r"two\.json is a mixture in 2 stages; one mixture for the whole run"),
    ],
)
def test_what_makes_no_stages_is_refused(folder: Path, parts: tuple, shares: tuple, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        staged(folder, "wrong", *parts, shares=shares)


def test_a_file_in_stages_is_taken_in_with_all_domains(folder: Path) -> None:
    out = folder / "own.json"
    mix_given.main(
        ["--name", "two", "--mixture", str(folder / "two.json"), "--domains", "ants", "bees", "cats", "--out", str(out)]
    )
    stages = json.loads(out.read_text())["stages"]
    assert [stage["share"] for stage in stages] == [0.75, 0.25]
    assert [stage["mixture"] for stage in stages] == [FIRST | {"cats": 0.0}, SECOND | {"cats": 0.0}]
    with pytest.raises(InputError, match=r"two\.json: stage 1: unknown domain 'bees'"):
        mix_given.main(["--name", "two", "--mixture", str(folder / "two.json"), "--domains", "ants", "--out", str(out)])


def test_a_group_shows_each_stage_and_never_their_average(folder: Path) -> None:
    found = gathered(folder, "even", "two")
    assert found == {"even": EVEN, "two (stage 1 of 2)": FIRST, "two (stage 2 of 2)": SECOND}


def test_what_reads_proportions_says_that_it_wants_one_mixture(folder: Path) -> None:
    with pytest.raises(InputError, match=r"two\.json is a mixture in 2 stages; one mixture for the whole run"):
        read_proportions(folder / "two.json")


def test_provenance_lists_stages_as_they_are(folder: Path) -> None:
    (folder / "mixtures").mkdir()
    for name in ("even", "two"):
        (folder / f"{name}.json").rename(folder / "mixtures" / f"{name}.json")
    stages = [{"share": 0.75, "mixture": FIRST}, {"share": 0.25, "mixture": SECOND}]
    assert gather(folder)["mixtures"] == {"even": EVEN, "two": {"stages": stages}}


def test_a_group_that_differs_in_a_stage_has_its_proportions(folder: Path) -> None:
    assert gathered(folder, "one", "two", more=("--stage", "2")) == {"one": EVEN, "two": SECOND}
    staged(folder, "early", "even", "second")
    assert gathered(folder, "two", "early", more=("--stage", "1")) == {"two": FIRST, "early": EVEN}


def test_runs_that_differ_in_more_than_a_stage_are_refused(folder: Path) -> None:
    staged(folder, "early", "even", "second")
    staged(folder, "longer", "first", "second", shares=(0.5, 0.5))
    for other in ("early", "longer"):
        with pytest.raises(InputError, match=f"{other} differs from one in more than the mixture of stage 2"):
            gathered(folder, "one", other, more=("--stage", "2"))
    with pytest.raises(InputError, match="even has 1 stages: there is no stage 2"):
        gathered(folder, "even", "one", more=("--stage", "2"))


def test_losses_of_a_stage_begin_after_it(tmp_path: Path, monkeypatch) -> None:
    rows = [(step, step * 8, "ants", 3.0 - step / 100) for step in (10, 20, 30, 40)]
    pl.DataFrame(rows, schema=["step", "tokens", "domain", "loss"], orient="row").write_parquet(tmp_path / "l.parquet")
    monkeypatch.setattr(gather_losses, "check", lambda path: path)
    flags = ["--losses", str(tmp_path / "l.parquet"), "--names", "two", "--seeds", "1"]
    for after, steps in (([], [10, 20, 30, 40]), (["--after"], [10, 20, 30, 40]), (["--after", "20"], [30, 40])):
        gather_losses.main([*flags, *after, "--out", str(tmp_path / "out.parquet")])
        assert pl.read_parquet(tmp_path / "out.parquet")["step"].to_list() == steps
