"""Runs of a swarm trained at once: the losses of each run alone, stopped and gone on in both ways,
refused where it should be.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partialmethod
from pathlib import Path
from types import SimpleNamespace

import forked
import polars as pl
import pytest
import torch
from accelerate.state import AcceleratorState
from tiny_run import RECIPE, SHAPE

import train_swarm
from bimix.errors import InputError
from bimix.model.stacked import StackedTransformer
from bimix.training import checkpoints
from bimix.training.attempt import STOPPED
from bimix.training.loop import Run

SCRIPTS = Path(__file__).parents[2] / "workflow/scripts"
MIXTURES = {"one": (0.7, 0.3, 0.0), "two": (0.1, 0.2, 0.7), "three": (1 / 3, 1 / 3, 1 / 3)}
# An epsilon beside which biases of keys stay, whose gradient is rounding alone
CHANGES = {"steps": 12, "evaluate_every": 6, "epsilon": 1e-5}


@pytest.fixture(autouse=True)
def new_accelerator(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One precision holds for all of a process."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


class Part:
    """A part of a swarm in a folder; a call trains some of its runs, so many at once."""

    def __init__(self, corpus: Path, out: Path, capsys: pytest.CaptureFixture) -> None:
        self.corpus, self.out, self.capsys = corpus, out, capsys
        out.mkdir(exist_ok=True)
        rows = [
            (name, *pair)
            for name, shares in MIXTURES.items()
            for pair in zip(("bees", "cats", "dogs"), shares, strict=True)
        ]
        table = pl.DataFrame(rows, schema=["mixture", "domain", "proportion"], orient="row")
        table.write_parquet(out / "swarm.parquet")

    def words(self, stacked: int, *names: str, flags: tuple[str, ...] = (), **changes: object) -> list[str]:
        """What follows `train_swarm.py` on a command line."""
        words = ["--cpu", "--lock-seconds", "2", "--processes", "1", "--micro-batch", "4", "--loss-chunk", "all"]
        for name in ("train", "validation"):
            words += [f"--{name}", str(self.corpus / f"{name}.parquet")]
        words += ["--tokenizer", str(self.corpus / "tokenizer.json"), "--shape", json.dumps(SHAPE)]
        words += ["--recipe", json.dumps(RECIPE | CHANGES | changes), "--names", *(names or MIXTURES)]
        places = {"mixtures": "swarm.parquet", "losses": "losses.parquet", "runs": "runs.parquet", "state": "state"}
        words += [word for flag, name in places.items() for word in (f"--{flag}", str(self.out / name))]
        return [*words, "--stacked", str(stacked), *flags]

    def __call__(self, *names: object, **settings: object) -> str:
        """What is said, of `words`; `status` and `losses` are kept."""
        self.status = train_swarm.main(self.words(*names, **settings))
        return self.capsys.readouterr().err

    @property
    def runs(self) -> pl.DataFrame:
        return pl.read_parquet(self.out / "runs.parquet")

    def losses(self, *names: str) -> list[float]:
        found = pl.read_parquet(self.out / "losses.parquet")
        return [loss for name in names for loss in found.filter(pl.col("mixture") == name)["loss"]]

    def checkpoints(self, name: str) -> list[Path]:
        return sorted(self.out.glob(f"state/{name}/*/step-*.pt"))


@pytest.fixture
def part(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> Part:
    return Part(corpus, tmp_path / "own", capsys)


@pytest.fixture
def alone(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> Part:
    """The same runs, one after another."""
    part = Part(corpus, tmp_path / "alone", capsys)
    part(1)
    return part


def stopping(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    monkeypatch.setattr(Run, "wants_to_stop", lambda run: run.step == step)


def test_runs_at_once_have_the_losses_of_each_alone_and_share_the_seconds(part: Part, alone: Part) -> None:
    begun = time.monotonic()
    said = part(2)
    taken = time.monotonic() - begun
    assert "one, two:" in said and "2 runs at once" in said and "\nthree:" in said
    assert part.losses("one", "two") == pytest.approx(alone.losses("one", "two"), rel=1e-4)
    assert part.losses("three") == alone.losses("three"), "a run that is left over is trained alone"
    assert len(set(part.losses(*MIXTURES))) == 2 * 3 * 3
    seconds = part.runs["seconds"].to_list()
    assert seconds[0] == seconds[1] and sum(seconds) <= taken + 0.3  # in tenths, which may be none
    assert part.runs.drop("seconds").equals(alone.runs.drop("seconds"))
    folders = [{path.parent.name for path in own.out.glob("state/*/*/run.json")} for own in (part, alone)]
    assert folders[0] == folders[1] and not list(part.out.glob("state/**/step-*.pt"))
    assert ":" not in part(2), "what has come to its end is not trained again"


def test_runs_that_were_stopped_together_go_on_alone(part: Part, alone: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        stopping(patch, 8)
        assert "Stopped at step 8" in part(3)
    assert part.status == STOPPED
    assert all(part.checkpoints(name)[-1].name == "step-000000008.pt" for name in MIXTURES)
    said = part(1)
    assert said.count("update 8 of 12") == 3 and "at once, update" in said and "runs at once" not in said
    assert part.losses(*MIXTURES) == pytest.approx(alone.losses(*MIXTURES), rel=1e-4)


def test_runs_that_were_stopped_alone_go_on_together_by_their_steps(
    part: Part, alone: Part, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "three"):
        with monkeypatch.context() as patch:
            stopping(patch, 8)
            part(1, name)
        assert part.status == STOPPED
    said = part(3)
    assert said.index("one, three:") < said.index("update 8 of 12") < said.index("two:") < said.index("update 0 of 12")
    assert part.status == 0
    assert part.losses(*MIXTURES) == pytest.approx(alone.losses(*MIXTURES), rel=1e-4)


@pytest.mark.parametrize(
    ("flags", "changes", "within"),
    [(("--loss-chunk", "7"), {}, 1e-4), (("--micro-batch", "auto"), {}, 1e-4), ((), {"precision": "bf16"}, 3e-3)],
)
def test_other_launches_and_bf16_have_the_losses_of_each_alone(
    corpus: Path, part: Part, flags: tuple[str, ...], changes: dict, within: float
) -> None:
    part(3, flags=flags, **changes)
    alone = Part(corpus, part.out.with_name("alone"), part.capsys)
    alone(1, flags=flags, **changes)
    assert part.losses(*MIXTURES) == pytest.approx(alone.losses(*MIXTURES), rel=within)


def test_groups_of_one_size_are_compiled_once(corpus: Path, part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = []

    def compiler(graph: torch.fx.GraphModule, inputs: list) -> Callable:
        graphs.append(graph)
        return graph

    monkeypatch.setitem(MIXTURES, "four", (0.2, 0.2, 0.6))
    monkeypatch.setattr(StackedTransformer, "compile", partialmethod(StackedTransformer.compile, backend=compiler))
    settings = {"steps": 2, "evaluate_every": 1, "batch_rows": 4}
    whole = Part(corpus, part.out, part.capsys)
    with torch._dynamo.config.patch(fail_on_recompile_limit_hit=True):
        whole(2, flags=("--compile", "yes"), **settings)
    assert len(graphs) == 2, "an update's and an evaluation's"
    compiled = whole.losses(*MIXTURES)
    other = Part(corpus, part.out.with_name("other"), part.capsys)
    other(1, **settings)
    assert compiled == pytest.approx(other.losses(*MIXTURES), rel=1e-4)


def test_a_run_that_is_not_finite_is_named_and_the_others_keep_their_checkpoints(
    part: Part, alone: Part, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        stopping(patch, 8)
        part(3)
    bad = part.checkpoints("two")[-1]
    state = torch.load(bad)
    state["model"]["final_norm.bias"][0] = torch.nan
    torch.save(state, bad)
    with pytest.raises(InputError, match=r"^two: At step 9 the loss is nan and the gradient norm nan, .* rows"):
        part(3)
    assert [len(part.checkpoints(name)) for name in MIXTURES] == [2, 2, 2]
    part(2, "one", "three")
    assert part.losses("one", "three") == pytest.approx(alone.losses("one", "three"), rel=1e-4)


def test_every_run_of_a_group_is_held_by_itself(part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    held = []

    def look(run: Run) -> bool:
        """Try the lock of each run, and have the second's asked for."""
        for name in MIXTURES:
            with pytest.raises(InputError, match="Another process is training"):
                checkpoints.lock(part.out / "state" / name, 0)
            held.append(name)
        (part.out / "state/two/stop").touch()
        return asked(run)

    asked = Run.wants_to_stop
    monkeypatch.setattr(Run, "wants_to_stop", look)
    said = part(3)
    assert held == list(MIXTURES) and part.status == STOPPED
    assert "Stopped at step 1 with the state saved" in said
    assert [len(part.checkpoints(name)) for name in MIXTURES] == [1, 1, 1]


def test_what_cannot_be_trained_at_once_is_refused_in_one_sentence(part: Part) -> None:
    with pytest.raises(InputError, match="launch, stacked: runs with muon are not trained at once"):
        part(2, optimizer="muon")
    assert not (part.out / "state").exists()
    session = SimpleNamespace(recipe=SimpleNamespace(optimizer="adamw"), accelerator=SimpleNamespace(num_processes=2))
    with pytest.raises(InputError, match="launch, stacked: several processes"):
        train_swarm.check_stacked(session, 2)
    train_swarm.check_stacked(session, 1)


DIES_IN_A_CHECKPOINT = f"""
import os, signal, sys, torch
write, calls = torch.save, []
def dying(state, path):
    calls.append(path)
    write(state, path)
    if len(calls) == 5:
        os.truncate(path, os.path.getsize(path) // 2)
        os.kill(os.getpid(), signal.SIGKILL)
torch.save = dying
sys.path.insert(0, {str(SCRIPTS)!r})
import train_swarm
train_swarm.main(sys.argv[1:])
"""


@pytest.mark.slow
def test_a_kill_between_the_checkpoints_of_a_group_loses_nothing_before(
    corpus: Path, part: Part, tmp_path: Path
) -> None:
    """The fifth checkpoint is that of the second run at the second evaluation."""
    (tmp_path / "dies.py").write_text(DIES_IN_A_CHECKPOINT)
    words = part.words(3, steps=18)
    killed = forked.run([sys.executable, str(tmp_path / "dies.py"), *words], env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert [part.checkpoints(name)[-1].name[-6:-3] for name in MIXTURES] == ["012", "006", "006"]
    said = part(3, steps=18)
    assert said.index("one:") < said.index("update 12 of 18") < said.index("two, three:")
    assert said.index("two, three:") < said.index("update 6 of 18")
    whole = Part(corpus, part.out.with_name("alone"), part.capsys)
    whole(1, steps=18)
    assert part.status == 0
    assert part.losses(*MIXTURES) == pytest.approx(whole.losses(*MIXTURES), rel=1e-4)
