"""A training killed at any write goes on to the same bytes; so does putting outputs back."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import crash_points
import pytest
from training_runs import flags


def strike(corpus: Path, folder: Path) -> list[dict]:
    recipe = {"steps": 3, "evaluate_every": 1, "batch_rows": 2, "validation_rows": 1}
    own = flags(corpus, folder / "out", "--keep", "1", **recipe)
    command = [sys.executable, crash_points.__file__, str(folder), "--", *own]
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=1200)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_a_kill_at_any_write_of_a_training_or_of_putting_back_loses_nothing(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "training").mkdir()
    training = strike(corpus, tmp_path / "training")
    # a file that is torn in each of the kinds, a flush, a rename, a link: the shim
    # sees what it is meant to see
    died = " ".join(found["died"] for found in training)
    for what in (
        "step-000000001.pt",
        "step-000000001.safetensors",
        "losses.parquet",
        "run.json",
        "attempts.jsonl",
        "lock",
    ):
        assert f"torn', '.{what}" in died or f"torn', '{what}" in died, what
    for what in ("fsync", "os.rename", "os.link", "os.mkdir", "'open', 'lock'", "'os.remove', 'step-000000001.pt'"):
        assert what in died, what
    # what the last attempt left is a finished run, of which the outputs are deleted
    (tmp_path / "putting back/beginning").mkdir(parents=True)
    shutil.copytree(tmp_path / "training/out/state", tmp_path / "putting back/beginning/state")
    back = strike(corpus, tmp_path / "putting back")
    assert "os.link" in " ".join(found["died"] for found in back)
    whole = training[0]  # killed before it had written anything
    assert whole["saved"] == 0 and whole["begun"] == [0] and None not in whole["bytes"] and len(whole["bytes"]) == 3
    for found in [*training, *back]:
        assert found["resumed"] == 0, found
        assert (found["bytes"], found["files"], found["left"]) == (whole["bytes"], whole["files"], []), found
        # what was noted as saved is never trained again; a run that had ended
        # is not begun again at all
        assert found["begun"] == [] if found["ended"] else found["begun"][0] >= found["saved"], found
    assert all(found["ended"] for found in back)
