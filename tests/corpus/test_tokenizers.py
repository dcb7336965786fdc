"""Tokenizers: made, fetched, copied; the bytes of their tokens."""

import json
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import tokenised
from refusals import refused
from tokenised import END, NEOX, tokenize, write_records
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

import count_bytes
import fetch_tokenizer
import index_tokens
from bimix.corpus.documents import hash_text, is_within, split_document
from bimix.corpus.encoders import byte_lengths, reference_encoder
from bimix.corpus.permutation import permute
from bimix.corpus.shards import Shard, write_shards
from bimix.corpus.stream import ROWS_KEY
from bimix.digests import digest_file
from bimix.errors import InputError
from bimix.training.rows import RowStore, open_rows


def train(tmp_path, texts, **changes):
    """A tokenizer of these texts, half of which are held out."""
    return tokenised.train(tmp_path, [{"text": text} for text in texts], **{"validation-share": "0.5"} | changes)


def test_any_text_comes_back(tmp_path):
    out = train(tmp_path, [f"some words, number {number} of them\n" for number in range(300)])
    tokenizer = Tokenizer.from_file(str(out))
    assert tokenizer.get_vocab_size() == 300
    assert tokenizer.token_to_id(END) == 0
    for text in ("日本語 é 😀\0\r\n\t", "  leading", "plain words"):
        assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_held_out_documents_ends_and_documents_of_validation_files_are_not_read(tmp_path):
    texts = [f"{word} number {number}" for word in ("some", "other") for number in range(300)]
    kept = [text for text in texts if not is_within(hash_text(text)[:8], 0.5)]
    assert 0 < len(kept) < len(texts)
    assert train(tmp_path, texts).read_bytes() == train(tmp_path, kept).read_bytes()

    shards = []
    for split, own in (("train", texts), ("validation", texts[9:500])):
        file = write_records(tmp_path / f"{split}.jsonl", [{"text": text} for text in own])
        shards.append(Shard(split, split, None, (str(file),)))
    (tmp_path / "both.jsonl").write_text(write_shards(shards))
    whole = {"validation-share": "0"}
    both = train(tmp_path, [], **whole, shards=str(tmp_path / "both.jsonl")).read_bytes()
    assert both == train(tmp_path, texts[:9] + texts[500:], **whole).read_bytes()

    texts = [f"{number} " + " ".join(f"w{number}x{place}" for place in range(500)) for number in range(30)]
    parts = [split_document(text, hash_text(text), 0.5, 1000) for text in texts]
    assert all(trains and rest for trains, rest in parts)
    cut = train(tmp_path, texts, **{"held-out-characters": "1000"}).read_bytes()
    assert cut == train(tmp_path, [trains for trains, _ in parts], **whole).read_bytes()


def test_too_little_text_is_told(tmp_path):
    with pytest.raises(InputError, match="fewer than the vocabulary of 5000; train on a larger share"):
        train(tmp_path, ["a few words"], vocabulary="5000")
    assert not (tmp_path / "tokenizer.json").exists()


def test_a_vocabulary_that_the_ladder_chose_may_be_fewer_ids(tmp_path, capsys):
    texts = [f"{one} row of {two}" for one in ("some", "many") for two in ("words", "marks")] * 20
    out = train(tmp_path, texts, **{"vocabulary": "5000", "fewer": "true", "validation-share": "0"})
    size = Tokenizer.from_file(str(out)).get_vocab_size()
    assert 257 < size < 400 and f"yields {size} tokens" in capsys.readouterr().err


def fetch(source, out, end=END):
    fetch_tokenizer.main(["--source", json.dumps(source), "--end-of-text", end, "--out", str(out)])


def test_copy(tmp_path):
    made = train(tmp_path, [f"words {number}" for number in range(300)], vocabulary="260")
    fetch({"file": str(made), "end_of_text": END}, tmp_path / "copy.json")
    assert (tmp_path / "copy.json").read_bytes() == made.read_bytes()
    refused("has no token '</s>'", fetch, {"file": str(made)}, tmp_path / "other.json", end="</s>")
    (tmp_path / "broken.json").write_text("{}")
    with pytest.raises(InputError, match=r"broken\.json is no tokenizer\.json"):
        fetch({"file": str(tmp_path / "broken.json")}, tmp_path / "other.json")
    refused("There is no tokenizer file", fetch, {"file": str(tmp_path / "missing.json")}, tmp_path / "other.json")
    assert not (tmp_path / "other.json").exists()


def test_the_revision_of_a_hub_name_is_asked_for_and_the_one_used_is_recorded(tmp_path, monkeypatch):
    made = train(tmp_path, [f"words {number}" for number in range(300)], vocabulary="260")
    commits = {None: "a" * 40, "v1": "b" * 40}

    def hub(name, file, revision=None):
        assert (name, file) == ("lab/words", "tokenizer.json")
        path = tmp_path / "models--lab--words/snapshots" / commits[revision] / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made.read_bytes() + (b"\n" if revision else b""))
        return str(path)

    monkeypatch.setattr(fetch_tokenizer, "hf_hub_download", hub)
    out = tmp_path / "out" / "tokenizer.json"
    for revision, source in ((None, {}), (None, {"revision": None}), ("v1", {"revision": "v1"})):
        fetch({"hub": "lab/words", **source}, out)
        assert json.loads((tmp_path / "out/tokenizer.source.json").read_text()) == {
            "digest": digest_file(out),
            "hub": "lab/words",
            "revision": revision,
            "commit": commits[revision],
        }
    fetch({"file": str(made)}, out)
    origin = json.loads((tmp_path / "out/tokenizer.source.json").read_text())
    assert origin == {"file": str(made), "digest": digest_file(made)}


def test_hub_that_cannot_be_reached_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=r"The hub gave no tokenizer.json for 'nobody/nothing'"):
        fetch({"hub": "nobody/nothing"}, tmp_path / "tokenizer.json")
    with pytest.raises(InputError, match="for 'nobody/nothing' at 'v7'"):
        fetch({"hub": "nobody/nothing", "revision": "v7"}, tmp_path / "tokenizer.json")


def test_same_text_same_tokenizer(tmp_path):
    texts = [f"words number {number * 7919 % 1000} of many\n    return {number}" for number in range(500)]
    first = train(tmp_path, texts).read_bytes()
    assert train(tmp_path, texts, threads="2").read_bytes() == first


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
    return tokenised.train(folder, [record(number, text) for number, text in enumerate(TEXTS * 20)])


def test_bytes_of_the_tokens_are_those_of_the_text(tokenizer: Path) -> None:
    definition = tokenizer.read_text()
    lengths, encode = byte_lengths(definition, END), reference_encoder(definition)
    for text, ids in zip(TEXTS, encode(TEXTS), strict=True):
        assert lengths[ids].sum() == len(text.encode())
    (cut,) = encode(["🦩"])
    assert len(cut) > 1 and lengths[cut].sum() == 4  # a character in several tokens
    assert lengths[Tokenizer.from_str(definition).token_to_id(END)] == 0


def test_bytes_are_those_of_published_tokenizers_the_end_of_text_is_silent_and_others_have_none() -> None:
    if not NEOX.exists():
        pytest.skip("the tokenizer of GPT-NeoX is not there")
    definition = NEOX.read_text(encoding="utf-8")
    lengths, encode = byte_lengths(definition, END), reference_encoder(definition)
    assert len(lengths) == 50277 and lengths[0] == 0
    for text, ids in zip(TEXTS, encode(TEXTS), strict=True):
        assert lengths[ids].sum() == len(text.encode())
    # the end of text is silent though it is listed as an ordinary token
    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1}, []))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken("<end>"), AddedToken("  é")])
    assert byte_lengths(tokenizer.to_str(), "<end>").tolist() == [1, 1, 0, 4]
    assert byte_lengths(tokenizer.to_str(), "a").tolist() == [1, 1, 5, 4]
    # a tokenizer that does not say has none
    tokenizer = Tokenizer(models.WordPiece({"a": 0, "##b": 1}, unk_token="a"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece()
    assert byte_lengths(tokenizer.to_str(), END) is None


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
