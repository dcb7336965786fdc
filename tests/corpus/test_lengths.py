"""Bytes behind tokens are exact in any script, also of cut characters, not of special tokens."""

import json
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tokenised import END, NEOX, tokenize, train
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

import count_bytes
import index_tokens
from bimix.corpus.encoders import byte_lengths, reference_encoder
from bimix.corpus.permutation import permute
from bimix.corpus.stream import ROWS_KEY
from bimix.training.rows import RowStore, open_rows

TEXTS = [
    "",
    "plain words",
    "Zürich, Größe",
    "日本語 と 한국어",
    "😀👩\u200d👩 \t\n   x",
    "a" * 40 + " " * 9 + "b",
    END,
    "\0\x7f",
]


def record(number: int, text: str) -> dict:
    return {"text": f"{number} {text}", "meta": {"set": "c"}}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer of 300 ids: its alphabet of bytes and few merges, so that characters are cut."""
    folder = tmp_path_factory.mktemp("tokenizer")
    return train(folder, [record(number, text) for number, text in enumerate(TEXTS * 20)])


def test_bytes_of_the_tokens_are_those_of_the_text(tokenizer: Path) -> None:
    definition = tokenizer.read_text()
    lengths, encode = byte_lengths(definition, END), reference_encoder(definition)
    for text, ids in zip(TEXTS, encode(TEXTS), strict=True):
        assert lengths[ids].sum() == len(text.encode())
    (cut,) = encode(["🦩"])
    assert len(cut) > 1 and lengths[cut].sum() == 4  # a character in several tokens
    assert lengths[Tokenizer.from_str(definition).token_to_id(END)] == 0


def test_bytes_of_a_published_tokenizer() -> None:
    if not NEOX.exists():
        pytest.skip("the tokenizer of GPT-NeoX is not there")
    definition = NEOX.read_text(encoding="utf-8")
    lengths, encode = byte_lengths(definition, END), reference_encoder(definition)
    assert len(lengths) == 50277 and lengths[0] == 0
    for text, ids in zip(TEXTS, encode(TEXTS), strict=True):
        assert lengths[ids].sum() == len(text.encode())


def test_the_end_of_text_is_silent_though_it_is_listed_as_an_ordinary_token() -> None:
    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1}, []))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken("<end>"), AddedToken("  é")])
    assert byte_lengths(tokenizer.to_str(), "<end>").tolist() == [1, 1, 0, 4]
    assert byte_lengths(tokenizer.to_str(), "a").tolist() == [1, 1, 5, 4]


def test_bytes_of_a_tokenizer_with_byte_fallback() -> None:
    vocabulary = {"<unk>": 0} | {f"<0x{byte:02X}>": 1 + byte for byte in range(256)}
    for token in ("\u2581", "\u2581ab", "ü"):
        vocabulary[token] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens(["<unk>"])
    lengths = byte_lengths(tokenizer.to_str(), END)
    for text in (" ü", "😀 ", "\n"):
        assert lengths[tokenizer.encode(text).ids].sum() == len(text.encode())
    assert lengths[0] == 0 and lengths[vocabulary["\u2581ab"]] == 3


def test_a_tokenizer_that_does_not_say_has_none() -> None:
    tokenizer = Tokenizer(models.WordPiece({"a": 0, "##b": 1}, unk_token="a"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece()
    assert byte_lengths(tokenizer.to_str(), END) is None


def test_the_bytes_that_are_counted_are_those_of_the_rows_that_are_evaluated(tokenizer: Path, tmp_path: Path) -> None:
    """All of a row but its first token; a row may begin and end within a character."""
    raw = tmp_path / "raw.jsonl"
    documents = [record(number, text) for number, text in enumerate(TEXTS * 6)]
    raw.write_text("".join(json.dumps(document) + "\n" for document in documents))
    tokenize(tmp_path, [raw], tokenizer, "hash", **{"validation-share": "0.5", "domains": ["c"], "labels": "{}"})
    flags = ["--folder", str(tmp_path), "--shards", str(tmp_path / "shards.jsonl"), "--domains", "c"]
    index_tokens.main([*flags, *(f"--{name}={tmp_path / name}.parquet" for name in ("train", "validation"))])
    flags = [f"--index={tmp_path / 'validation.parquet'}", f"--tokenizer={tokenizer}", f"--end-of-text={END}"]
    for rows in (3, 1000):
        count_bytes.main([*flags, f"--rows={rows}", f"--out={tmp_path / 'bytes.csv'}"])
        (found,) = pl.read_csv(tmp_path / "bytes.csv").rows(named=True)
        store = RowStore(pl.read_parquet(tmp_path / "validation.parquet"), ["c"], open_rows)
        sample, known = store.sample(0, rows), Tokenizer.from_file(str(tokenizer))
        assert found["rows"] == len(sample) == min(rows, store.sizes[0])
        assert found["tokens"] == len(sample) * (store.row_length - 1)
        # a byte is a character of a byte-level token, whichever it is
        ends = known.token_to_id(END)
        spelt = "".join(known.id_to_token(token) for row in sample for token in row[1:] if token != ends)
        assert found["bytes"] == len(spelt)
        assert found["bits_per_nat"] == pytest.approx(found["tokens"] / (math.log(2) * found["bytes"]))
        if rows > 100:  # the rows are the split's text, one document after the other, without the tail
            places = np.argsort(permute(np.arange(store.sizes[0]), int(store.sizes[0]), ROWS_KEY))  # as they were cut
            whole = store.read(np.zeros(store.sizes[0], dtype=int), places)
            text = known.decode(whole.ravel().tolist(), skip_special_tokens=True).rstrip("\N{REPLACEMENT CHARACTER}")
            assert 0 <= byte_lengths(tokenizer.read_text(), END)[whole].sum() - len(text.encode()) < 4
