"""DoGE's update in float64 by hand: clipping, absent domains, scores, averages, goals."""

import functools
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch
from reweighting import proxy
from reweighting.proxy import CHOSEN, LENGTH, draw, token_losses

from bimix.reweighting import doge
from bimix.reweighting.doge import Doge, Mix
from bimix.training.rows import Part, RowStore
from bimix.training.update import Batch, Learner

RATE = 0.02


def learner(*given: object) -> Learner:
    return proxy.learner(RATE, *given)


def batch() -> Batch:
    return proxy.batch((1, 2, 0, 3, 4))


def gradient(rows: torch.Tensor) -> np.ndarray:
    """Gradient of the mean loss of `rows` in float64, flat."""
    model = learner(1.0).plain
    token_losses(model, rows).mean().backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters()]).numpy()


def clipped(vector: np.ndarray, largest: float) -> np.ndarray:
    return vector * min(1, largest / (np.linalg.norm(vector) + 1e-6))


@functools.cache
def mix() -> Mix:
    """Two domains of three rows each, of which an update reads two."""
    rows = {"x": draw(3, 7).numpy(), "y": draw(3, 8).numpy()}
    index = pl.DataFrame({"domain": ["x", "y"], "path": ["x", "y"]}).with_columns(
        rows=pl.lit(3), tokens=pl.lit(3 * LENGTH), dtype=pl.lit("uint16")
    )
    return Mix(RowStore(index, ["x", "y"], lambda path, dtype, count: rows[path]), 4)


def test_one_update_equals_the_computation_by_hand() -> None:
    for largest_norm, micro_batch, loss_chunk in ((1e9, 5, None), (0.65, 5, None), (0.65, 1, 4)):
        own, given = learner(largest_norm, loss_chunk, micro_batch), batch()
        before = torch.cat([weight.detach().flatten() for weight in own.plain.parameters()]).clone()
        method = Doge(own, doge.reserve(own.session), mix())
        assert len(method.gradients) == 5
        last = torch.tensor([0.0, 0.003, 0.0, 0.0], dtype=torch.float64)
        method.trace.signal = last
        loss, norm = method.update(given, 0)

        gradients = {d: gradient(given.rows[torch.from_numpy(d == CHOSEN)]) for d in (0, 2, 3)}
        too_long = [np.linalg.norm(vector) > largest_norm for vector in gradients.values()]
        assert sum(too_long) == (2 if largest_norm < 1 else 0)
        gradients = {d: clipped(vector, largest_norm) for d, vector in gradients.items()}
        scores = last.numpy().copy()
        mean_norm = np.mean([np.linalg.norm(vector) for vector in gradients.values()])
        owners, numbers = mix().choose(1, 0)
        read = torch.from_numpy(mix().store.read(owners, numbers))
        assert owners.tolist() == [0, 1, 0, 1]
        toward = clipped(gradient(read), largest_norm)
        for d, vector in gradients.items():
            scores[d] = np.clip(RATE * (vector @ toward) / (mean_norm + 1e-6), 0, 5 * RATE)
        weights = np.full(4, 0.25) * np.exp(scores / 0.01)
        weights /= weights.sum()
        step = sum(weights[d] * vector for d, vector in gradients.items())

        assert scores.max() > 1e-3, "a score is told from nothing"
        np.testing.assert_allclose(method.trace.signal, scores, rtol=1e-4, atol=1e-8)
        np.testing.assert_allclose(method.trace.weights, weights, rtol=1e-4)
        np.testing.assert_allclose(method.trace.average, weights, rtol=1e-4)
        after = torch.cat([weight.detach().flatten() for weight in own.plain.parameters()])
        np.testing.assert_allclose((before - after) / RATE, step, rtol=1e-3, atol=2e-4 * np.abs(step).max())
        assert norm.item() == pytest.approx(np.linalg.norm(step), rel=1e-4)
        assert loss.item() == pytest.approx(token_losses(learner(1.0).plain, given.rows).mean().item(), rel=1e-5)
        first = method.trace.weights
        method.update(given, 1)
        torch.testing.assert_close(method.trace.average, (first + method.trace.weights) / 2)
        assert method.trace.average.sum().item() == pytest.approx(1, abs=1e-12)


def test_a_score_lies_between_nothing_and_its_limit() -> None:
    gradients = torch.tensor([[3.0, 0.0], [30.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    along, norms = gradients @ gradients.sum(0) - gradients.square().sum(1), gradients.norm(dim=1)
    scores = doge.alignment(along, norms, torch.tensor([True] * 3), 0.1, 5.0, torch.zeros(3).double())
    assert scores.tolist() == pytest.approx([0.5, 0.5, 0.0])


def test_products_in_blocks_are_the_products() -> None:
    draws = torch.randn(7, 5 * doge.BLOCK, generator=torch.manual_seed(0))
    found = doge.products(draws[:6], draws[6])
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, draws[:6].double() @ draws[6].double(), rtol=1e-5, atol=1e-3)


def test_whole_domains_are_dealt_out_and_every_row_is_read_once() -> None:
    """No process has more than one domain, or the mix, above another."""
    for processes in (1, 3, 7):
        chosen, rows, numbers = np.array([3, 1, 0, 2, 1, 3, 2, 0, 0]), [], []
        for process in range(processes):
            own = learner(1.0)
            accelerator = SimpleNamespace(process_index=process, num_processes=processes, device=torch.device("cpu"))
            own.session.accelerator = accelerator
            method = Doge(own, doge.reserve(own.session), mix())
            mine = method.own(chosen)
            assert (np.diff(chosen[mine]) >= 0).all()
            assert set(chosen[mine].tolist()) == set(method.domains)
            _, counts = method.read_mix(5)
            assert len(counts) + len(method.domains) == len(method.numbers)
            rows += mine.tolist()
            numbers.append((len(method.numbers), sum(counts)))
        assert sorted(rows) == list(range(len(chosen)))
        sizes, read = zip(*numbers, strict=True)
        assert max(sizes) - min(sizes) <= 1 and sum(read) == 4


def updated(processes: int, monkeypatch: pytest.MonkeyPatch) -> list[Doge]:
    """What one update by so many processes leaves in each; here they are threads."""
    meeting, sent, methods = threading.Barrier(processes, timeout=60), {}, []

    def add(accelerator: SimpleNamespace, tensor: torch.Tensor) -> torch.Tensor:
        sent[accelerator.process_index] = tensor.clone()
        meeting.wait()
        tensor.copy_(sum(sent[process] for process in range(processes)))
        meeting.wait()
        return tensor

    monkeypatch.setattr(doge, "sum_over_processes", add)
    for process in range(processes):
        own = learner(0.65)
        accelerator = SimpleNamespace(process_index=process, num_processes=processes, device=torch.device("cpu"))
        own.session.accelerator = accelerator
        methods.append(Doge(own, doge.reserve(own.session), mix()))

    def update(method: Doge) -> None:
        mine = method.own(CHOSEN)
        method.update(replace(proxy.batch(), rows=proxy.batch().rows[mine], chosen=CHOSEN[mine]), 0)

    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(update, methods))
    return methods


def test_processes_without_a_domain_take_part_in_an_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of seven, for four domains and the mix, one has the mix alone and two have nothing."""
    (whole,) = updated(1, monkeypatch)
    for method in updated(7, monkeypatch):
        torch.testing.assert_close(method.trace.weights, whole.trace.weights, rtol=1e-6, atol=0)
        for weight, expected in zip(method.learner.plain.parameters(), whole.learner.plain.parameters(), strict=True):
            torch.testing.assert_close(weight, expected)


def all_rows(part: Part) -> set[tuple[int, int]]:
    """Domain and place of every row of a part of a store."""
    chosen = np.repeat(np.arange(len(part.sizes)), part.sizes)
    numbers = np.concatenate([np.arange(size) for size in part.sizes])
    return {(row[0], row[1]) for row in part.read(chosen, numbers).tolist()}


def test_the_mix_has_every_domain_alike_and_none_of_its_rows_is_trained_on() -> None:
    rows = {name: np.full((40 * (k + 1), LENGTH), k, dtype=np.uint16) for k, name in enumerate("abc")}
    for name in rows:
        rows[name][:, 1] = np.arange(len(rows[name]))
    index = pl.DataFrame({"domain": list("abc"), "path": list("abc"), "rows": [40, 80, 120]}).with_columns(
        tokens=pl.col("rows") * LENGTH, dtype=pl.lit("uint16")
    )
    store = RowStore(index, list("abc"), lambda path, dtype, count: rows[path])
    session = SimpleNamespace(train=store, domains=list("abc"), recipe=SimpleNamespace(batch_rows=12))
    mix = doge.held_mix(session)
    assert mix.rows == 4
    assert mix.store.sizes.tolist() == [2, 4, 6] and session.train.sizes.tolist() == [38, 76, 114]
    held, trained = (all_rows(part) for part in (mix.store, session.train))
    assert len(held) == 12 and len(trained) == 228 and not held & trained
    owners = np.concatenate([mix.choose(1, step)[0] for step in range(6)])
    assert np.bincount(owners).tolist() == [8, 8, 8]
    assert doge.mix_rows(8, 22) == 22, "one row of each domain at least"
    assert doge.mix_rows(128, 7) == 19, "an average domain's rows"


def test_the_mix_is_read_in_turn() -> None:
    read = [mix().choose(1, step) for step in range(3)]
    assert all(owners.tolist() == [0, 1, 0, 1] for owners, _ in read)
    of_x = np.concatenate([numbers[owners == 0] for owners, numbers in read])
    assert sorted(of_x[:3]) == sorted(of_x[3:]) == [0, 1, 2]  # an epoch of the three rows, then another
