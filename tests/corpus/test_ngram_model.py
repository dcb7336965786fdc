"""Entropies by hand; the n-gram model's probabilities and cross-entropies."""

import itertools

import numpy as np
import polars as pl
import pytest

import measure_cross_entropy
import plot_cross_entropy
from bimix.corpus import counts
from bimix.corpus.estimators import (
    chao_shen,
    coverage,
    cross_entropies,
    log_probabilities,
    miller_madow,
    plug_in,
    thin,
    von_neumann,
)
from bimix.corpus.samples import second_moment

VOCABULARY = 5


def pairs(text: list[int]) -> dict[tuple[int, int], int]:
    found: dict[tuple[int, int], int] = {}
    for pair in itertools.pairwise(text):
        found[pair] = found.get(pair, 0) + 1
    return dict(sorted(found.items()))


def coded(text: list[int]) -> tuple[np.ndarray, np.ndarray]:
    counted = pairs(text)
    codes = [first << 32 | second for first, second in counted]
    return np.array(codes, dtype=np.uint64), np.array(list(counted.values()), dtype=np.uint64)


def probability(text: list[int], first: int, second: int) -> float:
    """The docstring of the model, word by word."""
    counted = pairs(text)
    after = {w: n for (v, w), n in counted.items() if v == first}
    alone = sum(n for (_, w), n in counted.items() if w == second) + 0.1
    alone /= sum(counted.values()) + 0.1 * VOCABULARY
    if not after:
        return alone
    kept = max(after.get(second, 0) - 0.75, 0.0)
    return (kept + 0.75 * len(after) * alone) / sum(after.values())


TEXTS = [[0, 1, 2, 0, 1, 2, 0, 1, 3, 1], [3, 3, 4, 3, 0, 3, 3, 2], [1, 0, 1, 0, 1, 0, 2, 1]]


def test_probabilities_and_cross_entropies_are_those_of_the_docstring_and_thinned_pairs_keep_their_shares():
    asked = np.array([v << 32 | w for v in range(VOCABULARY) for w in range(VOCABULARY)], dtype=np.uint64)
    for text in TEXTS:
        found = np.exp(log_probabilities(coded(text), asked, VOCABULARY)).reshape(VOCABULARY, VOCABULARY)
        wanted = [[probability(text, v, w) for w in range(VOCABULARY)] for v in range(VOCABULARY)]
        assert np.allclose(found, wanted, rtol=1e-12)
        assert np.allclose(found.sum(axis=1), 1)
    # cross entropies are means over the held out pairs
    table = cross_entropies([coded(text) for text in TEXTS[:2]], [lambda t=t: coded(t) for t in TEXTS], VOCABULARY)
    for i, text in enumerate(TEXTS[:2]):
        for j, model in enumerate(TEXTS):
            by_hand = np.mean([-np.log(probability(model, v, w)) for v, w in itertools.pairwise(text)])
            assert table[i, j] == pytest.approx(by_hand, rel=1e-12)
    # thinned pairs keep their shares and about the number wanted
    codes, counts = np.arange(1000, dtype=np.uint64), np.full(1000, 1000, dtype=np.uint64)
    kept, left = thin((codes, counts), 100_000, np.random.default_rng(0))
    assert abs(int(left.sum()) - 100_000) < 2000 and len(kept) == 1000
    assert np.corrcoef(left[:500], np.arange(500))[0, 1] < 0.2 and left.min() > 0
    assert thin((codes, counts), 10**7, np.random.default_rng(0))[1] is counts


@pytest.fixture
def counted(tmp_path) -> list[str]:
    """Counts of three domains: a and b alike, c ten times as much; the script's flags."""
    draw = np.random.default_rng(0)
    alike, strange = draw.dirichlet(np.full(20, 0.2), 20), draw.dirichlet(np.full(20, 0.2), 20)
    index, files = [], []
    for name, law, length in (("a", alike, 2000), ("b", alike, 2000), ("c", strange, 20_000)):
        for split, size in (("train", length), ("validation", 1000)):
            text = [0]
            for _ in range(size):
                text.append(int(draw.choice(20, p=law[text[-1]])))
            found = pairs(text)
            rows = [(v, w, n) for (v, w), n in found.items()]
            table = pl.DataFrame(rows, orient="row", schema={"first": pl.UInt32, "second": pl.UInt32, "n": pl.UInt64})
            (tmp_path / split).mkdir(exist_ok=True)
            table.write_parquet(tmp_path / split / f"{name}.bigrams.parquet")
        files.append(str(tmp_path / "train" / f"{name}.bigrams.parquet"))
        index.append((name, str(tmp_path / "validation" / f"{name}.bin"), 5))
    pl.DataFrame(index, ["domain", "path", "rows"], orient="row").write_parquet(tmp_path / "validation.parquet")
    out = ["--validation", str(tmp_path / "validation.parquet"), "--out", str(tmp_path / "cross_entropy.csv")]
    return ["--domains", "a", "b", "c", "--bigrams", *files, *out]


def test_domains_that_speak_alike_are_near_however_much_text_there_is(counted, tmp_path, capsys):
    measure_cross_entropy.main(counted)
    table = pl.read_csv(tmp_path / "cross_entropy.csv")
    assert table.columns == ["domain", "under", "nats"] and table.height == 9
    nats = {(domain, under): value for domain, under, value in table.iter_rows()}
    assert abs(nats["a", "b"] - nats["a", "a"]) < 0.1 and abs(nats["b", "a"] - nats["b", "b"]) < 0.1
    assert nats["a", "c"] > nats["a", "b"] + 0.5 and nats["c", "a"] > nats["c", "c"] + 0.5
    assert "models of 2,000 pairs" in capsys.readouterr().err  # of c's 20,000 as many as of a's
    first = (tmp_path / "cross_entropy.csv").read_bytes()
    measure_cross_entropy.main(counted)
    assert (tmp_path / "cross_entropy.csv").read_bytes() == first

    for name in ("one.svg", "two.svg"):
        plot_cross_entropy.main(["--cross-entropy", str(tmp_path / "cross_entropy.csv"), "--out", str(tmp_path / name)])
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    gap = nats["a", "c"] - nats["a", "a"]
    assert f"{gap:.1f}" in (tmp_path / "one.svg").read_text()


def test_held_out_counts_are_summed_without_a_copy_of_the_sums_for_each_shard(tmp_path, monkeypatch):
    schema = {"first": pl.UInt32, "second": pl.UInt32, "n": pl.UInt64}
    for shard in range(40):
        rows = [(shard, second, 1 + second) for second in range(50)] + [(99, 99, 1)]
        pl.DataFrame(rows, schema, orient="row").write_parquet(tmp_path / f"{shard}.bigrams.parquet")
    index = [("a", str(tmp_path / f"{shard}.bin"), 5) for shard in range(40)]
    pl.DataFrame(index, ["domain", "path", "rows"], orient="row").write_parquet(tmp_path / "index.parquet")
    copied, merge = [], counts.merge_counts

    def counting(*tables):
        copied.extend(len(codes) for codes, _ in tables)
        return merge(*tables)

    for module in (counts, measure_cross_entropy):
        monkeypatch.setattr(module, "merge_counts", counting)
    codes, found = measure_cross_entropy.read_held_out(tmp_path / "index.parquet")["a"]
    assert len(codes) == 40 * 50 + 1 and found[-1] == 40 and found.sum() == 40 * (50 * 51 // 2 + 1)
    assert sum(copied) < 4 * 40 * 51


def test_entropies_and_their_corrections_by_hand():
    for distinct in (1, 2, 1000):
        assert plug_in(np.full(distinct, 12)) == pytest.approx(np.log(distinct), abs=1e-12)
    assert plug_in(np.array([1])) == 0
    counts = np.array([2**62, 2**62], dtype=np.uint64)
    assert plug_in(counts) == pytest.approx(np.log(2), rel=1e-9)
    # corrections by hand
    assert miller_madow(np.array([2, 1, 1])) == pytest.approx(1.5 * np.log(2) + 2 / (2 * 4), rel=1e-12)
    # N = 4, f1 = 2: coverage 1/2; q = 1/4, 1/8, 1/8
    q, n = np.array([0.25, 0.125, 0.125]), 4
    assert coverage(np.array([2, 1, 1])) == 0.5
    assert chao_shen(np.array([2, 1, 1])) == pytest.approx(-(q * np.log(q) / (1 - (1 - q) ** n)).sum(), rel=1e-12)
    assert np.isfinite(chao_shen(np.ones(10, dtype=np.uint64)))
    with np.errstate(divide="raise"):  # one value alone has no entropy and no logarithm of zero
        assert chao_shen(np.array([7])) == 0
    assert coverage(np.ones(10)) == pytest.approx(0.1)


def test_von_neumann_is_that_of_the_documents_matrix():
    vectors = np.random.default_rng(4).standard_normal((500, 300)) ** 3
    unit = vectors / np.linalg.norm(vectors, axis=1)[:, None]
    gram, *_ = second_moment([vectors], 300)
    values = np.linalg.eigvalsh(unit @ unit.T / 500)
    values = values[values > 1e-15]
    assert von_neumann(gram, 500) == pytest.approx(-(values * np.log(values)).sum(), abs=1e-12)
    # of orthogonal documents it is Shannon's
    gram, documents, _ = second_moment([np.repeat(3 * np.eye(300)[:3], [50, 30, 20], axis=0)], 300)
    assert von_neumann(gram, documents) == pytest.approx(plug_in(np.array([50, 30, 20])), abs=1e-12)
    gram, *_ = second_moment([np.ones((9, 4))], 4)
    assert von_neumann(gram, 9) == pytest.approx(0, abs=1e-12)


def test_moments_of_batches_add_up_and_zeros_are_dropped():
    vectors = np.random.default_rng(5).standard_normal((400, 50))
    vectors[[3, 77]] = 0
    whole, *numbers = second_moment([vectors], 50)
    parts, *same = second_moment(np.split(vectors, 4), 50)
    assert numbers == same == [398, 2]
    assert np.allclose(parts, whole, atol=1e-12, rtol=0)
