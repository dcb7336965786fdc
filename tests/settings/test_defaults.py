"""What a dataset's block leaves out: six lines are a whole config, what is set holds, and a choice
stays.
"""

import json
import os
from pathlib import Path

import pytest

from bimix.errors import InputError
from bimix.settings import checks, defaults, machine
from bimix.settings.complete import complete
from bimix.settings.home import over
from bimix.settings.machine import Machine, keep, read_basis
from bimix.settings.prepare import run_of_files

ROOT = Path(__file__).parents[2]
DEFAULTS = checks.merged([ROOT / "workflow/defaults.yaml"])


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with text of two domains, on a machine with two cores."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(defaults, "seen_machine", lambda wanted, count: Machine("cpu", 2, 1))
    for domain, size in (("web", 900_000), ("code", 300_000)):
        (tmp_path / domain).mkdir()
        (tmp_path / domain / "part.jsonl").write_bytes(b"x" * size)
    return tmp_path


def mine(**block: object) -> dict:
    own = {"corpus": {"train": {"web": "web/*.jsonl", "code": "code/*.jsonl"}}}
    return over(DEFAULTS, {"run": ["mine"], "datasets": {"mine": own | block}})


def filled(**block: object) -> dict:
    """The dataset's block with its defaults, which the checks find no fault in."""
    config = mine(**block)
    ready = checks.settle(config, DEFAULTS, ROOT, wanted=["mine"])
    assert ready.remarks == []
    config = ready.config
    complete(config)
    return config["datasets"]["mine"]


def test_six_lines_are_a_whole_config() -> None:
    block = filled()
    assert block["domains"] == ["code", "web"]
    assert block["compare"]["mixtures"] == ["baseline", "uniform", "ce", "bimix", "transfer", "found"]
    start = ["baseline", "uniform", "temperature", "se", "ce", "je"]
    assert block["search"] == {"start": start, "rounds": 4, "of": 1, "law": "transfer", "least": 0.1}
    assert block["optimum"]["group"] == "search"
    assert block["groups"]["search"] == [*start, "round1", "round2", "round3", "round4"]
    assert block["groups"]["candidates"] == ["se", "je", "ce", "baseline", "uniform"]
    assert block["held_out"] == [] and "vectors" not in block
    assert block["tokenizer"] == {
        "train": {"vocabulary": 1024, "fewer": True, "share": 1.0},
        "end_of_text": "<|endoftext|>",
    }
    assert block["corpus"]["validation"] == {"share": 0.1} and block["sequence_length"] == 128
    assert block["corpus"]["held_out_characters"] == {"web": 9000, "code": 3000}
    assert block["corpus"]["cut_characters"] == 100_000
    proxy, larger = block["training"]
    assert (block["optimum"]["model"], block["compare"]["model"]) == (proxy, larger) == ("2x32", "2x64")
    assert block["optimum"]["step"] == block["training"][proxy]["steps"] == block["training"][larger]["steps"]


def test_what_is_set_holds_and_the_rest_follows() -> None:
    block = filled(
        sequence_length=64,
        tokenizer={"train": {"vocabulary": 300}},
        groups={"entropy": ["se", "ce"], "other": ["je", "baseline"]},
        held_out=["other"],
        optimum={"weights": {"web": 1}, "max_epochs": 3},
        compare={"mixtures": ["baseline", "bimix"]},
        corpus={"train": {"web": "web/*.jsonl", "code": "code/*.jsonl"}, "validation": {"share": 0.2}},
    )
    assert block["sequence_length"] == 64 and block["tokenizer"]["train"] == {"vocabulary": 300, "share": 1.0}
    assert block["optimum"]["group"] == "entropy" and block["optimum"]["max_epochs"] == 3
    assert block["compare"]["mixtures"] == ["baseline", "bimix"]
    assert block["corpus"]["validation"] == {"share": 0.2}


def test_a_search_starts_with_rules_by_hand_where_domains_are_wanted() -> None:
    block = filled(optimum={"weights": {"web": 1}})
    assert block["search"]["start"][-2:] == ["wanted_4", "wanted_8"]
    assert "search" not in filled(groups={"some": ["se", "ce"]})
    assert filled(groups={"some": ["se", "ce"]}, search={"rounds": 2})["optimum"]["group"] == "search"


def test_models_that_are_named_are_trained_the_first_as_the_proxy() -> None:
    block = filled(training={"tiny": {"recipe": "demo"}, "larger": {"recipe": "demo", "steps": 400}})
    assert list(block["training"]) == ["tiny", "larger"]
    assert (block["optimum"]["model"], block["optimum"]["step"]) == ("tiny", 800)
    assert block["compare"]["model"] == "larger" and "max_epochs" not in block["optimum"]
    assert defaults.fill(mine(training={"tiny": {"recipe": "demo"}}))["mine"].choice is None


def test_vectors_are_made_only_where_their_mixture_is_named() -> None:
    usual = DEFAULTS["usual"]["vectors"]
    assert filled(groups={"entropy": ["se", "vne"]})["vectors"] == usual
    assert filled(compare={"mixtures": ["baseline", "vne"]})["vectors"] == usual
    named = filled(vectors={"train": {}})
    assert named["vectors"] == {"train": {}, "documents": usual["documents"]}
    assert "vne" in named["groups"]["candidates"]


def test_a_model_of_another_shape_keeps_its_name() -> None:
    config = mine()
    own = config["models"]["2x64"] = DEFAULTS["models"]["tiny"] | {"shape": {"layers": 1, "width": 64, "heads": 2}}
    defaults.fill(config)
    assert list(config["datasets"]["mine"]["training"]) == ["2x32", "ladder-2x64"]
    assert config["models"]["2x64"] == own


def test_packed_files_lists_and_harvests_count_as_text(workplace: Path) -> None:
    (workplace / "web" / "part.jsonl.gz").write_bytes(b"x" * 1000)
    (workplace / "files.txt").write_text("far/a.parquet\t5000\nweb/part.jsonl\t7\n")
    corpus = {"train": {"web": ["web/*.gz", "@files.txt"], "code": "code/part.jsonl", "none": "nothing/*.txt"}}
    own = defaults.fill(mine(corpus=corpus))["mine"]
    assert own.basis.sizes == {"web": 3000 + 10_007, "code": 300_000, "none": 0}
    harvest = {name: {"kind": "files", "packages": ["x"], "suffixes": [".py"], "megabytes": 2} for name in "ab"}
    block = {"corpus": {"harvest": harvest}}
    config = over(DEFAULTS, {"datasets": {"mine": block}})
    assert defaults.fill(config)["mine"].basis.sizes == {"a": 2_000_000, "b": 2_000_000}
    assert config["datasets"]["mine"]["domains"] == ["a", "b"]


def test_a_choice_stays_on_another_machine_and_in_jobs(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = defaults.fill(mine())["mine"]
    keep("mine", first.basis, first.choice)
    kept = json.loads((workplace / "results/mine/ladder.json").read_text())
    assert kept["chosen"]["steps"] == first.choice.steps and read_basis("mine") == first.basis
    monkeypatch.setattr(defaults, "seen_machine", lambda wanted, count: Machine("gpu", 8, 4))
    assert defaults.fill(mine())["mine"] == first
    (workplace / "web" / "more.jsonl").write_bytes(b"x" * 3_000_000)
    assert defaults.fill(mine(), planning=False)["mine"] == first  # a job of the call that chose
    again = defaults.fill(mine())["mine"]
    assert again.basis.machine == first.basis.machine and again.choice != first.choice
    os.remove(workplace / "results/mine/ladder.json")
    assert defaults.fill(mine())["mine"].basis.machine.kind == "gpu"
    (workplace / "results/mine/ladder.json").write_text("{")
    with pytest.raises(InputError, match=r"results/mine/ladder.json cannot be read .*; delete it"):
        defaults.fill(mine())


def test_another_device_in_the_config_chooses_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    first = defaults.fill(mine())["mine"]
    keep("mine", first.basis, first.choice)
    monkeypatch.setattr(defaults, "seen_machine", machine.seen_machine)
    named = over(mine(), {"ladder": {"device": "cpu", "count": 2}})
    assert defaults.fill(named)["mine"] == first
    named = over(mine(), {"ladder": {"device": "gpu", "count": 4}})
    assert defaults.fill(named)["mine"].basis.machine == Machine("gpu", 4, 8)
    assert checks.settle(named, DEFAULTS, ROOT).remarks == []


def test_on_gpus_runs_are_longer_and_in_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defaults, "seen_machine", lambda wanted, count: Machine("gpu", 2, 4))
    block = filled()
    assert block["sequence_length"] == 1024
    assert {settings["precision"] for settings in block["training"].values()} == {"bf16"}


def test_losses_measured_elsewhere_are_all_fitted_by_default() -> None:
    block = {"observations": {"losses": "l.csv", "mixtures": "m.csv"}, "optimum": {"step": 3}}
    config = over(DEFAULTS, {"datasets": {"own": block | {"compare": {"mixtures": ["a"]}}}})
    defaults.fill(config)
    own = config["datasets"]["own"]
    assert (own["groups"], own["held_out"], own["optimum"]["group"]) == ({"fitted": "all"}, [], "fitted")


@pytest.mark.parametrize("odd", [None, 3, "x", [], {"hours": "long"}, {"packed": []}, {"cut_characters": [1]}])
def test_rules_that_are_none_do_not_stop_the_checks(odd: object) -> None:
    config = mine() | {"ladder": odd}
    with pytest.raises(InputError) as error:
        checks.settle(config, DEFAULTS, ROOT)
    assert all(" ladder" in f" {line.strip()}" for line in str(error.value).removeprefix("config: ").splitlines()[-1:])


def test_a_machine_without_gpus_is_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.shutil, "which", lambda name: None)
    cores = len(os.sched_getaffinity(0))
    assert machine.seen_machine("auto", "auto") == machine.seen_machine("cpu", "auto") == Machine("cpu", cores, 1)
    monkeypatch.setattr(machine.shutil, "which", lambda name: name)
    monkeypatch.setattr(machine, "allowed_devices", lambda visible: ["a", "b"])
    assert machine.seen_machine("auto", "auto") == Machine("gpu", 2, max(min(cores // 2, 8), 1))
    assert machine.seen_machine("cpu", "auto").kind == "cpu"
    monkeypatch.setattr(machine, "allowed_devices", lambda visible: [])
    assert machine.seen_machine("auto", "auto").kind == "cpu"
    assert machine.seen_machine("gpu", 16) == Machine("gpu", 16, 8)  # as a login node says it
    assert machine.seen_machine("cpu", 3) == machine.seen_machine("auto", 3) == Machine("cpu", 3, 1)
    with pytest.raises(InputError, match="ladder/device: gpu is given"):
        machine.seen_machine("gpu", "auto")


@pytest.mark.parametrize(
    ("texts", "given", "expected"),
    [
        (["run: [demo]"], 0, ["demo"]),
        (["run: [demo]", "datasets: {mine: {}, yours: {}}"], 1, ["mine", "yours"]),
        (["run: [demo]", "laws: {seed: 1}"], 1, ["demo"]),
        (["run: [demo]", "datasets: {mine: {}, yours: {}}\nrun: [yours]"], 1, ["yours"]),
        (["run: [demo]", "datasets: {mine: {}}\nrun: mine", "datasets: {other: {}}"], 2, "mine"),
        (["run: [demo]", "datasets: {mine: {}}", "laws: {seed: 1}"], 1, ["mine"]),
        (["container: null"], 0, ["demo"]),
    ],
)
def test_what_is_built_is_what_the_users_files_name(
    tmp_path: Path, texts: list[str], given: int, expected: object
) -> None:
    files = []
    for number, text in enumerate(texts):
        files.append(tmp_path / f"{number}.yaml")
        files[-1].write_text(text + "\n")
    config = checks.merged(files)
    run_of_files(config, files, given, {})
    assert config["run"] == expected
    config["run"] = "said"
    run_of_files(config, files, given, {"run": "said"})
    assert config["run"] == "said"


def test_the_record_of_a_choice_is_where_the_pages_say() -> None:
    assert str(machine.record_path("mine")) == "results/mine/ladder.json"
