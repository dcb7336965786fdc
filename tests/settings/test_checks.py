"""What the table of faults cannot show: what is taken, what is remarked, files and tables, and that
any value in any place is taken or refused with a sentence.
"""

import copy
import functools
import json
import os
import random
import re
from pathlib import Path

import pytest
import yaml
from made_configs import ROOT, demo, made, ready, said, two_sizes, whole

from bimix.settings import models

NO_NAMES = ["a/b", "a\n", "{x}", "<i>h", "-x", "..", "", "é" * 101, "\ud800", "\x1b[31m"]
NAMES = ["Wikipedia (en)", "s*", "[ab]", "$(touch x)", "`id`", "'q\" ;", "~", "#&|>", "%s", "日本", " x"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def keys(lines: list[str]) -> list[str]:
    """What lines are about."""
    return [line.partition(": ")[0] for line in lines]


def mapped(config: dict, files: dict | list) -> None:
    own = {key: value for key, value in demo(config)["corpus"].items() if key != "harvest"}
    demo(config)["corpus"] = own | {"train": files}


def test_a_domain_that_cannot_be_a_file_is_refused_and_any_other_printable_name_is_taken() -> None:
    for name in NO_NAMES:
        lines = said(whole(lambda c, name=name: demo(c)["domains"].append(name)))
        assert keys(lines) == ["datasets/demo/domains"], lines
        "".join(lines).encode()  # can be printed
    for name in NAMES:
        config = whole()
        demo(config)["domains"][0] = name
        demo(config)["corpus"]["harvest"][name] = demo(config)["corpus"]["harvest"].pop("cpp")
        assert said(config) == [], name


def test_what_is_odd_but_possible_is_remarked_and_what_is_no_fault_is_not() -> None:
    def remarks(**optimum) -> list[str]:
        return keys(ready(whole(lambda c: demo(c)["optimum"].update(optimum))).remarks)

    assert remarks() == []
    assert remarks(step=4000) == remarks(step=41) == remarks(step=3) == ["datasets/demo/optimum/step"]
    once = ready(whole(lambda c: demo(c)["training"]["proxy"].update(evaluate_every=900))).remarks
    assert keys(once) == ["datasets/demo/training/proxy"]
    config = whole(lambda c: demo(c)["groups"].update(entropy=["se"]))  # no law can be fitted to it
    assert said(config) == [] and len(said(config, wanted=["demo"])) == 1
    listed = whole(lambda c: mapped(c, ["a.jsonl", "b.jsonl"]) or demo(c)["corpus"].update(domain_field="set"))
    assert said(listed) == []  # paths in a list are no names of domains


def test_files_of_wanted_datasets_must_be_there(folder: Path) -> None:
    """Devices and pipes among them, by links and in lists; a finished tokenizer needs no source."""
    (folder / "a.jsonl").touch()
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "tasks").mkdir()
    (folder / "tasks/own.yaml").write_text("{task: own, dataset_kwargs: {data_files: q.jsonl}}")
    (folder / "list").write_text("a.jsonl\npipe.jsonl\t3\nhttp://host/x.jsonl\n")

    def change(config: dict) -> None:
        first, *others = demo(config)["domains"]
        mapped(config, dict.fromkeys(others, "a.jsonl") | {first: ["a.jsonl", "pipe.jsonl", "/dev/zero", "@list"]})
        demo(config)["tokenizer"] = {"file": "nothing.json", "end_of_text": "x"}
        tasks = {"tasks": ["webquestions", "own", "arc_easy"], "task_files": "tasks"}
        demo(config)["downstream"] = {"model": "target", "steps": [80, 160]} | tasks

    config = whole(change)
    assert said(config) == []
    missing, *others = said(config, wanted=["demo"])
    assert keys([missing]) == ["datasets/demo"]
    assert all(path in missing for path in ("nothing.json", "q.jsonl", "data/qa/webquestions_test.jsonl"))
    assert keys(others) == ["datasets/demo/corpus/train/cpp"] * 2
    assert "pipe.jsonl" in others[0] and "/dev/zero" in others[1]
    (folder / "results/demo").mkdir(parents=True)
    (folder / "results/demo/tokenizer.json").touch()
    assert not any("nothing.json" in line for line in said(config, wanted=["demo"]))


# Losses measured elsewhere


def observed(**block: object) -> dict:
    rows = [f"{m},{s},{d},3" for m in (0, 1) for s in (10, 15, 20) for d in ("web", "code")]
    Path("losses.csv").write_text("\n".join(["mixture,step,domain,loss", *rows]) + "\n")
    Path("mixtures.csv").write_text("mixture,web,code\n0,0.5,0.5\n1,0.25,0.75\n")
    own = {
        "observations": {"losses": "losses.csv", "mixtures": "mixtures.csv"},
        "groups": {"fitted": ["0", "1"], "every": "all"},
        "optimum": {"group": "fitted", "step": 20},
        "held_out": [],
        "compare": {"mixtures": ["0"]},
    }
    return whole(lambda config: config["datasets"].update(mine=own | block) or config.update(run=["mine"]))


def test_an_optimum_that_was_measured_is_compared_and_compares_no_others() -> None:
    for name in ("transfer", "bimix_swarm"):
        config = observed(groups={"fitted": "all"}, compare={"mixtures": ["0", name]})
        for table, row in (("losses", f"{name},20,web,3\n{name},20,code,3\n"), ("mixtures", f"{name},0.4,0.6\n")):
            with Path(f"{table}.csv").open("a") as lines:
                lines.write(row)
        assert said(config, wanted=["mine"]) == []
        config["datasets"]["mine"]["compare"]["mixtures"] = [name, "0"]
        assert keys(said(config, wanted=["mine"])) == ["datasets/mine/compare/mixtures"]


def test_steps_beyond_the_losses_and_wide_tables_are_remarked() -> None:
    config = observed(optimum={"group": "fitted", "step": 10**7})
    remarked = ["datasets/mine/observations/mixtures", "datasets/mine/optimum/step"]
    assert keys(ready(config, ["mine"]).remarks) == remarked
    Path("mixtures.csv").write_text("mixture,run\n0,x\n")
    assert keys(said(config, wanted=["mine"])) == ["datasets/mine/observations"]


def test_losses_of_several_sizes_have_one_law_and_metrics_are_taken_with_weights() -> None:
    config = observed()
    rows = [f"{m},{s},{100 * s},{d},3,{9 * s}" for m, s in ((0, 10), (1, 20)) for d in ("web", "code")]
    Path("losses.csv").write_text("\n".join(["mixture,step,tokens,domain,loss,parameters", *rows]))
    for laws, faults in (["transfer"], []), (["transfer", "bimix"], ["datasets/mine/optimum/group"]):
        lines = said(config | {"laws": config["laws"] | {"optimise": laws}}, wanted=["mine"])
        assert keys(lines) == faults, lines
    tables = {"losses": "losses.csv", "mixtures": "mixtures.csv", "metrics": "metrics.csv"}
    Path("metrics.csv").write_text("mixture,err\n0,0.5\n1,0.4\n")
    for objective in ({"weights": {"err": 1}}, {"objective": {"families": {"a": ["err"]}}}):
        config = observed(observations=tables, optimum={"group": "fitted", "step": 20} | objective)
        config["laws"] |= {"optimise": ["transfer"], "compare": ["transfer"]}
        assert said(config, wanted=["mine"]) == []


# Any value in any place


def paths_of(value: object, path: tuple = ()) -> list[tuple]:
    """All keys and list entries in a config, as paths."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [one for key, below in inner for one in paths_of(below, (*path, key))]


def test_whatever_stands_in_a_place_is_taken_or_refused_with_a_sentence() -> None:
    config = observed()
    config["datasets"] = {name: config["datasets"][name] for name in ("demo", "mine")}
    draw = random.Random(0)
    odds = [None, [], {}, [None], [[1]], {"a": None}, "x", "", -1, 0.5, True, [True], {1: 2}, "1e3"]
    for path in draw.sample(paths_of(config), 160):
        changed, odd = copy.deepcopy(config), draw.choice(odds)
        holder = functools.reduce(lambda found, key: found[key], path[:-1], changed)
        holder[path[-1]] = odd
        if draw.random() < 0.1:
            del holder[path[-1]]
        lines = said(changed, wanted=["demo", "mine"])
        for line in lines:
            assert re.search(r"\w[^:]*: \S.*\.$", line) and "Traceback" not in line, (path, odd, line)
        if not lines:
            made(changed)


# Stages, sizes and commands


def test_stages_are_taken_and_those_of_ones_own_file_are_seen(folder: Path) -> None:
    def change(config: dict) -> None:
        block = demo(config)
        block["stages"] = {
            f"late_{name}": [{"share": 0.8, "mixture": "ce"}, {"share": 0.2, "mixture": name}]
            for name in ("se", "uniform", "baseline", "bimix")
        }
        block |= {"mixture_files": {"own": str(folder / "own.json")}, "centre": "own"}
        block["compare"]["mixtures"] = ["baseline", "late_bimix"]

    own = [{"share": 0.5, "mixture": {name: 1}} for name in ("code", "docs")]
    (folder / "own.json").write_text(json.dumps({"stages": own}))
    assert keys(said(whole(change))) == ["datasets/demo/centre"]
    (folder / "own.json").write_text(json.dumps({"code": 1}))
    assert said(whole(change)) == []


def test_models_of_several_sizes_are_ordered_by_size_and_what_their_law_leaves_out_is_a_remark() -> None:
    config = whole(two_sizes)
    assert ready(config, ["demo"]).remarks == []
    optimum = demo(made(config))["optimum"]
    assert optimum["models"] == ["proxy", "small"]
    assert (optimum["model"], optimum["for"], optimum["step"]) == ("proxy+small", "target", 160)
    config["laws"]["optimise"] = ["bimix", "transfer"]
    demo(config)["optimum"]["for"] = "small"
    demo(config)["held_out"] = ["held_out"]
    del demo(config)["compare"]["mixtures"]
    done = ready(config)
    places = {f"datasets/demo/{key}" for key in ("optimum/models", "optimum/for", "held_out")}
    assert set(keys(done.remarks)) == places
    assert demo(done.config)["compare"]["mixtures"] == ["baseline", "uniform", "ce", "transfer"]


def test_a_law_reads_two_runs_of_the_larger_model_and_searches_on_the_proxy_go_on() -> None:
    config = whole(lambda config: None)
    block = demo(config)
    for key in ("groups", "held_out", "search"):
        block.pop(key, None)
    block["optimum"] = {"models": ["proxy", "target"]}
    block["compare"] = {"mixtures": ["baseline", "uniform", "transfer"]}
    config["laws"]["optimise"] = ["transfer"]
    done = ready(config, ["demo"])
    assert done.remarks == []
    optimum = demo(done.config)["optimum"]
    assert [optimum[key] for key in ("model", "for", "group")] == ["proxy+target", "target", "search"]
    assert demo(done.config)["search"]["start"]
    block["compare"]["mixtures"] = ["baseline", "transfer"]
    assert keys(ready(config).remarks) == ["datasets/demo/optimum/models"]
    block["compare"]["mixtures"] = ["temperature", "transfer"]
    assert keys(said(config)) == ["datasets/demo/optimum/models"]


def test_the_commands_of_the_page_are_sound() -> None:
    page = (ROOT / "docs/trainers.md").read_text()
    blocks = re.findall(r"```yaml\n(models:.*?)```", page, flags=re.DOTALL)
    examples = {name: model for block in blocks for name, model in yaml.safe_load(block)["models"].items()}
    assert set(examples) == {"theirs", "gpt2", "megatron", "olmo"}
    launch = {"launch": {"nodes": 1, "gpus": 0, "threads": 1}, "parameters": 1000}
    for name, model in examples.items():
        assert models.Model.model_validate(launch | model).command, name
