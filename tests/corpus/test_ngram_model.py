"""Bigram models of domains, the cross-entropies of their texts, their table and figure."""

import itertools

import numpy as np
import polars as pl
import pytest

import measure_cross_entropy
import plot_cross_entropy
from bimix.corpus.estimators import cross_entropies, log_probabilities, thin
from bimix.errors import InputError

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


def test_probabilities_are_those_of_the_docstring_and_sum_to_one():
    asked = np.array([v << 32 | w for v in range(VOCABULARY) for w in range(VOCABULARY)], dtype=np.uint64)
    for text in TEXTS:
        found = np.exp(log_probabilities(coded(text), asked, VOCABULARY)).reshape(VOCABULARY, VOCABULARY)
        wanted = [[probability(text, v, w) for w in range(VOCABULARY)] for v in range(VOCABULARY)]
        assert np.allclose(found, wanted, rtol=1e-12)
        assert np.allclose(found.sum(axis=1), 1)


def test_cross_entropies_are_means_over_the_held_out_pairs():
    table = cross_entropies([coded(text) for text in TEXTS[:2]], [lambda t=t: coded(t) for t in TEXTS], VOCABULARY)
    for i, text in enumerate(TEXTS[:2]):
        for j, model in enumerate(TEXTS):
            by_hand = np.mean([-np.log(probability(model, v, w)) for v, w in itertools.pairwise(text)])
            assert table[i, j] == pytest.approx(by_hand, rel=1e-12)


def test_thinned_pairs_keep_their_shares_and_about_the_number_wanted():
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
    pl.DataFrame(index, orient="row", schema=["domain", "path", "rows"]).write_parquet(tmp_path / "validation.parquet")
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


def test_what_cannot_be_measured_is_said(counted, tmp_path):
    with pytest.raises(InputError, match="--domains has 3 names, --bigrams 2 files"):
        measure_cross_entropy.main([*counted[:7], *counted[8:]])
    empty = pl.read_parquet(counted[5]).clear()
    empty.write_parquet(counted[5])
    with pytest.raises(InputError, match="no pairs of tokens were counted of the domain 'a'"):
        measure_cross_entropy.main(counted)
    pl.read_parquet(tmp_path / "validation.parquet").with_columns(rows=pl.lit(0)).write_parquet(
        tmp_path / "validation.parquet"
    )
    with pytest.raises(InputError, match="the validation split has no row"):
        measure_cross_entropy.main(counted)
