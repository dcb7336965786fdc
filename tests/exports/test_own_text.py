"""Exports of text that was tokenised here, read by their consumers: rows that are spread over the
text, records that make up the mixture.
"""

import json
from collections import Counter
from itertools import islice
from pathlib import Path

import consumers
import numpy as np
import pytest
from tokenised import flags, reading, words

import describe_data
import export_mixture
import index_tokens
import tokenize_shard
from bimix.corpus.shards import Shard, write_shards

LENGTH = 16
WORDS = 4000


def tokenised_text(folder: Path, domains: dict[str, list[Path]], cut: int | None, files: str) -> None:
    """Tokenise a shard for each domain, and write data.json of the raw files or of the rows."""
    tokenizer = words(folder / "words.json", WORDS)
    shards = [Shard(name, "hash", name, tuple(map(str, paths))) for name, paths in domains.items()]
    for shard in shards:
        changes = {"domains": shard.domain, "domain-field": "null", "shard": shard.name, "validation-share": "0.1"}
        changes |= {split: str(folder / "shards" / split / shard.name) for split in ("train", "validation")}
        given = flags(folder, [], tokenizer, reading=reading(cut_characters=cut), **changes)
        (folder / "shards.jsonl").write_text(write_shards(shards))
        tokenize_shard.main(given)
    indices = [str(folder / f"{split}.parquet") for split in ("train", "validation")]
    manifest = ["--shards", str(folder / "shards.jsonl")]
    written = [part for split, path in zip(("--train", "--validation"), indices, strict=True) for part in (split, path)]
    index_tokens.main(["--folder", str(folder / "shards"), *manifest, "--domains", *domains, *written])
    out = ["--files", files, "--index", *indices, "--out", str(folder / "data.json")]
    describe_data.main([*manifest, *out])


def exported(folder: Path, form: str, run_tokens: int = 10_000) -> str:
    """An even mixture of web and code in a format of Python."""
    (folder / "mixture.json").write_text('{"web": 0.5, "code": 0.5}')
    given = ["--mixture", str(folder / "mixture.json"), "--data", str(folder / "data.json"), "--format", form]
    export_mixture.main([*given, "--run-tokens", str(run_tokens), "--out", str(folder / "out.py")])
    return consumers.written(folder / "out.py")


def write_lines(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def numbers(first: int, last: int) -> str:
    return " ".join(map(str, range(first, last)))


@pytest.mark.parametrize("share", [0.05, 0.3, 0.9, 2.2])
def test_olmo_core_reads_rows_from_all_over_each_file(tmp_path: Path, capsys, share: float) -> None:
    # every word tells where in its file it stands
    texts = [
        " ".join(str(word) for word in range(first, first + 40) for _ in range(10)) for first in range(0, WORDS, 40)
    ]
    files = [
        write_lines(tmp_path / f"{name}.jsonl", [f"{name} {text}" for text in texts]) for name in ("a", "b", "code")
    ]
    tokenised_text(tmp_path, {"web": files[:2], "code": files[2:]}, None, "rows")
    tokens = json.loads((tmp_path / "data.json").read_text())["domains"]["web"]["train"]
    text = exported(tmp_path, "olmo-core", int(2 * share * sum(file["size"] for file in tokens)))
    rows = consumers.olmo_rows(consumers.olmo_config(text), LENGTH, "<u2")["web"]
    assert len(rows) * LENGTH == pytest.approx(share * sum(file["size"] for file in tokens), rel=0.05)
    fifths = np.bincount(rows[:, 1] * 5 // WORDS, minlength=5)[:5] / len(rows)
    assert fifths.min() > 0.1 and fifths.max() < 0.3
    assert f"Rows of {LENGTH} tokens stand in a permuted order" in capsys.readouterr().err


@pytest.mark.parametrize("ending", [".jsonl", ".txt"])
def test_hugging_face_datasets_draws_the_mixture_of_raw_files_whose_documents_are_cut(
    tmp_path: Path, ending: str
) -> None:
    pytest.importorskip("datasets")
    texts = {
        "web": [numbers(number, number + 30) for number in range(1000, 1200)],
        "code": [numbers(number, number + 400) + "\n" + numbers(1000, 1050) for number in range(1000, 1040)],
    }
    domains = {}
    for name, own in texts.items():
        if ending == ".jsonl":
            domains[name] = [write_lines(tmp_path / f"{name}.jsonl", own)]
        else:
            domains[name] = [tmp_path / f"{name}{number}.txt" for number in range(20)]
            for path, text in zip(domains[name], own, strict=False):
                path.write_text(text)
    tokenised_text(tmp_path, domains, 100, "raw")
    mixture = consumers.executed(exported(tmp_path, "huggingface"))["mixture"](seed=1)
    drawn = Counter()
    for row in islice(mixture, 4000):
        drawn["code" if "\n" in row["text"] else "web"] += len(row["text"])
    assert drawn["code"] / drawn.total() == pytest.approx(0.5, abs=0.05)
