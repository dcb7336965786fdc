"""The script that asks by lm_eval: the former harness' answers on the real sets, the numbers of a
plain call of lm_eval, and what happens where it is killed or asked for what is not there.
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import forked
import pytest
import small_questions
import yaml
from refusals import refused
from small_questions import END, ITEMS, LENGTH, SETS, TASKS

from bimix.downstream.answers import find_weights, merge
from bimix.model.export import export_model

ROOT = Path(__file__).parents[2]
SCRIPT, OWN = ROOT / "workflow/scripts/answer_questions.py", ROOT / "resources/tasks"
REFERENCE = json.loads(Path(__file__).with_name("reference.json").read_text())
# of lm_eval's own, with local data in the place of those of the hub
COPIED = {"arc_easy": "arc/arc_easy.yaml", "lambada_openai": "lambada/lambada_openai.yaml"}
EVERY = [*TASKS, *(f"{name}_bits" for name in TASKS), *COPIED]


def flags(folder: Path, tasks: list[str] = EVERY, **changes: object) -> list[str]:
    settings: dict[str, object] = {
        "run": "run/run.json",
        "weights": "run/model.safetensors",
        "state": "run/state",
        "step": 20,
        "tokenizer": "tokenizer.json",
        "end-of-text": END,
        "sequence-length": LENGTH,
        "shots": "none",
        "limit": "none",
        "batch-size": 8,
        "backend": "hf",
        "lock-seconds": 1,
        "parts": folder / "parts",
        "out": folder / "out.json",
    } | {name.replace("_", "-"): value for name, value in changes.items()}
    named = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
    return ["--cpu", "--tasks", *tasks, "--task-files", str(OWN), "copied", *named]


def environment(folder: Path) -> dict[str, str]:
    return dict(os.environ) | {"HF_HOME": str(folder / "hub"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}


def execute(place: Path, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, cwd=place, env=environment(place), capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, the real sets with what the model says as an alias, and two tasks of lm_eval's own."""
    pytest.importorskip("lm_eval")
    if not SETS.is_dir():
        pytest.skip(f"{SETS} is not there, which has the real sets")
    folder = tmp_path_factory.mktemp("place")
    said = {task: {number: row["said"] for number, row in enumerate(rows)} for task, rows in REFERENCE.items()}
    small_questions.write_run(folder, small_questions.write_sets(folder, said))
    (folder / "copied").mkdir()
    choices = {"label": ["A", "B", "C"], "text": ["a cat", "the moon", "salt"]}
    rows = {
        "arc_easy": [
            {"question": f"What is {what}?", "choices": choices, "answerKey": key}
            for what, key in (("salty", "C"), ("far away", "B"), ("an animal", "A"))
        ],
        "lambada_openai": small_questions.read_set("lambada_test")[:4],
    }
    for name, path in COPIED.items():
        text = (Path(find_spec("lm_eval").origin).parent / "tasks" / path).read_text()
        task = {key: value for key, value in yaml.safe_load(text).items() if key not in ("dataset_name", "tag")}
        file = folder / f"data/{name}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows[name]))
        task |= {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(file)}}, "test_split": "test"}
        task |= {key: None for key in ("training_split", "validation_split", "fewshot_split") if key in task}
        (folder / f"copied/{name}.yaml").write_text(yaml.safe_dump(task))
    return folder


@pytest.fixture(scope="module")
def answered(place: Path) -> dict:
    done = execute(place, flags(place))
    assert done.returncode == 0, done.stderr
    return json.loads((place / "out.json").read_text())


@pytest.fixture(scope="module")
def plain(place: Path) -> Path:
    """What a plain call of lm_eval on the exported folder writes."""
    export_model(place / "run/model.safetensors", place / "tokenizer.json", END, LENGTH, place / "export")
    for name, folder in (("own", OWN), ("copied", place / "copied")):
        shutil.copytree(folder, place / "folders" / name)  # its command takes one folder, and follows no links
    code = f"""if True:
        import sys
        from lm_eval.__main__ import cli_evaluate
        sys.argv = {["lm_eval", "run", "--model", "hf", "--model_args", "pretrained=export", "--device", "cpu",
        "--batch_size", "8", "--include_path", "folders", "--output_path", "plain", "--log_samples", "--tasks",
        ",".join(EVERY)]}
        cli_evaluate()
    """  # fmt: skip
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=place, env=environment(place), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return next(path.parent for path in (place / "plain").glob("**/results_*.json"))


@pytest.mark.slow
def test_the_numbers_are_those_of_a_plain_call(answered: dict, plain: Path) -> None:
    written = json.loads(next(plain.glob("results_*.json")).read_text())
    assert list(answered["results"]) == EVERY and set(written["results"]) == set(EVERY)
    for task, values in written["results"].items():
        # in a call with several tasks a batch holds items of more than one: sums in fp32 differ in the last digits
        for key, value in values.items():
            own = answered["results"][task][key]
            assert own == (value if isinstance(value, str) else pytest.approx(value, rel=1e-5)), (task, key)
        assert answered["n-samples"][task] == written["n-samples"][task]
    assert answered["n-shot"] == written["n-shot"] and answered["n-shot"]["triviaqa"] == 1
    assert answered["results"]["webquestions"]["exact_match,none"] == 0.5
    assert answered["results"]["triviaqa"]["normalised_match,none"] == 0.75
    assert answered["n-samples"]["arc_easy"] == {"original": 3, "effective": 3}


@pytest.mark.slow
def test_items_prompts_and_answers_are_those_of_the_former_harness(plain: Path) -> None:
    """reference.json is what it gave for the examples that lm_eval draws; its own draw was another."""
    for task, expected in REFERENCE.items():
        (path,) = plain.glob(f"samples_{task}_2*.jsonl")
        samples = sorted(map(json.loads, path.read_text().splitlines()), key=lambda one: one["doc_id"])
        assert len(samples) == len(expected) == ITEMS
        (path,) = plain.glob(f"samples_{task}_bits_2*.jsonl")
        scored = sorted(map(json.loads, path.read_text().splitlines()), key=lambda one: one["doc_id"])
        for sample, bits, row in zip(samples, scored, expected, strict=True):
            prompt = sample["arguments"]["gen_args_0"]["arg_0"]
            assert bits["arguments"]["gen_args_0"]["arg_0"] == prompt
            assert hashlib.blake2b(prompt.encode(), digest_size=16).hexdigest() == row["prompt"]
            assert sample["resps"][0][0].split("\n")[0].strip() == row["said"]
            assert (sample["exact_match"], sample["normalised_match"]) == (row["exact"], row["normalised"])
            assert bits["bits_per_byte"] == pytest.approx(row["bits_per_byte"], abs=1e-3)


@pytest.mark.slow
def test_a_killed_call_goes_on_with_the_tasks_that_are_left(place: Path, answered: dict, tmp_path: Path) -> None:
    tasks = [*TASKS[:2], "webquestions_bits"]
    process = forked.Process([sys.executable, str(SCRIPT), *flags(tmp_path, tasks)], cwd=place, env=environment(place))
    while not (line := process.stderr.readline()).startswith("webquestions: "):
        assert line
    process.send_signal(signal.SIGKILL)
    process.wait()
    parts = {path: path.stat().st_mtime_ns for path in (tmp_path / "parts").glob("*.json")}
    assert 0 < len(parts) < 3 and not (tmp_path / "out.json").exists()
    done = execute(place, flags(tmp_path, tasks))
    assert done.returncode == 0, done.stderr
    assert all(path.stat().st_mtime_ns == written for path, written in parts.items())
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["results"] == {task: answered["results"][task] for task in tasks}
    assert not (tmp_path / "parts/model").exists()
    # what changed is asked again, and what it replaces goes; what did not change stays
    (place / "copied/webquestions_bits.yaml").write_text(
        yaml.safe_dump({"task": "webquestions_bits", "include": [str(OWN / "_bits"), str(OWN / "_webquestions")]})
    )
    done = execute(place, flags(tmp_path, tasks))
    (place / "copied/webquestions_bits.yaml").unlink()
    assert done.returncode == 0, done.stderr
    asked = [line.partition(":")[0] for line in done.stderr.splitlines() if line.partition(":")[0] in tasks]
    assert asked == ["webquestions_bits"] and len(list((tmp_path / "parts").glob("*.json"))) == 3


@pytest.mark.slow
def test_tasks_that_are_not_there_are_named_with_the_nearest(place: Path, tmp_path: Path) -> None:
    done = execute(place, flags(tmp_path, ["webquestion", "hellaswagg", "triviaqa"]))
    assert done.returncode == 1 and "'webquestion' (nearest: webquestions" in done.stderr
    assert "'hellaswagg' (nearest: hellaswag" in done.stderr and "Traceback" not in done.stderr
    # one whose data are far away, under a name that is no task of lm_eval's: its 14,000 take 18 CPU seconds to read
    text = (Path(find_spec("lm_eval").origin).parent / "tasks" / COPIED["arc_easy"]).read_text()
    (place / "copied/arc_far.yaml").write_text(text.replace("task: arc_easy", "task: arc_far"))
    done = execute(place, flags(tmp_path, ["arc_far"]))
    (place / "copied/arc_far.yaml").unlink()
    assert done.returncode == 1 and "cannot read the data of 'arc_far'" in done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "out.json").exists()


def test_weights_that_were_not_kept_are_refused(tmp_path: Path) -> None:
    kept = tmp_path / "state/abc/weights/step-000000010.safetensors"
    kept.parent.mkdir(parents=True)
    report = {"recipe": {"steps": 20}, "state": "abc", "files": {"model.safetensors": "x", f"weights/{kept.name}": "y"}}
    for path in (kept, tmp_path / "model.safetensors"):
        path.touch()
    places = report, tmp_path / "model.safetensors", tmp_path / "state"
    assert find_weights(*places, 10) == (kept, "y")
    assert find_weights(*places, 20) == (tmp_path / "model.safetensors", "x")
    refused(r"no weights of step 15, only of 10, 20", find_weights, *places, 15)


def test_results_of_tasks_are_merged_as_those_of_one_call() -> None:
    parts = [
        {"results": {name: {"acc,none": 0.5}}, "n-shot": {name: 1}, "date": number} for number, name in enumerate("ab")
    ]
    assert merge(parts) == {
        "results": {"a": {"acc,none": 0.5}, "b": {"acc,none": 0.5}},
        "n-shot": {"a": 1, "b": 1},
        "date": 0,
    }
