"""The settings that the law `transfer` chooses by cross-validation over mixtures.

These are the ridge, the use of a prior from text, and the number of terms. From FEW_RUNS_BY_DOMAIN
runs on, each loss domain has its own ridge and may have a signed term (`signed`): loss domains
differ in scale and noise, so that one ridge is too weak for some and too strong for others. Some
losses rise with a share.
"""

from dataclasses import replace

import numpy as np

from bimix.transfer import mixing
from bimix.transfer.factor import blocks

RIDGES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)
# The largest ridge, for metrics that are nearly pure noise, where there are enough runs to tell.
WIDEST = 1e-2
# The search ends after this many ridges that do not reduce the cross-validated error.
PATIENCE = 2
# From this many runs on each loss domain may have its own settings, if they reduce the error to the
# fraction EARNED, or up to SURE_RUNS runs to EARNED_BY_FEW, as the best of many is partly luck.
# With fewer runs the same holds for a smaller ridge, because the error is then a rough estimate.
FEW_RUNS_BY_DOMAIN, SURE_RUNS, EARNED, EARNED_BY_FEW = 12, 24, 0.99, 0.9
# A prior is used if it reduces the error on average over the ridges. At a single ridge a wrong
# prior does so by chance in one of ten draws of eight runs.
PRIOR_EARNED = 0.94
FOLDS, FOLDS_OF_PLENTY = 8, 4
# The tolerance of one-term fits that are only compared: their errors are within 1 % of the
# converged ones. The chosen fit is then run to convergence. Two terms start too far away for a
# rough tolerance.
ROUGH = 1e-3
# Runs x training domains x loss domains from which FOLDS_OF_PLENTY are used: fits take minutes.
MUCH = 2e6
# Runs per training domain from which a second term is tried; with fewer, a prior.
RUNS_FOR_TWO_TERMS = 10
# The ridge of t in units of a loss domain's ridge.
HARM = 100.0
# A loss domain's own error is a rough estimate, so the mean over domains of log errors above the
# least is added with the weight of BORROWED runs. Each domain is capped at CAPPED, or those with
# little noise would dominate.
BORROWED, CAPPED = 20, 0.5
# Where all runs have a domain, no left-out run shows what a loss is without it. So a law that there, at the runs' mean
# mixture without one domain, is above WILD times the largest loss of the runs is fitted again with ten times the ridge.
WILD = 10.0
# A signed term must reduce a loss domain's log error by this number over the number of runs.
COST = 3
# With a signed term the path of ridges ends after PATIENCE of them that reduce the error of hardly
# any loss domain to the fraction FALLEN, or at errors of RISEN times the least with and without the
# term: smaller ridges fit noise, and are the slowest.
FALLEN, NEXT_TO_NONE, RISEN = 0.99, 0.1, 1.2


def choose(shares, y, own, weights=None, gaps=None, straight=None, spread=None):
    """The choice of ridge, prior and terms by cross-validation over mixtures, and the mixing factor
    fitted to all mixtures with it.

    `gaps` (d, m) are those of the prior, or None; `straight` (n, m) are the shares on which t acts,
    if not `shares`; `spread` (m, m) is L of groups of domains. The error is the mean over left-out
    mixtures and domains of |error of log loss|; up to FOLDS mixtures each is its own fold. The
    prior must reduce the mean over ridges of the log error.
    """
    base = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
    used = np.nonzero(base)[0]
    plenty = len(used) >= RUNS_FOR_TWO_TERMS * shares.shape[1]
    folds = np.full(len(y), -1)
    much = shares.size * y.shape[1] > MUCH
    most = FOLDS_OF_PLENTY if plenty or much else FOLDS
    folds[used] = np.random.default_rng(0).permutation(np.arange(len(used)) % most)
    count = 1 + folds.max()
    rows = np.array([*[np.where(folds == fold, 0.0, base) for fold in range(count)], base])
    alike = len(used) < FEW_RUNS_BY_DOMAIN
    ridges = RIDGES if alike else (WIDEST, *RIDGES)
    tried = []

    def enter(choice, mixed):
        missed = np.abs(misses(mixed, shares, y, folds, straight))
        each, error = np.nanmean(missed, axis=0), float(np.nanmean(missed))
        tried.append(({**choice, "error": error}, mixed.take(np.array([count])), each))
        return tried[-1]

    # Without the prior and with it: each follows the path of ridges until PATIENCE of them reduce
    # nothing; both advance together, one ridge at a time.
    live = [False] if plenty or gaps is None else [False, True]
    best, waited, mixed, passed = {}, dict.fromkeys(live, 0), None, {}
    errors = {prior: [] for prior in live}
    earned = EARNED_BY_FEW if alike else 1.0
    for ridge in ridges:
        offered = None if gaps is None else np.array([gaps * prior for prior in live])
        mixed = _fits(shares, y, own, ridge, rows, mixed, offered, spread=spread)
        for number, prior in enumerate(live):
            made = {"terms": 1, "ridge": ridge, "prior": prior}
            passed[prior, ridge] = mixed.take(number * len(rows) + np.arange(len(rows)))
            entry = enter(made, passed[prior, ridge])
            errors[prior].append(entry[0]["error"])
            if prior not in best or entry[0]["error"] < earned * best[prior][0]["error"]:
                best[prior], waited[prior] = entry, 0
            else:
                waited[prior] += 1
        kept = [number for number, prior in enumerate(live) if waited[prior] < PATIENCE]
        if not kept:
            break
        mixed = mixed.take((np.array(kept)[:, None] * len(rows) + np.arange(len(rows))).ravel())
        live = [live[number] for number in kept]

    chosen = best[False]
    if True in best and best[True][0]["error"] < chosen[0]["error"]:
        walked = min(map(len, errors.values()))
        # At the largest ridge the fit is the prior alone.
        first = min(ridges.index(RIDGES[0]), walked - 1)
        plain, logs = (np.log(np.maximum(one[first:walked], 1e-300)) for one in errors.values())
        if np.exp((logs - plain).mean()) < PRIOR_EARNED:
            chosen = best[True]
    prior = chosen[0]["prior"]
    known = {"gaps": gaps if prior else None, "straight": straight, "spread": spread}
    if not alike:
        plain = np.array([each for choice, _, each in tried if choice["prior"] == prior])
        signed, hurting = walk(shares, y, own, rows, folds, ridges, passed[prior, ridges[0]], plain.min(axis=0), known)
        at, hurt = picked(plain, signed, len(used))
        made = {
            **chosen[0],
            "ridges": [ridges[one] for one in at],
            "harms": [HARM if one else None for one in hurt],
        }
        near = _joined([[passed[prior, ridge] for ridge in ridges[: len(plain)]], hurting], at, hurt)
        near = mixing.fit(shares, y, own, weights=rows, start=near, tolerance=ROUGH, **settings(made), **known)
        entry = enter(made, near)
        if _ratio(entry[2], chosen[2]) < (EARNED_BY_FEW if len(used) < SURE_RUNS else EARNED):
            chosen = entry
    if plenty:
        made = {**chosen[0], "terms": 2}
        entry = enter(made, descend(shares, y, own, made, gaps, straight, spread, rows))
        if _ratio(entry[2], chosen[2]) < 1:
            chosen = entry
    choice, near, errors = chosen
    bare = shares[used].mean(axis=0) * ~np.eye(shares.shape[1], dtype=bool)
    bare, tallest = bare / bare.sum(axis=1, keepdims=True), np.nanmax(y[used], axis=0) + np.log(WILD)
    others = np.arange(len(bare))[:, None] != own  # a loss may rise without bound where its own domain goes
    while True:
        made = settings(choice) | {"terms": choice["terms"], "weights": rows[-1:]}
        parts = mixing.fit(shares, y, own, start=near, **made, **known).parts()
        each = np.broadcast_to(made["ridge"], y.shape[1])
        wild = (others & ~(parts.levels(bare) <= tallest)).any(axis=0) & (each < ridges[0])
        if not wild.any():
            break
        choice = {**choice, "ridges": np.where(wild, 10 * each, each).tolist()}
    return {**choice, "errors": errors.tolist(), "cross_validated": [entry for entry, *_ in tried]}, parts


def _fits(shares, y, own, ridge, rows, start, gaps=None, **made) -> mixing.Mixing:
    """Fits without each fold and to all runs, with the weights `rows` (folds + 1, n), at the next
    ridge; one such set for each of the gaps (sets, d, m), or one for (d, m).

    If they are too large to be computed together, the fits to all runs come first, and the others
    start at the same distance from them as at the last ridge.
    """
    gaps = None if gaps is None else np.reshape(gaps, (-1, y.shape[1], shares.shape[1]))
    sets, p = 1 if gaps is None else len(gaps), shares.shape[1] + 4
    fold, of = np.tile(np.arange(len(rows)), sets), np.repeat(np.arange(sets), len(rows))

    def fitted(which, start):
        known = {"weights": rows[fold[which]], "gaps": None if gaps is None else gaps[of[which]]}
        return mixing.fit(shares, y, own, ridge, start=start, tolerance=ROUGH, **known, **made)

    if len(blocks(len(fold), y.shape[1] * p * min(p, len(shares)))) == 1:
        return fitted(slice(None), start)
    to_all = fold == len(rows) - 1
    whole = fitted(to_all, start and start.take(to_all))
    near = whole.take(of[~to_all])
    if start is not None:
        away = start.take(~to_all), start.take(to_all).take(of[~to_all])
        near = replace(near, x=near.x + away[0].x - away[1].x, means=near.means + away[0].means - away[1].means)
    others, order = fitted(~to_all, near), np.argsort(np.argsort(to_all, kind="stable"))
    joined = {name: np.concatenate([getattr(others, name), getattr(whole, name)]) for name in mixing.BY_FIT}
    return replace(whole, **joined).take(order)


def _ratio(errors: np.ndarray, others: np.ndarray) -> float:
    """Geometric mean over the loss domains of errors (d,) over others."""
    return float(np.exp(np.nanmean(np.log(np.maximum(errors, 1e-300)) - np.log(np.maximum(others, 1e-300)))))


def _joined(walks: list[list[mixing.Mixing]], at: np.ndarray, hurt: np.ndarray) -> mixing.Mixing:
    """The fits with each loss domain from its own ridge of the path without or with a signed term.
    None starts from a smaller ridge, since with few runs such a fit may end at gamma = 0.
    """
    own = [walks[with_term][one] for one, with_term in zip(at, hurt.astype(int), strict=True)]
    x = np.stack([one.x[:, i] for i, one in enumerate(own)], axis=1)
    return replace(own[0], x=x, means=np.mean([one.means for one in own], axis=0))


def settings(choice: dict) -> dict:
    """The arguments of `mixing.fit` for a choice, with a ridge for each loss domain or for all."""
    harms = [np.inf if one is None else one for one in choice.get("harms", [None])]
    return {"ridge": np.array(choice.get("ridges", [choice["ridge"]])), "harm": np.array(harms)}


def descend(shares, y, own, choice, gaps=None, straight=None, spread=None, weights=None) -> mixing.Mixing:
    """The fit at the chosen ridges, from the largest one down, each started at the previous fit."""
    made = settings(choice)
    ridges = made.pop("ridge")
    made |= {"weights": weights, "gaps": gaps if choice.get("prior") else None, "straight": straight}
    made["spread"] = spread
    if choice["terms"] == 2:
        return mixing.fit(shares, y, own, ridges, 2, **made)
    start = None
    for ridge in ((WIDEST,) if "ridges" in choice else ()) + RIDGES:
        if ridge < 2 * ridges.min():
            break
        start = mixing.fit(shares, y, own, np.maximum(ridge, ridges), start=start, tolerance=ROUGH, **made)
    return mixing.fit(shares, y, own, ridges, start=start, **made)


def walk(shares, y, own, rows, folds, ridges, start, least, known):
    """Mean |error| (ridges, d) of each loss domain in left-out mixtures with a signed term, along
    the path of ridges until it ends, and the fits at each ridge. `least` (d,) is the least error
    without the term.

    `rows` (folds + 1, n) are the weights of the fits without each fold and with all, `start` the
    fits without a signed term at the first ridge.
    """
    mixed, waited, errors, passed = start, 0, [], []
    for ridge in ridges:
        mixed = _fits(shares, y, own, ridge, rows, mixed, harm=HARM, **known)
        passed.append(mixed)
        before = np.min(errors, axis=0) if errors else np.full(len(own), np.inf)
        errors.append(np.nanmean(np.abs(misses(mixed, shares, y, folds, known["straight"])), axis=0))
        waited = 0 if (errors[-1] < FALLEN * before).mean() > NEXT_TO_NONE else waited + 1
        rises = len(errors) > 1 and _ratio(errors[-1], errors[-2]) > 1
        if waited == PATIENCE or (rises and _ratio(errors[-1], np.minimum(least, before)) > RISEN):
            break
    return np.array(errors), passed


def misses(mixed, shares, y, folds, straight=None) -> np.ndarray:
    """Errors (n, d) of mixtures by the fit without their fold; NaN for mixtures in no fold."""
    found = np.full(y.shape, np.nan)
    for fold in range(1 + folds.max()):
        of = folds == fold
        found[of] = mixing.predict(mixed, shares[of], fold, None if straight is None else straight[of]) - y[of]
    return found


def picked(plain: np.ndarray, signed: np.ndarray, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Ridge index (d,) and signed term (d,) of the least errors (ridges, d) without and with it."""
    logs = _weighed(np.log(np.maximum(np.concatenate([plain, signed]), 1e-300)), runs)
    logs[len(plain) :] -= np.log(max(1 - COST / runs, 1e-300))
    best = np.where(np.isnan(logs), np.inf, logs).argmin(axis=0)
    return np.where(best < len(plain), best, best - len(plain)), best >= len(plain)


def _weighed(logs: np.ndarray, runs: int) -> np.ndarray:
    """Log errors (choices, d) above each domain's least, combined with the mean over domains."""
    logs = logs - np.nanmin(logs, axis=0)
    return logs + BORROWED / runs * np.nanmean(np.minimum(logs, CAPPED), axis=1, keepdims=True)
