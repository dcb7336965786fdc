"""A part of a swarm in real processes: as if alone, killed and resumed, refusals."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partialmethod
from pathlib import Path

import forked
import polars as pl
import pytest
import torch
from accelerate.state import AcceleratorState
from refusals import refused
from training_runs import SCRIPTS, command, execute, launched, own_state, settings

import pretrain_model
import train_swarm
from bimix.errors import InputError
from bimix.model.transformer import Transformer
from bimix.training import checkpoints, loop, update
from bimix.training.attempt import STOPPED
from bimix.training.session import Session

pytestmark = pytest.mark.usefixtures("one_thread")
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}
MIXTURES = {"swarm_0001": (0.7, 0.3, 0.0), "swarm_0002": (0.1, 0.2, 0.7), "swarm_0003": (1 / 3, 1 / 3, 1 / 3)}


def table(mixtures: dict[str, tuple[float, ...]]) -> pl.DataFrame:
    rows = [(name, *pair) for name, own in mixtures.items() for pair in zip(("bees", "cats", "dogs"), own, strict=True)]
    return pl.DataFrame(rows, ["mixture", "domain", "proportion"], orient="row")


def part(corpus: Path, out: Path) -> list[str]:
    out.mkdir(exist_ok=True)
    table(MIXTURES).write_parquet(out / "swarm.parquet")
    flags = ["--mixtures", str(out / "swarm.parquet"), "--names", *MIXTURES, "--state", str(out / "state")]
    flags += ["--losses", str(out / "losses.parquet"), "--runs", str(out / "runs.parquet")]
    return [sys.executable, str(SCRIPTS / "train_swarm.py"), *settings(corpus), *flags]


def of_run(out: Path, name: str) -> Path:
    """The folder of the only configuration of a run."""
    (fingerprint,) = (out / "state" / name).glob("*/fingerprint.json")
    return fingerprint.parent


@pytest.fixture
def new_accelerator() -> Iterator[None]:
    """One precision holds for a process: forget that of the tests before."""
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.mark.usefixtures("new_accelerator")
def test_a_part_compiles_one_model_and_its_runs_are_as_if_alone(corpus: Path, tmp_path, monkeypatch) -> None:
    graphs = []

    def compiler(graph: torch.fx.GraphModule, inputs: list) -> Callable:
        graphs.append(graph)
        return graph

    monkeypatch.setattr(update, "RECOMPILATIONS", 8)  # torch's own limit; ours would take 32 runs
    monkeypatch.setattr(Transformer, "compile", partialmethod(Transformer.compile, backend=compiler))
    names = [f"swarm_{number:04d}" for number in range(1, 6)]
    shares = [(0.1 * number, 0.2, 0.8 - 0.1 * number) for number in range(1, 6)]
    table(dict(zip(names, shares, strict=True))).write_csv(tmp_path / "swarm.csv")
    changes = {"steps": 3, "batch_rows": 4, "precision": "bf16", "evaluate_every": 1}

    def train(out: str, names: list[str]) -> pl.DataFrame:
        flags = [*settings(corpus, **changes), "--compile", "yes", "--names", *names]
        places = {"state": f"{out}/state", "losses": f"{out}/losses.parquet", "runs": f"{out}/runs.parquet"}
        places["mixtures"] = "swarm.csv"
        flags += [part for flag, name in places.items() for part in (f"--{flag}", str(tmp_path / name))]
        # not by monkeypatch, which would hide the setting from later tests
        with torch._dynamo.config.patch(fail_on_recompile_limit_hit=True):
            assert train_swarm.main(flags) == 0
        assert pl.read_parquet(tmp_path / out / "runs.parquet")["mixture"].to_list() == names
        return pl.read_parquet(tmp_path / out / "losses.parquet")

    together = train("together", names)
    assert len(graphs) == 2, "an update's and an evaluation's"
    alone = train("alone", names[-1:])
    assert together.filter(pl.col("mixture") == names[-1]).equals(alone)
    by_run = together.filter(pl.col("step") == 3).group_by("mixture").agg(pl.col("loss").sum())
    assert by_run["loss"].n_unique() == 5


@pytest.fixture(scope="module")
def whole(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A part of three runs that nothing disturbed."""
    out = tmp_path_factory.mktemp("whole")
    subprocess.run(part(corpus, out), capture_output=True, check=True, env=ENVIRONMENT)  # as a user does, not forked
    return out


@pytest.mark.slow
@pytest.mark.usefixtures("new_accelerator")
def test_a_run_in_a_swarm_gives_the_bytes_of_the_same_run_alone(corpus: Path, tmp_path: Path, whole: Path) -> None:
    mixture = dict(zip(("bees", "cats", "dogs"), MIXTURES["swarm_0003"], strict=True))
    (tmp_path / "mixture.json").write_text(json.dumps(mixture))
    alone = command(corpus, tmp_path, mixture=tmp_path / "mixture.json")
    assert pretrain_model.main(alone[2:]) == 0
    # the last of three: nothing of the others is left in it
    own, alone = of_run(whole, "swarm_0003"), own_state(tmp_path)
    assert (own / "losses.parquet").read_bytes() == (tmp_path / "losses.parquet").read_bytes()
    reports = [json.loads((folder / "run.json").read_text()) for folder in (own, tmp_path)]
    for timed in ("seconds", "tokens_per_second"):
        assert reports[0].pop(timed) > 0 and reports[1].pop(timed) > 0
    assert reports[1]["files"].pop("model.safetensors")
    assert reports[0] == reports[1]
    assert own.name == alone.name


@pytest.mark.slow
def test_the_tables_of_a_part_hold_every_run_and_its_cost(whole: Path) -> None:
    losses, runs = pl.read_parquet(whole / "losses.parquet"), pl.read_parquet(whole / "runs.parquet")
    assert losses.columns == ["mixture", "seed", "step", "tokens", "domain", "loss"]
    assert losses.group_by("mixture").len()["len"].to_list() == [4 * 3] * 3
    assert runs["mixture"].to_list() == list(MIXTURES)
    assert runs["tokens"].to_list() == [40 * 6 * 16] * 3
    assert (runs["flops"] > 0).all() and (runs["seconds"] > 0).all() and runs["gpu_hours"].to_list() == [0.0] * 3
    assert not list((whole / "state").glob("**/step-*.pt")), "the checkpoints of finished runs are dropped"


@pytest.mark.slow
def test_a_killed_part_resumes_to_the_same_bytes(corpus: Path, tmp_path: Path, whole: Path) -> None:
    # in the middle of the first run, which goes back to its last evaluation; where the
    # third begins, which is saved
    for number, printed, expected in ((signal.SIGKILL, "step 20:", -9), (signal.SIGTERM, "swarm_0003:", 75)):
        process = forked.Process(part(corpus, tmp_path), env=ENVIRONMENT)
        for line in process.stderr:
            if line.startswith(printed):
                break
        process.send_signal(number)
        process.stderr.read()
        assert process.wait() == expected
        assert not (tmp_path / "losses.parquet").exists()
    again = execute(part(corpus, tmp_path))
    assert "swarm_0001:" not in again and "swarm_0003:" in again, "finished runs are not trained again"
    assert (tmp_path / "losses.parquet").read_bytes() == (whole / "losses.parquet").read_bytes()


@pytest.mark.usefixtures("new_accelerator")
def test_every_run_is_held_by_itself(corpus: Path, tmp_path: Path, whole: Path) -> None:
    shutil.copytree(whole / "state", tmp_path / "state")
    with checkpoints.lock(tmp_path / "state/swarm_0002", 0):
        refused("Another process is training in .*state/swarm_0002", train_swarm.main, part(corpus, tmp_path)[2:])


@pytest.mark.usefixtures("new_accelerator")
def test_a_run_that_is_not_finite_stops_no_other(corpus: Path, tmp_path, whole: Path, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(loop.Run, "wants_to_stop", lambda run: run.step == 8)
        assert train_swarm.main(part(corpus, tmp_path)[2:]) == STOPPED
    (bad,) = (tmp_path / "state/swarm_0001").glob("*/step-*.pt")
    state = torch.load(bad)
    state["model"]["final_norm.bias"][0] = torch.nan
    torch.save(state, bad)
    with pytest.raises(InputError, match=r"^The other 2 runs .* swarm_0001: At step 9 the loss is nan and .* rows"):
        train_swarm.main(part(corpus, tmp_path)[2:])
    assert not (tmp_path / "losses.parquet").exists() and bad.exists()
    for name in ("swarm_0002", "swarm_0003"):
        found, expected = (of_run(folder, name) / "losses.parquet" for folder in (tmp_path, whole))
        assert found.read_bytes() == expected.read_bytes()


@pytest.mark.usefixtures("new_accelerator")
def test_whether_another_run_begins_is_decided_by_the_first_process(corpus: Path, tmp_path: Path, monkeypatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(Session, "wants_to_stop", lambda session: True)
    monkeypatch.setattr(Session, "broadcast", lambda session, thing: False)  # the first has not heard of it yet
    monkeypatch.setattr(train_swarm, "train_one", lambda session, state, name, mixture: begun.append(name))
    assert train_swarm.main(part(corpus, tmp_path)[2:]) == STOPPED
    assert begun == ["swarm_0001"]


@pytest.mark.slow
@pytest.mark.full
def test_two_processes_hand_their_model_on_from_run_to_run(corpus: Path, tmp_path: Path) -> None:
    found = []
    for names in (("swarm_0001", "swarm_0002"), ("swarm_0002",)):
        out = tmp_path / str(len(names))
        arguments = [*part(corpus, out), "--processes", "2", "--names", *names]
        execute([*launched(2), *arguments[1:]])
        found.append(pl.read_parquet(out / "losses.parquet").filter(pl.col("mixture") == "swarm_0002"))
    assert found[0].equals(found[1]) and found[0].height == 4 * 3
