"""The script that asks, on a model that was taught to say a word again: right where it must be,
wrong where it must be. It is killed, runs in two processes and on other weights.
lm-evaluation-harness finds the same accuracy from the exported folder.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import forked
import numpy as np
import polars as pl
import pytest
import torch
import yaml
from polars.testing import assert_frame_equal
from refusals import refused
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import export_model
import score_answers
from bimix.corpus.encoders import reference_encoder
from bimix.digests import digest_file
from bimix.downstream import answers as library
from bimix.downstream.answers import plan_parts
from bimix.downstream.prompts import TEMPLATES, Gold, Prompt, Task, draw_shot
from bimix.downstream.questions import Question
from bimix.errors import InputError
from bimix.model.transformer import Shape, Transformer
from bimix.training import checkpoints
from bimix.training.checkpoints import kept_weights

SCRIPT = Path(score_answers.__file__)
END = "<|endoftext|>"
FIRST = ["bee", "cat", "dog", "elk", "fox", "gnu", "hen", "ibex"]
WORDS = [*FIRST, "jay", "kiwi", "lynx", "mole", "newt", "owl", "pike", "quail"]
LENGTH = 40


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with weights before and after a model has learned to repeat words; task files."""
    folder = tmp_path_factory.mktemp("taught")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    texts = [TEMPLATES["question"].write(asked(shot), asked(word)) + f" {word}\n" for shot in WORDS for word in WORDS]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=[END], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    encode = reference_encoder((folder / "tokenizer.json").read_text())
    rows = encode(texts)
    assert len({len(row) for row in rows}) == 1
    shape = Shape(layers=2, width=32, heads=2, vocabulary=tokenizer.get_vocab_size())
    torch.manual_seed(0)
    model = Transformer(shape)
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.2)  # from its own small weights it would take many more updates
    metadata = {"shape": json.dumps(vars(shape))}
    early = kept_weights(folder / "run/state/abc", 10)
    early.parent.mkdir(parents=True)
    save_file(model.state_dict(), early, metadata=metadata)
    rows, draw = torch.from_numpy(np.stack(rows).astype(np.int64)), np.random.default_rng(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(200):
        optimizer.zero_grad()
        model(rows[draw.integers(0, len(rows), 64)]).backward()
        optimizer.step()
    save_file(model.state_dict(), folder / "run/model.safetensors", metadata=metadata)
    describe_run(folder / "run")
    right = [{"id": word, "question": word, "answers": [word, f"{word}s"]} for word in WORDS]
    wrong = [item | {"answers": ["zebra", item["question"] + " 1"]} for item in right]
    loud = [item | {"answers": [item["question"].upper() + "!"]} for item in right]
    for name, items in (("right", right), ("wrong", wrong), ("loud", loud), ("mixed", right[::2] + wrong[1::2])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    return folder


def describe_run(run: Path) -> None:
    """Write run.json with the digests of all weights."""
    files = {name: digest_file(path) for name, path in weights_of(run).items()}
    (run / "run.json").write_text(json.dumps({"recipe": {"steps": 20}, "state": "abc", "files": files}))


def weights_of(run: Path) -> dict[str, Path]:
    early = kept_weights(run / "state/abc", 10)
    return {"model.safetensors": run / "model.safetensors", f"weights/{early.name}": early}


def asked(word: str) -> Question:
    return Question(word, word, word, (word,))


def tasks(folder: Path, *names: str) -> str:
    shots = str(folder / "right.jsonl") if (folder / "right.jsonl").exists() else None
    files = {name: {"kind": "question", "items": str(folder / f"{name}.jsonl"), "shots": shots} for name in names}
    return json.dumps(files)


def flags(taught: Path, out: Path, processes: int = 1, **changes: object) -> list[str]:
    settings = {
        "tasks": tasks(taught, "right", "wrong", "loud"),
        "run": taught / "run/run.json",
        "weights": taught / "run/model.safetensors",
        "state": taught / "run/state",
        "steps": "10 20",
        "tokenizer": taught / "tokenizer.json",
        "end-of-text": END,
        "sequence-length": LENGTH,
        "new-tokens": 8,
        "cache-tokens": 200,
        "seed": 0,
        "rejects": 0,
        "lock-seconds": 1,
        "precision": "no",
        "processes": processes,
        "parts": out / "state",
        "out": out / "answers.parquet",
        "report": out / "report.json",
    } | {name.replace("_", "-"): value for name, value in changes.items()}
    named = [
        [f"--{name}", *(str(value).split() if name == "steps" else [str(value)])] for name, value in settings.items()
    ]
    return ["--cpu", *(part for pair in named for part in pair)]


def accuracy(path: Path, metric: str) -> dict[tuple[str, int], float]:
    table = pl.read_parquet(path).group_by("task", "step").agg(pl.col(metric).mean())
    return {(task, step): share for task, step, share in table.iter_rows()}


@pytest.fixture(scope="module")
def answered(taught: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("answered")
    score_answers.main(flags(taught, out))
    return out


def test_a_model_that_was_taught_is_right_and_no_other(answered: Path) -> None:
    exact, normalised = (accuracy(answered / "answers.parquet", metric) for metric in ("exact", "normalised"))
    assert exact["right", 20] == normalised["right", 20] == 1
    assert exact["loud", 20] == 0 and normalised["loud", 20] == 1
    assert exact["wrong", 20] == normalised["wrong", 20] == 0
    assert normalised["right", 10] < 0.3
    table = pl.read_parquet(answered / "answers.parquet")
    assert table.height == 3 * 2 * len(WORDS)
    assert table.filter(pl.col("task") == "right")["item"].to_list() == WORDS * 2
    assert table.group_by("task", "item").agg(pl.col("prompt_hash").n_unique())["prompt_hash"].max() == 1
    report = json.loads((answered / "report.json").read_text())
    assert report["tasks"]["right"]["items"] == len(WORDS) and list(report["weights"]) == ["10", "20"]


def test_batches_and_order_of_the_file_change_no_answer(taught: Path, answered: Path, tmp_path: Path) -> None:
    # a CPU records no graph, whatever the model's config asks of its GPUs
    score_answers.main(flags(taught, tmp_path, cache_tokens=LENGTH, graphs="yes"))
    found, expected = (pl.read_parquet(folder / "answers.parquet") for folder in (tmp_path, answered))
    assert_frame_equal(found.drop("gold_bits"), expected.drop("gold_bits"))
    np.testing.assert_allclose(found["gold_bits"], expected["gold_bits"], atol=1e-3)  # fp32 by batches of other sizes
    expected = expected.filter(pl.col("task") == "right").sort("step", "item")
    lines = (taught / "right.jsonl").read_text().splitlines()
    (tmp_path / "turned.jsonl").write_text("\n".join(reversed(lines)) + "\n")
    files = {"kind": "question", "items": str(tmp_path / "turned.jsonl"), "shots": str(taught / "right.jsonl")}
    score_answers.main(flags(taught, tmp_path, tasks=json.dumps({"right": files})))
    found = pl.read_parquet(tmp_path / "answers.parquet").sort("step", "item")
    assert_frame_equal(found, expected, check_exact=False, abs_tol=1e-3)


def execute(arguments: list[str], processes: int = 1) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable]
    if processes > 1:
        launcher += [shutil.which("accelerate"), "launch", "--multi_gpu", "--num_machines", "1"]
        flags = {"num_processes": processes, "mixed_precision": "no", "dynamo_backend": "no", "main_process_port": 0}
        launcher += [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    return forked.run([*launcher, str(SCRIPT), *arguments], env=forked.jobs(OMP_NUM_THREADS="1"))


@pytest.mark.slow
def test_two_processes_write_the_bytes_of_one(taught: Path, answered: Path, tmp_path: Path) -> None:
    done = execute(flags(taught, tmp_path, processes=2), processes=2)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "answers.parquet").read_bytes() == (answered / "answers.parquet").read_bytes()
    done = execute(flags(taught, tmp_path, processes=2))
    assert "2 processes were requested but 1 started" in done.stderr


@pytest.mark.slow
def test_a_killed_call_goes_on_with_the_tasks_that_are_left(taught: Path, answered: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), *flags(taught, tmp_path, cache_tokens=LENGTH)]
    process = forked.Process(command, env=os.environ | {"OMP_NUM_THREADS": "1"})
    while "step 10, right" not in (line := process.stderr.readline()):
        assert line
    process.send_signal(signal.SIGKILL)
    process.wait()
    parts = {path: path.stat().st_mtime_ns for path in (tmp_path / "state").glob("*.parquet")}
    assert 0 < len(parts) < 6 and not (tmp_path / "answers.parquet").exists()
    done = execute(flags(taught, tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(" right, ") == 6 - len(parts)
    assert all(path.stat().st_mtime_ns == written for path, written in parts.items())
    found, expected = (pl.read_parquet(folder / "answers.parquet") for folder in (tmp_path, answered))
    assert_frame_equal(found, expected, check_exact=False, abs_tol=1e-3)  # the first call had batches of one


def test_what_changed_is_answered_again_and_nothing_else(taught: Path, answered: Path, tmp_path, capsys) -> None:
    shutil.copytree(answered, tmp_path / "again")
    capsys.readouterr()
    (tmp_path / "again/state/right-000000010-0.parquet").touch()  # of settings that are no longer asked
    score_answers.main(flags(taught, tmp_path / "again"))
    assert " right, " not in capsys.readouterr().err
    shutil.copytree(taught / "run", tmp_path / "run")
    weights = load_file(tmp_path / "run/model.safetensors")
    weights["final_norm.bias"] += 0.01
    shape = checkpoints.read_weights(tmp_path / "run/model.safetensors")[1]
    save_file(weights, tmp_path / "run/model.safetensors", metadata={"shape": json.dumps(vars(shape))})
    describe_run(tmp_path / "run")
    changed = {"weights": tmp_path / "run/model.safetensors", "run": tmp_path / "run/run.json"}
    score_answers.main(flags(taught, tmp_path / "again", **changed))
    said = capsys.readouterr().err
    assert said.count("step 20") == 3 and "step 10" not in said
    assert len(list((tmp_path / "again/state").glob("*.parquet"))) == 6


def test_the_text_of_every_module_that_answers_decides_what_is_done() -> None:
    deciding = {module.__name__ for module in library.DECIDING}
    reached, unread = set(), {library.__name__}
    while unread:
        name = unread.pop()
        reached.add(name)
        source = Path(sys.modules[name].__file__).read_text(encoding="utf-8")
        found = re.findall(r"^from (bimix\.(?:model|downstream)\.\w+) import", source, flags=re.MULTILINE)
        unread |= set(found) - reached
    # the losses of training, which no answer has
    assert deciding == reached - {"bimix.model.cross_entropy"}


def task(answer: str) -> Task:
    gold = Gold(answer, len(answer) + 1, np.array([1]))
    question = Question("one", "file, line 1", "Is it?", (answer,))
    return Task("agree", [Prompt(question, np.array([5, 6]), 0, "digest", (gold,))], {})


def test_a_part_has_another_name_where_anything_differs_that_decides(tmp_path: Path, monkeypatch) -> None:
    tasks = [task("yes")]
    plans = [
        plan_parts(tasks, {10: "a"}, ["fp32"], tmp_path),
        plan_parts(tasks, {10: "b"}, ["fp32"], tmp_path),
        plan_parts(tasks, {10: "a"}, ["bf16"], tmp_path),
        plan_parts([task("perhaps")], {10: "a"}, ["fp32"], tmp_path),
    ]
    assert len({plan[10]["agree"] for plan in plans}) == len(plans)
    assert plan_parts(tasks, {10: "a"}, ["fp32"], tmp_path) == plans[0]
    monkeypatch.setattr(library, "DECIDING", library.DECIDING[1:])  # as if the text of a module were another
    assert plan_parts(tasks, {10: "a"}, ["fp32"], tmp_path) != plans[0]


def test_a_flipped_bit_in_weights_is_a_sentence(taught: Path, tmp_path: Path) -> None:
    for name in ("model.safetensors", "weights/step-000000010.safetensors"):
        shutil.copytree(taught / "run", tmp_path / "run", dirs_exist_ok=True)
        path = weights_of(tmp_path / "run")[name]
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        places = {"weights": "model.safetensors", "run": "run.json", "state": "state"}
        changed = {flag: tmp_path / "run" / place for flag, place in places.items()}
        with pytest.raises(InputError, match=rf"{path.name} is not as it was written"):
            score_answers.main(flags(taught, tmp_path / path.stem, **changed))


def test_what_cannot_be_asked_is_a_sentence_and_leaves_nothing(taught: Path, tmp_path: Path) -> None:
    good = (taught / "right.jsonl").read_text()
    long = json.dumps({"question": "word " * 40, "answers": ["x"]}) + "\n"
    files = {"empty": "", "long": good + long, "bad": good + '{"question": "who?", "answers": []}\n'}
    files["other"] = '{"text": "a b"}\n'
    for name, text in files.items():
        (tmp_path / f"{name}.jsonl").write_text(text)
    (tmp_path / "cut.jsonl.gz").write_bytes(b"\x1f\x8b\x08\0\0\0\0\0")
    cut = json.dumps({"t": {"kind": "question", "items": str(tmp_path / "cut.jsonl.gz"), "shots": None}})
    for changes, sentence in [
        ({"tasks": tasks(tmp_path, "bad")}, r"bad\.jsonl:17: the question has no answer\. Mend"),
        ({"tasks": tasks(tmp_path, "long")}, r"long\.jsonl:17: the question alone has \d+ tokens, 32 fit"),
        ({"tasks": tasks(tmp_path, "other")}, r"other\.jsonl:1: the record has no question"),
        ({"tasks": tasks(tmp_path, "empty")}, "'empty' has 0 items"),
        ({"tasks": tasks(tmp_path, "none")}, "There is no task file"),
        ({"tasks": cut}, "breaks off or is damaged"),
        ({"steps": "10 15 20"}, r"has no weights of step 15, only of 10, 20: the run ended before"),
        ({"new_tokens": 40}, "40 new tokens leave no room"),
        ({"end_of_text": "</s>"}, "has no token '</s>'"),
    ]:
        refused(sentence, score_answers.main, flags(taught, tmp_path / "out", **changes))
    assert not list((tmp_path / "out").glob("*.*"))
    score_answers.main(flags(taught, tmp_path / "out", tasks=tasks(tmp_path, "bad", "long"), rejects=0.1))
    report = json.loads((tmp_path / "out/report.json").read_text())["tasks"]
    assert report["long"]["rejected"] == {"too long": 1} and report["bad"]["rejected"] == {"no answer": 1}
    assert "long.jsonl:17" in report["long"]["first_rejected"]
    assert report["long"]["records"] == report["long"]["items"] + 1 == len(WORDS) + 1
    with checkpoints.lock(tmp_path / "out/state", 0), pytest.raises(InputError, match="Another process is answering"):
        score_answers.main(flags(taught, tmp_path / "out"))


def contexts(folder: Path, name: str) -> list[tuple[str, list[str]]]:
    """The prompt of each item of a task file as text, and its accepted answers."""
    shots = [asked(word) for word in WORDS]
    items = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
    questions = [asked(item["question"]) for item in items]
    prompts = [TEMPLATES["question"].write(draw_shot(one, shots, 0), one) for one in questions]
    return list(zip(prompts, (item["answers"] for item in items), strict=True))


def export(taught: Path, out: Path) -> Path:
    """The taught model as a folder for transformers."""
    places = [f"--weights={taught / 'run/model.safetensors'}", f"--tokenizer={taught / 'tokenizer.json'}"]
    export_model.main([*places, f"--end-of-text={END}", f"--sequence-length={LENGTH}", f"--out={out}"])
    return out


HARNESS = """
import json, sys
from lm_eval import simple_evaluate
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import bits_per_byte
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
folder, tasks = sys.argv[1:]
model = HFLM(pretrained=folder, device="cpu", dtype="float32", batch_size=4)
manager = TaskManager(include_path=tasks, include_defaults=False)  # not the thousands of its own
done = simple_evaluate(model, tasks=["right", "mixed"], task_manager=manager, bootstrap_iters=0)
pairs = json.load(open(tasks + "/pairs.json"))
requests = [Instance("loglikelihood", {}, tuple(pair), number) for number, pair in enumerate(pairs)]
sums = [found for found, _ in model.loglikelihood(requests)]
bits = [bits_per_byte([(one, len(pair[1].encode()))]) for one, pair in zip(sums, pairs)]
print(json.dumps(done["results"] | {"bits": bits}))
"""


@pytest.mark.slow
def test_lm_evaluation_harness_finds_the_same_accuracy_and_bits(taught: Path, tmp_path: Path) -> None:
    pytest.importorskip("lm_eval")
    export(taught, tmp_path / "export")
    score_answers.main(flags(taught, tmp_path, tasks=tasks(taught, "right", "mixed"), steps="20"))
    # Its own draw of shots would be another one: ours stands in the items, its template is written
    # in its own words.
    drawn = dict(zip(WORDS, [*WORDS[1:], WORDS[0]], strict=True))
    for name in ("right", "mixed"):
        items = [json.loads(line) for line in (taught / f"{name}.jsonl").read_text().splitlines()]
        lines = [json.dumps(item | {"shot": drawn[item["question"]]}) for item in items]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        task = {
            "task": name,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(tmp_path / f"{name}.jsonl")}},
            "test_split": "test",
            "output_type": "generate_until",
            "doc_to_text": "Question: {{shot}}\nAnswer: {{shot}}\n\nQuestion: {{question}}\nAnswer:",
            "doc_to_target": "{{answers}}",
            "generation_kwargs": {"until": ["\n"], "max_gen_toks": 8, "do_sample": False},
            "filter_list": [
                {"name": "strip", "filter": [{"function": "remove_whitespace"}, {"function": "take_first"}]}
            ],
            "metric_list": [
                {"metric": "exact_match", "ignore_case": True, "ignore_punctuation": True, "higher_is_better": True}
            ],
        }
        (tmp_path / "tasks").mkdir(exist_ok=True)
        (tmp_path / f"tasks/{name}.yaml").write_text(yaml.safe_dump(task))
    table = pl.read_parquet(tmp_path / "answers.parquet").filter(task="mixed")
    prompts = [prompt for prompt, _ in contexts(taught, "mixed")]
    pairs = [(prompt, f" {gold}") for prompt, gold in zip(prompts, table["gold"], strict=True)]
    (tmp_path / "tasks/pairs.json").write_text(json.dumps(pairs))
    environment = os.environ | {"HF_HOME": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    (tmp_path / "harness.py").write_text(HARNESS)
    done = forked.run(
        [sys.executable, str(tmp_path / "harness.py"), str(tmp_path / "export"), str(tmp_path / "tasks")],
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    own = accuracy(tmp_path / "answers.parquet", "normalised")
    for name, expected in (("right", 1.0), ("mixed", 0.5)):
        assert own[name, 20] == expected == found[name]["exact_match,strip"]
    np.testing.assert_allclose(table["gold_bits"] / table["gold_bytes"], found["bits"], rtol=1e-4, atol=1e-3)
