"""Entropies against closed forms, definitions and each other."""

import numpy as np
import pytest

from bimix.corpus.estimators import chao_shen, coverage, miller_madow, plug_in, von_neumann
from bimix.corpus.samples import SecondMoment


def test_uniform_counts_give_the_logarithm_however_large():
    for distinct in (1, 2, 1000):
        assert plug_in(np.full(distinct, 12)) == pytest.approx(np.log(distinct), abs=1e-12)
    assert plug_in(np.array([1])) == 0
    counts = np.array([2**62, 2**62], dtype=np.uint64)
    assert plug_in(counts) == pytest.approx(np.log(2), rel=1e-9)


def test_corrections_by_hand():
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
    moment = SecondMoment(300)
    moment.add(vectors)
    values = np.linalg.eigvalsh(unit @ unit.T / 500)
    values = values[values > 1e-15]
    assert von_neumann(moment.gram, 500) == pytest.approx(-(values * np.log(values)).sum(), abs=1e-12)
    # of orthogonal documents it is Shannon's
    moment = SecondMoment(300)
    moment.add(np.repeat(3 * np.eye(300)[:3], [50, 30, 20], axis=0))
    assert von_neumann(moment.gram, moment.documents) == pytest.approx(plug_in(np.array([50, 30, 20])), abs=1e-12)
    same = SecondMoment(4)
    same.add(np.ones((9, 4)))
    assert von_neumann(same.gram, 9) == pytest.approx(0, abs=1e-12)


def test_moments_of_shards_add_up_and_zeros_are_dropped():
    vectors = np.random.default_rng(5).standard_normal((400, 50))
    vectors[[3, 77]] = 0
    whole, parts = SecondMoment(50), [SecondMoment(50) for _ in range(4)]
    whole.add(vectors)
    for part, own in zip(parts, np.split(vectors, 4), strict=True):
        part.add(own)
    assert (whole.documents, whole.zeros) == (398, 2)
    assert sum(part.documents for part in parts) == 398
    assert von_neumann(sum(part.gram for part in parts), 398) == pytest.approx(von_neumann(whole.gram, 398), abs=1e-12)
