"""Snakemake deletes the outputs of a run whose mixture moves; nothing is lost."""

import shutil
from pathlib import Path

import pytest
from checkout import said
from mini_dataset import mini_config, write_checkout

from bimix.training import checkpoints

RUN = "results/mini/runs/slim/plain"


def call(folder: Path) -> str:
    return said(folder, f"{RUN}/losses.parquet", "--configfile", "mini.yaml")


def outputs(folder: Path) -> list[bytes]:
    return [(folder / RUN / name).read_bytes() for name in ("losses.parquet", "model.safetensors", "run.json")]


def states(folder: Path) -> dict[str, list[str]]:
    """What the attempts at each configuration have noted."""
    found = (folder / RUN / "state").glob("*/fingerprint.json")
    return {path.parent.name: [line["event"] for line in checkpoints.attempts(path.parent)] for path in found}


@pytest.mark.slow
@pytest.mark.full
def test_a_mixture_that_moves_is_trained_on_anew_and_the_old_run_comes_back_without_an_update(tmp_path: Path) -> None:
    write_checkout(tmp_path, mini_config(20, 10, slim={}), ["plain"])
    mixture, log = tmp_path / "plain.json", tmp_path / "results/mini/logs/pretrain_model/slim/plain.log"

    call(tmp_path)
    before, first = outputs(tmp_path), states(tmp_path)
    (old,) = first

    mixture.write_text('{"kitchen": 0.7, "sea": 0.3}')
    call(tmp_path)
    after = outputs(tmp_path)
    assert all(one != other for one, other in zip(before, after, strict=True))
    assert (
        "begins next to another configuration" in log.read_text()
        and "mixture.sea: 0.6 there, 0.3 now" in log.read_text()
    )
    (new,) = states(tmp_path).keys() - {old}
    assert states(tmp_path)[old] == first[old]

    mixture.write_text('{"kitchen": 0.4, "sea": 0.6}')
    call(tmp_path)
    assert outputs(tmp_path) == before
    assert states(tmp_path)[old] == [*first[old], "restored"]
    assert states(tmp_path)[new].count("begun") == 1
    assert all(
        f"Attempt {number}," in (tmp_path / RUN / f"state/logs/{number}.log").read_text() for number in (1, 2, 3)
    )
    assert log.samefile(tmp_path / RUN / "state/logs/3.log")

    shutil.rmtree(tmp_path / RUN / "state")  # whoever needs its room has the outputs still
    assert "Nothing to be done" in call(tmp_path)
    assert outputs(tmp_path) == before
