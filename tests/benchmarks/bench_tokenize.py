"""Tokens per second of tokenize_shard.py, by backend, beside what others use, on the same
text and cores in one run.

JSON lines and a tokenizer.json -> tokens/s of a pool of processes (one document a call, as
Megatron's preprocessing does), of datasets.map (where `datasets` is installed), of the script with
each backend; the shares of counting and of permuting rows; the time and memory of merging the
counts of many shards

python tests/benchmarks/bench_tokenize.py --tokenizer tokenizer.json --cores 2 --merge 1000 \
    corpus.jsonl.zst ...
"""

import argparse
import importlib.util
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "workflow" / "scripts"))

import numpy as np
import polars as pl
import smart_open
from tokenizers import Tokenizer

from bimix.corpus.counts import NgramCounter
from bimix.corpus.shards import Shard, write_shards
from bimix.corpus.stream import Stream

READING = {
    "formats": {".jsonl": "lines"},
    "text_field": "text",
    "document_megabytes": 8,
    "cut_characters": None,
    "rejects": 0.0,
}

SCRIPTS = Path(__file__).parents[2] / "workflow" / "scripts"
LENGTH = 1024


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json")
    parser.add_argument("--cores", type=int, required=True, help="processes of the pool, threads of the script")
    parser.add_argument("--repeat", type=int, default=1, help="how often the fast routes read the files: a real shard")
    parser.add_argument("--fast", action="store_true", help="the routes of gigatoken only, which take seconds")
    parser.add_argument("--merge", type=int, required=True, help="shards whose counts are merged; 0: none")
    parser.add_argument("files", nargs="+", help="JSON lines with the field text")
    options = parser.parse_args(argv)

    with tempfile.TemporaryDirectory() as folder:
        routes = {}
        if not options.fast:
            routes["pool of processes"] = time_pool
            if importlib.util.find_spec("datasets"):
                routes["datasets.map"] = time_map
            routes["script, tokenizers"] = lambda *rest: time_script("tokenizers", *rest)
        if importlib.util.find_spec("gigatoken"):
            routes["in turn, gigatoken"] = lambda files, *rest: time_script(
                "gigatoken", files * options.repeat, *rest, in_turn=True
            )
            routes["no counts, gigatoken"] = lambda files, *rest: time_script(
                "gigatoken", files * options.repeat, *rest, counting=False
            )
            routes["script, gigatoken"] = lambda files, *rest: time_script("gigatoken", files * options.repeat, *rest)
        compare(routes, options, Path(folder))
        if options.merge:
            merge_many(Path(folder) / "train" / "all", options.merge, Path(folder) / "merge")


def compare(
    routes: dict[str, Callable[[list[str], Path, int, Path], tuple[int, float]]],
    options: argparse.Namespace,
    folder: Path,
) -> None:
    """Print tokens/s and CPU time of each route and the share of counting in the script's.

    Beside other work on the machine the CPU times say more than the rates.
    """
    spent, peers = {}, []
    for name, route in routes.items():
        before = os.times()
        tokens, seconds = route(options.files, options.tokenizer, options.cores, folder)
        used = sum(os.times()[:4]) - sum(before[:4])
        spent[name] = used / tokens
        print(f"{name:20} {tokens:12,} tokens {tokens / seconds / 1e6:7.3f} Mtokens/s {used:6.1f} s of CPU", end="")
        peers += [(name, tokens / seconds, used / tokens)] if len(peers) < 2 else []
        for peer, rate, cost in peers:
            print(f"   {tokens / seconds / rate:5.2f} x {peer} ({cost / spent[name]:.2f} by CPU)", end="")
        print(flush=True)
    ids = np.fromfile(folder / "train" / "all" / "all.bin", dtype="<u2").reshape(-1, LENGTH)
    costs = {"counting": measure_counting(ids), "permuting": measure_permuting(ids, folder)}
    for name, cost in costs.items():
        shares = ", ".join(f"{cost / whole:.1%} of {route}" for route, whole in spent.items() if "," in route)
        print(f"{name} alone, CPU  {cost * 1e9:.1f} ns/token: {shares}")


def measure_counting(ids: np.ndarray) -> float:
    """CPU seconds a token of counting rows that come in as a shard's do."""
    counter, started = NgramCounter(), time.process_time()
    for rows in np.array_split(ids, max(1, len(ids) // 256)):
        counter.add(rows)
    counter.pairs()
    return (time.process_time() - started) / ids.size


def measure_permuting(ids: np.ndarray, folder: Path) -> float:
    """CPU seconds a token of writing rows again in their permuted order, with their digest."""
    with Stream(folder / "permuted", LENGTH, 2**16, 0) as stream:
        stream.unordered.write(ids)
        stream.rows = len(ids)
        started = time.process_time()
        stream.permute_rows()
        return (time.process_time() - started) / ids.size


def start_worker(path: str) -> None:
    """Load the tokenizer of one process."""
    global TOKENIZER
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    TOKENIZER = Tokenizer.from_file(path)
    TOKENIZER.encode_special_tokens = True


def encode_line(line: bytes) -> list[int]:
    """Ids of one document, parsed in the worker."""
    return TOKENIZER.encode(json.loads(line)["text"]).ids


def time_pool(files: list[str], tokenizer: Path, cores: int, folder: Path) -> tuple[int, float]:
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


MAP = """
import json, sys
from datasets import Dataset
from transformers import PreTrainedTokenizerFast
import smart_open
files, tokenizer, cores, cache = json.loads(sys.argv[1])
fast = PreTrainedTokenizerFast(tokenizer_file=tokenizer, split_special_tokens=True)
fast.backend_tokenizer.encode_special_tokens = True
def records():
    for name in files:
        with smart_open.open(name, "rb") as lines:
            for line in lines:
                yield {"text": json.loads(line)["text"]}
data = Dataset.from_generator(records, cache_dir=cache)
mapped = data.map(lambda batch: {"ids": [ids + [0] for ids in fast(batch["text"])["input_ids"]]},
    batched=True, num_proc=cores, remove_columns=["text"])
print(sum(map(len, mapped["ids"])))
"""


def time_map(files: list[str], tokenizer: Path, cores: int, folder: Path) -> tuple[int, float]:
    """Tokens and seconds of datasets.map with as many processes, in batches of 1,000."""
    started = time.perf_counter()
    settings = json.dumps([[str(Path(name).resolve()) for name in files], str(tokenizer), cores, str(folder / "cache")])
    environment = os.environ | {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", MAP, settings], capture_output=True, text=True, check=True, env=environment
    )
    return int(done.stdout.splitlines()[-1]), time.perf_counter() - started


CHANGED = """
import sys
from concurrent.futures import Future
sys.path.insert(0, {scripts!r})
import tokenize_shard
from bimix.corpus import stream

class InTurn:
    def __init__(self, max_workers):
        pass
    def __enter__(self):
        return self
    def __exit__(self, *error):
        pass
    def submit(self, function, *arguments):
        done = Future()
        done.set_result(function(*arguments))
        return done

if {in_turn}:
    tokenize_shard.ThreadPoolExecutor = stream.ThreadPoolExecutor = InTurn
if not {counting}:
    stream.NgramCounter.add = lambda self, rows: None
tokenize_shard.main()
"""


def time_script(
    backend: str,
    files: list[str],
    tokenizer: Path,
    cores: int,
    folder: Path,
    in_turn: bool = False,
    counting: bool = True,
) -> tuple[int, float]:
    """Tokens and seconds of the script, Python's start included: rows, counts,
    sample and report, on disk.

    `in_turn` reads, encodes, writes and counts one after the other; without
    `counting` nothing is counted.
    """
    shards = folder / "shards.jsonl"
    shards.write_text(write_shards([Shard("all", "train", "all", tuple(files))]))
    arguments = [
        *("--shards", str(shards), "--shard", "all", "--tokenizer", str(tokenizer), "--backend", backend),
        *("--end-of-text", "<|endoftext|>", "--sequence-length", str(LENGTH), "--reading", json.dumps(READING)),
        *("--domain-field", "null", "--domains", "all", "--labels", "{}"),
        *("--validation-share", "0", "--held-out-characters", "20000", "--held-out"),
        *("--sample-documents", "10000", "--threads", str(cores)),
        *("--train", str(folder / "train/all"), "--validation", str(folder / "validation/all")),
    ]
    started = time.perf_counter()
    code = CHANGED.format(scripts=str(SCRIPTS), in_turn=in_turn, counting=counting)
    peak = run_python(["-c", code, *arguments])
    seconds = time.perf_counter() - started
    print(f"peak memory {peak:.0f} MB, ", end="")
    report = json.loads((folder / "train/all/report.json").read_text())
    if report["encoder"]["backend"] != backend:
        raise SystemExit(f"The backend was refused: {report['encoder']['refused']}.")
    return report["domains"]["all"]["tokens"], seconds


def run_python(arguments: list[str]) -> float:
    """Run Python in a process of its own; its peak memory in MB."""
    process = subprocess.Popen([sys.executable, *arguments])
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit("The script failed.")
    return usage.ru_maxrss / 1024


def merge_many(shard: Path, copies: int, folder: Path) -> None:
    """Print time and peak memory of merging one shard's counts so often, in a process alone."""
    folder.mkdir()
    index = {"domain": ["all"] * copies, "rows": [1] * copies, "path": []}
    for copy in range(copies):
        for ending in ("bigrams", "unigrams"):
            (folder / f"{copy}.{ending}.parquet").hardlink_to(shard / f"all.{ending}.parquet")
        index["path"].append(str(folder / f"{copy}.bin"))
    pl.DataFrame(index).write_parquet(folder / "index.parquet")
    arguments = ["--index", folder / "index.parquet", "--domain", "all"]
    arguments += ["--bigrams", folder / "bigrams.parquet", "--unigrams", folder / "unigrams.parquet"]
    started = time.perf_counter()
    peak = run_python([str(argument) for argument in [SCRIPTS / "merge_counts.py", *arguments]])
    seconds = time.perf_counter() - started
    pairs = len(pl.read_parquet(folder / "bigrams.parquet"))
    print(f"merging {copies} shards of {pairs:,} pairs: {seconds:.1f} s, peak memory {peak:.0f} MB")


if __name__ == "__main__":
    main()
