"""Prove in a few minutes that trainings will run here: queue, GPU, shared disk, stop and resume.

a profile, GPUs of a run -> a small training through the workflow itself, stopped once with SIGTERM;
a line a check, and exit status 1 where one failed

Call it where you would call snakemake. What it makes is in results/doctor and doctor/; another call
begins again.
"""

import argparse
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from bimix.errors import InputError, run
from bimix.outputs import write_json
from bimix.results.watch import held_jobs

RESULTS, OWN = Path("results/doctor"), Path("doctor")
RUN = RESULTS / "runs/doctor/baseline"
# Free, below which a real run may fill the disk: two checkpoints of 280M parameters are 6.7 GB.
LEAST_GB, LEAST_INODES = 10, 100_000
STEPS = 2000
SAME = ("torch", "accelerate", "numpy", "polars")  # packages that must be the same here and on the node
WORDS = {"harbour": "tide gull mast rope salt wave", "kitchen": "pan oven whisk dough salt spoon"}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", type=Path, help="folder of the profile of the cluster; without it this machine")
    parser.add_argument("--gpus", type=int, default=0, help="of the training, on one node (%(default)s)")
    parser.add_argument("--tokenizer", help="tokenizer.json, or a name on the hub: read offline, as on a node")
    parser.add_argument("--minutes", type=float, default=30, help="wait so long for the queue (%(default)s)")
    options = parser.parse_args(argv)
    if not Path("Snakefile").is_file():
        raise InputError("there is no Snakefile here: call this in the folder of the workflow, as you would snakemake.")
    if options.profile and not (options.profile / "config.yaml").is_file():
        raise InputError(f"--profile is {options.profile}: there is no config.yaml in it.")
    if RESULTS.exists() and not (OWN / "doctor.json").is_file():
        raise InputError(f"{RESULTS} is there, and no check made it: move it away, or call this in another folder.")

    checks = {"disk": disk, "locks and links": links}
    if options.tokenizer:
        checks["tokenizer, offline"] = partial(tokenizer, options.tokenizer)
    if options.profile:
        checks["partitions"] = partial(partitions, options.profile, options.gpus)
    checks["queue and training"] = partial(train, options)
    checks["stopped and resumed"] = resumed
    checks["the node"] = partial(node, options.gpus)
    failed = False
    for name, check in checks.items():
        try:
            print(f"ok      {name}: {check()}", flush=True)
        except (InputError, OSError) as error:
            print(f"FAILED  {name}: {error}", flush=True)
            failed = True
            if name == "queue and training":
                break  # what follows reads its run
    return int(failed)


def tokenizer(name: str) -> str:
    """Errors: it cannot be had without the network."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from fetch_tokenizer import download

    path = Path(name) if Path(name).is_file() else download(name, None)
    return f"{path} is there."


def disk() -> str:
    """Errors: less than a few real runs need, or no folder for Snakemake's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "snakemake")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        TemporaryDirectory(dir=cache).cleanup()
    except OSError as error:
        raise InputError(f"Snakemake cannot write {cache} ({error.strerror}): set XDG_CACHE_HOME.") from None
    RESULTS.mkdir(parents=True, exist_ok=True)
    free, there = shutil.disk_usage(RESULTS).free / 1e9, os.statvfs(RESULTS)
    few = there.f_files and there.f_favail < LEAST_INODES  # some file systems count none
    said = f"{free:.0f} GB and {there.f_favail:,} files free under results/"
    if free < LEAST_GB or few:
        raise InputError(f"{said}: {LEAST_GB} GB and {LEAST_INODES:,} files are little for checkpoints and shards.")
    return said + "."


def links() -> str:
    """Errors: the file system of results/ has no locks or no hard links, which checkpoints need."""
    with TemporaryDirectory(dir=RESULTS) as folder, open(f"{folder}/one", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.link(file.name, f"{folder}/other")
        except OSError as error:
            said = f"results/ lies where files cannot be locked or linked ({error}): put it elsewhere."
            raise InputError(said) from None
    return "results/ has both."


def partitions(profile: Path, gpus: int) -> str:
    """Errors: no such partition, none with GPUs for trainings, or preempted jobs are cancelled."""
    settings = yaml.safe_load((profile / "config.yaml").read_text(encoding="utf-8"))
    if settings.get("executor") != "slurm":
        return "the profile is not one of SLURM."
    others = resources(settings.get("default-resources")).get("slurm_partition")
    trainings = resources(settings.get("set-resources"), "pretrain_model:").get("slurm_partition", others)
    wrapped = Path(shutil.which("squeue") or "").resolve() == (profile / "bin/squeue").resolve()
    for name in {*str(others or "").split(","), *str(trainings or "").split(",")} - {""}:
        shown = answer("scontrol", "show", "partition", "--oneliner", name)
        if not wrapped and "PreemptMode=CANCEL" in shown:
            raise InputError(
                f"SLURM cancels the jobs that it preempts in partition {name!r}, and the executor plugin waits for ever "
                f"for them: put {profile / 'bin'} first on PATH."
            )
    if gpus and trainings and "gpu" not in answer("sinfo", "--noheader", "--format=%G", "--partition", str(trainings)):
        raise InputError(f"trainings go to the partition {trainings!r}, which has no GPUs: see `sinfo -o '%P %G'`.")
    return f"trainings go to {trainings}, other jobs to {others}."


def resources(given: dict | list[str] | None, rule: str = "") -> dict:
    """Resources in a profile, of a rule such as `pretrain_model:`: a block, or a list of `rule:name=value`."""
    if isinstance(given, list):
        own = [text.strip().removeprefix(rule) for text in given if text.strip().startswith(rule)]
        return dict(text.split("=", 1) for text in own if "=" in text)
    return ((given or {}).get(rule.rstrip(":")) if rule else given) or {}


def answer(*command: str) -> str:
    """Errors: the command failed, with what it said."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"`{' '.join(command)}` failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def train(options: argparse.Namespace) -> str:
    """Train through the workflow, and stop the first attempt once it has saved a state."""
    shutil.rmtree(RESULTS, ignore_errors=True)
    write_dataset(options.gpus)
    profile = ["--workflow-profile", str(options.profile)] if options.profile else ["--cores", "all"]
    command = [sys.executable, "-m", "snakemake", *profile, "--retries", "2", "--configfile", str(OWN / "doctor.json")]
    begun, stopped = time.time(), False
    with (OWN / "snakemake.log").open("w") as log:
        call = subprocess.Popen([*command, "--", str(RUN / "losses.parquet")], stdout=log, stderr=subprocess.STDOUT)
        try:
            while call.poll() is None:
                if time.time() - begun > 60 * options.minutes:
                    said = f"nothing was trained within {options.minutes:g} minutes: {OWN / 'snakemake.log'}"
                    raise InputError(" ".join([said, *held_jobs()]))
                lines = noted()
                if not stopped and any(line["event"] == "saved" for line in lines):
                    check_held(RUN / "state/lock")
                    stop(lines[-1])
                    stopped = True
                time.sleep(0.2)
        finally:
            if call.poll() is None:
                call.send_signal(signal.SIGINT)
                call.wait()
    if call.returncode:
        raise InputError(f"the workflow ended with status {call.returncode}: see {OWN / 'snakemake.log'}.")
    first = next(line for line in noted() if line["event"] == "begun")
    where = f"job {first['job']} on {first['host']}" if first["job"] else first["host"]
    return f"{where} began {first['time'] - begun:.0f} s after the call, all ended after {time.time() - begun:.0f} s."


def noted() -> list[dict]:
    """Notes of the attempts at the run."""
    from bimix.training.checkpoints import attempts  # imports torch, which --help does without

    return [line for folder in sorted(RUN.glob("state/*/")) for line in attempts(folder)]


def check_held(lock: Path) -> None:
    """Errors: a lock that the training holds on its node can be taken here."""
    with lock.open() as file, suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        raise InputError(
            f"{lock} is held by the training and can be taken here: mount results/ with locks between nodes."
        )


def stop(line: dict) -> None:
    """Send the attempt SIGTERM, as a cluster does that wants its node back."""
    if line["job"]:
        subprocess.run(["scancel", str(line["job"])], check=True)
    else:
        os.kill(line["process"], signal.SIGTERM)


def resumed() -> str:
    """Errors: the run was not stopped, or began again at its start."""
    begun = [line for line in noted() if line["event"] == "begun"]
    if len(begun) < 2:
        raise InputError("the run ended before it could be stopped: nothing is known.")
    if begun[-1]["step"] == 0:
        raise InputError("the second attempt began again at step 0: the first could not save its state in time.")
    return f"after SIGTERM another attempt went on at step {begun[-1]['step']} of {STEPS}, on {begun[-1]['host']}."


def node(gpus: int) -> str:
    """Errors: other versions on the node than here; a GPU was wanted, and the run used none."""
    report = json.loads((RUN / "run.json").read_text())
    versions = {name: (report["versions"].get(name), version(name)) for name in SAME}
    other = [f"{name} {there} (here {here})" for name, (there, here) in versions.items() if there not in (None, here)]
    if other:
        raise InputError(f"the node has other versions: {', '.join(other)}; activate the same environment there.")
    said = f"{report['processes']} x {report['device']}, {report['tokens_per_second']:,} tokens/s of a tiny model"
    if gpus and not report["gpu_hours"]:
        raise InputError(f"--gpus is {gpus}, and the run used {said}: see `models` in the config and the profile.")
    return f"{said}; its packages are those of here."


def write_dataset(gpus: int) -> None:
    """The text and the config of the run."""
    OWN.mkdir(exist_ok=True)
    for domain, words in WORDS.items():
        own = words.split()
        texts = (" ".join(own[number * place % len(own)] for place in range(1, 200)) for number in range(200))
        lines = (json.dumps({"text": f"{text} {number}"}) + "\n" for number, text in enumerate(texts))
        (OWN / f"{domain}.jsonl").write_text("".join(lines), encoding="utf-8")
    launch = {"nodes": 1, "gpus": gpus, "threads": max(gpus, 1), "micro_batch": 8, "loss_chunk": "all", "compile": "no"}
    training = {"recipe": "demo", "steps": STEPS, "evaluate_every": STEPS // 10}
    training |= {"batch_rows": 8 * max(gpus, 1), "validation_rows": 8}
    dataset = {
        "domains": sorted(WORDS),
        "corpus": {"train": {domain: str(OWN / f"{domain}.jsonl") for domain in WORDS}, "validation": {"share": 0.1}},
        "tokenizer": {"train": {"vocabulary": 280, "share": 1.0}},
        "sequence_length": 64,
        "groups": {"all": ["baseline", "uniform"]},
        "training": {"doctor": training},
    }
    models = {"doctor": {"shape": {"layers": 2, "width": 32, "heads": 2}, "launch": launch}}
    write_json(OWN / "doctor.json", {"models": models, "run": ["doctor"], "datasets": {"doctor": dataset}})


if __name__ == "__main__":
    sys.exit(run(main))
