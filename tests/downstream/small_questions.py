"""The first questions of the real sets, as the task files name them, and a small model with many answers."""

import io
import json
from pathlib import Path

import torch
from backports import zstd
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from bimix.digests import digest_file
from bimix.model.transformer import Shape, Transformer

SETS = Path(__file__).parents[3] / "shared/data/qa"
END = "<|endoftext|>"
ITEMS, LENGTH = 20, 640
TASKS = ("webquestions", "triviaqa", "lambada_last_word")


def read_set(name: str) -> list[dict]:
    with (SETS / f"{name}.jsonl.zst").open("rb") as raw:
        return [json.loads(line) for line in io.TextIOWrapper(zstd.ZstdFile(raw), encoding="utf-8")]


def with_alias(number: int, answers: list[str], said: dict[int, str]) -> list[str]:
    """Accepted answers with what the model says as the last one: to half of the items as it is, to a quarter in
    capitals.
    """
    if number >= 0.75 * ITEMS or not said:
        return answers
    return [*answers, said[number] if number < 0.5 * ITEMS else f"{said[number].upper()}!"]


def write_sets(folder: Path, said: dict[str, dict[int, str]]) -> list[str]:
    """Write the files that resources/tasks names below `folder`, and return all of their texts; `said` are the
    model's answers by task and item.
    """
    (folder / "data/qa").mkdir(parents=True, exist_ok=True)
    trivia, web = read_set("triviaqa_dev_sample"), read_set("webquestions_test")
    passages = sorted(read_set("lambada_test"), key=lambda one: len(one["text"]))[:ITEMS]
    for rows, task in ((web, "webquestions"), (trivia, "triviaqa")):
        for number, row in enumerate(rows[:ITEMS]):
            row["answers"] = with_alias(number, row["answers"], said.get(task, {}))
    official = [
        {"Question": one["question"], "Answer": {"Value": one["answers"][0], "Aliases": one["answers"]}}
        for one in trivia
    ]
    for name, rows in (("dev", official[:ITEMS]), ("train", official[ITEMS : 2 * ITEMS])):
        (folder / f"data/qa/triviaqa_{name}.json").write_text(json.dumps({"Data": rows}))
    sets = {"webquestions_test": web[:ITEMS], "webquestions_train": web[ITEMS : 2 * ITEMS], "lambada_test": passages}
    for name, rows in sets.items():
        (folder / f"data/qa/{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [one["question"] for one in (*web[:200], *trivia[:200])] + [one["text"] for one in passages]


def write_run(folder: Path, texts: list[str]) -> None:
    """run/model.safetensors with run.json, of random weights under which attention is sharp, and tokenizer.json."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=800, special_tokens=[END], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    torch.manual_seed(0)
    model = Transformer(Shape(layers=2, width=32, heads=2, vocabulary=tokenizer.get_vocab_size()))
    for name, weight in model.blocks.named_parameters():
        if not name.endswith(("bias", "norm.weight")):
            torch.nn.init.normal_(weight, std=0.3)
    (folder / "run").mkdir()
    save_file(model.state_dict(), folder / "run/model.safetensors", metadata={"shape": json.dumps(vars(model.shape))})
    digest = digest_file(folder / "run/model.safetensors")
    report = {"recipe": {"steps": 20}, "state": "abc", "files": {"model.safetensors": digest}}
    (folder / "run/run.json").write_text(json.dumps(report))
