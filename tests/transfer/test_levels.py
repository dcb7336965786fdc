"""Levels over sizes by hand: groups, mixtures, least squares, the curve, slopes."""

import numpy as np
import pytest

from bimix.transfer import sizes

PARAMETERS = np.array([2.0, 1, 1, 2, 1])
TOKENS = np.array([9.0, 5, 7, 9, 5])
NAMES = ("b", "a", "a", "c", "c")


def test_groups_go_by_size_then_tokens_and_mixtures_by_their_first_run() -> None:
    plan = sizes.design(PARAMETERS, TOKENS, NAMES)
    assert plan.parameters.tolist() == [1, 1, 2] and plan.tokens.tolist() == [5, 7, 9]
    assert plan.group.tolist() == [2, 0, 1, 2, 0] and plan.mixture.tolist() == [0, 1, 1, 2, 2]
    assert plan.first.tolist() == [0, 1, 3]
    plain = sizes.design(PARAMETERS, None, NAMES)
    assert plain.tokens is None and plain.group.tolist() == [1, 0, 0, 1, 0]
    # the largest part is joined by mixtures that are used
    plan = sizes.design(np.array([1.0, 1, 2, 2, 3, 3]), None, ("a", "b", "b", "c", "x", "y"))
    used = np.ones(6, dtype=bool)
    assert sizes.largest_part(plan, used).tolist() == [True] * 4 + [False] * 2
    # without the run that joins them, the sizes stand alone: of two runs each the first
    used[2] = False
    assert sizes.largest_part(plan, used).tolist() == [True, True, False, False, False, False]
    # a group without a run has no level
    plan = sizes.design(np.array([1.0, 2, 2]), None, ("a", "a", "b"))
    levels, effects, _ = sizes.table(plan, np.array([[1.0], [np.nan], [np.nan]]), np.ones(3), np.zeros((2, 1)))
    assert np.isfinite(levels[0, 0]) and np.isnan(levels[1, 0]) and np.isnan(effects[1, 0])
    none = sizes.table(plan, np.full((3, 1), np.nan), np.ones(3), np.zeros((2, 1)))
    assert all(np.isnan(part).all() for part in none[:2]) and not none[2].any()
    # a shift is of what was observed and counts runs
    gaps = np.array([[0.1, 0.2], [0.3, np.nan], [0.5, -0.1]])
    found = sizes.shift(gaps, np.array([1.0, 2, 0]))
    assert found == pytest.approx([0.7 / 3.16, 0.2 / 1.16])


def test_a_table_is_solved_by_least_squares_with_weights_and_what_was_expected() -> None:
    """Against a dense system of levels and effects, the pull of an effect as a row of its own."""
    draw = np.random.default_rng(0)
    names = tuple("abcdabceab")
    plan = sizes.design(np.array([1.0] * 4 + [2] * 4 + [3] * 2), None, names)
    y, weights = draw.normal(size=(10, 2)), draw.uniform(0.5, 3, 10)
    expected = draw.normal(size=(len(plan.first), 2))
    y[3, 1] = np.nan  # d was seen nowhere else
    weights[8:] = [0, 2]
    levels, effects, counts = sizes.table(plan, y, weights, expected)
    for i in range(2):
        seen = np.isfinite(y[:, i]) & (weights > 0)
        groups, mixtures = 3, len(plan.first)
        rows, right = [], []
        for run in np.nonzero(seen)[0]:
            line = np.zeros(groups + mixtures)
            line[plan.group[run]] = line[groups + plan.mixture[run]] = np.sqrt(weights[run])
            rows.append(line)
            right.append(np.sqrt(weights[run]) * y[run, i])
        for mixture in range(mixtures):
            line = np.zeros(groups + mixtures)
            line[groups + mixture] = np.sqrt(sizes.HELD)
            rows.append(line)
            right.append(np.sqrt(sizes.HELD) * expected[mixture, i])
        wanted = np.linalg.lstsq(np.array(rows), np.array(right), rcond=None)[0]
        assert np.allclose(levels[:, i], wanted[:groups], atol=1e-8)
        for mixture in range(mixtures):
            own = seen & (plan.mixture == mixture)
            assert counts[mixture, i] == pytest.approx(weights[own].sum())
            if own.any():
                # an effect is the plain mean of what its runs say beyond the levels
                said = np.average(y[own, i] - levels[plan.group[own], i], weights=weights[own])
                assert effects[mixture, i] == pytest.approx(said)
            else:
                assert np.isnan(effects[mixture, i])


def test_a_curve_is_the_formula_and_goes_through_the_levels_of_groups() -> None:
    heights = np.log([[2.0, 3.0, 0.5], [1.0, 0.4, 2.0]])
    form = sizes.Curve(b=0.3, g=0.5, heights=heights, parameters=10.0, tokens=100.0)
    wanted = np.log([2 * 2**-0.3 + 3 * 4**-0.5 + 0.5, 1 * 2**-0.3 + 0.4 * 4**-0.5 + 2])
    assert np.allclose(form.level(40.0, 200.0), wanted)
    both = form.level(np.array([40.0, 10.0]), np.array([200.0, 100.0]))
    assert np.allclose(both, [wanted, np.log([5.5, 3.4])])
    unknown = sizes.Curve(b=0.3, g=0.5, heights=heights, parameters=10.0, tokens=None)
    assert np.allclose(unknown.level(40.0, None), np.log([2 + 1.5 + 0.5, 1 + 0.2 + 2]))
    # through the levels of many groups
    parameters, tokens = (grid.ravel() for grid in np.meshgrid([1e7, 1e8, 1e9], [1e9, 1e10, 1e11]))
    plan = sizes.design(parameters, tokens, tuple(map(str, range(9))))
    truth = sizes.Curve(0.3, 0.4, np.log([[0.6, 0.6, 1.8], [0.4, 0.7, 1.2]]), 1e8, 1e10)
    levels = truth.level(plan.parameters, plan.tokens)
    levels[4, 1] = np.nan
    found = sizes.curve(plan, levels)
    assert found.parameters == pytest.approx(1e8) and found.tokens == pytest.approx(1e10)
    assert np.abs(found.level(plan.parameters, plan.tokens) - truth.level(plan.parameters, plan.tokens)).max() < 0.004
    assert np.abs(found.level(3e9, 3e11) - truth.level(3e9, 3e11)).max() < 0.03
    assert found.b == pytest.approx(0.3, abs=0.08) and found.g == pytest.approx(0.4, abs=0.08)
    # one level is met with the published exponents
    plan = sizes.design(np.array([1e8]), np.array([1e9]), ("a",))
    found = sizes.curve(plan, np.array([[1.1]]))
    assert found.level(1e8, 1e9)[0] == pytest.approx(1.1, abs=1e-4)
    assert found.b == pytest.approx(0.35, rel=0.01) and found.g == pytest.approx(0.35, rel=0.01)
    parts = np.exp(found.heights[0])
    assert np.allclose(np.log(parts / parts.sum()), sizes.published_shares(1e8, 1e9), atol=0.01)
    # the published shares are those of Hoffmann's law
    parts = np.array([410.7 / 1e10**0.28, 406.4 / 4e8**0.34, 1.69])
    assert np.allclose(np.exp(sizes.published_shares(4e8, 1e10)), parts / parts.sum())
    assert np.allclose(sizes.published_shares(4e8, None), sizes.published_shares(4e8, 8e9))


def test_slopes_are_shrunk_to_a_mean_and_that_to_one() -> None:
    """Against the normal equations of all slopes and their mean."""
    draw = np.random.default_rng(0)
    factor = draw.normal(0, 0.1, (6, 3))
    y = 0.8 * factor + [1.0, 2.0, 3.0] + draw.normal(0, 0.01, factor.shape)
    y[0, 0] = y[2, 1] = np.nan
    y[1:, 2] = np.nan  # one run: no slope
    weights = np.array([1.0, 2, 1, 1, 0, 3])
    found = sizes.slopes(factor, y, weights, 0 * factor)[0]
    table = []
    for i in range(2):
        seen = np.isfinite(y[:, i]) & (weights > 0)
        w = weights[seen]
        x = factor[seen, i] - np.average(factor[seen, i], weights=w)
        gap = (y - factor)[seen, i] - np.average((y - factor)[seen, i], weights=w)
        table.append((w, x, gap))
    own, mean = 1 / sizes.NU_SPREAD**2, 1 / sizes.NU_MEAN_SPREAD**2
    first = second = middle = 0.0
    known = np.zeros(2)
    for _ in range(100):  # the noise is about the slopes that it shrinks
        pairs = list(zip(table, (first, second), strict=True))
        left = sum((w * (gap - beyond * x) ** 2).sum() for (w, x, gap), beyond in pairs)
        free = sum(len(w) - 1 for w, _, _ in table) - known.sum()
        variance = (sizes.NOISE_RUNS * sizes.NOISE**2 + left) / (sizes.NOISE_RUNS + free)
        xx = np.array([(w * x * x).sum() for w, x, _ in table]) / variance
        xg = np.array([(w * x * gap).sum() for w, x, gap in table]) / variance
        matrix = np.array([[xx[0] + own, 0, -own], [0, xx[1] + own, -own], [-own, -own, 2 * own + mean]])
        first, second, middle = np.linalg.solve(matrix, [*xg, 0])
        known = xx / (xx + own)
    assert found == pytest.approx([1 + first, 1 + second, 1 + middle], abs=10 * sizes.SETTLED)
    assert sizes.slopes(factor[:1], y[:1], np.ones(1), 0 * factor[:1])[0].tolist() == [1, 1, 1]
    assert sizes.slopes(factor, y, np.zeros(6), 0 * factor)[0].tolist() == [1, 1, 1]
