"""Validation tokens drawn from training files: enough of each domain, of the held-out share."""

import json
from pathlib import Path

import pytest
from tiny_run import READING
from tokenised import call, write_records
from tokenizers import Tokenizer

import draw_validation
from bimix.corpus.documents import hash_text, is_within, split_document
from bimix.corpus.shards import Shard, write_shards
from bimix.errors import InputError


def draw(
    folder: Path, shards: Path, tokenizer: Path, tokens: int, share: float, domain_field: str, longest: str = "20000"
) -> dict[str, set[str]]:
    given = {"domain_field": domain_field, "domains": ["b", "c"], "labels": "{}", "held_out_characters": longest}
    given |= {"tokens": tokens, "share": share, "out": folder / "held_out"}
    call(draw_validation, shards=shards, tokenizer=tokenizer, reading=json.dumps(READING), **given)
    return {
        domain: {json.loads(line)["text"] for line in (folder / "held_out" / f"{domain}.jsonl").open()}
        for domain in "bc"
    }


@pytest.mark.parametrize("mixed", [True, False])
def test_so_many_validation_tokens_are_drawn(tmp_path, tokenizer, mixed):
    texts = {name: [f"text {number} of {name}" for number in range(400)] * 2 for name in "bc"}
    shards = []
    for part in range(4):
        names = "bc" if mixed else "bc"[part % 2]
        records = [{"text": text, "set": name} for name in names for text in texts[name][part::4]]
        file = write_records(tmp_path / f"{part}.jsonl", records)
        shards.append(Shard(str(part), "train", None if mixed else names, (str(file),)))
    (tmp_path / "manifest").write_text(write_shards(shards))
    field = '"set"' if mixed else "null"
    drawn = draw(tmp_path, tmp_path / "manifest", tokenizer, 300, 0.5, field)
    reference = Tokenizer.from_file(str(tokenizer))
    for name, own in drawn.items():
        lengths = [len(reference.encode(text).ids) + 1 for text in own]
        assert own <= set(texts[name]) and all(is_within(hash_text(text)[:8], 0.5) for text in own)
        assert 300 <= sum(lengths) < 300 + max(lengths)
    with pytest.raises(InputError, match=r"The share 0.01 of domain 'b' holds \d+ tokens, fewer than 300; set"):
        draw(tmp_path, tmp_path / "manifest", tokenizer, 300, 0.01, field)


def test_of_long_documents_the_ends_are_drawn(tmp_path, tokenizer, capsys):
    texts = {name: [f"{number} of {name} " * 300 for number in range(9)] for name in "bc"}
    files = {
        name: write_records(tmp_path / f"{name}.jsonl", [{"text": text} for text in own]) for name, own in texts.items()
    }
    shards = [Shard(name, "train", name, (str(file),)) for name, file in files.items()]
    (tmp_path / "manifest").write_text(write_shards(shards))
    drawn = draw(tmp_path, tmp_path / "manifest", tokenizer, 500, 0.3, "null", '{"b": 400, "c": 20000}')
    ends = {split_document(text, hash_text(text), 0.3, 400)[1] for text in texts["b"]}
    assert drawn["b"] and drawn["b"] <= ends and drawn["c"] <= set(texts["c"])
    said = capsys.readouterr().err
    assert f"b: {len(drawn['b'])} texts, {len(drawn['b'])} of them ends of documents whose beginnings train" in said
    assert f"c: {len(drawn['c'])} texts, 0 of them" in said
