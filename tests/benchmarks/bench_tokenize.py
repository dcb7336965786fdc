"""Tokens per second of tokenize_shard.py beside a pool of processes (one document a call, as Megatron does), in one run.

JSON lines and a tokenizer.json -> tokens/s of each, their ratio, and the share of the time that counting takes

    python tests/benchmarks/bench_tokenize.py --tokenizer tokenizer.json --cores 2 corpus.jsonl.zst ...
"""

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "workflow" / "scripts"))

import numpy as np
import smart_open
from tokenizers import Tokenizer

import tokenize_shard
from bimix.ngrams import NgramCounter
from bimix.shards import Shard, write_shards

LENGTH = 1024


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json")
    parser.add_argument("--cores", type=int, required=True, help="processes of the pool, threads of the script")
    parser.add_argument("files", nargs="+", help="JSON lines with the field text")
    options = parser.parse_args(argv)

    pool_tokens, pool_seconds = time_pool(options.files, options.tokenizer, options.cores)
    with tempfile.TemporaryDirectory() as folder:
        tokens, seconds = time_script(options.files, options.tokenizer, options.cores, Path(folder))
        ids = np.fromfile(Path(folder) / "train" / "all.bin", dtype="<u2").reshape(-1, LENGTH)
    counter, started = NgramCounter(2**16), time.perf_counter()
    for rows in np.array_split(ids, max(1, len(ids) // 256)):
        counter.add(rows)
    counter.pairs()
    counting = time.perf_counter() - started
    if tokens != pool_tokens:
        raise SystemExit(f"The routes made {tokens} and {pool_tokens} tokens of the same text.")
    print(f"pool of processes   {tokens / pool_seconds / 1e6:6.3f} Mtokens/s")
    print(f"tokenize_shard.py   {tokens / seconds / 1e6:6.3f} Mtokens/s   {pool_seconds / seconds:.2f} times the pool")
    print(
        f"counting alone      {counting / ids.size * 1e9:6.1f} ns/token   {counting / seconds:.1%} of the script's time"
    )


def start_worker(path: str) -> None:
    """Load the tokenizer of one process."""
    global TOKENIZER
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    TOKENIZER = Tokenizer.from_file(path)


def encode_line(line: bytes) -> list[int]:
    """Ids of one document, parsed in the worker."""
    return TOKENIZER.encode(json.loads(line)["text"]).ids


def time_pool(files: list[str], tokenizer: Path, cores: int) -> tuple[int, float]:
    """Tokens and seconds of a pool that writes its ids to a file."""
    started, tokens = time.perf_counter(), 0
    context = multiprocessing.get_context("spawn")
    with context.Pool(cores, start_worker, [str(tokenizer)]) as pool, tempfile.TemporaryFile() as out:
        for name in files:
            with smart_open.open(name, "rb") as lines:
                for ids in pool.imap(encode_line, lines, 25):
                    out.write(np.array([*ids, 0], dtype=np.uint16))
                    tokens += len(ids) + 1
    return tokens, time.perf_counter() - started


def time_script(files: list[str], tokenizer: Path, cores: int, folder: Path) -> tuple[int, float]:
    """Tokens and seconds of the script: rows, counts, sample and report, on disk."""
    shards = folder / "shards.jsonl"
    shards.write_text(write_shards([Shard("all", "train", None, tuple(files))]))
    started = time.perf_counter()
    tokenize_shard.main(
        [
            *(
                "--shards",
                str(shards),
                "--shard",
                "all",
                "--tokenizer",
                str(tokenizer),
                "--end-of-text",
                "<|endoftext|>",
            ),
            *(
                "--sequence-length",
                str(LENGTH),
                "--formats",
                '{".jsonl": "lines"}',
                "--text-field",
                "text",
                "--domain-field",
                "null",
                "--domains",
                "all",
            ),
            *("--labels", "{}", "--cut-characters", "null", "--rejects", "0"),
            *("--validation-share", "0", "--held-out", "--sample-documents", "10000", "--threads", str(cores)),
            *("--train", str(folder / "train"), "--validation", str(folder / "validation")),
        ]
    )
    seconds = time.perf_counter() - started
    return json.loads((folder / "train" / "report.json").read_text())["domains"]["all"]["tokens"], seconds


if __name__ == "__main__":
    main()
