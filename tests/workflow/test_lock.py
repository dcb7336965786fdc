"""A dataset's results belong to one checkout's call at a time; what a dead call held is free."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import forked
import pytest
from mini_dataset import ROOT, mini_config, write_checkout

from bimix.errors import InputError
from bimix.settings import lock

HOLDING = """
import sys
sys.path.insert(0, sys.argv[1])
from bimix.settings.lock import hold
held = hold("mini")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen]:
    """A process of another checkout, whose results are those of tmp_path/own, that holds them."""
    for name in ("own", "other", "shared"):
        (tmp_path / name).mkdir()
    for name in ("own", "other"):
        (tmp_path / name / "results").symlink_to(tmp_path / "shared")
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(ROOT / "workflow/scripts")],
        cwd=tmp_path / "other",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_another_checkout_is_refused_and_named_until_its_process_is_dead(tmp_path, other, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path / "own")
    with pytest.raises(InputError, match="results/mini is held by another call of Snakemake") as refused:
        lock.hold("mini")
    assert f"process {other.pid} on {socket.gethostname()}, in {tmp_path}/other, since " in str(refused.value)
    assert lock.hold("another")[0] is not None
    monkeypatch.chdir(tmp_path / "other")  # where Snakemake's own lock keeps calls apart
    assert lock.hold("mini") == (None, None)
    monkeypatch.chdir(tmp_path / "own")
    other.send_signal(signal.SIGKILL)
    other.wait()
    held, remark = lock.hold("mini")
    assert held is not None and remark is None
    assert json.loads(Path("results/mini/.lock").read_text())["folder"] == str(tmp_path / "own")
    held.close()


def test_the_same_folder_on_another_machine_is_another_call(tmp_path, other, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path / "other")
    monkeypatch.setattr(socket, "gethostname", lambda: "login2")
    with pytest.raises(InputError, match="results/mini is held by another call of Snakemake"):
        lock.hold("mini")


@pytest.mark.slow
def test_a_call_ends_before_its_first_job_where_another_checkout_holds_the_results(tmp_path, other) -> None:
    own = tmp_path / "own"
    write_checkout(own, mini_config(20, 10, slim={}), ["plain"])

    def call(*more: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "snakemake", "--cores", "1", *more, "--configfile", "mini.yaml"]
        return forked.run(command, cwd=own, env=forked.jobs())

    for target in ("results/mini/mixtures/plain.json", "results/mini/shards/train/kitchen.kitchen"):
        refused = call(target)
        assert refused.returncode == 1
        assert "results/mini is held by another call of Snakemake" in refused.stdout + refused.stderr
        assert "Traceback" not in refused.stdout + refused.stderr
    assert sorted(path.name for path in (tmp_path / "shared/mini").iterdir()) == [".lock"]
    assert call("results/mini/mixtures/plain.json", "-n").returncode == 0
    other.kill()
    other.wait()
    done = call(shard := "results/mini/shards/train/kitchen.kitchen", "results/mini/mixtures/plain.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "shared/mini/mixtures/plain.json").is_file()
    assert (tmp_path / "shared/mini/.digests/mixtures/plain.json.json").is_file()
    # results that are read-only can be read, also where planning would note that text was touched
    (own / "kitchen.jsonl").touch()
    with read_only(tmp_path / "shared"):
        assert call(shard).returncode == 0
        refused = call("results/mini/shards/train/sea.sea")
        said = refused.stdout + refused.stderr
        assert refused.returncode == 1 and "results/mini/.lock cannot be written" in said and "Traceback" not in said


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """For root, who may write into any folder, by a read-only mount of it."""
    if os.geteuid():
        folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
        for path in folders:
            path.chmod(0o555)
        yield
        for path in folders:
            path.chmod(0o755)
        return
    if subprocess.run(["mount", "--bind", folder, folder], check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        yield
    finally:
        subprocess.run(["umount", folder], check=True)
