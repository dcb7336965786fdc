"""Prompts word by word, shots by seed and question alone, accepted answers, two judgements."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from refusals import refused
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from bimix.corpus.encoders import Encode, reference_encoder
from bimix.corpus.sources import Rejected
from bimix.downstream.prompts import (
    Gold,
    build_prompt,
    draw_shot,
    encode_golds,
    judge,
    likeliest,
    normalise,
    read_prediction,
)
from bimix.downstream.questions import Question
from bimix.model import generation
from bimix.model.generation import negative_log_likelihoods
from bimix.model.transformer import Shape, Transformer


def question(text: str, *answers: str) -> Question:
    return Question(text, f"t.jsonl:{text}", text, answers or ("yes",))


def letters(texts: list[str]) -> list[np.ndarray]:
    """One token for each character."""
    return [np.array([ord(letter) for letter in text], dtype=np.uint32) for text in texts]


def written(kind: str, shot: Question, item: Question, room: int = 1000) -> str:
    return "".join(map(chr, build_prompt(kind, shot, item, letters, room).ids.tolist()))


def test_prompts_are_the_templates_and_the_shot_depends_on_seed_and_question_alone() -> None:
    shot, item = question("who ran?", "Ann", "Anna"), question("who sat?", "Bob")
    assert written("question", shot, item) == "Question: who ran?\nAnswer: Ann\n\nQuestion: who sat?\nAnswer:"
    shot, item = question("the cat sat on the", "mat"), question("a b", "c")
    expected = "Complete the following sentences.\n\nInput: the cat sat on the\nOutput: mat\n\nInput: a b\nOutput:"
    assert written("last_word", shot, item) == expected
    # the shot depends on seed and question alone
    items = [question(f"q{number}") for number in range(50)]
    shots = [question(f"s{number}") for number in range(400)]
    drawn = {item.text: draw_shot(item, shots, 0).text for item in items}
    assert drawn == {item.text: draw_shot(item, shots, 0).text for item in reversed(items)}
    assert len(set(drawn.values())) > 40
    assert drawn != {item.text: draw_shot(item, shots, 1).text for item in items}
    # a question is never its own example
    items = [question("same"), question("same"), question("other")]
    assert draw_shot(items[0], items, 0).text == "other"
    refused("no other question", draw_shot, items[0], items[:2], 0)


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


def test_what_counts_of_a_continuation_and_which_answer_is_the_likeliest() -> None:
    assert read_prediction(" The Nile. \nQuestion: more") == "The Nile."
    assert read_prediction("\nlate") == ""
    assert normalise(" The  'Nile'. ") == "the nile"
    assert normalise("U.S.A.") == "usa"
    # the likeliest answer is so by the byte
    short, long = Gold("a", 2, np.array([1])), Gold("abcdefg", 8, np.array([1, 2]))
    assert likeliest((short, long), (2 * math.log(2), 4 * math.log(2))) == (long, 4)
    assert likeliest((short, long), (1e-3, 4.0))[0] is short


@pytest.mark.parametrize(
    ("prediction", "answers", "exact", "normalised"),
    [
        ("Mark Twain", ["Twain", "Mark Twain"], True, True),
        ("mark twain.", ["Twain", "Mark Twain"], False, True),
        ("Mark Twain wrote it", ["Mark Twain"], False, False),
        ("", ["?"], False, False),
        ("?", ["?"], True, True),
    ],
)
def test_both_metrics(prediction: str, answers: list[str], exact: bool, normalised: bool) -> None:
    assert judge(prediction, answers) == (exact, normalised)


@pytest.fixture(scope="module")
def encode() -> Encode:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(["Question: who?\nAnswer: Zürich Zürich"] * 5, trainer)
    return reference_encoder(tokenizer.to_str())


def test_bytes_are_those_of_utf_8_with_the_space_and_ids_those_of_the_whole_text(encode: Encode) -> None:
    text = "Question: who?\nAnswer:"
    (ids,) = encode([text])
    golds = encode_golds(text, ids, ("Zürich", "日本", "x"), encode, 100)
    assert [gold.bytes for gold in golds] == [8, 7, 2]
    for gold in golds:
        (whole,) = encode([f"{text} {gold.text}"])
        np.testing.assert_array_equal(np.concatenate([ids, gold.ids]), whole)


def test_an_answer_that_does_not_fit_is_left_out_and_none_that_fits_is_a_bad_item(encode: Encode) -> None:
    (ids,) = encode(["Answer:"])
    golds = encode_golds("Answer:", ids, ("日本" * 9, "x"), encode, 10)
    assert [gold.text for gold in golds] == ["x"]
    with pytest.raises(Rejected, match=r"the answer has 5\d tokens, 10 fit after the prompt"):
        encode_golds("Answer:", ids, ("日本" * 9,), encode, 10)


def test_where_the_tokenizer_joins_prompt_and_answer_the_answer_stands_by_itself() -> None:
    """A tokenizer of one token for each text that it is given."""
    known: dict[str, int] = {}

    def encode(texts: list[str]) -> list[np.ndarray]:
        return [np.array([known.setdefault(text, len(known))]) for text in texts]

    (ids,) = encode(["Answer:"])
    (gold,) = encode_golds("Answer:", ids, ("x",), encode, 10)
    assert gold.ids.tolist() == [known[" x"]]


def test_sums_do_not_depend_on_what_shares_a_batch_nor_on_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = Transformer(Shape(2, 32, 2, 50))
    draw = np.random.default_rng(0)
    sizes = [(3, 1), (9, 5), (1, 2), (12, 7)]
    pairs = [(draw.integers(0, 50, before), draw.integers(0, 50, after)) for before, after in sizes]
    expected = []
    for before, after in pairs:
        ids = torch.tensor(np.concatenate([before, after]))
        logits = model.logits(ids[None])[0, len(before) - 1 : -1]
        expected.append(float(F.cross_entropy(logits, ids[len(before) :], reduction="sum").detach()))
    for most in (1024, 3):
        monkeypatch.setattr(generation, "SCORED_AT_ONCE", most)
        for batches in ([[0, 1, 2, 3]], [[3, 1], [2], [0]]):
            found = dict(negative_log_likelihoods(model, pairs, batches))
            np.testing.assert_allclose([found[k] for k in range(4)], expected, rtol=1e-5)
