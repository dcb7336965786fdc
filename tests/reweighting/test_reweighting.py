"""DoReMi and DoGE as their scripts run them: killed, in two processes, on known domains."""

import json
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from refusals import refused
from tiny_run import SHAPE
from training_runs import SCRIPTS, execute, interrupt, launched, settings

import pretrain_model
import train_doge
import train_doremi
from bimix.digests import digest_file

MAIN = {"doremi": train_doremi.main, "doge": train_doge.main}


def flags(corpus: Path, out: Path, **given) -> list[str]:
    own = ["--state", str(out / "state"), "--losses", str(out / "losses.parquet"), "--report", str(out / "run.json")]
    return [*settings(corpus, **{"loss_chunk": 8} | given), *own]


def reweighting(method: str, corpus: Path, out: Path, reference: Path, *more: str, **given) -> list[str]:
    own = [*flags(corpus, out, **given), *more]
    if method == "doremi":
        own += ["--reference", str(reference)]
    return [*own, "--mixture", str(out / "mixture.json"), "--path", str(out / "path.parquet")]


def train_reference(corpus: Path, out: Path, **changes) -> Path:
    own = ["--mixture", str(corpus / "mixture.json"), "--weights", str(out / "model.safetensors")]
    assert pretrain_model.main([*flags(corpus, out, **changes), *own]) == 0
    return out / "model.safetensors"


def script(method: str) -> Path:
    return SCRIPTS / f"train_{method}.py"


def results(out: Path) -> list[bytes]:
    return [(out / name).read_bytes() for name in ("mixture.json", "path.parquet", "losses.parquet")]


@pytest.fixture(scope="module")
def reference(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_reference(corpus, tmp_path_factory.mktemp("reference"))


@pytest.fixture(scope="module", params=["doremi", "doge"])
def undisturbed(request, corpus: Path, reference: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    out = tmp_path_factory.mktemp(request.param)
    assert MAIN[request.param](reweighting(request.param, corpus, out, reference)) == 0
    return request.param, out


def test_the_outputs_are_complete_and_micro_batches_do_not_change_the_weights(
    undisturbed: tuple[str, Path], corpus: Path, reference: Path, tmp_path: Path
) -> None:
    method, out = undisturbed
    mixture = json.loads((out / "mixture.json").read_text())
    assert list(mixture) == ["bees", "cats", "dogs"]
    assert sum(mixture.values()) == pytest.approx(1, abs=1e-12)
    path = pl.read_parquet(out / "path.parquet")
    assert path.columns == ["step", "domain", "weight", "average", "excess" if method == "doremi" else "score"]
    assert path.height == 41 * 3
    weights = path["weight"].to_numpy().reshape(41, 3)
    np.testing.assert_allclose(weights.sum(1), 1)
    # DoReMi's average takes the initial weights in, DoGE's does not
    np.testing.assert_allclose(weights[0 if method == "doremi" else 1 :].mean(0), list(mixture.values()), atol=1e-6)
    np.testing.assert_allclose(path["average"].tail(3), list(mixture.values()), atol=1e-6)
    losses = pl.read_parquet(out / "losses.parquet")
    assert losses.height == 4 * 3
    report = json.loads((out / "run.json").read_text())
    plain = report["tokens"] * (6 * report["parameters"] + 12 * 16 * 16)
    if method == "doremi":
        assert report["flops"] == pytest.approx(plain * 4 / 3)
    else:
        # norms, inner products and weighted sum of three gradients; the mix's norm and clipping
        more = 40 * 2 * report["parameters"] * (9 + 2)
        assert report["flops"] == pytest.approx(plain * (1 + 3 / 6) + more, rel=1e-12)  # three rows of the mix to six
    assert MAIN[method](reweighting(method, corpus, tmp_path, reference, micro_batch=1)) == 0
    agree(tmp_path, out)


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_bytes(undisturbed, corpus, reference, tmp_path) -> None:
    method, out = undisturbed
    arguments = reweighting(method, corpus, tmp_path, reference)
    command = [sys.executable, str(script(method)), *arguments]
    assert interrupt(command, "step 10:", signal.SIGKILL) == -9
    assert interrupt(command, "5,360 parameters", signal.SIGTERM) in (75, 0)
    assert MAIN[method](arguments) == 0
    assert results(tmp_path) == results(out)


def test_another_reference_or_rate_is_another_run_and_the_old_one_comes_back(
    undisturbed: tuple[str, Path], corpus: Path, reference: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    method, out = undisturbed
    shutil.copytree(out, tmp_path / "run")
    if method == "doremi":
        given, name = {}, "reference: "
        other = train_reference(corpus, tmp_path, seed=2)
    else:
        given, name = {"learning_rate": 0.02}, "training.learning_rate: 0.01 there, 0.02 now"
        other = reference
    capsys.readouterr()
    assert MAIN[method](reweighting(method, corpus, tmp_path / "run", other, **given)) == 0
    said = capsys.readouterr().err
    assert "begins next to another configuration" in said and name in said
    assert results(tmp_path / "run") != results(out)
    for name in ("mixture.json", "path.parquet", "run.json"):
        (tmp_path / "run" / name).unlink()
    assert MAIN[method](reweighting(method, corpus, tmp_path / "run", reference)) == 0
    assert results(tmp_path / "run") == results(out)
    assert "update" not in capsys.readouterr().err


def test_a_reference_that_is_damaged_or_of_another_shape_is_refused(corpus: Path, reference: Path, tmp_path) -> None:
    wider = reweighting("doremi", corpus, tmp_path / "out", reference, shape=SHAPE | {"width": 32})
    refused(r"model.safetensors holds a model of .*width=16.*but the proxy .*width=32", train_doremi.main, wider)
    shutil.copytree(reference.parent, tmp_path / "reference")
    path = tmp_path / "reference/model.safetensors"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    damaged = reweighting("doremi", corpus, tmp_path / "out", path)
    refused(r"model\.safetensors is not as it was written", train_doremi.main, damaged)
    assert not (tmp_path / "out").exists()


WITHOUT_BUCKET = """
import os, runpy, sys, torch
def refuse(*given, **named):
    raise SystemExit("the model was wrapped, and has a bucket that nobody uses")
torch.nn.parallel.DistributedDataParallel.__init__ = refuse
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
def test_two_processes_give_the_weights_of_one(undisturbed, corpus, reference, tmp_path) -> None:
    method, out = undisturbed
    (tmp_path / "without_bucket.py").write_text(WITHOUT_BUCKET)
    arguments = reweighting(method, corpus, tmp_path, reference, processes=2, micro_batch=2)
    execute([*launched(2), str(tmp_path / "without_bucket.py"), str(script(method)), *arguments])
    agree(tmp_path, out)


def agree(first: Path, second: Path) -> None:
    """The same but for rounding, which training lets grow."""
    one, other = (pl.read_parquet(folder / "path.parquet") for folder in (first, second))
    assert one.select("step", "domain").equals(other.select("step", "domain"))
    assert (one["weight"] - other["weight"]).abs().max() < 1e-3
    assert (one["weight"] - other["weight"]).head(9).abs().max() < 1e-5
    assert (one["average"] - other["average"]).abs().max() < 2e-4
    losses = [pl.read_parquet(folder / "losses.parquet")["loss"] for folder in (first, second)]
    assert (losses[0] - losses[1]).abs().max() < 1e-3


def write_tokens(folder: Path, corpus: Path, domains: dict[str, np.ndarray]) -> Path:
    """A corpus of the given rows (rows, length) of each domain, a tenth of them for validation."""
    folder.mkdir()
    for split, part in (("train", slice(10, None)), ("validation", slice(10))):
        lines = []
        for domain, rows in domains.items():
            path = folder / f"{split}.{domain}.bin"
            rows[part].astype(np.uint16).tofile(path)
            count = len(rows[part])
            lines.append((domain, str(path), count, count * rows.shape[1], count, "uint16", digest_file(path)))
        columns = ["domain", "path", "rows", "tokens", "documents", "dtype", "digest"]
        pl.DataFrame(lines, columns, orient="row").write_parquet(folder / f"{split}.parquet")
    (folder / "tokenizer.json").write_text((corpus / "tokenizer.json").read_text())
    (folder / "mixture.json").write_text(json.dumps(dict.fromkeys(sorted(domains), 1 / len(domains))))
    return folder


def successions(seed: int, rows: int, starts: range, length: int = 16) -> np.ndarray:
    """Rows of a walk over `starts` in which each id has two successors drawn by the seed."""
    draw = np.random.default_rng(seed)
    follow = draw.permuted(np.tile(np.array(starts), (2, 1)), axis=1)
    tokens = np.empty((rows, length), dtype=np.int64)
    tokens[:, 0] = draw.choice(starts, rows)
    for position in range(1, length):
        tokens[:, position] = follow[draw.integers(0, 2, rows), tokens[:, position - 1] - starts[0]]
    return tokens


LEARNING = {"steps": 200, "batch_rows": 8, "learning_rate": 0.02, "evaluate_every": 200}


def test_doremi_leaves_pure_noise_its_floor(corpus: Path, tmp_path: Path) -> None:
    noise = np.random.default_rng(3).integers(0, 40, (400, 16))
    domains = {"even": successions(1, 400, range(20)), "noise": noise, "odd": successions(2, 400, range(20, 40))}
    own = write_tokens(tmp_path / "corpus", corpus, domains)
    reference = train_reference(own, tmp_path / "reference", **LEARNING)
    # a proxy that has not caught up with the reference where there is something to learn
    slow = LEARNING | {"steps": 60, "learning_rate": 0.002}
    assert train_doremi.main(reweighting("doremi", own, tmp_path, reference, **slow)) == 0
    path = pl.read_parquet(tmp_path / "path.parquet")
    noise = path.filter(pl.col("domain") == "noise")["weight"].to_numpy()
    floor = 0.001 / 3
    assert noise.min() >= floor
    assert noise[10:].max() < 2 * floor
    assert json.loads((tmp_path / "mixture.json").read_text())["noise"] < 0.05


def test_doge_favours_the_domain_that_helps_all_others(corpus: Path, tmp_path: Path) -> None:
    parts = [successions(seed, 400, range(13 * seed, 13 * seed + 13)) for seed in range(3)]
    mixed = np.concatenate([part[200:350] for part in parts])
    mixed = mixed[np.random.default_rng(0).permutation(len(mixed))]
    own = write_tokens(tmp_path / "corpus", corpus, dict(zip("abc", parts, strict=True)) | {"mixed": mixed})
    assert train_doge.main(reweighting("doge", own, tmp_path, own, **LEARNING | {"steps": 60})) == 0
    mixture = json.loads((tmp_path / "mixture.json").read_text())
    assert mixture["mixed"] > 0.5
    assert sum(mixture.values()) == pytest.approx(1, abs=1e-12)
