"""`launch` changes no result beyond rounding and repeats no run; run.json has what ran."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from refusals import refused
from training_runs import flags

import pretrain_model
from bimix.errors import InputError
from bimix.model.attention import SWITCHES, choose_attention, kernel_name

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def torchs_choice() -> Iterator[None]:
    """The switches of this process as torch has them."""
    yield
    choose_attention("auto", "cpu", "no")


def losses(folder: Path) -> pl.Series:
    return pl.read_parquet(folder / "losses.parquet")["loss"]


def test_kernels_of_attention_train_the_same_and_are_named(corpus: Path, tmp_path: Path) -> None:
    for name in ("auto", "math", "flash"):
        own = flags(corpus, tmp_path / name / "run", steps=6, evaluate_every=3)
        assert pretrain_model.main([*own, "--attention", name]) == 0
    found = {name: losses(tmp_path / name / "run") for name in ("auto", "math", "flash")}
    assert found["auto"].equals(found["flash"])
    assert (found["auto"] - found["math"]).abs().max() < 1e-5
    named = {name: json.loads((tmp_path / name / "run/run.json").read_text())["attention"] for name in found}
    assert named == {"auto": ["flash_attention"], "math": ["math"], "flash": ["flash_attention"]}


def test_curves_are_drawn_by_what_launch_says_and_no_run_is_repeated(corpus, tmp_path, monkeypatch, capsys) -> None:
    for name in ("WANDB_DIR", "WANDB_MODE", "TRACKIO_DIR"):
        monkeypatch.setenv(name, "online")
    states = set()
    for name, drawn in (("none", 0), ("tensorboard", 1)):
        own = flags(corpus, tmp_path / name, steps=2, evaluate_every=2)
        assert pretrain_model.main([*own, "--log-with", name]) == 0
        state = tmp_path / name / "state" / json.loads((tmp_path / name / "run.json").read_text())["state"]
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


def test_a_kernel_that_the_device_lacks_is_a_sentence(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="launch, attention: cudnn is of GPUs alone"):
        pretrain_model.main(flags(corpus, tmp_path, "--attention", "cudnn"))
    for name in ("flash", "cudnn"):
        refused(f"launch, attention: {name} computes in bf16, not in fp32", choose_attention, name, "cuda", "no")
    assert set(SWITCHES) == {"flash", "cudnn", "math", "efficient"}


def test_the_kernel_of_attention_is_the_fused_one_that_takes_longest() -> None:
    forward, backward = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop", "cudnn_generated_fort_native_sdpa_bprop"
    others = [("nvjet_hsh_128x256", 9.0), ("triton_poi_fused__scaled_dot_product_cudnn_attention_3", 8.0)]
    assert kernel_name([*others, (forward, 1.0), (backward, 2.5)]) == backward
    assert kernel_name([("void pytorch_flash::flash_fwd_kernel<...>", 1.0), *others]).startswith("void pytorch_flash")
    assert kernel_name(others) == "math"
    assert kernel_name([]) == kernel_name([("cudaLaunchKernel", 0.0)]) == "not known"
