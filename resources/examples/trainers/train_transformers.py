"""A trainer of one's own: transformers' Trainer on the bytes of a few documents, drawn by a mixture.

    train_transformers.py --mixture MIXTURE --text FOLDER --steps N --every N --seed N
        --out FOLDER [--wait-at STEP]

It goes on from its last checkpoint, and saves one when it is sent SIGTERM. With --wait-at a first
attempt waits there to be sent it.
"""

import argparse
import json
import signal
import time
from pathlib import Path

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

ROW = 16
PATIENCE = 120


class Losses(TrainerCallback):
    """Writes the losses of each domain, one line for each."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_evaluate(self, arguments, state, control, metrics, **more):
        with self.path.open("a") as file:
            for name, loss in metrics.items():
                if name.startswith("eval_") and name.endswith("_loss"):
                    domain = name.removeprefix("eval_").removesuffix("_loss")
                    file.write(json.dumps({"step": state.global_step, "domain": domain, "loss": loss}) + "\n")


class SaveAndStop(TrainerCallback):
    """Saves and stops after the update in which SIGTERM came."""

    def __init__(self, folder: Path, wait_at: int) -> None:
        self.asked, self.folder, self.wait_at = [], folder, wait_at
        signal.signal(signal.SIGTERM, lambda number, frame: self.asked.append(number))

    def on_step_end(self, arguments, state, control, **more):
        if state.global_step == self.wait_at:
            (self.folder / "waiting").touch()
            until = time.monotonic() + PATIENCE
            while not self.asked and time.monotonic() < until:
                time.sleep(0.05)
        if self.asked:
            control.should_save = control.should_training_stop = True


def rows_of(path: Path) -> np.ndarray:
    """The text of a domain as rows of bytes."""
    text = "\n".join(json.loads(line)["text"] for line in path.read_text().splitlines()).encode()
    return np.frombuffer(text[: len(text) // ROW * ROW], dtype=np.uint8).reshape(-1, ROW).astype(np.int64)


def examples(rows: np.ndarray) -> list[dict]:
    return [{"input_ids": torch.from_numpy(row), "labels": torch.from_numpy(row)} for row in rows]


parser = argparse.ArgumentParser(description=__doc__)
for name, kind in {"mixture": Path, "text": Path, "steps": int, "every": int, "seed": int, "out": Path}.items():
    parser.add_argument(f"--{name}", type=kind, required=True)
parser.add_argument("--wait-at", type=int, default=0)
options = parser.parse_args()

shares = json.loads(options.mixture.read_text())
text = {domain: rows_of(options.text / f"{domain}.jsonl") for domain in shares}
draw = np.random.default_rng(options.seed)
drawn = draw.choice(list(shares), size=256, p=list(shares.values()))
train = np.stack([text[domain][draw.integers(8, len(text[domain]))] for domain in drawn])
last = get_last_checkpoint(str(options.out))
torch.manual_seed(options.seed)
trainer = Trainer(
    model=GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=ROW, n_embd=16, n_layer=1, n_head=2)),
    args=TrainingArguments(
        output_dir=str(options.out),
        max_steps=options.steps,
        per_device_train_batch_size=4,
        eval_strategy="steps",
        eval_steps=options.every,
        save_strategy="steps",
        save_steps=options.every,
        seed=options.seed,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
    ),
    train_dataset=examples(train),
    eval_dataset={domain: examples(rows[:8]) for domain, rows in text.items()},
    callbacks=[Losses(options.out / "losses.jsonl"), SaveAndStop(options.out, options.wait_at if last is None else 0)],
)
trainer.train(resume_from_checkpoint=last)
