"""A tokenizer of 300 ids, trained once."""

import pytest
from tokenised import train


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    records = [
        {"text": f"The {word} of {word}s;\n    return {number}  # 日本 é"} for number, word in enumerate("abcdef" * 30)
    ]
    return train(tmp_path_factory.mktemp("tokenizer"), records)
