"""One-shot prompts, the accepted answers that are scored after them, and how answers are judged.

The protocol is that of DoReMi, which the paper adopts (Sec. 4).

An answer is scored with the space before it, since its first token begins with that space. Bits and
bytes are those of this string, as in the `bits_per_byte` of lm-evaluation-harness
(loglikelihood_rolling) and of OLMES. The harness' `acc_bytes` counts a choice without the space.
"""

import hashlib
import math
import string
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bimix.corpus.encoders import Encode
from bimix.corpus.sources import Rejected, Rejects
from bimix.downstream.questions import Question
from bimix.errors import InputError

WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class Template:
    """The text of a prompt: `head`, a solved example, `gap`, and the open question.

    `needs_start`: whether the beginning must not be cut off, as of a question; a passage can still
    be continued.
    """

    head: str
    before: str
    after: str
    gap: str
    needs_start: bool

    def ask(self, question: str) -> str:
        """The open question, without a space at its end, since tokens begin with the space."""
        return f"{self.before}{question}{self.after}"

    def write(self, shot: Question, question: Question) -> str:
        """The whole prompt: the shot with its first answer, then the question."""
        return f"{self.head}{self.ask(shot.text)} {shot.answers[0]}{self.gap}{self.ask(question.text)}"


TEMPLATES = {
    "question": Template("", "Question: ", "\nAnswer:", "\n\n", needs_start=True),
    "last_word": Template("Complete the following sentences.\n\n", "Input: ", "\nOutput:", "\n\n", needs_start=False),
}


@dataclass(frozen=True)
class Gold:
    """An accepted answer: `text`, its UTF-8 `bytes` with the space before it, token `ids`."""

    text: str
    bytes: int
    ids: np.ndarray


@dataclass(frozen=True)
class Prompt:
    """The model's input: token `ids`, after `cut` ids were removed on the left; the `digest` of the
    whole text; the accepted answers to be scored after it, as `golds`.
    """

    question: Question
    ids: np.ndarray
    cut: int
    digest: str
    golds: tuple[Gold, ...]


def draw_shot(question: Question, shots: Sequence[Question], seed: int) -> Question:
    """The solved example for a question, drawn from (seed, question) alone and never the same
    question.

    So neither the order of the items nor batches nor processes change it. Errors: all `shots` are
    that question.
    """
    key = hashlib.blake2b(f"{seed}\n{question.text}".encode(), digest_size=8).digest()
    first = int.from_bytes(key, "big") % len(shots)
    for turn in range(len(shots)):
        shot = shots[(first + turn) % len(shots)]
        if shot.text != question.text:
            return shot
    raise InputError(f"{question.place}: no other question is there to be its example; give the task more `shots`.")


def build_prompt(kind: str, shot: Question, question: Question, encode: Encode, room: int) -> Prompt:
    """The prompt in at most `room` tokens, cut on the left. Errors: Rejected, it does not fit."""
    template = TEMPLATES[kind]
    text = template.write(shot, question)
    (ids,) = encode([text])
    cut = max(len(ids) - room, 0)
    if cut and template.needs_start:
        (own,) = encode([template.ask(question.text)])
        if len(own) > room:
            raise Rejected("too long", f"the question alone has {len(own):,} tokens, {room:,} fit before the answer")
    digest = hashlib.blake2b(text.encode("utf-8"), digest_size=16).hexdigest()
    return Prompt(question, ids[cut:], cut, digest, encode_golds(text, ids, question.answers, encode, room))


def encode_golds(text: str, ids: np.ndarray, answers: Sequence[str], encode: Encode, room: int) -> tuple[Gold, ...]:
    """The `answers` of at most `room` tokens after a prompt of this `text` and these `ids`.

    Their ids are those that follow the prompt's when both are encoded together. If a tokenizer
    joins the end of the prompt to the answer, the answer is encoded alone: the model always gets
    the same prompt as when it generates. Raises Rejected if no answer fits.
    """
    golds, longest = [], 0
    for answer, whole in zip(answers, encode([f"{text} {answer}" for answer in answers]), strict=True):
        own = whole[len(ids) :]
        if not np.array_equal(whole[: len(ids)], ids) or not len(own):
            (own,) = encode([f" {answer}"])
        longest = max(longest, len(own))
        if len(own) <= room:
            golds.append(Gold(answer, len(f" {answer}".encode()), own))
    if not golds:
        raise Rejected("answer too long", f"the answer has {longest:,} tokens, {room:,} fit after the prompt")
    return tuple(golds)


def likeliest(golds: Sequence[Gold], nats: Sequence[float]) -> tuple[Gold, float]:
    """The accepted answer with the fewest bits per byte, and its bits: the sum of -log2 p over its
    tokens; `nats` are the negative log-likelihoods.

    Bits are rounded to four decimals: further ones depend on the batch size in fp32.
    """
    bits = [round(one / math.log(2), 4) for one in nats]
    return min(zip(golds, bits, strict=True), key=lambda pair: pair[1] / pair[0].bytes)


def read_prediction(text: str) -> str:
    """The prediction in a continuation: its first line, stripped of white space."""
    return text.split("\n", 1)[0].strip()


def normalise(answer: str) -> str:
    """An answer in lower case, without ASCII punctuation, white space collapsed."""
    return " ".join(answer.lower().translate(WITHOUT_PUNCTUATION).split())


def judge(prediction: str, answers: Sequence[str]) -> tuple[bool, bool]:
    """Whether a prediction equals an answer exactly, and after `normalise` (kept if empty)."""
    exact = prediction in answers
    own = normalise(prediction)
    return exact, exact or (own != "" and any(own == normalise(answer) for answer in answers))


@dataclass(frozen=True)
class Task:
    """The prompts of one task, and the report on its files."""

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
    faults: Rejects,
) -> Task:
    """The prompts of `items` in at most `room` tokens each, with examples drawn from `shots`.

    `faults` has the invalid records, and gets the questions that do not fit. Errors: more of them
    than are allowed, no question, no shot.
    """
    if not items or not shots:
        raise InputError(f"Task {name!r} has {len(items)} items and {len(shots)} shots; give files with questions.")
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
