"""One-shot prompts and how answers are judged: the protocol of DoReMi, which the
paper takes over (Sec. 4).
"""

import hashlib
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bimix.corpus.sources import Rejected
from bimix.downstream.golds import Gold, encode_golds
from bimix.downstream.questions import Question
from bimix.errors import InputError

WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class Template:
    """The words around a question: `head`, then a solved example, `gap`, and the
    question that is left open.

    `needs_start`: a question that has lost its beginning cannot be answered; a
    passage can still be continued.
    """

    head: str
    before: str
    after: str
    gap: str
    needs_start: bool

    def ask(self, question: str) -> str:
        """The part that is left to be answered; no space at its end, as tokens begin with it."""
        return f"{self.before}{question}{self.after}"

    def write(self, shot: Question, question: Question) -> str:
        """The whole prompt: the shot with its first answer, then the question."""
        return f"{self.head}{self.ask(shot.text)} {shot.answers[0]}{self.gap}{self.ask(question.text)}"


TEMPLATES = {
    "question": Template("", "Question: ", "\nAnswer:", "\n\n", needs_start=True),
    "last_word": Template("Complete the following sentences.\n\n", "Input: ", "\nOutput:", "\n\n", needs_start=False),
}


@dataclass(frozen=True)
class Prompt:
    """A question as the model gets it: token `ids`, after `cut` ids were taken off its left;
    `digest` of the whole text; the accepted answers to be scored after it, as `golds`.
    """

    question: Question
    ids: np.ndarray
    cut: int
    digest: str
    golds: tuple[Gold, ...]


def draw_shot(question: Question, shots: Sequence[Question], seed: int) -> Question:
    """The solved example for a question: drawn from (seed, what is asked) alone,
    never the same question.

    So neither the order of the items nor batches nor processes change it. Errors: all
    `shots` are that question.
    """
    key = hashlib.blake2b(f"{seed}\n{question.text}".encode(), digest_size=8).digest()
    first = int.from_bytes(key, "big") % len(shots)
    for turn in range(len(shots)):
        shot = shots[(first + turn) % len(shots)]
        if shot.text != question.text:
            return shot
    raise InputError(f"{question.place}: no other question is there to be its example; give the task more `shots`.")


def build_prompt(
    kind: str, shot: Question, question: Question, encode: Callable[[list[str]], list[np.ndarray]], room: int
) -> Prompt:
    """The prompt in at most `room` tokens, cut from the left.

    Raises Rejected where the question itself does not fit, or no answer of `room` tokens is there.
    """
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


def read_prediction(text: str) -> str:
    """What counts of a continuation: up to the first line end, without white space around it."""
    return text.split("\n", 1)[0].strip()


def normalise(answer: str) -> str:
    """An answer in lower case, without ASCII punctuation, white space collapsed."""
    return " ".join(answer.lower().translate(WITHOUT_PUNCTUATION).split())


def judge(prediction: str, answers: Sequence[str]) -> tuple[bool, bool]:
    """Whether a prediction equals any of the answers: in every character, and after `normalise`.

    An answer of which normalising leaves nothing, such as "?", counts as it is.
    """
    exact = prediction in answers
    own = normalise(prediction)
    return exact, exact or (own != "" and any(own == normalise(answer) for answer in answers))
