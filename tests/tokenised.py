"""Raw files, a manifest, a tokenizer and the flags of tokenize_shard.py."""

import json
from pathlib import Path
from types import ModuleType

import smart_open
from tiny_run import READING
from tokenizers import Tokenizer, models, pre_tokenizers

import tokenize_shard
import train_tokenizer
from bimix.corpus.shards import Shard, write_shards

END = "<|endoftext|>"
LABELS = {"Gutenberg (PG-19)": "Gutenberg_(PG-19)", "b.v2": "b.v2", "c": "c"}
NEOX = Path(__file__).parents[1].parent / "shared" / "data" / "tokenizer" / "20B_tokenizer.json"


def call(script: ModuleType, **settings: object) -> None:
    """Run a script with a flag for each setting; a list has several values, or none."""
    arguments = []
    for name, value in settings.items():
        values = value if isinstance(value, list | tuple) else [value]
        arguments += [f"--{name.replace('_', '-')}", *map(str, values)]
    script.main(arguments)


def write_records(path: Path, records: list[dict], end: str = "\n") -> Path:
    with smart_open.open(path, "wb") as file:
        for record in records:
            file.write(json.dumps(record).encode() + end.encode())
    return path


def reading(**changes: object) -> str:
    """How raw files are read, but for some settings."""
    return json.dumps(READING | changes)


def list_shard(folder: Path, files: list[Path], split: str, domain: str | None) -> Path:
    """A manifest of one shard called s."""
    path = folder / "shards.jsonl"
    path.write_text(write_shards([Shard("s", split, domain, tuple(map(str, files)))]))
    return path


def train(folder: Path, records: list[dict], **changes: str) -> Path:
    """A tokenizer of these records, of 300 ids; nothing is held out unless `changes` say so."""
    shards = list_shard(folder, [write_records(folder / "raw.jsonl", records)], "hash", None)
    out = folder / "tokenizer.json"
    settings = {"shards": str(shards), "reading": reading(), "validation-share": "0", "share": "1", "threads": "1"}
    settings |= {"held-out-characters": "20000", "fewer": "false"}
    settings |= {"vocabulary": "300", "end-of-text": END, "out": str(out)} | changes
    flags = [part for name, value in settings.items() for part in (f"--{name}", value)]
    train_tokenizer.main(flags)
    return out


def words(path: Path, size: int) -> Path:
    """A tokenizer whose words are the numbers below `size`, the end of text after them."""
    vocabulary = {str(number): number for number in range(size)} | {END: size, "?": size + 1}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(path))
    return path


def tokenize(
    folder: Path, files: list[Path], tokenizer: Path, split: str = "hash", **changes: str | list[str]
) -> dict[str, dict]:
    """Run the script; report.json by split."""
    tokenize_shard.main(flags(folder, files, tokenizer, split, **changes))
    return {split: json.loads((folder / split / "s" / "report.json").read_text()) for split in ("train", "validation")}


def flags(
    folder: Path, files: list[Path], tokenizer: Path, split: str = "hash", **changes: str | list[str]
) -> list[str]:
    """Arguments of the script for a shard of these files."""
    folder.mkdir(exist_ok=True)
    settings = {
        "shards": str(list_shard(folder, files, split, None)),
        "shard": "s",
        "tokenizer": str(tokenizer),
        "backend": "tokenizers",
        "end-of-text": END,
        "sequence-length": "16",
        "reading": json.dumps(READING),
        "domain-field": '"meta.set"',
        "domains": list(LABELS),
        "labels": json.dumps({"Gutenberg (PG-19)": "Gutenberg_(PG-19)"}),
        "validation-share": "0.3",
        "held-out-characters": "20000",
        "held-out": [],
        "sample-documents": "5",
        "threads": "1",
        "train": str(folder / "train" / "s"),
        "validation": str(folder / "validation" / "s"),
    }
    arguments = []
    for name, value in (settings | changes).items():
        arguments += [f"--{name}", *([value] if isinstance(value, str) else value)]
    return arguments
