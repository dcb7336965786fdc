"""A run whose very configuration another run has ended with is not trained again."""

import json

from bimix.training import artefacts, checkpoints

FINGERPRINT = {"mixture.a": 0.5, "recipe.steps": 8}


def ended(run, fingerprint=FINGERPRINT):
    """A finished run's folder of its configuration."""
    (run / "state").mkdir(parents=True)
    own, _ = checkpoints.claim(run / "state", fingerprint)
    own.mkdir(exist_ok=True)
    (own / "losses.parquet").write_bytes(b"losses")
    (own / "step-8.pt").write_bytes(b"checkpoint")
    checkpoints.note(own, "finished", 8)
    artefacts.finish(own, {"seconds": 3}, ["losses.parquet"], {})
    return own


def test_it_is_taken_over_with_all_that_it_left_but_checkpoints(tmp_path) -> None:
    first = ended(tmp_path / "runs/tiny/round1")
    (tmp_path / "runs/tiny/round2/state").mkdir(parents=True)
    own, remark = checkpoints.claim(tmp_path / "runs/tiny/round2/state", FINGERPRINT)
    assert "taken over" in remark and own.name == first.name
    assert (own / "losses.parquet").samefile(first / "losses.parquet") and not (own / "step-8.pt").exists()
    place = tmp_path / "runs/tiny/round2/losses.parquet"
    assert artefacts.restore(own, {"losses.parquet": place}) == ([place], None)
    assert json.loads((own / "run.json").read_text())["seconds"] == 3
    checkpoints.note(own, "restored", 8)
    assert len(checkpoints.attempts(own)) == 2 and len(checkpoints.attempts(first)) == 1


def test_what_no_search_names_or_differs_or_has_not_ended_is_not_taken_over(
    tmp_path,
) -> None:
    ended(tmp_path / "runs/tiny/uniform")
    for name in ("mine", "foundling", "round", "uniform@2"):
        (tmp_path / f"runs/tiny/{name}/state").mkdir(parents=True)
        own, remark = checkpoints.claim(tmp_path / f"runs/tiny/{name}/state", FINGERPRINT)
        assert remark is None and not (own / "run.json").exists(), name
    first = ended(tmp_path / "runs/small/round1")
    state = tmp_path / "runs/small/round2/state"
    state.mkdir(parents=True)
    own, remark = checkpoints.claim(state, FINGERPRINT | {"recipe.steps": 9})
    assert remark is None and not (own / "run.json").exists()
    (first / "run.json").unlink()
    own, _ = checkpoints.claim(state, FINGERPRINT)
    assert not (own / "run.json").exists()
