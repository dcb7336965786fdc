"""A wrong config is refused with all of its faults at once: the key, its line, what is allowed and
what to write.
"""

import copy
import functools
import json
import os
import random
import re
from pathlib import Path

import polars as pl
import pytest
import yaml

from bimix.errors import InputError
from bimix.model.transformer import Shape
from bimix.settings import checks as plan
from bimix.settings.complete import complete

ROOT = Path(__file__).parents[2]
DEFAULTS = ROOT / "workflow/defaults.yaml"


@functools.cache
def default() -> dict:
    return plan.merged([DEFAULTS, ROOT / "config.yaml"]) | {"run": ["demo"]}


def whole(change=None) -> dict:
    config = copy.deepcopy(default())
    if change:
        change(config)
    return config


def said(config: dict, files=(), wanted=()) -> list[str]:
    """The lines in which a config is refused, none where it is taken."""
    config.setdefault("run", ["demo"])
    try:
        config.update(plan.settle(config, default(), ROOT, files, wanted).config)
    except InputError as error:
        lines = str(error).splitlines()
        return [line.strip() for line in lines[1:]] if len(lines) > 1 else [lines[0].removeprefix("config: ")]
    return []


def demo(config: dict) -> dict:
    return config["datasets"]["demo"]


def mapped(config: dict, part: str, files: dict, **corpus: object) -> None:
    own = {key: value for key, value in demo(config)["corpus"].items() if key != "harvest"}
    demo(config)["corpus"] = own | {"train": "data/*.jsonl", "domain_field": "set", part: files} | corpus


def test_the_config_itself_is_taken() -> None:
    config = whole()
    assert said(config, [ROOT / "config.yaml"], ["demo"]) == []
    complete(config)
    assert config["datasets"]["demo"]["training"]["larger"]["steps"] == 160
    assert config["datasets"]["demo"]["training"]["larger"]["batch_rows"] == 8
    assert "recipe" not in config["datasets"]["demo"]["training"]["larger"]
    assert len(config["datasets"]["demo"]["groups"]["swarm"]) == 32


RECIPES = {
    "regmix": {
        "steps": 1000,
        "batch_rows": 1024,
        "evaluate_every": 200,
        "validation_rows": 512,
        "learning_rate": 0.0004,
        "final_learning_rate": 0.0004,
        "schedule": "doremi",
        "warmup_share": 0.1,
        "beta1": 0.9,
        "beta2": 0.95,
        "epsilon": 1e-08,
        "weight_decay": 0.1,
        "max_gradient_norm": 1.0,
        "precision": "bf16",
        "seed": 1,
    },
    "doge": {
        "steps": 10000,
        "batch_rows": 128,
        "evaluate_every": 1000,
        "validation_rows": 512,
        "learning_rate": 0.0005,
        "final_learning_rate": 0.0001,
        "schedule": "cosine",
        "warmup_share": 0.05,
        "beta1": 0.9,
        "beta2": 0.999,
        "epsilon": 1e-08,
        "weight_decay": 0.01,
        "max_gradient_norm": 5.0,
        "precision": "bf16",
        "seed": 1,
    },
    "demo": {
        "steps": 800,
        "batch_rows": 8,
        "evaluate_every": 80,
        "validation_rows": 24,
        "learning_rate": 0.003,
        "final_learning_rate": 0.0003,
        "schedule": "exponential",
        "warmup_share": 0.06,
        "beta1": 0.9,
        "beta2": 0.99,
        "epsilon": 1e-08,
        "weight_decay": 0.01,
        "max_gradient_norm": 1.0,
        "precision": "no",
        "seed": 1,
    },
}


def test_recipes_like_the_papers_are_whole_and_in_its_order() -> None:
    """To the byte what a run's fingerprint is made of: no run is repeated."""
    config = whole()
    assert config["training"]["demo"]["like"] == "paper"
    complete(config)
    assert {name: json.dumps(config["training"][name]) for name in RECIPES} == {
        name: json.dumps(recipe) for name, recipe in RECIPES.items()
    }
    block = config["datasets"]["demo"]["training"]["tiny"]
    assert json.dumps(block) == json.dumps(RECIPES["demo"] | {"steps": 400, "evaluate_every": 40})


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a/b", "must not hold '/'"),
        ("a\n", r"must not hold '\n'"),
        ("{x}", "must not hold '{'"),
        ("<i>h", "<i> stands for a path in Snakemake"),
        ("-x", "would be read as a flag"),
        ("..", "the system's name for a folder"),
        ("", "must have a letter"),
        ("é" * 101, "longer than 200 bytes"),
        ("\ud800", r"must not hold '\ud800'"),
        ("\x1b[31m", "must not hold '\\x1b'"),
    ],
)
def test_a_domain_that_cannot_be_a_file_is_refused(name: str, reason: str) -> None:
    (line,) = said(whole(lambda c: demo(c)["domains"].__setitem__(0, name) or demo(c)["corpus"].pop("harvest")))[:1]
    assert "demo/domains: " in "\n".join(lines := said(whole(lambda c: demo(c)["domains"].append(name))))
    assert sum(reason in one for one in lines) == 1, lines
    line.encode()  # can be printed


@pytest.mark.parametrize(
    "name", ["Wikipedia (en)", "s*", "[ab]", "$(touch x)", "`id`", "'q\" ;", "~", "#&|>", "%s", "日本", " x"]
)
def test_any_other_printable_name_is_taken(name: str) -> None:
    def rename(config: dict) -> None:
        block = demo(config)
        block["domains"][0] = name
        block["corpus"]["harvest"][name] = block["corpus"]["harvest"].pop("cpp")

    assert said(whole(rename)) == []


# Ten lines whose aliases repeat 10^10 values.
BOMB = "x-0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]\n" + "".join(
    f"x-{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: 1\n\tb: 2\n", ":2: the line is indented with a tab; YAML takes spaces only."),
        ("a: [1, 2\nb: 3\n", ":2: no YAML from here: "),
        ("a: 'x\n", "no YAML from here: "),
        ("", ": the file is empty"),
        ("# nothing\n", ": the file is empty"),
        ("- a\n", ":1: the file holds a list; it must hold keys"),
        ("word\n", ":1: the file holds a single value"),
        ("a: 1\n---\na: 2\n", "no YAML from here: "),
        (
            '__use_yte__: true\nx: ?__import__("os").system("touch pwn")\n',
            ":1: __use_yte__: a config that runs code is",
        ),
        ("__use_yte__: true\nx: 1\n", ":1: __use_yte__: a config that runs code is refused"),
        ("<<: &y {__use_yte__: true}\nx-y: *y\n", ":1: __use_yte__: a config that runs code is refused"),
        ("x-y: &y {__use_yte__: true}\n<<: *y\n", ":1: __use_yte__: a config that runs code is refused"),
        ("x: !!python/name:os.system\n", ":1: x: the tag tag:yaml.org,2002:python/name:os.system is not allowed"),
        (BOMB, ":6: the file has more than 200,000 keys and values, with all that aliases (*name) repeat."),
        (f"x: {'[' * 900}{']' * 900}\n", ":1: blocks and lists lie more than 60 deep in one another."),
        ('{"x": ' + "[" * 9000 + "]" * 9000 + "}", ":1: blocks and lists lie more than 60 deep in one another."),
        ("laws: &a\n  compare: [*a]\n", ":2: *a stands within the block &a itself"),
        (f"run: [demo]\nlaws: {{seed: {'9' * 5000}}}\n", ':2: laws/seed: "999999'),
        ("x-day: 2026-02-31\n", ':1: x-day: "2026-02-31" cannot be read as YAML\'s timestamp; quote what is text.'),
    ],
)
def test_a_file_that_is_no_config_is_refused_before_it_is_read(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(InputError) as error:
        plan.check_files([tmp_path / "mine.yaml"])
    assert sentence in str(error.value) and str(tmp_path / "mine.yaml") in str(error.value)


def test_files_that_are_not_there_or_not_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.yaml: there is no such file; targets go before --configfile"):
        plan.check_files([tmp_path / "nothing.yaml"])
    with pytest.raises(
        InputError, match=r"bimix\.json: this is a result and no config: targets go before --configfile"
    ):
        plan.check_files([Path("results/mine/mixtures/bimix.json")])
    (tmp_path / "latin.yaml").write_bytes("a: é".encode("latin-1"))
    with pytest.raises(InputError, match=r"latin\.yaml: the file is not UTF-8"):
        plan.check_files([tmp_path / "latin.yaml"])
    (tmp_path / "tabs.json").write_text('{\n\t"run": ["demo"]\n}')
    plan.check_files([tmp_path / "tabs.json"])


def test_blocks_for_anchors_merges_and_a_word_for_run_are_taken(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "run: demo\n"
        "x-tiny: &tiny {recipe: demo, steps: 160}\n"
        "datasets: {demo: {training: {tiny: {<<: *tiny, evaluate_every: 40}}, optimum: {step: 160}}}\n"
    )
    files = [ROOT / "config.yaml", tmp_path / "mine.yaml"]
    config = plan.merged([DEFAULTS, *files])
    assert said(config, files) == []
    assert config["run"] == ["demo"]
    (tmp_path / "mine.yaml").write_text((tmp_path / "mine.yaml").read_text().replace("160}\ndata", "0}\ndata"))
    (line,) = said(plan.merged([DEFAULTS, *files]), files)
    assert "mine.yaml:2: datasets/demo/training/tiny/steps: 0 is given" in line


@pytest.mark.parametrize("heads", [1, 2, 3, 8])
def test_shapes_are_refused_where_the_model_refuses_them(heads: int) -> None:
    refused, possible = [], []
    for width in range(1, 70):
        checker = plan.Checker({}, ROOT, frozenset(), [])
        checker.shape(("shape",), {"layers": 1, "width": width, "heads": heads})
        refused += [width] * bool(checker.faults)
        try:
            Shape(layers=1, width=width, heads=heads, vocabulary=100)
            possible.append(width)
        except ValueError:
            continue
    assert possible and sorted(refused + possible) == list(range(1, 70))


def test_what_is_odd_but_possible_is_remarked() -> None:
    def remarks(**optimum) -> list[str]:
        return plan.settle(whole(lambda c: demo(c)["optimum"].update(optimum)), default(), ROOT).remarks

    assert remarks() == []
    beyond = "datasets/demo/optimum/step: 4,000 is 10 times the last measured step, 400: the law extrapolates."
    assert remarks(step=4000) == [beyond]
    (between,) = remarks(step=41)
    assert "41 lies between two measured steps, 40 and the next: the law fills in." in between
    (before,) = remarks(step=3)
    assert "3 comes before the first measured step, 40" in before
    (once,) = plan.settle(
        whole(lambda c: demo(c)["training"]["tiny"].update(evaluate_every=900)), default(), ROOT
    ).remarks
    assert "training/tiny: with evaluate_every 900 and 400 steps the losses are measured once" in once


# Files

FILES = {
    "tokenizer": {"file": "nothing.json", "end_of_text": "x"},
    "vectors": {"file": "nothing.bin", "documents": 3},
    "mixture_files": {"own": "nothing.json"},
    "export": {"data": "no_data.json"},
}


def test_files_of_wanted_datasets_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").touch()
    (tmp_path / "a.csv").touch()
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "list").write_text("a.jsonl\npipe.jsonl\t3\nhttp://host/x.jsonl\n")
    train = ["a.jsonl", "a.csv", "b.jsonl", "folder", "pipe.jsonl", "/dev/zero", "c*.jsonl", "@nothing", "@list"]

    def change(config: dict) -> None:
        mapped(
            config,
            "train",
            dict.fromkeys(demo(config)["domains"][:1], train) | dict.fromkeys(demo(config)["domains"][1:], "a.jsonl"),
        )
        demo(config).update(FILES)
        tasks = {"own": {"kind": "question", "items": "q.jsonl", "shots": None}}
        demo(config)["downstream"] = {"model": "larger", "steps": [80, 160], "tasks": tasks}

    config = whole(change)
    assert said(config) == said(config, wanted=["pile"])[:0] == []
    lines = said(config, wanted=["demo"])
    for sentence in (
        'tokenizer/file: "nothing.json" cannot be found (No such file or directory).',
        'vectors/file: "nothing.bin" cannot be found',
        'mixture_files/own: "nothing.json" cannot be found',
        'export/data: "no_data.json" cannot be found',
        'tasks/own/items: "q.jsonl" cannot be found',
        "corpus/train/cpp: 'a.csv' ends in none of .jsonl, .json, .ndjson, .parquet, .txt; say in corpus/formats",
        'corpus/train/cpp: "b.jsonl" cannot be found',
        'corpus/train/cpp: "folder" is a folder; name its files',
        'corpus/train/cpp: "pipe.jsonl" is a pipe or a device',
        'corpus/train/cpp: "/dev/zero" is a pipe or a device',
        "corpus/train/cpp: no file matches 'c*.jsonl'.",
        'corpus/train/cpp: "nothing" cannot be found',
    ):
        assert any(sentence in line for line in lines), sentence
    assert len(lines) == 12  # the pipe of the list is that of the path
    (tmp_path / "results/demo").mkdir(parents=True)
    (tmp_path / "results/demo/tokenizer.json").touch()  # a finished tokenizer needs its source no more
    assert not any("tokenizer" in line for line in said(config, wanted=["demo"]))


# Losses measured elsewhere


def observed(folder: Path, **block: object) -> dict:
    (folder / "losses.csv").write_text(
        "mixture,step,domain,loss\n"
        + "".join(f"{m},{s},{d},3\n" for m in (0, 1) for s in (10, 15, 20) for d in ("web", "code"))
    )
    (folder / "mixtures.csv").write_text("mixture,web,code\n0,0.5,0.5\n1,0.25,0.75\n")
    own = {
        "observations": {"losses": "losses.csv", "mixtures": "mixtures.csv"},
        "groups": {"fitted": [0, 1], "every": "all"},
        "optimum": {"group": "fitted", "step": 20},
        "held_out": [],
        "compare": {"mixtures": [0]},
    }
    return whole(lambda config: config["datasets"].update(mine=own | block) or config.update(run=["mine"]))


@pytest.mark.parametrize("name", ["transfer", "bimix_swarm"])
def test_an_optimum_that_was_measured_is_compared_and_compares_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    config = observed(tmp_path, groups={"fitted": "all"}, compare={"mixtures": [0, name]})
    for table, row in (("losses.csv", f"{name},20,web,3\n{name},20,code,3\n"), ("mixtures.csv", f"{name},0.4,0.6\n")):
        with Path(table).open("a") as lines:
            lines.write(row)
    assert said(config, wanted=["mine"]) == []
    config["datasets"]["mine"]["compare"]["mixtures"] = [name, "0"]
    (line,) = said(config, wanted=["mine"])
    assert f"compare/mixtures: '{name}' is what a law finds now, and a run of that name may have had other" in line


def test_numbers_that_name_mixtures_are_text_as_the_file_spells_them(tmp_path: Path) -> None:
    config = observed(tmp_path, groups={"fitted": [7, 1]})
    (tmp_path / "own.yaml").write_text("datasets: {mine: {groups: {fitted: [007, 1]}}}\n")
    assert said(config, [tmp_path / "own.yaml"]) == []
    assert config["datasets"]["mine"]["groups"]["fitted"] == ["007", "1"]
    job = observed(tmp_path, groups={"fitted": [7, 1]}) | {"run": "mine"}
    plan.as_text(job, [tmp_path / "own.yaml"])  # as the call that checked it
    assert job["run"] == config["run"] and job["datasets"]["mine"]["groups"] == config["datasets"]["mine"]["groups"]


def test_steps_beyond_the_losses_and_wide_tables_are_remarked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for step, words in (
        (10**7, "10,000,000 is 5e+05 times the last measured step, 20"),
        (5, "5 comes before the first"),
    ):
        config = observed(tmp_path, optimum={"group": "fitted", "step": step})
        wide, odd = plan.settle(config, default(), ROOT, wanted=["mine"]).remarks
        assert "mixtures.csv is read as a table of mixture and one column for each domain: web, code." in wide
        assert words in odd
    pl.DataFrame({"mixture": ["0"], "run": ["x"]}).write_csv("mixtures.csv")
    (line,) = said(config | {}, wanted=["mine"])
    assert "observations: mixtures.csv: column 'run' holds no numbers" in line


def test_losses_of_several_sizes_have_no_curve_and_one_law(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = observed(tmp_path)
    rows = [f"{m},{s},{100 * s},{d},3,{9 * s}" for m, s in ((0, 10), (1, 20)) for d in ("web", "code")]
    (tmp_path / "losses.csv").write_text("\n".join(["mixture,step,tokens,domain,loss,parameters", *rows]))
    for laws, faults in (["transfer"], 0), (["transfer", "bimix"], 1):
        lines = said(config | {"laws": config["laws"] | {"optimise": laws}}, wanted=["mine"])
        assert len(lines) == faults, lines
    assert "optimum/group: its losses are of models of several sizes, and bimix (in" in lines[0]


def test_what_the_command_line_has_set_is_told_as_its_own(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("run: [demo]\nlaws: {seed: -1}\n")
    files = [ROOT / "config.yaml", tmp_path / "mine.yaml"]
    config = plan.merged([DEFAULTS, *files]) | {"run": ["demmo"]}
    with pytest.raises(InputError) as error:
        plan.settle(config, default(), ROOT, files, given={"run": "demmo"})
    first, second = str(error.value).splitlines()[1:]
    assert first.startswith('  --config: run: no dataset "demmo"') and "mine.yaml:2: laws/seed: -1 is given" in second


def test_results_are_a_folder(tmp_path: Path) -> None:
    plan.check_results(tmp_path / "results")
    (tmp_path / "results").symlink_to(tmp_path / "disk")
    with pytest.raises(InputError, match=r"results is a link to .*disk, which is not there: it must be a folder"):
        plan.check_results(tmp_path / "results")
    (tmp_path / "disk").mkdir()
    plan.check_results(tmp_path / "results")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file is a file: it must be a folder"):
        plan.check_results(tmp_path / "file")


def paths_of(value: object, path: tuple = ()) -> list[tuple]:
    """All keys and list entries in a config, as paths."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [one for key, below in inner for one in paths_of(below, (*path, key))]


def test_a_method_that_is_no_block_is_one_fault() -> None:
    (fault,) = said(whole(lambda c: c["doge"].update(training="paper")))
    assert fault.startswith("doge/training: ")


@pytest.mark.parametrize("part", range(8))
def test_whatever_stands_in_a_place_is_taken_or_refused_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.chdir(tmp_path)
    config = observed(tmp_path)
    config["datasets"] = {name: config["datasets"][name] for name in ("demo", "mine")}
    draw = random.Random(part)
    places = paths_of(config)
    for path in draw.sample(places, 40):
        changed = copy.deepcopy(config)
        holder = functools.reduce(lambda found, key: found[key], path[:-1], changed)
        odd = draw.choice([None, [], {}, [None], [[1]], {"a": None}, "x", "", -1, 0.5, True, [True], {1: 2}, "1e3"])
        if draw.random() < 0.1:
            del holder[path[-1]]
        else:
            holder[path[-1]] = odd
        for line in said(changed, wanted=["demo", "mine"]):
            assert re.search(r"\w[^:]*: \S.*\.$", line) and "Traceback" not in line, (path, odd, line)
        if not said(changed, wanted=["demo", "mine"]):
            complete(changed)


def test_small_runs_have_the_share_of_a_domain_that_they_read_of_the_large_run() -> None:
    def matched(config: dict) -> None:
        demo(config)["simulate_epochs"] = True
        demo(config)["training"]["larger"]["steps"] = 3200

    config = whole(matched)
    assert said(config) == []
    complete(config)
    block = demo(config)
    assert block["training"]["tiny"]["pool_share"] == 400 / 3200
    assert block["training"]["larger"]["pool_share"] == 1
    assert (block["training"]["tiny"] | block["swarm"]["training"])["pool_share"] == 50 / 3200
    assert block["reweighting"]["doremi"]["training"]["pool_share"] == 400 / 3200
    plain = whole()
    complete(plain)
    assert "pool_share" not in demo(plain)["training"]["tiny"]


def test_the_defaults_say_the_same_to_both_readers() -> None:
    found, expected = plan.shipped(DEFAULTS), yaml.safe_load(DEFAULTS.read_text(encoding="utf-8"))
    assert found == expected and json.dumps(found) == json.dumps(expected)  # in kind and order, too


@pytest.mark.parametrize("odd", [None, 3, [], "x", {"share": 1}])
def test_a_wrong_value_deep_in_lists_is_one_fault_and_takes_no_others_along(odd: object) -> None:
    """What is refused is taken out before defaults are filled in: that must end, and blame nothing
    else.
    """
    stages = [{"share": 0.5, "mixture": "ce"}, {"share": 0.5, "mixture": odd}]
    lines = said(whole(lambda c: demo(c).update(stages={"late": stages})))
    assert len(lines) == 1 and lines[0].startswith("datasets/demo/stages/late/mixture: "), lines
