"""A config completed: six lines are enough, what is set holds, a choice stays."""

import json
import os
from pathlib import Path

import pytest
from made_configs import ROOT, demo, made, whole
from refusals import refused

from bimix.plan.dataset import Dataset
from bimix.settings import complete, ladder
from bimix.settings.complete import FASTTEXT, SAMPLED, with_defaults
from bimix.settings.ladder import Machine, keep, read_basis
from bimix.settings.layers import merged, over
from bimix.settings.prepare import settled

DEFAULTS = merged([ROOT / "workflow/defaults.yaml"])


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with text of two domains, on a machine with two cores."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(complete, "seen_machine", lambda wanted, count: Machine("cpu", 2, 1))
    for domain, size in (("web", 900_000), ("code", 300_000)):
        (tmp_path / domain).mkdir()
        (tmp_path / domain / "part.jsonl").write_bytes(b"x" * size)
    return tmp_path


def mine(**block: object) -> dict:
    own = {"corpus": {"train": {"web": "web/*.jsonl", "code": "code/*.jsonl"}}}
    return over(DEFAULTS, {"run": ["mine"], "datasets": {"mine": own | block}})


def filled(**block: object) -> dict:
    """The dataset's block with its defaults, which the checks find no fault in."""
    ready = settled(mine(**block), ROOT, wanted=["mine"])
    assert ready.remarks == []
    return ready.config["datasets"]["mine"]


def chosen(config: dict, **how: bool) -> complete.Filled:
    return with_defaults(config, **how)[1]["mine"]


def test_six_lines_are_a_whole_config() -> None:
    block = filled()
    assert block["domains"] == ["code", "web"]
    assert block["compare"]["mixtures"] == ["baseline", "uniform", "ce", "bimix", "transfer", "found"]
    assert "max_epochs" not in block["optimum"]  # by the length of the run
    start = ["baseline", "se", "je", "ce", "vne", "uniform"]
    assert block["search"] == {"start": start, "rounds": 4, "of": 1, "law": "transfer", "least": 0.1}
    assert block["optimum"]["group"] == "search"
    assert block["groups"]["search"] == [*start, "round1", "round2", "round3", "round4"]
    assert block["groups"]["candidates"] == start
    assert block["held_out"] == [] and block["vectors"] == {"train": FASTTEXT, "documents": SAMPLED}
    assert block["tokenizer"] == {
        "train": {"vocabulary": 1024, "fewer": True, "share": 1.0},
        "end_of_text": "<|endoftext|>",
    }
    assert block["corpus"]["validation"] == {"share": 0.1} and block["sequence_length"] == 128
    assert block["corpus"]["held_out_characters"] == {"web": 9000, "code": 3000}
    assert block["corpus"]["cut_characters"] == 100_000
    proxy, target = block["training"]
    assert (block["optimum"]["model"], block["compare"]["model"]) == (proxy, target) == ("2x32", "2x64")
    keys = ("tokenizer/train/vocabulary", "tokenizer/train/share", "corpus/validation/share", "sequence_length")
    assert chosen(mine()).keys == keys and "results/mine/ladder.json" in chosen(mine()).remark("mine", block)
    assert block["optimum"]["step"] == block["training"][proxy]["steps"] == block["training"][target]["steps"]


def test_what_is_set_holds_and_the_rest_follows() -> None:
    block = filled(
        sequence_length=64,
        tokenizer={"train": {"vocabulary": 300}},
        groups={"entropy": ["se", "ce"], "other": ["je", "baseline"]},
        held_out=["other"],
        optimum={"weights": {"web": 1}, "max_epochs": 5},
        compare={"mixtures": ["baseline", "bimix"]},
        corpus={"train": {"web": "web/*.jsonl", "code": "code/*.jsonl"}, "validation": {"share": 0.2}},
    )
    assert block["sequence_length"] == 64 and block["tokenizer"]["train"] == {"vocabulary": 300, "share": 1.0}
    assert block["optimum"]["group"] == "entropy" and block["optimum"]["max_epochs"] == 5
    assert block["compare"]["mixtures"] == ["baseline", "bimix"]
    assert block["corpus"]["validation"] == {"share": 0.2}


def test_searches_models_and_vectors_follow_what_is_named() -> None:
    """Models in their order, the first as the proxy; vectors where their mixture is named."""
    block = filled(optimum={"weights": {"web": 1}})
    assert block["search"]["start"][-2:] == ["wanted_4", "wanted_8"]
    assert "search" not in filled(groups={"some": ["se", "ce"]})
    assert filled(groups={"some": ["se", "ce"]}, search={"rounds": 2})["optimum"]["group"] == "search"
    block = filled(training={"proxy": {"recipe": "demo"}, "target": {"recipe": "demo", "steps": 400}})
    assert list(block["training"]) == ["proxy", "target"]
    assert (block["optimum"]["model"], block["optimum"]["step"]) == ("proxy", 300)
    assert block["compare"]["model"] == "target" and "max_epochs" not in block["optimum"]
    assert chosen(mine(training={"proxy": {"recipe": "demo"}})).choice is None
    usual = {"train": FASTTEXT, "documents": SAMPLED}
    assert filled(groups={"entropy": ["se", "vne"]})["vectors"] == usual
    assert filled(compare={"mixtures": ["baseline", "vne"]})["vectors"] == usual
    named = filled(vectors={"train": {}})
    assert named["vectors"] == {"train": {}, "documents": usual["documents"]}
    assert "vne" in named["groups"]["candidates"]


def test_a_model_of_another_shape_keeps_its_name() -> None:
    config = mine()
    own = config["models"]["2x64"] = DEFAULTS["models"]["proxy"] | {"shape": {"layers": 1, "width": 64, "heads": 2}}
    found, _ = with_defaults(config)
    assert list(found["datasets"]["mine"]["training"]) == ["2x32", "ladder-2x64"]
    assert found["models"]["2x64"] == own and "ladder-2x64" in found["models"]
    assert "ladder-2x64" not in config["models"] and "training" not in config["datasets"]["mine"]  # as it was


def test_packed_files_lists_and_harvests_count_as_text(workplace: Path) -> None:
    (workplace / "web" / "part.jsonl.gz").write_bytes(b"x" * 1000)
    (workplace / "files.txt").write_text("far/a.parquet\t5000\nweb/part.jsonl\t7\n")
    corpus = {"train": {"web": ["web/*.gz", "@files.txt"], "code": "code/part.jsonl", "none": "nothing/*.txt"}}
    own = chosen(mine(corpus=corpus))
    assert own.basis.sizes == {"web": 3000 + 10_007, "code": 300_000, "none": 0}
    harvest = {name: {"kind": "files", "packages": ["x"], "suffixes": [".py"], "megabytes": 2} for name in "ab"}
    block = {"corpus": {"harvest": harvest}}
    config = over(DEFAULTS, {"datasets": {"mine": block}})
    assert chosen(config).basis.sizes == {"a": 2_000_000, "b": 2_000_000}
    assert with_defaults(config)[0]["datasets"]["mine"]["domains"] == ["a", "b"]


def test_a_choice_stays_on_another_machine_and_in_jobs(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = chosen(mine())
    keep("mine", first.basis, first.choice)
    kept = json.loads((workplace / "results/mine/ladder.json").read_text())
    assert kept["chosen"]["steps"] == first.choice.steps and read_basis("mine") == first.basis
    shorter = chosen(over(mine(), {"ladder": {"hours": {"cpu": 0.001}}}))  # by the same text and machine
    keep("mine", shorter.basis, shorter.choice)
    written = json.loads((workplace / "results/mine/ladder.json").read_text())
    assert written["chosen"]["steps"] == shorter.choice.steps < first.choice.steps
    monkeypatch.setattr(complete, "seen_machine", lambda wanted, count: Machine("gpu", 8, 4))
    assert chosen(mine()) == first
    (workplace / "web" / "more.jsonl").write_bytes(b"x" * 3_000_000)
    assert chosen(mine(), planning=False) == first  # a job of the call that chose
    again = chosen(mine())
    assert again.basis.machine == first.basis.machine and again.choice != first.choice
    os.remove(workplace / "results/mine/ladder.json")
    assert chosen(mine()).basis.machine.kind == "gpu"
    (workplace / "results/mine/ladder.json").write_text("{")
    refused(r"results/mine/ladder.json cannot be read .*; delete it", chosen, mine())


def test_another_device_in_the_config_chooses_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    first = chosen(mine())
    keep("mine", first.basis, first.choice)
    monkeypatch.setattr(complete, "seen_machine", ladder.seen_machine)
    named = over(mine(), {"ladder": {"device": "cpu", "count": 2}})
    assert chosen(named) == first
    named = over(mine(), {"ladder": {"device": "gpu", "count": 4}})
    assert chosen(named).basis.machine == Machine("gpu", 4, 8)
    assert settled(named, ROOT).remarks == []
    block = settled(named, ROOT).config["datasets"]["mine"]
    assert block["sequence_length"] == 1024  # on GPUs runs are longer and in bf16
    assert {settings["precision"] for settings in block["training"].values()} == {"bf16"}


def test_losses_measured_elsewhere_are_all_fitted_by_default() -> None:
    block = {"observations": {"losses": "l.csv", "mixtures": "m.csv"}, "optimum": {"step": 3}, "compare": {}}
    own = with_defaults(over(DEFAULTS, {"datasets": {"own": block}}))[0]["datasets"]["own"]
    assert (own["groups"], own["held_out"], own["optimum"]["group"]) == ({"fitted": "all"}, [], "fitted")


def test_a_machine_without_gpus_is_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder.shutil, "which", lambda name: None)
    cores = len(os.sched_getaffinity(0))
    assert ladder.seen_machine("auto", "auto") == ladder.seen_machine("cpu", "auto") == Machine("cpu", cores, 1)
    monkeypatch.setattr(ladder.shutil, "which", lambda name: name)
    monkeypatch.setattr("bimix.training.devices.allowed_devices", lambda visible: ["a", "b"])
    assert ladder.seen_machine("auto", "auto") == Machine("gpu", 2, max(min(cores // 2, 8), 1))
    assert ladder.seen_machine("cpu", "auto").kind == "cpu"
    monkeypatch.setattr("bimix.training.devices.allowed_devices", lambda visible: [])
    assert ladder.seen_machine("auto", "auto").kind == "cpu"
    assert ladder.seen_machine("gpu", 16) == Machine("gpu", 16, 8)  # as a login node says it
    assert ladder.seen_machine("cpu", 3) == ladder.seen_machine("auto", 3) == Machine("cpu", 3, 1)
    refused("ladder/device: gpu is given", ladder.seen_machine, "gpu", "auto")


# What other blocks say


def test_recipes_like_the_papers_are_whole_and_in_its_order() -> None:
    """To the byte what a run's fingerprint is made of: no run is repeated."""
    config = whole()
    found = made(config)["training"]
    paper, likes = config["training"]["paper"], {name: own for name, own in config["training"].items() if "like" in own}
    assert len(likes) == 4
    for name, own in likes.items():
        changes = {key: own.get(key, value) for key, value in paper.items()}
        assert json.dumps(found[name]) == json.dumps(changes), name
    proxy = demo(made(config))["training"]["proxy"]
    assert json.dumps(proxy) == json.dumps(found["demo"] | {"steps": 400, "evaluate_every": 40})


def test_small_runs_have_the_share_of_a_domain_that_they_read_of_the_large_run() -> None:
    def matched(config: dict) -> None:
        demo(config)["simulate_epochs"] = True
        demo(config)["training"]["target"]["steps"] = 3200

    block = demo(made(whole(matched)))
    assert block["training"]["proxy"]["pool_share"] == 400 / 3200
    assert block["training"]["target"]["pool_share"] == 1
    assert (block["training"]["proxy"] | block["swarm"]["training"])["pool_share"] == 50 / 3200
    assert block["reweighting"]["doremi"]["pool_share"] == 400 / 3200
    assert "pool_share" not in demo(made(whole()))["training"]["proxy"]


def test_each_method_that_reweighs_has_training_settings_of_its_own() -> None:
    """The model's recipe, the method's defaults, the dataset's of both, then of the one."""
    settings = {"training": {"steps": 30}, "doremi": {"steps": 20}, "doge": {"recipe": "doge", "precision": "no"}}
    plain, own = made(whole()), made(whole(lambda c: demo(c)["reweighting"].update(settings)))
    usual = plain["training"]["demo"] | {"steps": 400, "evaluate_every": 40}
    assert demo(plain)["reweighting"]["doremi"] == usual | {"schedule": "doremi"}
    assert demo(plain)["reweighting"]["doge"] == usual
    assert demo(own)["reweighting"]["doremi"] == usual | {"schedule": "doremi", "steps": 20}
    assert demo(own)["reweighting"]["doge"] == plain["training"]["doge"] | {"steps": 30, "precision": "no"}


def test_families_become_weights_and_the_reference_the_first_that_is_compared() -> None:
    families = {"code": ["python", "cpp"], "text": ["web"]}
    objective = {"kind": "minimax", "families": families, "weights": {"code": 3, "text": 1}}
    config = made(whole(lambda c: demo(c)["optimum"].update(objective=objective)))
    optimum = demo(config)["optimum"]
    assert optimum["weights"] == {"python": 1.5, "cpp": 1.5, "web": 1}
    assert optimum["objective"]["reference"] == demo(config)["compare"]["mixtures"][0] == "baseline"


def test_a_path_with_an_entry_is_there_where_the_entry_is() -> None:
    config, plain = made(whole(lambda config: demo(config).update(centre="uniform"))), made(whole())
    path = "results/{dataset}/mixtures/{entry}.json"
    assert Dataset(config, "demo").when("centre", path) == ["results/demo/mixtures/uniform.json"]
    assert Dataset(plain, "demo").when("centre", path) == Dataset(plain, "demo").when("none/at_all", path) == []
