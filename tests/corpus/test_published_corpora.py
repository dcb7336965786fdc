"""The Pile and SlimPajama as published: every domain, genuine records, every container."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import smart_open
import tokenised
import yaml

import tokenize_shard
from bimix.corpus.reading import Reading

ROOT = Path(__file__).parents[2]
CONFIG = yaml.safe_load((ROOT / "workflow/defaults.yaml").read_text())
DATA = ROOT.parent / "shared" / "data"
NEOX = DATA / "tokenizer" / "20B_tokenizer.json"
CHARACTERS = 40_000  # read of each domain
LENGTH = 128


def first_lines(path: Path) -> list[dict]:
    """Records up to CHARACTERS, the last one cut; every second one's meta is a string."""
    records, characters = [], 0
    with smart_open.open(path, "rb") as lines:
        for line in lines:
            record = json.loads(line)
            record["text"] = record["text"][: CHARACTERS - characters]
            characters += len(record["text"])
            meta = json.dumps(record["meta"]) if len(records) % 2 else record["meta"]
            records.append(record | {"meta": meta})
            if characters >= CHARACTERS:
                break
    return records


@pytest.mark.skipif(not NEOX.exists(), reason="no stand-ins and no tokenizer at ../shared/data")
@pytest.mark.parametrize(("dataset", "folder", "domains"), [("pile", "pile22", 22), ("slimpajama", "slimpajama7", 7)])
def test_every_domain_gets_rows_and_nothing_is_lost(tmp_path, dataset, folder, domains):
    block = CONFIG["datasets"][dataset]
    corpus = CONFIG["corpus"] | block["corpus"]
    taken = [first_lines(path) for path in sorted((DATA / folder).glob("*.jsonl.zst"))]
    assert len(taken) == domains == len(block["domains"])
    records = [
        record for row in range(max(map(len, taken))) for own in taken if row < len(own) for record in [own[row]]
    ]
    records.insert(50, {"text": "", "meta": records[0]["meta"]})
    records.insert(70, {"text": "x", "meta": {"pile_set_name": "unknown", "redpajama_set_name": "unknown"}})
    files = []
    for part, ending in enumerate([".jsonl", ".jsonl.gz", ".jsonl.zst"]):
        files.append(str(tmp_path / f"{part}{ending}"))
        with smart_open.open(files[-1], "wb") as file:
            file.writelines(json.dumps(record).encode() + b"\n" for record in records[part::3])
    read = {key: corpus[key] for key in Reading.model_fields}
    settings = {
        "reading": json.dumps(read | {"cut_characters": 2000, "rejects": 0.05}),
        "domain-field": json.dumps(corpus["domain_field"]),
        "labels": json.dumps(corpus["labels"]),
        "domains": list(block["domains"]),
        "sequence-length": str(LENGTH),
        "held-out-characters": "4000",
        "sample-documents": "3",
        "train": str(tmp_path / "train"),
        "validation": str(tmp_path / "validation"),
    }
    # the manifest is written again: `flags` lists the shard s, whose files these are
    given = tokenised.flags(tmp_path, list(map(Path, files)), NEOX, **settings)
    tokenize_shard.main(given)
    for split in ("train", "validation"):
        report = json.loads((tmp_path / split / "report.json").read_text())
        account = report["records"]
        assert account["in"] == len(records) == account["kept"] + sum(account["rejected"].values())
        assert account["rejected"] == {"empty text": 1, "unknown domain": 1}
        assert set(report["domains"]) == set(block["domains"])
        for domain, found in report["domains"].items():
            stem = tmp_path / split / domain
            assert found["rows"] > 0
            assert found["tokens"] == found["tokens_in_rows"] + found["dropped_tail"]
            assert np.fromfile(f"{stem}.bin", "<u2").size == found["tokens_in_rows"] == found["rows"] * LENGTH
            assert pl.read_parquet(f"{stem}.unigrams.parquet")["n"].sum() == found["tokens_in_rows"]
            assert pl.read_parquet(f"{stem}.bigrams.parquet")["n"].sum() == found["rows"] * (LENGTH - 1)
