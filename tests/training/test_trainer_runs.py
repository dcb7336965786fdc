"""Runs of foreign trainers: stopped and gone on with, and every way to be no success."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import forked
import polars as pl
import pytest
import tiny_run
import yaml
from mini_dataset import ROOT, mini_config, write_checkout
from refusals import refused
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from training_runs import events, own_state

import measure_size
import run_trainer
from bimix.results.verify import verify
from bimix.training import checkpoints, command_run
from bimix.training.attempt import STOPPED
from bimix.training.costs import Stated, run_flops
from bimix.training.recipe import Recipe

HERE = Path(__file__).parent
EXAMPLE = ROOT / "resources/examples/trainers/train_transformers.py"
PATIENCE = 240
LOSSES = "{folder}/losses.jsonl"
PLAIN = "{mixture} {steps} {evaluate_every} {folder} {seed}"
RECIPE = {"steps": 6, "batch_rows": 4, "evaluate_every": 2, "seed": 7, "learning_rate": 0.1}


def plain(more: str = "") -> dict:
    command = f"{shlex.quote(sys.executable)} {shlex.quote(str(HERE / 'plain_trainer.py'))} {PLAIN} {more}"
    return {"command": command, "parameters": 1000, "losses": LOSSES}


def train(
    folder: Path, trainer: dict, *more: str, recipe: dict = RECIPE, share: float = 0.25, mixture: dict | None = None
) -> int:
    """One attempt of run_trainer.py in this process."""
    folder.mkdir(exist_ok=True)
    (folder / "mixture.json").write_text(json.dumps(mixture or {"web": share, "code": 1 - share}))
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    flags = {"mixture": folder / "mixture.json", "trainer": json.dumps(trainer), "recipe": json.dumps(recipe)}
    flags |= {"sequence-length": 16, "gpus": 0, "nodes": 1, "threads": 1, "processes": 1, "lock-seconds": 1}
    flags |= {"state": folder / "state", "losses": folder / "losses.parquet", "report": folder / "run.json"}
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    try:
        return run_trainer.main([*words, "--domains", "web", "code", *more])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_run_leaves_what_other_runs_leave_and_verification_holds_it_against_its_digests(tmp_path: Path) -> None:
    folder = tmp_path / "runs/slim/run"
    folder.parent.mkdir(parents=True)
    assert train(folder, plain()) == 0
    losses = pl.read_parquet(folder / "losses.parquet")
    assert losses.schema == {"step": pl.Int64, "tokens": pl.Int64, "domain": pl.String, "loss": pl.Float64}
    assert losses.rows()[:2] == [(2, 128, "code", 1.75), (2, 128, "web", 2.25)]
    assert losses["step"].unique().sort().to_list() == [2, 4, 6]
    report = json.loads((folder / "run.json").read_text())
    assert report["tokens"] == 6 * 4 * 16
    assert report["flops"] == 6 * 1000 * 6 * 4 * 16
    assert report["gpu_hours"] == 0
    assert (report["seed"], report["mixture"]) == (7, {"web": 0.25, "code": 0.75})
    assert events(own_state(folder)) == ["begun", "ended"]
    (own_state(folder) / "work/step.txt").unlink()  # would train anew, were it begun again
    (folder / "losses.parquet").unlink()
    assert train(folder, plain()) == 0
    assert pl.read_parquet(folder / "losses.parquet").equals(losses)
    assert events(own_state(folder)) == ["begun", "ended"]
    # nor is it for other domains: its losses are read again
    refused("no loss of tasks at step 2.* mend ", train, folder, plain(), "--domains", "web", "code", "tasks")
    assert train(folder, plain(), "--domains", "code", "web") == 0
    assert events(own_state(folder)) == ["begun", "ended"]
    # a rate that no command hears of defines no run; another mixture does
    assert train(folder, plain(), recipe=RECIPE | {"learning_rate": 1}) == 0
    assert train(folder, plain(), share=0.5) == 0
    assert len(list((folder / "state").glob("*/fingerprint.json"))) == 2
    assert not verify(folder).faults
    pl.DataFrame({"step": [1]}).write_parquet(folder / "losses.parquet")
    assert verify(folder).faults


def test_a_command_that_fails_skips_itself_or_cannot_be_started_is_a_sentence(tmp_path: Path) -> None:
    refused(r"the run .*one: its command ended with status 1; .*output\.log", train, tmp_path / "one", plain("0 fail"))
    assert "out of memory" in (own_state(tmp_path / "one") / "output.log").read_text()
    folder = tmp_path / "two"
    for _ in range(2):  # one that skips itself is no success when it is tried again either
        refused("the run .*two: its command ended with status 0 and has written", train, folder, plain("0 skip"))
    assert events(own_state(folder)) == ["begun", "failed"] * 2
    assert not (folder / "losses.parquet").exists()
    missing = plain() | {"command": "no-such-program {mixture} {folder}"}
    refused(r"'no-such-program' cannot be started \(No such file", train, tmp_path / "three", missing)


def test_at_its_deadline_it_is_asked_to_stop_and_the_next_attempt_goes_on(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "run"

    def clock() -> float:
        """The deadline passes when the first step is done, however slow the machine is."""
        stepped = any((own / "work" / "step.txt").exists() for own in folder.glob("state/*"))
        return time.time() + (3600 if stepped else 0)

    with monkeypatch.context() as patch:
        patch.setattr(command_run, "time", SimpleNamespace(time=clock, monotonic=time.monotonic, sleep=time.sleep))
        assert train(folder, plain("0 wait"), "--max-seconds", "1800") == STOPPED
    own = own_state(folder)
    assert (own / "work/step.txt").read_text() == "1"
    assert train(folder, plain("0 wait")) == 0
    assert "begin at 1, seed 7" in (own / "output.log").read_text()
    assert events(own) == ["begun", "stopped", "begun", "ended"]
    report = json.loads((folder / "run.json").read_text())
    assert report["seconds"] == round(sum(line.get("seconds", 0) for line in checkpoints.attempts(own)), 1)
    assert len(report["attempts"]) == 2


def test_a_mixture_in_stages_is_handed_on_with_them(tmp_path: Path) -> None:
    stages = [({"web": 0.25, "code": 0.75}, 0.5), ({"web": 0.5, "code": 0.5}, 0.5)]
    staged = {"stages": [{"share": share, "mixture": own} for own, share in stages]}
    data = {"domains": {name: {"train": [f"{name}.bin"], "unit": "tokens"} for name in ("web", "code")}}
    (tmp_path / "data.json").write_text(json.dumps(data))
    rows = [{"step": step, "domain": domain, "loss": 2} for step in (2, 4, 6) for domain in ("web", "code")]
    lines = [json.dumps(row) for row in rows]
    script = tmp_path / "keep.py"
    wrote = f"open(sys.argv[2] + '/losses.jsonl', 'w').write({chr(10).join(lines)!r})"
    script.write_text(f"import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2]); {wrote}")
    command = f"{shlex.quote(sys.executable)} {shlex.quote(str(script))} {{mixture}} {{folder}}"
    trainer, given = plain() | {"command": command}, ("--data", str(tmp_path / "data.json"))
    assert train(tmp_path / "plain", trainer, *given, mixture=staged) == 0
    assert json.loads((own_state(tmp_path / "plain") / "work/mixture.json").read_text()) == staged
    assert train(tmp_path / "run", trainer | {"format": "nanotron"}, *given, mixture=staged) == 0
    # of six updates the fourth is the first of the second stage
    read = yaml.safe_load((own_state(tmp_path / "run") / "work/mixture.yaml").read_text())["data_stages"]
    assert [stage["start_training_step"] for stage in read] == [1, 4]
    assert json.loads((tmp_path / "run/run.json").read_text())["mixture"] == staged


def test_other_files_or_other_text_make_another_run(tmp_path: Path) -> None:
    """The mixture's weights are the same; the paths beside them are not."""
    text = [tmp_path / f"{split}.parquet" for split in ("train", "validation")]
    trainer = plain() | {"command": "true {mixture} {folder}", "format": "csv"}
    given = ("--data", str(tmp_path / "data.json"), "--text", *map(str, text))
    for number, data, key in ((1, "first", "aa"), (1, "first", "aa"), (2, "second", "aa"), (3, "second", "bb")):
        files = {name: {"train": [f"{data}/{name}.bin"], "unit": "tokens"} for name in ("web", "code")}
        (tmp_path / "data.json").write_text(json.dumps({"domains": files}))
        rows = {"domain": ["web", "code"], "rows": [8, 8], "tokens": [128, 128], "digest": [key, "cc"]}
        for path in text:
            pl.DataFrame(rows).write_parquet(path)
        refused("has written nothing", train, tmp_path / "run", trainer, *given)
        assert len(list((tmp_path / "run/state").glob("*/fingerprint.json"))) == number
    assert train(tmp_path / "read", plain(), "--text", *map(str, text)) == 0
    splits = [f"{split}.{name}" for split in ("train", "validation") for name in ("code", "web")]
    assert sorted(json.loads((tmp_path / "read/run.json").read_text())["data"]) == splits
    assert not verify(tmp_path / "read").faults


APPENDING = """
import os, sys
path = f"{sys.argv[2]}/losses.csv"
again = os.path.exists(path)
steps = (4, 6) if again else (2, 4, 6)
rows = [f"{step},{domain},{loss}\\n" for step in steps for domain, loss in (("web", 3.0 + again), ("code", 2.0))]
with open(path, "a") as table:
    table.writelines(rows if again else ["step,domain,loss\\n", *rows, "6,co"])
sys.exit(0 if again else 1)
"""


def test_a_table_that_is_appended_to_goes_on_after_a_kill(tmp_path: Path) -> None:
    """The second attempt begins at the checkpoint of step 2: what it repeats counts."""
    (tmp_path / "append.py").write_text(APPENDING)
    command = f"{shlex.quote(sys.executable)} {tmp_path / 'append.py'} {{mixture}} {{folder}}"
    trainer = plain() | {"command": command, "losses": "{folder}/losses.csv"}
    refused("status 1", train, tmp_path / "run", trainer)
    assert train(tmp_path / "run", trainer) == 0
    losses = pl.read_parquet(tmp_path / "run/losses.parquet").filter(pl.col("domain") == "web")
    assert losses["loss"].to_list() == [3.0, 4.0, 4.0]


def start(folder: Path) -> subprocess.Popen[str]:
    command = ["python", "-m", "snakemake", "--cores", "1", "results/mini/losses/slim/all.parquet"]
    return subprocess.Popen(
        [*command, "--configfile", "mini.yaml"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=forked.jobs(COLUMNS="200", OMP_NUM_THREADS="1"),
    )


@pytest.mark.slow
def test_a_trainer_of_transformers_is_stopped_once_and_gone_on_with(tmp_path: Path) -> None:
    words = [sys.executable, str(EXAMPLE), "--text", str(tmp_path), "--wait-at", "3"]
    flags = "--mixture {mixture} --steps {steps} --every {evaluate_every} --seed {seed} --out {folder}"
    config = mini_config(6, 2, slim={})
    slim = {"command": f"{shlex.join(words)} {flags}", "parameters": 5000, "losses": LOSSES}
    config["models"]["slim"] = slim | {"launch": {"nodes": 1, "gpus": 0, "threads": 1}}
    write_checkout(tmp_path, config, ["plain"])
    run = tmp_path / "results/mini/runs/slim/plain"
    first = start(tmp_path)
    until = time.monotonic() + PATIENCE
    while not list(run.glob("state/*/*/waiting")) and first.poll() is None and time.monotonic() < until:
        time.sleep(0.1)
    assert list(run.glob("state/*/*/waiting")), first.communicate()[0]
    os.kill(json.loads((run / "state/lock").read_text())["process"], signal.SIGTERM)
    said = first.communicate(timeout=PATIENCE)[0]
    assert first.returncode != 0
    assert not (run / "losses.parquet").exists()
    own = own_state(run)
    assert events(own) == ["begun", "stopped"], said
    assert (own / "work/checkpoint-3").is_dir()
    second = start(tmp_path)
    said = second.communicate(timeout=PATIENCE)[0]
    assert second.returncode == 0, said
    assert events(own) == ["begun", "stopped", "begun", "ended"]
    losses = pl.read_parquet(tmp_path / "results/mini/losses/slim/all.parquet")
    assert losses.group_by("step", maintain_order=True).agg("domain").rows() == [
        (step, ["kitchen", "sea"]) for step in (2, 4, 6)
    ]
    first_loss, last_loss = (losses.filter(pl.col("step") == step)["loss"].mean() for step in (2, 6))
    assert last_loss < first_loss < 6  # of log 256 = 5.55


def test_its_size_and_its_costs_follow_from_its_parameters(tmp_path: Path) -> None:
    tokenizer = Tokenizer(WordLevel({"a": 0, "b": 1}, unk_token="a"))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    flags = ["--tokenizer", str(tmp_path / "tokenizer.json"), "--tokens", "640", "--out", str(tmp_path / "size.json")]
    measure_size.main([*flags, "--shape", "{}", "--parameters", "1e6"])
    assert json.loads((tmp_path / "size.json").read_text()) == {"parameters": 1e6, "tokens": 640}
    recipe = Recipe(**tiny_run.RECIPE)
    trained = recipe.steps * recipe.batch_rows
    evaluated = 4 * 2 * recipe.validation_rows
    flops = run_flops(Stated(1e6), recipe, sequence_length=16, domains=2)
    assert flops == pytest.approx(6e6 * 16 * (trained + evaluated / 3))
