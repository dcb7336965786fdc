"""The plan of each example config and of five made ones, held while rooms are rebuilt: the jobs of
each rule, their inputs and outputs, and the words of their commands in whatever order.

A change that is meant is taken in by `python tests/workflow/test_frozen_plans.py`, which writes
frozen/plans.json again. What it changes there has to be in the reason of the commit.
"""

import hashlib
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import forked
import polars as pl
import pytest

ROOT = Path(__file__).parents[2]
FROZEN = Path(__file__).parent / "frozen"
PLANS = FROZEN / "plans.json"
EXAMPLES = sorted((ROOT / "resources/examples").glob("*/*.yaml"))
CONFIGS = {path.relative_to(ROOT).as_posix(): path for path in [*EXAMPLES, *sorted(FROZEN.glob("*.yaml"))]}
CONFIGS = {"config.yaml": None, **CONFIGS}
FILES = ["data/pile/train/00.jsonl.zst", "data/pile/val.jsonl.zst", "data/cc.en.300.bin", "pile22/00.jsonl.zst"]
FILES += [f"data/qa/{name}" for name in ("webquestions_test.jsonl", "webquestions_train.jsonl", "lambada_test.jsonl")]
FILES += ["data/qa/triviaqa_dev.json", "data/qa/triviaqa_train.json"]
JOB = re.compile(r"^(?:rule|checkpoint|localrule) (\w+):\n(.*?)(?=^\[|\Z)", flags=re.MULTILINE | re.DOTALL)


def write_inputs(folder: Path) -> None:
    """The files that the configs name: text and tables where planning reads them, else zeros."""
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with (folder / name).open("wb") as empty:
            empty.truncate(10**8)  # planning looks at sizes; no block of it is written
    (folder / "text").mkdir()
    for domain, words in {"sea": "tide wave", "kitchen": "salt pan", "law": "act court", "wanted": "gull mast"}.items():
        lines = (json.dumps({"text": f"{words} {number} " * 20}) for number in range(90))
        (folder / "text" / f"{domain}.jsonl").write_text("\n".join(lines) + "\n")
    shutil.copytree(ROOT / "resources", folder / "resources", ignore=shutil.ignore_patterns("text"))
    subprocess.run([sys.executable, "resources/examples/own_text/write_text.py"], cwd=folder, check=True)
    (folder / "tables").mkdir()
    runs = [(f"m{number}", number / 10 + 0.2) for number in range(6)]
    losses = [(run, step, d, 3 - x / 10 + 10 / step) for run, x in runs for step in (50, 75, 100) for d in ("a", "b")]
    pl.DataFrame(losses, ["mixture", "step", "domain", "loss"], orient="row").write_csv(folder / "tables/losses.csv")
    shares = [(run, d, share) for run, x in runs for d, share in (("a", x), ("b", 1 - x))]
    pl.DataFrame(shares, ["mixture", "domain", "proportion"], orient="row").write_csv(folder / "tables/mixtures.csv")
    metrics = pl.DataFrame({"mixture": [run for run, _ in runs], "err": [1 - x / 2 for _, x in runs]})
    metrics.write_csv(folder / "tables/metrics.csv")


def plan(folder: Path, config: Path | None) -> dict[str, list]:
    """{rule: [number of its jobs, digest of all that they read, write and run]} of a config."""
    words = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "--cores", "2", "-n", "-p"]
    also = re.match("# also: (.*)", config.read_text()) if config else None
    words += ["all", *also[1].split()] if also else []
    words += ["--configfile", str(config)] if config else []
    done = forked.run(words, cwd=folder, env=forked.jobs())
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
    jobs = defaultdict(list)
    for rule, text in JOB.findall(done.stdout):
        jobs[rule].append(described(text))
    return {rule: [len(own), digest(own)] for rule, own in sorted(jobs.items())}


def described(text: str) -> dict:
    """What a job reads, but for code, what it writes, and the sorted words of its command."""
    # a file of the checkout from its root, however deep the folder of the test is
    text = re.sub(rf"[./]*{re.escape(str(ROOT))}/", "", text)
    fields = dict(re.findall(r"^    (input|output|params): (.*)$", text, flags=re.MULTILINE))
    command = text.partition("Shell command: ")[2].replace("\\\n", " ")
    kept = {key: sorted(one for one in fields.get(key, "").split(", ") if "workflow/" not in one) for key in fields}
    place = re.compile(r"^.*?(?=workflow/)")
    return kept | {"command": sorted(place.sub("", word).replace(str(ROOT), "") for word in shlex.split(command))}


def digest(jobs: list[dict]) -> str:
    lines = sorted(json.dumps(job, sort_keys=True) for job in jobs)
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("plans")
    write_inputs(made)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_plans_what_it_planned(folder: Path, name: str) -> None:
    assert plan(folder, CONFIGS[name]) == json.loads(PLANS.read_text())[name]


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        write_inputs(Path(made))
        found = {name: plan(Path(made), config) for name, config in CONFIGS.items()}
    PLANS.write_text(json.dumps(found, indent=1) + "\n")
