"""Noise of a run by its seeds."""

import numpy as np
import pytest

from bimix.judge.noise import Known, levels, seeds_needed, seeds_to_add, within

NAN = float("nan")
KNOWN = Known(0.01, 11, "elsewhere")


def drawn(draw, mixtures: int, seeds: int, lead: float, noise: float = 0.003) -> np.ndarray:
    """Values of mixtures; the first leads by noise deviations, a seed moves all by three."""
    logs = 1 + 3 * noise * draw.standard_normal(seeds) + noise * draw.standard_normal((mixtures, seeds))
    logs[0] -= lead * noise
    return np.exp(logs)


def seen(mixtures: int, seeds: int, lead: float, draws: int) -> float:
    """How often the first is significantly below all others."""
    draw, found = np.random.default_rng([mixtures, seeds]), 0
    for _ in range(draws):
        logs, noise = levels(drawn(draw, mixtures, seeds, lead))
        behind = noise.behind_best(1, 0)  # all have all seeds: one width
        found += logs[0] == logs.min() and bool((logs[1:] - logs[0] > behind).all())
    return found / draws


def test_a_lead_of_four_deviations_is_seen_with_three_seeds_whatever_a_seed_does() -> None:
    assert seen(5, 3, lead=4, draws=300) >= 0.9
    assert seen(5, 3, lead=0, draws=300) <= 0.05


def test_the_noise_is_what_seeds_shared_or_not_say() -> None:
    # single runs take the noise that is known, and else none
    values = np.array([[3.0], [3.1]])
    assert levels(values)[1] is None
    _, noise = levels(values, KNOWN)
    assert (noise.deviation, noise.freedom, noise.source) == (0.01, 11, "elsewhere")
    assert noise.error(0, 1) == pytest.approx(0.01 * np.sqrt(2))
    assert levels(np.array([[3.0, 3.01], [3.1, 3.11]]), KNOWN)[1].source == "from 4 runs, paired by seed"
    # a mixture that alone has a further seed tells the noise with the seeds in it
    logs = np.array([[1.0, 1.02, 1.04], [1.5, NAN, NAN]])
    _, noise = levels(np.exp(logs))
    assert noise.deviation == pytest.approx(0.02) and noise.freedom == 2
    assert "3 runs of 1 mixtures" in noise.source
    # seeds that only number the runs pair nothing
    values = np.exp(np.array([[1.0, 1.02, NAN, NAN], [NAN, NAN, 1.3, 1.34]]))
    found, noise = levels(values)
    assert found == pytest.approx([1.01, 1.32]) and noise.freedom == 2
    assert noise.source == "from 4 runs, no two of one seed"
    assert noise.deviation == pytest.approx(np.sqrt((2 * 0.01**2 + 2 * 0.02**2) / 2))


def test_runs_that_are_all_alike_tie() -> None:
    adjusted, noise = levels(np.full((4, 1), 7.0), Known(0.01, 6, "of a law"))
    assert adjusted.tolist() == pytest.approx([np.log(7)] * 4) and noise.behind_best(0, 3) == 0


def test_the_seeds_that_are_said_to_be_needed_are_enough_four_times_in_five() -> None:
    lead, mixtures = 2.5, 4
    seeds = seeds_needed(lead * 0.003, 0.003, mixtures)
    assert 3 <= seeds <= 10
    draw, told = np.random.default_rng(0), 0
    for _ in range(300):  # the leader of two named ones is seen; the others lie far behind
        values = drawn(draw, mixtures, seeds, lead)
        logs, noise = levels(values)
        told += logs[1] - logs[0] > noise.behind_best(1, 0)
    assert 0.72 < told / 300 < 0.9
    assert seeds_needed(0.1 * 0.003, 0.003, mixtures) is None and seeds_needed(0.0, 0.003, 2) is None
    assert seeds_needed(100 * 0.003, 0.003, mixtures) == 2
    # the seeds to add are a list for the config that keeps those there
    assert seeds_to_add([1], 3) == [2, 3]
    assert seeds_to_add([7, 2], 4) == [2, 1, 3]
    assert seeds_to_add([1, 2, 3], 3) == [2, 3]


def test_copies_of_runs_are_no_noise() -> None:
    values = np.exp(np.array([[1.0, 1.0], [1.1, 1.1], [1.2, 1.2]]))
    known = Known(0.01, 5, "elsewhere")
    assert levels(values)[1] is None and within(np.log(values)) is None
    assert levels(values, known)[1].deviation == 0.01
