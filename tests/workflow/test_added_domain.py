"""A domain that is added: the tokenizer and the shards of the others stay."""

import json
import re
from pathlib import Path

import pytest
from checkout import jobs, said
from mini_dataset import mini_config, texts, write_checkout

TOKENS = "results/mini/tokens/train.parquet"


@pytest.mark.slow
def test_a_domain_that_is_added_keeps_tokenizer_and_shards(tmp_path: Path) -> None:
    config = mini_config(4, 4, slim={})
    block = config["datasets"]["mini"]
    del block["tokenizer"]["train"]["vocabulary"], block["corpus"]["cut_characters"]  # they are chosen by the text
    write_checkout(tmp_path, config, ["plain"])
    printed = said(tmp_path, TOKENS, "--configfile", "mini.yaml")
    (chosen,) = re.findall(r"by the size of its text: tokenizer/train/vocabulary (\d+)\.", printed)
    block["domains"].append("wood")
    block["corpus"]["train"]["wood"] = "wood.jsonl"
    (tmp_path / "wood.jsonl").write_text("".join(texts(["oak", "elm", "birch", "bark", "leaf"])))
    # as the first call printed it, and a setting of its own
    for more, again in (
        (0, {"train_tokenizer": 0, "tokenize_shard": 1}),
        (1, {"train_tokenizer": 1, "tokenize_shard": 3}),
    ):
        block["tokenizer"]["train"]["vocabulary"] = int(chosen) + more
        (tmp_path / "mini.yaml").write_text(json.dumps(config))
        planned = jobs(said(tmp_path, TOKENS, "--configfile", "mini.yaml", "-n"))
        assert {rule: planned.get(rule, 0) for rule in again} == again
