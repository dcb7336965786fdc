"""Accepted answers as a model reads them: their bytes and tokens, and the likelihood of tokens."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from bimix.corpus.encoders import Encode, reference_encoder
from bimix.corpus.sources import Rejected
from bimix.downstream.golds import Gold, encode_golds, likeliest
from bimix.model import likelihood
from bimix.model.likelihood import negative_log_likelihoods
from bimix.model.transformer import Shape, Transformer


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


def test_the_likeliest_answer_is_so_by_the_byte() -> None:
    short, long = Gold("a", 2, np.array([1])), Gold("abcdefg", 8, np.array([1, 2]))
    best = likeliest((short, long), (2 * math.log(2), 4 * math.log(2)))
    assert best.gold is long and best.bits == 4 and best.bits_per_byte == 0.5
    assert likeliest((short, long), (1e-3, 4.0)).gold is short


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
        monkeypatch.setattr(likelihood, "SCORED_AT_ONCE", most)
        for batches in ([[0, 1, 2, 3]], [[3, 1], [2], [0]]):
            found = dict(negative_log_likelihoods(model, pairs, batches))
            np.testing.assert_allclose([found[k] for k in range(4)], expected, rtol=1e-5)
