"""Compiled models: the loss in one graph, no further one in evaluations or processes."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from refusals import refused
from tiny_run import RECIPE, SHAPE
from training_runs import SCRIPT, execute, flags, launched

import pretrain_model
from bimix.errors import InputError
from bimix.model.memory import largest_micro_batch
from bimix.model.transformer import Shape, Transformer
from bimix.reweighting.doremi import Doremi
from bimix.training import session
from bimix.training import update as training_update
from bimix.training.attempt import STOPPED
from bimix.training.recipe import Recipe
from bimix.training.update import Batch, build_optimizer, compile_whole, evaluate

SMALL = Shape(layers=1, width=32, heads=2, vocabulary=70)


@pytest.fixture(autouse=True)
def own_compiler() -> Iterator[None]:
    """Nothing compiled is left to other tests, nor the settings of torch's compiler."""
    torchs_own = {"recompile_limit": 8, "optimize_ddp": True, "fail_on_recompile_limit_hit": False}
    with torch._dynamo.config.patch(**torchs_own):
        torch.compiler.reset()
        yield
        torch.compiler.reset()


def alone(corpus: Path, out: Path, **given: object) -> None:
    """A run in this process, by which those of several are judged."""
    assert pretrain_model.main(flags(corpus, out, **given)) == 0


def count_graphs(monkeypatch: pytest.MonkeyPatch, tracer: str = "aot_eager", whole_graph: bool = True) -> list[int]:
    """A list that grows with each graph of models that are compiled from now on, by autograd's tracer
    alone, or not even by that (`eager`). `whole_graph`: a model that is cut is an error.
    """
    graphs, backend = [], torch._dynamo.lookup_backend(tracer)

    def counting(graph: torch.fx.GraphModule, inputs: list) -> Callable:
        graphs.append(len(graph.graph.nodes))
        return backend(graph, inputs)

    whole = Transformer.compile
    monkeypatch.setattr(
        Transformer, "compile", lambda own, **given: whole(own, backend=counting, fullgraph=whole_graph, **given)
    )
    return graphs


@pytest.mark.parametrize(("chunk", "precision"), [(None, "no"), (16, "bf16")])
def test_the_loss_and_its_gradients_are_one_graph(chunk: int | None, precision: str, monkeypatch) -> None:
    torch.manual_seed(0)
    plain = Transformer(SMALL, loss_chunk=chunk)
    rows = torch.randint(0, SMALL.vocabulary, (3, 13))
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        expected = plain(rows)
    (expected * 0.7).backward()
    gradients = [weight.grad.clone() for weight in plain.parameters()]
    plain.zero_grad()
    graphs = count_graphs(monkeypatch)
    compile_whole(plain)
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = plain(rows)
        plain.zero_grad()
        (loss * 0.7).backward()
    assert len(graphs) == 1
    torch.testing.assert_close(loss, expected)
    for weight, gradient in zip(plain.parameters(), gradients, strict=True):
        torch.testing.assert_close(weight.grad, gradient, rtol=1e-3, atol=1e-5 if precision == "no" else 1e-3)


def test_an_evaluation_is_one_graph_whatever_number_of_rows_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    plain, draw = Transformer(SMALL), np.random.default_rng(0)
    held = [draw.integers(0, SMALL.vocabulary, (rows, 9)).astype(np.int32) for rows in (7, 1, 12, 3, 2)]
    with torch.no_grad():
        expected = [plain(torch.from_numpy(rows)).item() for rows in held]
    accelerator = Accelerator(cpu=True)
    for micro_batch in (1, 4, 5, 100):
        assert evaluate(accelerator, plain, held, micro_batch) == pytest.approx(expected, rel=1e-6)
    graphs = count_graphs(monkeypatch)
    compile_whole(plain)
    for _ in range(2):
        assert evaluate(accelerator, plain, held, 4) == pytest.approx(expected, rel=1e-6)
    assert len(graphs) == 1


@pytest.mark.parametrize(("chunk", "precision"), [(None, "no"), (8, "bf16")])
def test_doremi_compiles_nothing_after_its_first_update(chunk: int | None, precision: str, monkeypatch) -> None:
    """Batches of other numbers of rows; updates are those of uncompiled models."""

    graphs = count_graphs(monkeypatch, whole_graph=False)

    def updates(compiled: bool) -> list[float]:
        AcceleratorState._reset_state(reset_partial_state=True)
        accelerator = Accelerator(cpu=True, mixed_precision=precision)
        recipe = Recipe(**RECIPE | {"batch_rows": 8, "learning_rate": 0.01})
        domains = ["a", "b", "c", "d", "e"]
        settings = {"accelerator": accelerator, "shape": SMALL, "recipe": recipe, "domains": domains}
        own = SimpleNamespace(**settings, train=SimpleNamespace(row_length=9))
        torch.manual_seed(0)
        reference, plain = (Transformer(SMALL, loss_chunk=chunk) for _ in range(2))
        if compiled:
            compile_whole(plain)
        model, optimizer = accelerator.prepare(plain, build_optimizer(plain, recipe))
        doremi = Doremi(training_update.Learner(own, plain, model, optimizer, 8), reference.requires_grad_(False))
        draw, found = np.random.default_rng(0), []
        for step in range(12):
            chosen = np.sort(draw.integers(0, 5, 8))
            counts, rows = np.bincount(chosen, minlength=5), draw.integers(0, SMALL.vocabulary, (8, 9))
            rows = torch.from_numpy(rows.astype(np.int32))
            found.append(doremi.update(Batch(rows, chosen, counts, counts, counts * 0), step)[0].item())
            if step == 0:
                first = len(graphs)
        assert len(graphs) == first
        return found

    expected = updates(compiled=False)
    losses = updates(compiled=True)
    assert losses == pytest.approx(expected, abs=1e-5 if precision == "no" else 1e-2)
    assert 1 <= len(graphs) <= (1 if chunk is None else 4)
    AcceleratorState._reset_state(reset_partial_state=True)


def test_probes_of_memory_compile_only_the_size_that_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs, peaks = count_graphs(monkeypatch, "eager"), iter((8, 16, 24))
    plain = Transformer(SMALL)
    compile_whole(plain)
    device = SimpleNamespace(
        limit=lambda: 40, peak=lambda work: (work(), next(peaks))[1], free=lambda: None
    )  # a byte a row: 36 of 40 rows are 24 of 48
    assert largest_micro_batch(Accelerator(cpu=True), plain, 48, 9, device) == 24
    assert len(graphs) == 1


def test_parts_of_a_compiled_update_are_cut_alike(corpus: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    """Five rows at once of twelve would be two graphs; the evaluation is another."""
    graphs = count_graphs(monkeypatch)
    given = {"micro_batch": 5, "batch_rows": 12, "steps": 2, "evaluate_every": 2}
    assert pretrain_model.main(flags(corpus, tmp_path, "--compile", "yes", **given)) == 0
    assert "4 of 12 rows at once" in capsys.readouterr().err
    assert len(graphs) == 2


def test_more_sizes_than_torch_would_compile_stay_compiled_and_still_more_are_an_error(monkeypatch) -> None:
    plain = Transformer(SMALL)
    # Of how the gradients are found torch's limit knows nothing; and of whole graphs it is an
    # error by itself.
    graphs = count_graphs(monkeypatch, "eager", whole_graph=False)
    compile_whole(plain)
    for size in range(1, 10):  # past torch's own limit of 8
        plain(torch.zeros(size, 5, dtype=torch.int32))
    assert len(graphs) == 9
    monkeypatch.setattr(training_update, "RECOMPILATIONS", 10)
    compile_whole(plain)
    plain(torch.zeros(10, 5, dtype=torch.int32))
    with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
        plain(torch.zeros(11, 5, dtype=torch.int32))


COUNTS_GRAPHS = f"""
import sys
sys.path.insert(0, {str(SCRIPT.parent)!r})
import torch, pretrain_model
from bimix.errors import run
from bimix.model.transformer import Transformer
backend, compile, graphs = torch._dynamo.lookup_backend("aot_eager"), Transformer.compile, []
def counting(graph, inputs):
    graphs.append("training" if torch.is_grad_enabled() else "evaluation")
    return backend(graph, inputs)
Transformer.compile = lambda model, **given: compile(model, backend=counting, **given)
status = run(pretrain_model.main)
print("graphs:", *sorted(graphs), file=sys.stderr)
sys.exit(status)
"""


@pytest.mark.slow
def test_several_processes_leave_the_model_whole(corpus: Path, tmp_path: Path) -> None:
    """Two processes: a graph for an update, one for an evaluation; losses of one process."""
    # above a megabyte of weights torch's optimizer for such models cuts them
    given = {"micro_batch": "auto", "shape": SHAPE | {"layers": 2, "width": 128}, "steps": 4, "evaluate_every": 2}
    given["validation_rows"] = 1  # of three rows one process has two
    (tmp_path / "counts.py").write_text(COUNTS_GRAPHS)
    counting = [*launched(2), str(tmp_path / "counts.py")]
    printed = execute([*counting, *flags(corpus, tmp_path, "--compile", "yes", processes=2, **given)])
    assert [line for line in printed.splitlines() if "graphs:" in line] == ["graphs: evaluation training"] * 2, printed
    alone(corpus, tmp_path / "one", **given)
    losses = [pl.read_parquet(folder / "losses.parquet")["loss"] for folder in (tmp_path, tmp_path / "one")]
    assert (losses[0] - losses[1]).abs().max() < 1e-4


def test_fewer_rows_than_processes_are_a_sentence(corpus: Path, tmp_path: Path) -> None:
    few = flags(corpus, tmp_path, processes=2, batch_rows=1)
    refused("batch_rows is 1, but there are 2 processes", pretrain_model.main, few)


def test_the_size_found_is_kept_for_the_same_device_and_settings(corpus: Path, tmp_path, monkeypatch) -> None:
    found = []
    monkeypatch.setattr(training_update, "largest_micro_batch", lambda *given: found.append(given[2]) or 3)
    arguments = flags(corpus, tmp_path, micro_batch="auto", steps=4, evaluate_every=2)
    for _ in range(2):  # stopped after one update each
        assert pretrain_model.main([*arguments, "--max-seconds", "0"]) == STOPPED
    assert found == [6]
    assert pretrain_model.main([*arguments, "--loss-chunk", "40", "--max-seconds", "0"]) == STOPPED
    assert found == [6, 6]
    monkeypatch.setattr(session.Session, "circumstances", lambda own: {"device": "another"})
    assert pretrain_model.main(arguments) == 0
    assert found == [6, 6, 6]


def test_no_compiler_is_a_sentence(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(InputError, match=r'`compile: "yes"` needs a compiler, and this machine has none of g\+\+'):
        pretrain_model.main(flags(corpus, tmp_path, "--compile", "yes"))
    assert not (tmp_path / "state").exists()
    monkeypatch.setenv("CXX", sys.executable)
    options = pretrain_model.parse(flags(corpus, tmp_path, "--compile", "yes"))
    session.make_accelerator(options, Recipe(**options.recipe))
