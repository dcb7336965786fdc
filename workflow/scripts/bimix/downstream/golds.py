"""The accepted answers of a question as a model reads them: token ids after those of the prompt.

What is scored is the answer with the space before it, since the tokens begin with that space; its
bytes are those of the same text. So bits and bytes are of one string, as in the `bits_per_byte` of
lm-evaluation-harness (loglikelihood_rolling) and of OLMES, whose continuations begin with the space
too. The harness' `acc_bytes` counts a choice without the space.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bimix.corpus.sources import Rejected


@dataclass(frozen=True)
class Gold:
    """An accepted answer: its `text`, its UTF-8 `bytes` with the space before it, its token
    `ids`.
    """

    text: str
    bytes: int
    ids: np.ndarray


@dataclass(frozen=True)
class Scored:
    """The accepted answer that a model finds the likeliest by the byte: its `gold`, and its `bits`,
    the sum of -log2 p over its tokens.
    """

    gold: Gold
    bits: float

    @property
    def bits_per_byte(self) -> float:
        return self.bits / self.gold.bytes


def encode_golds(
    text: str, ids: np.ndarray, answers: Sequence[str], encode: Callable[[list[str]], list[np.ndarray]], room: int
) -> tuple[Gold, ...]:
    """The `answers` after a prompt of this `text` and these `ids`, those of at most `room` tokens.

    Their ids are those that follow the prompt's where both are encoded together. Where a tokenizer
    joins the end of the prompt to the answer, the answer is encoded by itself: the model is given
    the prompt as it is when it has to go on from it. Raises Rejected where no answer fits.
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


def likeliest(golds: Sequence[Gold], nats: Sequence[float]) -> Scored:
    """The one of the `golds` with the least bits per byte; `nats` are the negative log-likelihoods.

    Bits are kept to four places: beyond them fp32 differs by the size of a batch.
    """
    scored = [Scored(gold, round(one / math.log(2), 4)) for gold, one in zip(golds, nats, strict=True)]
    return min(scored, key=lambda one: one.bits_per_byte)
