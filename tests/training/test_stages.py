"""Stages in training, by the order of rows. Each stage has its own proportions from a whole update
on. No row comes twice before its domain is through, and a run may stop anywhere.
"""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch
from refusals import refused
from training_runs import flags

import pretrain_model
from bimix.results.findings import Findings
from bimix.results.verify import check_run
from bimix.training import loop
from bimix.training.attempt import STOPPED
from bimix.training.order import Schedule, next_rows
from bimix.training.update import batches

STEPS, ROWS, BOUNDARY = 20, 8, 13
FIRST, SECOND = np.array([0.6, 0.4, 0.0]), np.array([0.1, 0.3, 0.6])
STAGED = Schedule(np.stack([FIRST, SECOND]), (0, BOUNDARY))
NOTHING = np.zeros(3, dtype=np.int64)
RECIPE = SimpleNamespace(seed=5, batch_rows=ROWS)


class Rows:
    """A store whose rows are their own names: [domain, number]."""

    domains = ("ants", "bees", "cats")
    sizes = np.array([90, 70, 40])

    def read(self, chosen: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        return np.stack([chosen, numbers], axis=1)


def rows_of(schedule: Schedule, made: int = 0, end: int = STEPS, taken=NOTHING, before=None) -> list:
    """The batches of updates made..end-1."""
    return list(
        batches(Rows(), schedule, RECIPE, taken, end - made, lambda chosen: slice(None), False, False, made, before)
    )


def test_each_stage_has_its_own_proportions_from_its_first_update_on() -> None:
    made = rows_of(STAGED)
    for share, own in ((FIRST, made[:BOUNDARY]), (SECOND, made[BOUNDARY:])):
        counts = np.cumsum([batch.counts for batch in own], axis=0)
        wanted = share * ROWS * np.arange(1, len(own) + 1)[:, None]
        assert np.abs(counts - wanted).max() <= 1 - 1 / 4 + 1e-9
    assert all(batch.counts[2] == 0 for batch in made[:BOUNDARY])
    # 0.6 of eight rows, at the update of the boundary itself
    assert made[BOUNDARY].counts[2] in (4, 5)


def test_a_domain_that_is_through_begins_its_next_epoch_across_the_boundary() -> None:
    heavy = Schedule(np.array([[0.9, 0.05, 0.05], [0.1, 0.1, 0.8]]), (0, BOUNDARY))
    rows = np.concatenate([batch.rows.numpy() for batch in rows_of(heavy)])
    numbers = rows[rows[:, 0] == 0, 1]
    assert len(numbers) > 90 and set(numbers[:90]) == set(range(90))


def test_a_stage_reads_the_rows_that_a_whole_run_on_it_would_read_after_the_first() -> None:
    """The boundary changes which domain a row comes from, and never the order inside one."""
    rows = np.concatenate([batch.rows.numpy() for batch in rows_of(STAGED)])
    alone = np.concatenate([batch.rows.numpy() for batch in rows_of(Schedule(FIRST[None]))])
    for domain in (0, 1):
        own, other = (some[some[:, 0] == domain, 1] for some in (rows, alone))
        shared = min(len(own), len(other))
        assert shared > 30 and np.array_equal(own[:shared], other[:shared])


def test_a_run_that_stopped_in_any_stage_goes_on_with_the_same_rows() -> None:
    whole = rows_of(STAGED)
    for stopped in range(1, STEPS):
        last = rows_of(STAGED, end=stopped)[-1]
        rest = rows_of(STAGED, made=stopped, taken=last.taken, before=last.before)
        for batch, expected in zip(rest, whole[stopped:], strict=True):
            assert np.array_equal(batch.rows, expected.rows)
            assert np.array_equal(batch.taken, expected.taken) and np.array_equal(batch.before, expected.before)


def test_one_stage_is_the_order_of_a_plain_mixture_bit_by_bit() -> None:
    proportions = np.array([0.61, 0.28, 0.11])
    chosen, numbers, _ = next_rows(5, list(Rows.domains), proportions, Rows.sizes, NOTHING, STEPS * ROWS)
    plain = np.stack([chosen, numbers], axis=1)
    one = rows_of(Schedule(proportions[None]))
    assert np.array_equal(np.concatenate([batch.rows.numpy() for batch in one]), plain)
    # a boundary between equal stages moves no more than the assignment, which begins again
    cut = rows_of(Schedule(np.stack([proportions, proportions]), (0, BOUNDARY)))
    assert np.abs(cut[-1].taken - proportions * STEPS * ROWS).max() <= 2 * (1 - 1 / 4)


TRAINED = {"bees": 0.5, "cats": 0.3, "dogs": 0.2}
ENDED = {"bees": 0.0, "cats": 0.1, "dogs": 0.9}


def run(corpus: Path, out: Path, mixture: dict) -> int:
    out.mkdir(exist_ok=True)
    (out / "mixture.json").write_text(json.dumps(mixture))
    return pretrain_model.main(flags(corpus, out, mixture=out / "mixture.json", evaluate_every=5))


def losses(out: Path) -> dict:
    table = pl.read_parquet(out / "losses.parquet")
    return {(step, domain): loss for step, domain, loss in table.select("step", "domain", "loss").iter_rows()}


def test_a_run_of_stages_is_stopped_resumed_and_verified(corpus: Path, tmp_path: Path, monkeypatch) -> None:
    """40 updates, 24 of the first stage: as the plain mixture until then, stopped in each."""
    staged = {"stages": [{"share": 0.6, "mixture": TRAINED}, {"share": 0.4, "mixture": ENDED}]}
    assert run(corpus, tmp_path / "plain", TRAINED) == 0
    assert run(corpus, tmp_path / "whole", staged) == 0
    plain, whole = losses(tmp_path / "plain"), losses(tmp_path / "whole")
    assert {key: loss for key, loss in whole.items() if key[0] <= 24} == {
        key: loss for key, loss in plain.items() if key[0] <= 24
    }
    assert all(whole[30, domain] != plain[30, domain] for domain in TRAINED)
    assert whole[40, "dogs"] < plain[40, "dogs"] and whole[40, "bees"] > plain[40, "bees"]
    cut = tmp_path / "cut"
    for stop in (10, 24, 31):
        with monkeypatch.context() as patch:
            patch.setattr(loop.Run, "wants_to_stop", lambda self, stop=stop: self.step >= stop)
            assert run(corpus, cut, staged) == STOPPED
    assert run(corpus, cut, staged) == 0
    assert losses(cut) == whole
    assert (cut / "model.safetensors").read_bytes() == (tmp_path / "whole/model.safetensors").read_bytes()
    # 24 updates of six rows, then 16
    (state,) = [torch.load(path, weights_only=True) for path in (cut / "state").glob("*/step-*40.pt")]
    assert state["before"] == pytest.approx([72, 43.2, 28.8], abs=1) and sum(state["before"]) == 144
    second = np.array(state["taken"]) - state["before"]
    assert second[0] == 0 and second == pytest.approx([0, 9.6, 86.4], abs=1)
    found = Findings()
    check_run(cut / "run.json", found)
    assert not found.faults and json.loads((cut / "run.json").read_text())["mixture"] == staged


def test_a_stage_without_an_update_stops_before_the_training(corpus: Path, tmp_path: Path) -> None:
    staged = {"stages": [{"share": 0.99, "mixture": TRAINED}, {"share": 0.01, "mixture": ENDED}]}
    refused(r"stage 2 has a share of 0\.01, which of 40 updates is none", run, corpus, tmp_path / "short", staged)
