"""What is kept of a task: one row for each question that was asked, and an
account of those that were not.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from bimix.corpus.encoders import Encode
from bimix.corpus.sources import Rejected
from bimix.downstream.golds import likeliest
from bimix.downstream.prompts import Prompt, build_prompt, draw_shot, judge, read_prediction
from bimix.downstream.questions import Faults, Question
from bimix.errors import InputError

ANSWERS = {
    "task": pl.String,
    "step": pl.Int64,
    "item": pl.String,
    "prompt_hash": pl.String,
    "prompt_tokens": pl.Int64,
    "cut_tokens": pl.Int64,
    "prediction": pl.String,
    "exact": pl.Boolean,
    "normalised": pl.Boolean,
    "gold": pl.String,  # of the accepted answers the one with the least bits per byte
    "gold_tokens": pl.Int64,
    "gold_bytes": pl.Int64,  # UTF-8, with the space before it
    "gold_bits": pl.Float64,  # sum of -log2 p of its tokens, after the prompt
}


@dataclass(frozen=True)
class Task:
    """The prompts of one task, and the account of its files."""

    name: str
    prompts: list[Prompt]
    account: dict


def build_task(
    name: str,
    kind: str,
    items: Sequence[Question],
    shots: Sequence[Question],
    seed: int,
    encode: Encode,
    room: int,
    faults: Faults,
) -> Task:
    """The prompts of `items` in at most `room` tokens each, their examples drawn from `shots`.

    `faults` has the records that were no question, and gets the questions that do not fit. Errors:
    more of them than are allowed, no question, no shot.
    """
    if not items or not shots:
        raise InputError(
            f"Task {name!r} has {len(items)} items and {len(shots)} shots; give files that hold questions."
        )
    prompts = []
    for item in items:
        try:
            prompts.append(build_prompt(kind, draw_shot(item, shots, seed), item, encode, room))
        except Rejected as rejection:
            faults.add(item.place, rejection)
    faults.check()
    if not prompts:
        raise InputError(f"Task {name!r}: none of its {len(items)} items can be asked; the first is {faults.first}.")
    lengths = [len(prompt.ids) for prompt in prompts]
    account = {
        "records": faults.records,
        "items": len(prompts),
        "rejected": dict(sorted(faults.reasons.items())),
        "first_rejected": faults.first or None,
        "cut_prompts": sum(prompt.cut > 0 for prompt in prompts),
        "mean_prompt_tokens": round(sum(lengths) / len(lengths), 1),
        "longest_prompt_tokens": max(lengths),
    }
    return Task(name, prompts, account)


def part_name(task: Task, step: int, decides: Sequence[object]) -> str:
    """Task, step and the hash of everything that decides what is written about them:
    the prompts and `decides`.
    """
    content = [list(decides)]
    for prompt in task.prompts:
        content.append([prompt.question.identity, prompt.question.answers, prompt.digest, prompt.ids.tolist()])
    digest = hashlib.blake2b(json.dumps(content).encode(), digest_size=8).hexdigest()
    return f"{task.name}-{step:09d}-{digest}"


def answer_table(
    task: Task,
    step: int,
    written: Sequence[list[int]],
    nats: Sequence[Sequence[float]],
    decode: Callable[[list[int]], str],
) -> pl.DataFrame:
    """One row for each prompt of a task at a step, in the order of its file; `written`
    are the ids of the answers, `nats` the negative log-likelihoods of the prompt's golds.
    """
    rows = []
    for prompt, ids, own in zip(task.prompts, written, nats, strict=True):
        prediction = read_prediction(decode(ids))
        verdict = judge(prediction, prompt.question.answers)
        place = (task.name, step, prompt.question.identity, prompt.digest)
        best = likeliest(prompt.golds, own)
        gold = (best.gold.text, len(best.gold.ids), best.gold.bytes, best.bits)
        rows.append((*place, len(prompt.ids), prompt.cut, prediction, *verdict, *gold))
    return pl.DataFrame(rows, schema=ANSWERS, orient="row")
