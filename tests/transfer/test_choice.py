"""What cross-validation chooses, from the errors it writes down: these by hand, and the rules."""

import numpy as np
import pytest
from laws.known import mixtures, who_speak_alike, with_transfer

from bimix.observations.prior import centred
from bimix.transfer import choice, factor, mixing
from bimix.transfer.choice import choose


def levels(seed: int, n: int, m: int = 3) -> tuple[np.ndarray, np.ndarray]:
    shares = mixtures(seed, n, m)
    noise = 0.01 * np.random.default_rng(seed).standard_normal((n, m))
    return shares, np.log(with_transfer(seed, m)(shares, [1000]))[:, 0] + noise


def test_the_error_is_that_of_mixtures_that_were_left_out() -> None:
    shares, y = levels(0, 6)
    y[1, 2] = np.nan
    weights = np.array([1.0, 1, 2, 1, 0, 1])
    found, _ = choose(shares, y, np.arange(3), weights)
    first = found["cross_validated"][0]
    assert (first["terms"], first["ridge"], first["prior"]) == (1, choice.RIDGES[0], False)
    misses = []
    for left in (0, 1, 2, 3, 5):
        rest = np.where(np.arange(6) == left, 0.0, weights)
        mixed = mixing.fit(shares, y, np.arange(3), choice.RIDGES[0], weights=rest[None], tolerance=choice.ROUGH)
        misses.append(np.abs(mixing.predict(mixed, shares[[left]])[0] - y[left]))
    assert first["error"] == pytest.approx(np.nanmean(misses), rel=1e-6)


def test_a_loss_that_rises_without_bound_where_another_domain_goes_gets_a_larger_ridge(monkeypatch) -> None:
    shares, y = levels(3, 8)
    before, plain = choose(shares, y, np.arange(3))
    others = ~np.eye(3, dtype=bool)
    bare = shares.mean(axis=0) * others
    bare /= bare.sum(axis=1, keepdims=True)
    heights = np.where(others, plain.levels(bare), -np.inf).max(axis=0) - y.max(axis=0)
    monkeypatch.setattr(choice, "WILD", np.exp(np.median(heights)))  # some are above it
    after, tamed = choose(shares, y, np.arange(3))
    larger = np.array(after["ridges"]) > before["ridge"]
    assert list(larger) == list(heights > np.median(heights))
    lower = np.where(others, tamed.levels(bare), -np.inf).max(axis=0) - y.max(axis=0) <= np.median(heights)
    assert (lower | (np.array(after["ridges"]) >= choice.RIDGES[0]) | ~larger).all()


def walked(found: dict, earned: float, prior: bool = False) -> tuple[list[dict], dict]:
    """The entries of a way, and the one that the rule of ridges takes."""
    entries = [one for one in found["cross_validated"] if "ridges" not in one]  # not of each loss domain
    own = [one for one in entries if (one["terms"], one["prior"]) == (1, prior)]
    ridges = choice.RIDGES if own[0]["ridge"] == choice.RIDGES[0] else (choice.WIDEST, *choice.RIDGES)
    best, waited = own[0], 0
    for number, one in enumerate(own[1:], start=1):
        if one["error"] < earned * best["error"]:
            best, waited = one, 0
        else:
            waited += 1
        assert waited < choice.PATIENCE or number == len(own) - 1, "it walked on in vain"
    assert waited == choice.PATIENCE or len(own) == len(ridges), "it stopped too early"
    assert [one["ridge"] for one in own] == list(ridges[: len(own)])
    return own, best


def test_a_smaller_ridge_has_to_earn_its_place_with_few_runs() -> None:
    for seed, n in ((0, 5), (2, 11), (3, 14), (4, 33)):
        found, parts = choose(*levels(seed, n), np.arange(3))
        _, best = walked(found, choice.EARNED_BY_FEW if n < choice.FEW_RUNS_BY_DOMAIN else 1.0)
        plenty = n >= choice.RUNS_FOR_TWO_TERMS * 3
        if plenty:
            two = [one for one in found["cross_validated"] if one["terms"] == 2]
            assert [one["ridge"] for one in two] == [best["ridge"]]
            if "ridges" not in found:  # those of each loss domain did not earn their place
                alike = [one for one in found["cross_validated"] if "ridges" not in one]
                assert found["error"] == min(one["error"] for one in alike)
            else:  # better by the mean over loss domains of the log error, if not of the error
                entries = [one for one in found["cross_validated"] if one.get("ridges") == found["ridges"]]
                assert found["error"] in [one["error"] for one in entries if one["terms"] == found["terms"]]
                assert found["error"] <= 1.01 * best["error"]
        else:
            assert found["ridge"] == best["ridge"]
        assert parts[3].shape == (3, found["terms"], 3)


def test_a_prior_is_heard_where_it_helps_on_average_over_ridges() -> None:
    for seed, wrong in ((0, False), (1, False), (0, True)):
        truth, entropies = who_speak_alike(seed, 5)
        gaps = centred(entropies, list(range(5)))
        if wrong:
            gaps = np.roll(np.roll(gaps, 2, axis=0), 2, axis=1)
        shares = mixtures(seed, 6, 5)
        y = np.log(truth(shares, [1000]))[:, 0] + 0.003 * np.random.default_rng(seed).standard_normal((6, 5))
        found, _ = choose(shares, y, np.arange(5), gaps=gaps)
        untold, without = walked(found, choice.EARNED_BY_FEW)
        told, with_it = walked(found, choice.EARNED_BY_FEW, prior=True)
        both = min(len(told), len(untold))
        ratio = np.exp(
            np.mean(
                [np.log(one["error"] / other["error"]) for one, other in zip(told[:both], untold[:both], strict=True)]
            )
        )
        chosen = with_it if ratio < choice.PRIOR_EARNED and with_it["error"] < without["error"] else without
        for name in ("ridge", "prior", "error"):
            assert found[name] == chosen[name]


def test_a_prior_costs_nothing_where_other_domains_are_worth_next_to_nothing() -> None:
    ratios = []
    for seed in (0, 2):
        truth, entropies = who_speak_alike(seed, 12, worth=-7.0)
        shares, new = mixtures(seed, 20, 12), mixtures(seed + 500, 100, 12)
        noise = 0.003 * np.random.default_rng(seed).standard_normal((20, 12))
        y, wanted = np.log(truth(shares, [1000]))[:, 0] + noise, np.log(truth(new, [1000]))[:, 0]
        errors = []
        for gaps in (None, centred(entropies, list(range(12)))):
            parts = choose(shares, y, np.arange(12), gaps=gaps)[1]
            errors.append(np.abs(parts.levels(new) - wanted).mean())
        ratios.append(errors[1] / errors[0])
    assert max(ratios) < 1.01, ratios


def test_two_terms_are_compared_at_the_end_of_their_fit() -> None:
    """Stopped as early as fits of one term, 512 runs of RegMix had twice the error."""
    shares, y = levels(4, 33)
    made = {"terms": 2, "ridge": 1e-4}
    fitted = choice.descend(shares, y, np.arange(3), made)
    further = mixing.fit(shares, y, np.arange(3), 1e-4, 2, start=fitted, tolerance=1e-5)
    assert np.abs(mixing.predict(further, shares) - mixing.predict(fitted, shares)).max() < 1e-3


def test_fits_too_large_to_go_together_take_fewer_steps_to_the_same_errors(monkeypatch) -> None:
    """Those without a fold start where the one to all runs went."""
    shares, y = levels(2, 30, 10)
    descend, steps, errors = mixing._descend, [], []
    monkeypatch.setattr(mixing, "_descend", lambda *state: steps.append(len(state[2])) or descend(*state))
    taken = []
    for bytes_together in (1e9, 1.0):
        monkeypatch.setattr(factor, "BLOCK", bytes_together)
        steps.clear()
        found = choose(shares, y, np.arange(10))[0]["cross_validated"]
        errors.append([one["error"] for one in found if "ridges" not in one])
        taken.append(sum(steps))
    shorter = min(map(len, errors))
    assert np.abs(np.log(errors[0][:shorter]) - np.log(errors[1][:shorter])).max() < 0.03
    assert taken[1] < 0.75 * taken[0], taken


def test_a_way_down_with_a_signed_term_ends_where_errors_rise(monkeypatch) -> None:
    """Though a loss domain of three still gains."""
    rows = [[1.0, 1.0, 1.0], [0.9, 0.9, 0.9], [0.8, 0.95, 0.95], [0.7, 1.5, 1.5], [0.6, 1.8, 1.8], [0.5, 2.0, 2.0]]
    left = iter(np.array(rows)[:, None])
    monkeypatch.setattr(choice, "_fits", lambda *_, **__: None)
    monkeypatch.setattr(choice, "misses", lambda *_: next(left))
    given = dict.fromkeys(("shares", "y", "own", "rows", "folds", "start"))
    ridges, known = range(len(rows)), {"straight": None}
    found, _ = choice.walk(**given | {"own": [0, 1, 2]}, ridges=ridges, least=np.full(3, 0.9), known=known)
    assert found.tolist() == rows[:4]
