"""A training end to end on a made-up corpus: killed, resumed, its model asked questions.

-> seconds of each part, tokens/s of the training, loss before and after, share of right answers

    python tests/benchmarks/bench_chain.py --folder out --cpu
    python tests/benchmarks/bench_chain.py --folder out

The text is questions whose answer is the word that was asked for, in three domains of unlike sets
of words. The script pretrain_model.py is killed by SIGKILL after its second evaluation, on a GPU
compiled and in bf16, and begun again. Then score_answers.py asks its last model. It ends with an
error where the training begins anew, where the loss does not fall to half of the first one, or
where a question has no answer. So short a training leaves most answers wrong; their share is told,
not judged.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "workflow" / "scripts"))

import numpy as np
import polars as pl
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from bimix.corpus.encoders import reference_encoder
from bimix.digests import digest_file
from bimix.downstream.prompts import TEMPLATES
from bimix.downstream.questions import Question

SCRIPTS = Path(__file__).parents[2] / "workflow" / "scripts"
END = "<|endoftext|>"
DOMAINS = {"birds": "crane heron robin eagle", "fish": "bream perch trout shark", "trees": "aspen birch cedar maple"}
ROW_TOKENS = 64
NEW_TOKENS = 8
RECIPE = {
    "schedule": "exponential",
    "warmup_share": 0.0,
    "beta1": 0.9,
    "beta2": 0.99,
    "epsilon": 1e-8,
    "weight_decay": 0.01,
    "max_gradient_norm": 1.0,
    "seed": 1,
    "learning_rate": 3e-3,
    "final_learning_rate": 3e-4,
    "validation_rows": 8,
}
GPU = {"shape": {"layers": 4, "width": 256, "heads": 4}, "steps": 600, "batch_rows": 64, "precision": "bf16"}
CPU = {"shape": {"layers": 2, "width": 64, "heads": 2}, "steps": 160, "batch_rows": 16, "precision": "no"}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="of the corpus and the run; emptied first")
    parser.add_argument("--cpu", action="store_true", help="train on the CPU even where there is a GPU")
    parser.add_argument("--json", type=Path, help="file of the numbers")
    options = parser.parse_args(argv)
    folder = options.folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    make_corpus(folder)
    size = CPU if options.cpu else GPU
    command = training(folder, size, options.cpu)

    begun = time.monotonic()
    kill_after(command, "loss", 2)
    killed = time.monotonic()
    told = finish(command)
    resumed = time.monotonic()
    goes_on = re.search(r"update ([1-9]\d*) of", told)
    if not goes_on:
        sys.exit(f"the second attempt does not say that it goes on:\n{told}")
    finish(scoring(folder, size["steps"], options.cpu))
    asked = time.monotonic()

    losses = pl.read_parquet(folder / "losses.parquet").group_by("step").agg(pl.col("loss").mean()).sort("step")
    answers = pl.read_parquet(folder / "answers.parquet")
    numbers = {
        "resumed at update": int(goes_on[1]),
        "first loss": losses["loss"][0],
        "last loss": losses["loss"][-1],
        "right answers": answers["normalised"].cast(pl.Float64).mean(),
        "s until killed": killed - begun,
        "s resumed": resumed - killed,
        "s of asking": asked - resumed,
    }
    for name, value in numbers.items():
        print(f"{name:15} {value:8.3f}")
    if not numbers["last loss"] < numbers["first loss"] / 2:
        sys.exit("the model has not learned")
    if answers.height != sum(len(some.split()) for some in DOMAINS.values()):
        sys.exit(f"{answers.height} answers are not one for each question")
    if options.json:
        options.json.write_text(json.dumps(numbers), encoding="utf-8")


def make_corpus(folder: Path) -> None:
    """Token indices of both splits, tokenizer.json, mixture.json and the questions."""
    write, draw = TEMPLATES["question"].write, np.random.default_rng(0)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    texts, items = {}, []
    for domain, words in DOMAINS.items():
        asked = {word: Question(word, word, word, (word,)) for word in words.split()}
        texts[domain] = [
            write(asked[shot], asked[word]) + f" {word}\n" for shot in asked for word in asked if shot != word
        ]
        items += [{"id": word, "question": word, "answers": [word]} for word in asked]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=[END], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([text for some in texts.values() for text in some], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    encode = reference_encoder((folder / "tokenizer.json").read_text(encoding="utf-8"))
    end = tokenizer.token_to_id(END)
    for split, rows in (("train", 400), ("validation", 16)):
        lines = []
        for domain, some in texts.items():
            encoded = [[end, *ids] for ids in encode(some)]
            needed = rows * ROW_TOKENS
            order = draw.integers(0, len(encoded), needed // min(map(len, encoded)) + 1)
            ids = np.concatenate([encoded[number] for number in order])[:needed].astype(np.uint16)
            path = folder / f"{split}.{domain}.bin"
            ids.tofile(path)
            lines.append((domain, str(path), rows, needed, len(order), "uint16", digest_file(path)))
        columns = ["domain", "path", "rows", "tokens", "documents", "dtype", "digest"]
        pl.DataFrame(lines, schema=columns, orient="row").write_parquet(folder / f"{split}.parquet")
    (folder / "mixture.json").write_text(json.dumps(dict.fromkeys(DOMAINS, 1 / 3)))
    (folder / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))


def training(folder: Path, size: dict, cpu: bool) -> list[str]:
    """The command of the run."""
    steps = {name: size[name] for name in ("steps", "batch_rows", "precision")}
    recipe = RECIPE | steps | {"evaluate_every": size["steps"] // 8}
    flags = {
        "train": folder / "train.parquet",
        "validation": folder / "validation.parquet",
        "tokenizer": folder / "tokenizer.json",
        "mixture": folder / "mixture.json",
        "shape": json.dumps(size["shape"]),
        "recipe": json.dumps(recipe),
        "processes": 1,
        "micro-batch": "auto",
        "loss-chunk": "all",
        "lock-seconds": 30,
        "compile": "no" if cpu else "yes",
        "state": folder / "state",
        "losses": folder / "losses.parquet",
        "weights": folder / "model.safetensors",
        "report": folder / "run.json",
    }
    return words("pretrain_model.py", flags, cpu)


def scoring(folder: Path, step: int, cpu: bool) -> list[str]:
    """The command that asks the questions."""
    items = str(folder / "items.jsonl")
    flags = {
        "tasks": json.dumps({"again": {"kind": "question", "items": items, "shots": items}}),
        "run": folder / "run.json",
        "weights": folder / "model.safetensors",
        "state": folder / "state",
        "steps": step,
        "tokenizer": folder / "tokenizer.json",
        "end-of-text": END,
        "sequence-length": ROW_TOKENS,
        "new-tokens": NEW_TOKENS,
        "cache-tokens": 4096,
        "seed": 0,
        "rejects": 0,
        "lock-seconds": 30,
        "precision": "no",
        "processes": 1,
        "graphs": "no" if cpu else "yes",
        "parts": folder / "parts",
        "out": folder / "answers.parquet",
        "report": folder / "answers.json",
    }
    return words("score_answers.py", flags, cpu)


def words(script: str, flags: dict, cpu: bool) -> list[str]:
    given = [part for name, value in flags.items() for part in (f"--{name}", str(value))]
    return [sys.executable, str(SCRIPTS / script), *given, *(["--cpu"] if cpu else [])]


def kill_after(command: list[str], word: str, times: int) -> None:
    """Start a training and kill it at the `word` told so often. Errors: it ends before."""
    started = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=alone())
    told = []
    for line in started.stderr:
        told.append(line)
        if sum(word in line for line in told) == times:
            started.send_signal(signal.SIGKILL)
            started.communicate()
            return
    started.wait()
    sys.exit(f"the training ended before it was killed, status {started.returncode}:\n{''.join(told)}")


def finish(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=alone())
    print(done.stderr, end="", flush=True)
    if done.returncode:
        sys.exit(f"{Path(command[1]).name} ended with status {done.returncode}")
    return done.stderr


def alone() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}


if __name__ == "__main__":
    main()
