"""Tokens per second of tokenize_shard.py, by backend, on the same text and cores in one run.

JSON lines and a tokenizer.json -> tokens/s of the script with each backend, the share of counting

python tests/benchmarks/bench_tokenize.py --tokenizer tokenizer.json --cores 2 corpus.jsonl.zst ...
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bench
import numpy as np

from bimix.corpus.counts import NgramCounter
from bimix.corpus.shards import Shard, write_shards

READING = {
    "formats": {".jsonl": "lines"},
    "text_field": "text",
    "document_megabytes": 8,
    "cut_characters": None,
    "rejects": 0.0,
}

SCRIPTS = bench.ROOT / "workflow" / "scripts"
LENGTH = 1024


def main(argv: list[str] | None = None) -> None:
    parser = bench.parser(__doc__)
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json")
    parser.add_argument("--cores", type=int, required=True, help="threads of the script")
    parser.add_argument("--repeat", type=int, default=1, help="how often gigatoken reads the files: a real shard")
    parser.add_argument("files", nargs="+", help="JSON lines with the field text")
    options = parser.parse_args(argv)

    with tempfile.TemporaryDirectory() as folder:
        compare(options, Path(folder))


def compare(options: argparse.Namespace, folder: Path) -> None:
    """Print tokens/s and CPU time of each backend, and the share of counting in them.

    Next to other work on the machine the CPU times say more than the rates.
    """
    spent, files = {}, {"tokenizers": options.files}
    if importlib.util.find_spec("gigatoken"):
        files["gigatoken"] = options.files * options.repeat
    for backend, read in files.items():
        before = os.times()
        tokens, seconds = time_script(backend, read, options.tokenizer, options.cores, folder)
        used = sum(os.times()[:4]) - sum(before[:4])
        spent[backend] = used / tokens
        print(f"{backend:10} {tokens:12,} tokens {tokens / seconds / 1e6:7.3f} Mtokens/s, {used:.1f} s of CPU")
    cost = measure_counting(np.fromfile(folder / "train" / "all" / "all.bin", dtype="<u2").reshape(-1, LENGTH))
    shares = ", ".join(f"{cost / whole:.1%} of {backend}" for backend, whole in spent.items())
    print(f"counting alone, CPU  {cost * 1e9:.1f} ns/token: {shares}")


def measure_counting(ids: np.ndarray) -> float:
    """CPU seconds a token of counting rows that come in as a shard's do."""
    counter, started = NgramCounter(), time.process_time()
    for rows in np.array_split(ids, max(1, len(ids) // 256)):
        counter.add(rows)
    counter.pairs()
    return (time.process_time() - started) / ids.size


def time_script(backend: str, files: list[str], tokenizer: Path, cores: int, folder: Path) -> tuple[int, float]:
    """Tokens and seconds of the script, Python's start included: rows, counts, sample and report,
    on disk.
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
    peak = run_python([str(SCRIPTS / "tokenize_shard.py"), *arguments])
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


if __name__ == "__main__":
    main()
