"""A tokenizer of 300 ids, trained once."""

import json

import pytest
from tiny_run import READING
from tokenised import END, list_shard, write_records

import train_tokenizer


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    text = [
        {"text": f"The {word} of {word}s;\n    return {number}  # 日本 é"} for number, word in enumerate("abcdef" * 30)
    ]
    shards = list_shard(folder, [write_records(folder / "text.jsonl", text)], "hash", None)
    train_tokenizer.main(
        [
            *(
                "--shards",
                str(shards),
                "--reading",
                json.dumps(READING),
            ),
            *(
                "--validation-share",
                "0",
                "--held-out",
                "--share",
                "1",
                "--vocabulary",
                "300",
                "--end-of-text",
                END,
            ),
            *("--threads", "1", "--out", str(folder / "tokenizer.json")),
        ]
    )
    return folder / "tokenizer.json"
