"""What a run keeps: older configurations, its outputs, damaged files, its provenance."""

import functools
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch
import training_runs
from refusals import refused
from training_runs import SCRIPT, events, own_state

import export_model
import gather_losses
import pretrain_model
from bimix.digests import digest_file
from bimix.training import attempt, loop, provenance, rows
from bimix.training.attempt import STOPPED
from bimix.training.rows import check_shards

ROOT = Path(__file__).parents[2]
flags = functools.partial(training_runs.flags, steps=20)
OUTPUTS = ("losses.parquet", "model.safetensors", "run.json")


def outputs(out: Path) -> dict[str, bytes]:
    return {name: (out / name).read_bytes() for name in OUTPUTS}


def snakemake_would_delete(out: Path) -> None:
    for name in OUTPUTS:
        (out / name).unlink()


@pytest.fixture(scope="module")
def made(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made")
    assert pretrain_model.main(flags(corpus, out)) == 0
    return out


@pytest.fixture
def finished(made: Path, tmp_path: Path) -> Path:
    """A finished run that a test may spoil; its outputs are no more one with those in its state."""
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run"


# another configuration, and back


def test_another_configuration_begins_beside_and_the_old_one_comes_back_without_an_update(
    corpus: Path, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, old = outputs(finished), own_state(finished)
    other = finished / "other.json"
    other.write_text(json.dumps({"bees": 0.25, "cats": 0.25, "dogs": 0.5}))
    snakemake_would_delete(finished)
    assert pretrain_model.main(flags(corpus, finished, mixture=other)) == 0
    said = capsys.readouterr().err
    assert f"begins next to another configuration of this run, which is kept in {old} and differs in" in said
    assert "mixture.dogs: 0.2 there, 0.5 now; delete that folder if its room is needed" in said
    assert outputs(finished)["losses.parquet"] != before["losses.parquet"]
    new = finished / "state" / json.loads((finished / "run.json").read_text())["state"]
    assert new != old and events(new)[0] == "begun"
    assert curves(new) == 1 and curves(old) == 1
    snakemake_would_delete(finished)
    assert pretrain_model.main(flags(corpus, finished)) == 0
    assert outputs(finished) == before
    times = {name: (finished / name).stat().st_mtime_ns for name in OUTPUTS}
    assert pretrain_model.main(flags(corpus, finished)) == 0  # all is there, and nothing is done
    assert times == {name: (finished / name).stat().st_mtime_ns for name in OUTPUTS}
    assert events(old)[-2:] == ["finished", "restored"]
    assert "update" not in capsys.readouterr().err
    assert events(new).count("begun") == 1
    assert curves(new) == 1 and curves(old) == 1


def curves(folder: Path) -> int:
    """Attempts whose curves TensorBoard finds in a folder."""
    return len(list((folder / "tensorboard").glob("events.*")))


def test_a_result_that_is_damaged_in_the_state_is_made_again_from_the_last_checkpoint(corpus, finished, capsys) -> None:
    before, own = outputs(finished), own_state(finished)
    flip(own / "model.safetensors")
    snakemake_would_delete(finished)
    assert pretrain_model.main(flags(corpus, finished)) == 0
    said = capsys.readouterr().err
    assert "model.safetensors is missing or not as it was written" in said and "update 20 of 20" in said
    assert outputs(finished)["model.safetensors"] == before["model.safetensors"]
    assert outputs(finished)["losses.parquet"] == before["losses.parquet"]
    assert (own / "damaged/model.safetensors").exists()


def test_the_digest_of_a_domain_is_that_of_its_shards_in_any_order() -> None:
    columns = {"domain": ["a", "a", "b"], "path": ["1", "2", "3"], "rows": [2, 1, 1], "tokens": [8, 4, 4]}
    index = pl.DataFrame(columns | {"digest": ["x", "y", "z"]})
    found = attempt.tokens_of({"train": index})
    # blake2b, 8 bytes, of "x\ny" and of "z": written down, since another version of any package
    # must give the same
    assert found == {
        "train.a": "3 rows of 4 tokens, 65d232fadc6a9a69",
        "train.b": "1 rows of 4 tokens, 8441b0a728fd4130",
    }
    assert attempt.tokens_of({"train": index.reverse()}) == found


# damage


def flip(path: Path, place: float = 0.5) -> None:
    """Turn over one bit of a file."""
    content = bytearray(path.read_bytes())
    content[int(len(content) * place)] ^= 1
    path.write_bytes(bytes(content))


def test_a_flipped_bit_in_an_output_is_a_sentence_of_who_reads_it(corpus: Path, finished: Path, tmp_path: Path) -> None:
    gathered = ["--losses", str(finished / "losses.parquet"), "--names", "one", "--seeds", "1"]
    exported = ["--weights", str(finished / "model.safetensors"), "--tokenizer", str(corpus / "tokenizer.json")]
    exported += ["--end-of-text", "w1", "--sequence-length", "16", "--out", str(tmp_path / "export")]
    for name, script, own in (
        ("losses.parquet", gather_losses, [*gathered, "--out", str(tmp_path / "table.parquet")]),
        ("model.safetensors", export_model, exported),
    ):
        script.main(own)
        flip(finished / name)
        refused(rf"{name} is not as it was written: its digest is", script.main, own)


def copy_corpus(corpus: Path, folder: Path) -> Path:
    """A copy of a corpus, whose shards a test may spoil."""
    shutil.copytree(corpus, folder)
    for split in ("train", "validation"):
        index = pl.read_parquet(folder / f"{split}.parquet")
        moved = index.with_columns(pl.col("path").str.replace(str(corpus), str(folder), literal=True))
        moved.write_parquet(folder / f"{split}.parquet")
    return folder


def test_a_spoilt_shard_that_a_run_reads_is_a_sentence_before_its_first_update(corpus: Path, tmp_path: Path) -> None:
    other = copy_corpus(corpus, tmp_path / "corpus")
    flip(other / "train.cats.bin")
    spoilt = flags(other, tmp_path / "out")
    refused(r"train\.cats\.bin is not as it was written: its digest is", pretrain_model.main, spoilt)
    assert events(own_state(tmp_path / "out")) == []
    (tmp_path / "mixture.json").write_text(json.dumps({"bees": 0.5, "cats": 0.0, "dogs": 0.5}))
    unread = flags(other, tmp_path / "unread", mixture=tmp_path / "mixture.json", steps=2)
    assert pretrain_model.main(unread) == 0


def test_shards_are_hashed_once_and_again_where_they_differ(corpus: Path, tmp_path: Path, monkeypatch) -> None:
    other = copy_corpus(corpus, tmp_path / "corpus")
    hashed, hash_one = [], rows.check_shard

    def counted(path: str, *more) -> int:
        hashed.append(Path(path).name)
        return hash_one(path, *more)

    monkeypatch.setattr(rows, "check_shard", counted)

    def start() -> list[str]:
        hashed.clear()
        out = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
        assert pretrain_model.main(flags(other, out, steps=2, evaluate_every=2)) == 0
        return sorted(hashed)

    names = [f"{split}.{domain}.bin" for split in ("train", "validation") for domain in ("bees", "cats", "dogs")]
    assert start() == names and start() == []
    path = other / "train.cats.bin"
    os.utime(path, ns=(1, 1))
    assert start() == ["train.cats.bin"]
    flip(path)
    refused("train.cats.bin is not as it was written", start)
    os.utime(path, ns=(1, 1))  # the size and the time of before, as `cp -p` and `rsync -t` leave them
    refused("train.cats.bin is not as it was written", start)


def test_all_bytes_of_large_shards_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bimix.training.rows.PIECE", 64)
    ids = np.arange(1600, dtype=np.uint32) % 70_000
    path = tmp_path / "a.bin"
    ids.tofile(path)
    index = pl.DataFrame({"path": [str(path)], "dtype": ["uint32"], "rows": [100], "tokens": [1600]})
    index = index.with_columns(digest=pl.lit(digest_file(path)))
    check_shards(index, 1600, 2)
    refused("holds the id 1599, but there are 1599 ids", check_shards, index, 1599, 2)
    os.truncate(path, 6396)
    refused("a.bin is not as it was written", check_shards, index, 1600, 2)
    for place in ("/dev/zero", str(tmp_path)):  # a device has no end
        refused(f"{place} cannot be read", check_shards, index.with_columns(path=pl.lit(place)), 1600, 1)


# several processes


@pytest.mark.slow
def test_settings_of_accelerate_in_the_environment_change_nothing(corpus: Path, tmp_path: Path, made: Path) -> None:
    foreign = {"ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "4", "ACCELERATE_MIXED_PRECISION": "bf16", "PMI_SIZE": "3"}
    own = flags(corpus, tmp_path, launch=(), processes=None)
    command = ["bash", "workflow/scripts/launch_training.sh", "0", "1", "1", "0", str(tmp_path / "said")]
    command += [str(tmp_path / "logs"), str(SCRIPT), *own]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env=os.environ | foreign, timeout=300
    )
    assert done.returncode == 0, done.stderr
    for name in ("losses.parquet", "model.safetensors"):
        assert (tmp_path / name).read_bytes() == (made / name).read_bytes()
    said = (tmp_path / "said").read_text()
    assert "Attempt 1, " in said.splitlines()[0]
    assert "ACCELERATE_GRADIENT_ACCUMULATION_STEPS of the environment is not heeded" in said
    assert not [value for name, value in foreign.items() if f"{name}={value}" in said]
    assert (tmp_path / "logs/1.log").read_text() == said


# provenance


def test_a_run_says_which_code_and_versions_made_it(made: Path, corpus: Path) -> None:
    report = json.loads((made / "run.json").read_text())
    (attempt,) = report["attempts"]
    assert set(attempt["versions"]) == {"python", *provenance.PACKAGES}
    assert attempt["step"] == 0 and attempt["processes"] == 1 and attempt["device"] == "cpu, 1 threads"
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False, cwd=ROOT)
    assert attempt["commit"] == (commit.stdout.strip() or None)
    assert report["mixture"] == {"bees": 0.5, "cats": 0.3, "dogs": 0.2}
    assert report["tokenizer"] == digest_file(corpus / "tokenizer.json")
    assert set(report["data"]) == {f"{split}.{name}" for split in ("train", "validation") for name in report["mixture"]}


def test_a_run_of_two_versions_says_so(corpus: Path, tmp_path, monkeypatch, capsys) -> None:
    assert pretrain_model.main(flags(corpus, tmp_path, "--max-seconds", "0")) == 75
    assert "differ" not in capsys.readouterr().err
    monkeypatch.setattr(provenance, "version", lambda name: "9.9" if name == "torch" else "1")
    assert pretrain_model.main(flags(corpus, tmp_path)) == 0
    assert "The attempts at this run differ in versions: " in capsys.readouterr().err
    report = json.loads((tmp_path / "run.json").read_text())
    assert any(line.startswith("The attempts at this run differ in versions") for line in report["warnings"])
    assert [attempt["step"] for attempt in report["attempts"]] == [0, 1]


def test_hours_are_those_of_the_gpus_that_each_attempt_had(corpus: Path, tmp_path: Path, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(loop.Run, "gpu_seconds", 7200.0)  # as if it had been on GPUs until it stopped
        assert pretrain_model.main([*flags(corpus, tmp_path), "--max-seconds", "0"]) == STOPPED
    assert pretrain_model.main(flags(corpus, tmp_path)) == 0
    assert json.loads((tmp_path / "run.json").read_text())["gpu_hours"] == 2
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: 103.0))
    gpus = SimpleNamespace(num_processes=8, device=torch.device("cuda"))
    learner = SimpleNamespace(session=SimpleNamespace(recipe=None, accelerator=gpus))
    state = {"step": 1, "seconds": 10.0, "gpu_seconds": 20.0}
    assert loop.Run(learner, None, tmp_path, state, begun=100.0).gpu_seconds == 20 + 8 * 3
