"""The tokenizer of a dataset: trained on its training documents alone, or copied."""

import json

import pytest
import tokenised
from tokenised import END
from tokenizers import Tokenizer

import fetch_tokenizer
from bimix.corpus.documents import hash_text, is_within, split_document
from bimix.digests import digest_file
from bimix.errors import InputError


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


def test_validation_documents_are_not_read(tmp_path):
    texts = [f"{word} number {number}" for word in ("some", "other") for number in range(300)]
    kept = [text for text in texts if not is_within(hash_text(text)[:8], 0.5)]
    assert 0 < len(kept) < len(texts)
    assert train(tmp_path, texts).read_bytes() == train(tmp_path, kept).read_bytes()


def test_too_little_text_is_told(tmp_path):
    with pytest.raises(InputError, match="fewer than the vocabulary of 5000; train on a larger share"):
        train(tmp_path, ["a few words"], vocabulary="5000")
    assert not (tmp_path / "tokenizer.json").exists()


def test_a_vocabulary_that_the_ladder_chose_may_be_fewer_ids(tmp_path, capsys):
    texts = [f"{one} row of {two}" for one in ("some", "many") for two in ("words", "marks")] * 20
    out = train(tmp_path, texts, **{"vocabulary": "5000", "fewer": "true", "validation-share": "0"})
    tokenizer = Tokenizer.from_file(str(out))
    assert 257 < tokenizer.get_vocab_size() < 400
    assert tokenizer.decode(tokenizer.encode(texts[0]).ids) == texts[0]
    said = (
        f"The text yields {tokenizer.get_vocab_size()} tokens, fewer than the vocabulary of 5000, which the size ladder"
    )
    assert said in capsys.readouterr().err


def test_ends_that_are_held_out_are_not_read(tmp_path):
    texts = [f"{number} " + " ".join(f"w{number}x{place}" for place in range(500)) for number in range(30)]
    parts = [split_document(text, hash_text(text), 0.5, 1000) for text in texts]
    assert all(trains and rest for trains, rest in parts)
    (tmp_path / "kept").mkdir()
    kept = tokenised.train(tmp_path / "kept", [{"text": trains} for trains, _ in parts])
    assert train(tmp_path, texts, **{"held-out-characters": "1000"}).read_bytes() == kept.read_bytes()


def fetch(source, out, end=END):
    fetch_tokenizer.main(["--source", json.dumps(source), "--end-of-text", end, "--out", str(out)])


def test_copy(tmp_path):
    made = train(tmp_path, [f"words {number}" for number in range(300)], vocabulary="260")
    fetch({"file": str(made), "end_of_text": END}, tmp_path / "copy.json")
    assert (tmp_path / "copy.json").read_bytes() == made.read_bytes()
    with pytest.raises(InputError, match="has no token '</s>'"):
        fetch({"file": str(made)}, tmp_path / "other.json", end="</s>")
    (tmp_path / "broken.json").write_text("{}")
    with pytest.raises(InputError, match=r"broken\.json is no tokenizer\.json"):
        fetch({"file": str(tmp_path / "broken.json")}, tmp_path / "other.json")
    with pytest.raises(InputError, match="There is no tokenizer file"):
        fetch({"file": str(tmp_path / "missing.json")}, tmp_path / "other.json")
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
