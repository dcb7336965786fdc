"""`launch` changes no result beyond rounding and repeats no run; run.json has what ran."""

import json
import os

import pytest
from torch.nn.attention import SDPBackend, sdpa_kernel
from training_runs import flags

import pretrain_model
from bimix.errors import InputError


def test_curves_are_drawn_by_what_launch_says_and_no_run_is_repeated(corpus, tmp_path, monkeypatch, capsys) -> None:
    for name in ("WANDB_DIR", "WANDB_MODE", "TRACKIO_DIR"):
        monkeypatch.setenv(name, "online")
    states = set()
    for name, drawn, kernel in (("none", 0, SDPBackend.FLASH_ATTENTION), ("tensorboard", 1, SDPBackend.MATH)):
        own = flags(corpus, tmp_path / name, steps=2, evaluate_every=2)
        with sdpa_kernel(kernel):
            assert pretrain_model.main([*own, "--log-with", name]) == 0
        report = json.loads((tmp_path / name / "run.json").read_text())
        assert [attempt["attention"] for attempt in report["attempts"]] == [kernel.name.lower()]
        state = tmp_path / name / "state" / report["state"]
        assert len(list((state / "tensorboard").glob("events.*"))) == drawn
        assert [os.environ[f"{of}_DIR"] for of in ("WANDB", "TRACKIO")] == [str(state), str(state / "trackio")]
        states.add(state.name)
    assert len(states) == 1, "one fingerprint"
    assert os.environ["WANDB_MODE"] == "online"
    capsys.readouterr()
    assert pretrain_model.main([*own, "--log-with", "none"]) == 0
    assert "update" not in capsys.readouterr().err
    with pytest.raises(InputError, match="launch, log_with: trackio is not installed: run pip install trackio, or"):
        pretrain_model.main([*flags(corpus, tmp_path / "new"), "--log-with", "trackio"])
