"""Prompts word by word, shots that depend on nothing but seed and question, and
the two ways of judging.
"""

from pathlib import Path

import numpy as np
import pytest
import smart_open

from bimix.corpus.encoders import reference_encoder
from bimix.corpus.sources import Rejected
from bimix.downstream.answers import build_task
from bimix.downstream.prompts import TEMPLATES, build_prompt, draw_shot, judge, normalise, read_prediction
from bimix.downstream.questions import Faults, Question, read_records, take_questions
from bimix.errors import InputError

DATA = Path(__file__).parents[2].parent / "shared" / "data"


def question(text: str, *answers: str) -> Question:
    return Question(text, f"t.jsonl:{text}", text, answers or ("yes",))


def letters(texts: list[str]) -> list[np.ndarray]:
    """One token for each character."""
    return [np.array([ord(letter) for letter in text], dtype=np.uint32) for text in texts]


def written(kind: str, shot: Question, item: Question, room: int = 1000) -> str:
    return "".join(map(chr, build_prompt(kind, shot, item, letters, room).ids.tolist()))


def test_the_templates_of_the_protocol() -> None:
    shot, item = question("who ran?", "Ann", "Anna"), question("who sat?", "Bob")
    assert written("question", shot, item) == "Question: who ran?\nAnswer: Ann\n\nQuestion: who sat?\nAnswer:"
    shot, item = question("the cat sat on the", "mat"), question("a b", "c")
    expected = "Complete the following sentences.\n\nInput: the cat sat on the\nOutput: mat\n\nInput: a b\nOutput:"
    assert written("last_word", shot, item) == expected


def test_the_shot_depends_on_seed_and_question_alone() -> None:
    items = [question(f"q{number}") for number in range(50)]
    shots = [question(f"s{number}") for number in range(400)]
    drawn = {item.text: draw_shot(item, shots, 0).text for item in items}
    assert drawn == {item.text: draw_shot(item, shots, 0).text for item in reversed(items)}
    assert len(set(drawn.values())) > 40
    assert drawn != {item.text: draw_shot(item, shots, 1).text for item in items}


def test_a_question_is_never_its_own_example() -> None:
    items = [question("same"), question("same"), question("other")]
    assert draw_shot(items[0], items, 0).text == "other"
    with pytest.raises(InputError, match="no other question"):
        draw_shot(items[0], items[:2], 0)


def test_long_prompts_are_cut_from_the_left_and_a_question_that_does_not_fit_is_rejected() -> None:
    shot, item = question("s" * 50), question("short?")
    whole = written("question", shot, item)
    prompt = build_prompt("question", shot, item, letters, 40)
    assert prompt.cut == len(whole) - 40
    assert written("question", shot, item, 40) == whole[-40:]
    assert prompt.digest == build_prompt("question", shot, item, letters, 1000).digest
    with pytest.raises(Rejected, match="the question alone has 68 tokens, 40 fit"):
        build_prompt("question", shot, question("q" * 50), letters, 40)
    assert written("last_word", shot, question("p" * 99), 40) == "p" * 32 + "\nOutput:"


def test_what_counts_of_a_continuation() -> None:
    assert read_prediction(" The Nile. \nQuestion: more") == "The Nile."
    assert read_prediction("\nlate") == ""
    assert normalise(" The  'Nile'. ") == "the nile"
    assert normalise("U.S.A.") == "usa"


@pytest.mark.parametrize(
    ("prediction", "answers", "exact", "normalised"),
    [
        ("Mark Twain", ["Twain", "Mark Twain"], True, True),
        ("mark twain.", ["Twain", "Mark Twain"], False, True),
        ("Mark Twain wrote it", ["Mark Twain"], False, False),
        ("", ["?"], False, False),
        ("?", ["?"], True, True),
        ("padmé amidala", ["Padmé Amidala"], False, True),
    ],
)
def test_both_metrics(prediction: str, answers: list[str], exact: bool, normalised: bool) -> None:
    assert judge(prediction, answers) == (exact, normalised)


@pytest.mark.skipif(not DATA.is_dir(), reason="the sample question sets are not there")
@pytest.mark.parametrize(
    ("items", "shots", "kind"),
    [
        ("webquestions_test.jsonl.zst", "webquestions_train.jsonl.zst", "question"),
        ("triviaqa_dev_sample.jsonl.zst", None, "question"),
        ("lambada_test.jsonl.zst", None, "last_word"),
    ],
)
def test_real_sets_fit_the_papers_context(items: str, shots: str | None, kind: str) -> None:
    def read(name: str) -> list[Question]:
        with smart_open.open(DATA / "qa" / name, "rb") as file:
            return list(take_questions(read_records(file.read(), name), name, kind, Faults(0)))

    asked = read(items)
    encode = reference_encoder((DATA / "tokenizer/20B_tokenizer.json").read_text())
    task = build_task("t", kind, asked, read(shots) if shots else asked, 0, encode, 1004, Faults(0))
    assert task.account["items"] == len(asked)
    assert task.account["cut_prompts"] == 0
    assert 20 < task.account["mean_prompt_tokens"] < 250
    own = TEMPLATES[kind].ask(asked[0].text)
    assert encode([own])[0].tolist() == task.prompts[0].ids[-len(encode([own])[0]) :].tolist()
