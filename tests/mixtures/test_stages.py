"""Mixtures in stages: what is one, what is refused, where they begin, and the scripts."""

import argparse
import json
from pathlib import Path

import polars as pl
import pytest
from refusals import refused

import gather_mixtures
import mix_given
import mix_stages
from bimix.errors import InputError
from bimix.judge.evidence import outside
from bimix.mixtures.mixture import Mixture, whole_runs
from bimix.training.recipe import first_updates

FIRST, EVEN, SECOND = {"ants": 0.7, "bees": 0.3}, {"ants": 0.5, "bees": 0.5}, {"ants": 0.2, "bees": 0.8}
STAGED = {"stages": [{"share": 0.8, "mixture": FIRST}, {"share": 0.2, "mixture": SECOND}]}


def changed(change) -> dict:
    document = json.loads(json.dumps(STAGED))
    change(document)
    return document


def test_a_plain_mixture_is_one_stage_and_back() -> None:
    plain = Mixture.parse(FIRST, "m.json", ["ants", "bees"])
    assert plain.stages == ((1.0, FIRST),) and plain.document() == FIRST
    assert Mixture.parse(STAGED, "m.json").document() == STAGED
    assert Mixture.parse(STAGED, "m.json").over(["bees", "cats"]).tolist() == [[0.3, 0.0], [0.8, 0.0]]
    # a domain may be called stages
    mixture = {"stages": 0.5, "bees": 0.5}
    read = Mixture.parse(mixture, "m.json", ["stages", "bees"])
    assert read.stages == ((1.0, mixture),) and read.flat() == mixture
    # what takes one mixture says so
    assert Mixture.parse(FIRST, "m.json").only("m.json") == FIRST
    sentence = r"^m.json is a mixture in 2 stages; one for the whole run is needed\.$"
    refused(sentence, Mixture.parse(STAGED, "m.json").only, "m.json")


def test_what_is_no_mixture_in_stages_is_refused() -> None:
    for change, sentence in (
        (lambda d: d["stages"][1].update(share=0.3), "the shares of the stages sum to 1.1, not to 1"),
        (lambda d: d["stages"][1].update(share=0), "stage 2: its share is 0, not a number above 0"),
        (lambda d: d["stages"][1].update(share=True), "stage 2: its share is True"),
        (lambda d: d["stages"][0]["mixture"].update(ants=0.6), "stage 1: the proportions sum to 0.9"),
        (lambda d: d["stages"][0].update(tokens=5), "stage 1 must have the keys 'share' and 'mixture', and no other"),
        (lambda d: d["stages"][0].update(mixture=STAGED), "stage 1: its mixture has stages itself"),
        (lambda d: d["stages"].clear(), "a list of one or more"),
        (lambda d: d.update(ants=1.0), "has the key 'stages' alone"),
    ):
        refused(f"m.json.*{sentence}", Mixture.parse, changed(change), "m.json", ["ants", "bees"])


def test_a_stage_begins_at_the_nearest_update_and_tells_runs_apart() -> None:
    for shares, steps, starts in (((1.0,), 7, (0,)), ((0.8, 0.2), 7, (0, 6)), ((1 / 3,) * 3, 100, (0, 33, 67))):
        assert first_updates(shares, steps, "m.json") == starts
    for shares, number in (((0.99, 0.01), 2), ((0.01, 0.99), 1), ((0.5, 0.01, 0.49), 2)):
        words = f"m.json: stage {number} has a share of 0.01, which of 10 updates is none"
        refused(words, first_updates, shares, 10, "m.json")
    # what defines a run tells stages apart
    other = changed(lambda d: d["stages"][0].update(share=0.7) or d["stages"][1].update(share=0.3))
    swapped = {"stages": STAGED["stages"][::-1]}
    usual, *others = (Mixture.parse(one, "m.json").flat() for one in (STAGED, other, swapped))
    assert usual["stage_2.mixture.bees"] == 0.8 and len(usual) == 6
    assert usual not in others


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


def test_what_makes_no_stages_is_refused(folder: Path) -> None:
    for parts, shares, sentence in (
        (("first", "even"), (0.5, 0.4), r"--shares: the shares of the stages sum to 0\.9"),
        (("first", "two"), (0.5, 0.5), r"two\.json is a mixture in 2 stages; one for the whole run"),
    ):
        refused(sentence, staged, folder, "wrong", *parts, shares=shares)


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


def test_a_group_shows_each_stage_and_bounds_hold_for_the_whole_run(folder: Path) -> None:
    found = gathered(folder, "even", "two")
    assert found == {"even": EVEN, "two (stage 1 of 2)": FIRST, "two (stage 2 of 2)": SECOND}
    whole = whole_runs(pl.read_parquet(folder / "table.parquet"))
    assert whole == {"two": pytest.approx({"ants": 0.575, "bees": 0.425})}
    options = argparse.Namespace(lower='{"bees": 0.45}', upper=None, max_epochs=None)
    assert outside(found | whole, options, None, None) == ["two (stage 1 of 2)", "two"]
    assert "share" not in pl.read_parquet_schema(gathered(folder, "even") and folder / "table.parquet")
