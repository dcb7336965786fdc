"""The run of the paper on a CPU, cut to two updates: through Snakemake, killed, resumed, exported.

a corpus in the Pile's format and GPT-NeoX's tokenizer.json -> seconds and peak memory of the
undisturbed and of the killed run, whether both leave the same bytes

    python tests/benchmarks/bench_paper.py --folder out --tokenizer tokenizer.json \\
        --corpus 'pile22/*.jsonl.zst'
    ... --shape '{"layers": 2, "width": 64, "heads": 2}'  # to try the script

The dataset is the shipped `pile`, the model the shipped `1B`, without a GPU, in fp32, with fewer
rows, on the mixture `baseline`. The process that trains is ended by SIGKILL once the checkpoint of
the first update lies there. It ends with an error where the second call begins at update 0, where
weights, losses or exported files differ from those of the undisturbed run, or where a domain has no
loss. At the shipped shape it needs 40 GB on the disk.
"""

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import bench
import polars as pl
import psutil
import yaml

NAME, MODEL = "paper", "1B"
RUN = f"results/{NAME}/runs/{MODEL}/baseline"
FILES = ("model.safetensors", "losses.parquet")
POLL_SECONDS = 0.05


def main(argv: list[str] | None = None) -> None:
    parser = bench.parser(__doc__, "--json")
    parser.add_argument("--corpus", required=True, help="glob of JSON lines in the Pile's format")
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json")
    parser.add_argument("--folder", type=Path, required=True, help="of the dataset; emptied first")
    parser.add_argument("--shape", type=json.loads, help="layers, width and heads instead of the shipped ones")
    parser.add_argument("--sequence-length", type=int, default=128, help="tokens of a row (128; the paper: 1,024)")
    parser.add_argument("--rows", type=int, default=2, help="of a batch (2; the paper: 512)")
    options = parser.parse_args(argv)
    folder = options.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(configure(options), allow_unicode=True), encoding="utf-8")
    run, undisturbed = folder / RUN, folder / "undisturbed"

    numbers = {"s of the corpus": seconds(folder, f"results/{NAME}/tokens/train.parquet")}
    numbers["s undisturbed"] = seconds(folder, f"{RUN}/export")
    numbers["MB undisturbed"] = peak(folder)
    undisturbed.mkdir()
    for name in (*FILES, "export"):
        (run / name).rename(undisturbed / name)
    shutil.rmtree(run)

    numbers["s until killed"] = kill_at_checkpoint(folder)
    numbers["s resumed"] = seconds(folder, f"{RUN}/export")
    numbers["MB resumed"] = peak(folder)
    attempts = [json.loads(line) for path in run.glob("state/*/attempts.jsonl") for line in path.open()]
    begun = [line["step"] for line in attempts if line["event"] == "begun"]
    if begun != [0, 1]:
        sys.exit(f"the attempts begin after the updates {begun}, not after 0 and 1")
    exported = [path.relative_to(undisturbed) for path in (undisturbed / "export").rglob("*") if path.is_file()]
    other = [str(name) for name in (*map(Path, FILES), *exported) if not same(run / name, undisturbed / name)]
    if other or not exported:
        sys.exit(f"the resumed run has other bytes: {other}" if exported else "nothing was exported")
    losses = pl.read_parquet(run / "losses.parquet")
    domains = len(bench.shipped()["datasets"]["pile"]["domains"])
    if sorted(losses["step"].unique()) != [1, 2] or losses.height != 2 * domains:
        sys.exit(f"{losses.height} losses are not one of {domains} domains after 1 and 2 updates")
    last = losses.group_by("step").agg(pl.col("loss").mean()).sort("step")["loss"]
    numbers |= {"first loss": last[0], "last loss": last[-1], "files of equal bytes": len(FILES) + len(exported)}
    for name, value in numbers.items():
        print(f"{name:21} {value:10.3f}")
    bench.keep(options.json, numbers)


def configure(options: argparse.Namespace) -> dict:
    """The shipped dataset `pile` with this corpus and two updates of 1B on one thread."""
    defaults = bench.shipped()
    dataset = defaults["datasets"]["pile"]
    corpus = str(Path(options.corpus).absolute())
    dataset["corpus"] |= {"train": corpus, "validation": {"share": 0.05}, "cut_characters": 4000}
    dataset["tokenizer"] = {"file": str(options.tokenizer.resolve()), "end_of_text": "<|endoftext|>"}
    dataset["sequence_length"] = options.sequence_length
    cut = {"steps": 2, "evaluate_every": 1, "validation_rows": 1, "batch_rows": options.rows, "precision": "no"}
    dataset["training"][MODEL] |= cut
    for block in ("downstream", "vectors"):  # of files that are not here
        del dataset[block]
    launch = {"nodes": 1, "gpus": 0, "threads": 1, "micro_batch": 1, "loss_chunk": 128, "compile": "no"}
    model = {"shape": options.shape or defaults["models"][MODEL]["shape"], "launch": launch}
    return {"run": [NAME], "models": {MODEL: model}, "datasets": {NAME: dataset}}


def command(target: str) -> list[str]:
    words = [
        "-s",
        str(bench.ROOT / "Snakefile"),
        "--cores",
        "1",
        "--workflow-profile",
        str(bench.ROOT / "profiles/default"),
    ]
    return [sys.executable, "-m", "snakemake", *words, "--quiet", "--", target]


def seconds(folder: Path, target: str) -> float:
    """Have Snakemake make a file; the seconds that it took."""
    begun = time.monotonic()
    done = subprocess.run(command(target), cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{target} was not made:\n{done.stdout}{done.stderr}")
    return time.monotonic() - begun


def kill_at_checkpoint(folder: Path) -> float:
    """Start the run and end the process that trains once it has written a checkpoint; seconds."""
    begun = time.monotonic()
    with (folder / "killed.log").open("w", encoding="utf-8") as log:
        workflow = subprocess.Popen(command(f"{RUN}/losses.parquet"), cwd=folder, stdout=log, stderr=log)
        while not list((folder / RUN).glob("state/*/step-000000001.pt")):
            if workflow.poll() is not None:
                sys.exit(f"the training ended before it was killed; see {log.name}")
            time.sleep(POLL_SECONDS)
        for process in psutil.Process(workflow.pid).children(recursive=True):
            if any(word.endswith("pretrain_model.py") for word in process.cmdline()[:4]):
                process.send_signal(signal.SIGKILL)
        if workflow.wait() == 0:
            sys.exit("the training ended although it was killed")
    return time.monotonic() - begun


def peak(folder: Path) -> float:
    """Peak resident memory of the last run in MB, as Snakemake's benchmark measured it."""
    table = pl.read_csv(folder / f"results/{NAME}/benchmarks/pretrain_model/{MODEL}/baseline.tsv", separator="\t")
    return table["max_rss"].cast(pl.Float64)[0]


def same(one: Path, other: Path) -> bool:
    """Whether both files have the same bytes."""
    return one.exists() and subprocess.run(["cmp", "--silent", one, other], check=False).returncode == 0


if __name__ == "__main__":
    main()
