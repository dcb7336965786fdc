"""The law `transfer`.

    L_i(r, s) = F_i(r)^e(s) (B_i / s^beta_i + C_i)
    F_i(r)    = sum_q A_iq (sum_j k_iqj r_j^gamma_i)^-alpha_iq exp(sum_j t_ij r_j)

It extends the paper's bivariate form by transfer between domains. k_ij is the value of a share of
domain j for the loss on domain i; in the first term k_ii = 1 where i is trained on. With 0 < gamma
<= 1 a domain's first share is worth more than later ones. The law is defined at proportions of 0
and for loss domains that are not trained on, and it is convex: sum_j k_j r_j^gamma is concave, and
a negative power of it log-convex. With all other k_ij = 0, t = 0, e = 1 it is `bimix`. t_ij, of
either sign, adds harm or help; it is 0 with few runs and where cross-validation rejects it
(`transfer/signed`, `transfer/choice`).

The effect of the mixture grows along a run: e(s) is its size relative to the last step, the same for
all loss domains and linear in log s between fitted steps. F's geometric mean over the runs is 1.

The law is a sum in log loss, so it is fitted in turns: every run's level (the mean over its steps
in these units, without the common curve), then the mixing factor on the levels (`transfer/mixing`),
then the curve over steps without the mixing factor. The data are runs, not points, since noise is
shared along a run.

Runs of several sizes, or with repeated pools over schedules of several lengths, have levels by size
and tokens instead of a curve over steps (`transfer/sizes`); only the last row of each is used, as
the learning rate has not decayed at earlier checkpoints. Where pools are known and some run repeats
one, each run is read at its own epochs (`transfer/repetition`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from bimix.errors import InputError
from bimix.laws import bimix
from bimix.observations.groups import spread_of
from bimix.observations.groups import written as groups_written
from bimix.observations.observations import Observations
from bimix.observations.prior import offsets, recorded, written
from bimix.transfer import law, mixing
from bimix.transfer.choice import choose, descend, settings
from bimix.transfer.curve import fit_curves
from bimix.transfer.factor import numbers, read
from bimix.transfer.run import as_asked, at_reference, effects_at, form_of, losses, run_of
from bimix.transfer.run import at_run as at_run  # what a law over sizes has
from bimix.transfer.run import objective as run_objective

CURVE = ("B", "beta", "C")
# Prior standard deviation of e(s) around 1, and the bound of e(s).
EFFECT_SPREAD, MOST_EFFECT = 0.25, 4.0
CHOICES = ("choice", "choice_of_metrics")  # the notes with the settings of each group of loss domains


def fit(observed: Observations, weights: np.ndarray | None = None) -> tuple[dict, dict]:
    """Coefficients of every loss domain, and notes: the chosen ridge and number of terms with the
    cross-validated errors; those of metrics under `choice_of_metrics` where there are losses too.
    """
    groups = observed.groups()
    weights = law.by_horizon(observed, weights)
    # The effect of repetition is fitted to the losses alone, and used for metrics too.
    form = law.repeated(groups[0], own_domains(groups[0]), weights)
    fitted, group_notes = zip(*(_fit_group(group, weights, form) for group in groups), strict=True)
    notes = {name: of_group["choice"] for name, of_group in zip(CHOICES, group_notes, strict=False)}
    notes |= groups_written(observed.related(), observed.domains)
    if observed.gaps is not None:
        notes["prior"] = {"gaps": written(observed.gaps, observed.domains, observed.loss_domains)}
    return _in_order(fitted, observed), group_notes[0] | notes


def _in_order(groups: Sequence[dict], observed: Observations) -> dict:
    """The coefficients of all groups, in the order of the loss domains."""
    coefficients = {}
    for group in groups:
        coefficients |= group
    return {domain: coefficients[domain] for domain in observed.loss_domains}


def _fit_group(observed, weights, form) -> tuple[dict, dict]:
    """Coefficients and notes of loss domains that share prior means and, with few runs, a ridge."""
    own, gaps = own_domains(observed), offsets(observed.gaps)
    spread = spread_of(observed.related(), observed.domains)
    seen = observed if form is None else law.as_counted(observed, own, form)
    if law.by_runs(observed):
        found = law.fit(seen, observed.proportions, own, weights, partial(factor, gaps=gaps, spread=spread))
        steps_seen = np.isfinite(observed.losses).any(axis=2).sum(axis=1)
        rows = "last" if (steps_seen > 1).any() else "all"  # rows of a run that the fit used
        return law.coefficients_of(observed, found, form), {"choice": found.choice, "rows": rows}
    straight = None if form is None else observed.proportions
    choice, parts = choose(seen.proportions, run_levels(seen, weights), own, weights, gaps, straight, spread)
    coefficients = _coefficients(seen, observed.proportions, weights, parts)
    return at_reference(coefficients, observed, form), {"choice": choice}


def refit(samples: list[tuple[Observations, np.ndarray | None]], fitted: dict) -> Iterator[dict]:
    """Coefficients for each sample (observations, weights (n,) or None), with the settings of `fitted`."""
    groups = {id(observed): observed.groups() for observed, _ in samples}  # many samples share a table
    refits = []
    for number, group in enumerate(groups[id(samples[0][0])]):
        choice = fitted.get(CHOICES[number], {})
        if "prior" not in choice or choice.get("apart"):
            raise InputError("the law transfer was fitted by an earlier version of this project: fit it again.")
        of_group = [(groups[id(observed)][number], weights) for observed, weights in samples]
        coefficients = {domain: fitted["coefficients"][domain] for domain in group.loss_domains}
        refits.append(_refit_group(of_group, fitted | {"coefficients": coefficients, "choice": choice}))
    for (observed, _), *found in zip(samples, *refits, strict=True):
        yield _in_order(found, observed)


def _refit_group(samples: list[tuple[Observations, np.ndarray | None]], fitted: dict) -> Iterator[dict]:
    """`refit` of the loss domains of one group."""
    first = samples[0][0]
    own, choice, form = own_domains(first), fitted["choice"], form_of(fitted["coefficients"])
    seen = [observed if form is None else law.as_counted(observed, own, form) for observed, _ in samples]
    gaps = offsets(recorded(fitted, first.domains, first.loss_domains)) if choice.get("prior") else None
    spread = spread_of(fitted.get("domain_groups", {}), first.domains)
    if law.by_runs(first):
        fit_factor = partial(factor, gaps=gaps, spread=spread)
        start = law.fit(seen[0], first.proportions, own, law.by_horizon(first, None), fit_factor, choice).mixed
        for counted, (observed, given) in zip(seen, samples, strict=True):
            weights = law.by_horizon(observed, given)
            found = law.fit(counted, observed.proportions, own, weights, fit_factor, choice, start)
            yield as_asked(law.coefficients_of(observed, found, form), fitted)
        return
    shares = seen[0].proportions
    levels = np.array([run_levels(counted, weights) for counted, (_, weights) in zip(seen, samples, strict=True)])
    counts = np.array([np.ones(len(shares)) if row is None else np.asarray(row, dtype=float) for _, row in samples])
    straight = None if form is None else first.proportions
    # All samples start from one fit to their mean levels.
    known = np.isfinite(levels).sum(axis=0)
    mean = np.where(known > 0, np.nansum(levels, axis=0) / np.maximum(known, 1), np.nan)
    options = settings(choice) | {"terms": choice["terms"], "gaps": gaps, "straight": straight, "spread": spread}
    start = descend(shares, mean, own, choice, gaps, straight, spread, counts.max(axis=0)[None])
    mixed = mixing.fit(shares, levels, own, weights=counts, start=start, **options)
    for index, (observed, weights) in enumerate(samples):
        coefficients = _coefficients(seen[index], observed.proportions, weights, mixed.parts(index), fitted)
        yield as_asked(at_reference(coefficients, observed, form), fitted)


def factor(shares, straight, y, own, weights, choice, start, gaps=None, spread=None):
    """The settings (chosen where `choice` is None) and the mixing factor fitted with them to levels
    y (n, d) of mixtures `shares` (n, m) with weights (n,).

    t acts on the shares `straight`; `gaps` (d, m) are of a prior, `spread` (m, m) of groups.
    """
    if choice is None:
        choice = choose(shares, y, own, weights, gaps, straight, spread)[0]
    gaps = gaps if choice.get("prior") else None
    if start is None:
        start = descend(shares, y, own, choice, gaps, straight, spread)
    options = settings(choice) | {"gaps": gaps, "straight": straight, "spread": spread}
    options["weights"] = np.asarray(weights, dtype=float)[None]
    return choice, mixing.fit(shares, y, own, terms=choice["terms"], start=start, **options)


def _coefficients(observed, straight, weights, parts, start=None) -> dict:
    """The law's coefficients: the mixing factor and, over steps, the effects and the curve."""
    if len(observed.steps) == 1:
        return dict(zip(observed.loss_domains, parts.written(observed.domains), strict=True))
    level = parts.levels(observed.proportions, straight)
    count = np.isfinite(level) * (1.0 if weights is None else np.asarray(weights, dtype=float)[:, None])
    mean = (count * np.nan_to_num(level)).sum(axis=0) / np.maximum(count.sum(axis=0), 1e-300)
    effects = effects_by_step(observed, weights)
    start_curve = start and np.array([[values[name] for name in CURVE] for values in start["coefficients"].values()]).T
    without_mixing = observed.losses * np.exp(-effects[:, None] * (level - mean)[:, None])
    curves = dict(zip(CURVE, fit_curves(observed.steps, without_mixing, weights, start_curve), strict=True))
    by_step = {"effects": dict(zip(map(str, observed.steps.tolist()), effects.tolist(), strict=True))}
    coefficients = {}
    for i, values in enumerate(parts.written(observed.domains, mean)):
        curve = {name: float(by_domain[i]) for name, by_domain in curves.items()}
        coefficients[observed.loss_domains[i]] = values | curve | by_step
    return coefficients


def predict(
    coefficients: dict, domains: list[str], seen: list[int], proportions: np.ndarray, steps: np.ndarray
) -> np.ndarray:
    """Losses (n, k, d) at proportions (n, m) and steps (k,); NaN where nothing helps a loss."""
    mixed = read(coefficients, domains)
    run = run_of(coefficients, domains)
    return losses(run, mixed, proportions, step_factor(coefficients, seen, steps), effects_at(coefficients, steps))


def objective(fitted: dict, step: int, target: np.ndarray) -> Callable:
    """The objective of the optimum: sum_i w_i L_i(r), which is convex (`transfer/run`)."""
    mixed = read(fitted["coefficients"], fitted["domains"])
    curve = step_factor(fitted["coefficients"], fitted["steps"], [step])[0]
    run = run_of(fitted["coefficients"], fitted["domains"])
    return run_objective(replace(run, nu=run.nu * effects_at(fitted["coefficients"], [step])[0]), mixed, curve, target)


def count(coefficients: dict) -> int:
    """The number of coefficients: the factor; B, beta, C or A; e of all steps but the last."""
    by_domain = [numbers(values) + (3 if "B" in values or "size" in values else 1) for values in coefficients.values()]
    shared = {tuple(values["effects"].values()) for values in coefficients.values() if "effects" in values}
    return sum(by_domain) + sum(len(effects) - 1 for effects in shared)


def step_factor(coefficients, seen, steps) -> np.ndarray:
    """B / s^beta + C (k, d); 1 in the fixed-step form, and where levels are by size.

    Errors: a step other than that of a fixed-step fit.
    """
    if all("size" in values for values in coefficients.values()):
        return np.ones((len(steps), len(coefficients)))
    curves = {}
    for domain, values in coefficients.items():
        curve = {name: values[name] for name in CURVE if name in values}
        curves[domain] = {"A": 1.0, "alpha": 0.0} | curve
    falling, constant = bimix.bracket(curves, seen, steps)
    return falling + constant


def own_domains(observed) -> np.ndarray:
    """Index (d,) of each loss domain among the training domains; -1 where it is not trained on.

    A domain that no run has trained on gets the shared values, since its own text is expected to
    help it as that of others helps them: k_ii = 1, and u, alpha and gamma at their means.
    """
    indices = {name: index for index, name in enumerate(observed.domains)}
    return np.array([indices.get(observed.pairs.get(name, name), -1) for name in observed.loss_domains])


def run_levels(observed, weights=None) -> np.ndarray:
    """Levels x (n, d) of log loss = curve(step) + e(step) x, by least squares, in units of the
    effect at the last step and up to a constant for each loss domain.

    A step has the weight e^2, since its noise is divided by e.
    """
    logs = np.log(observed.losses)
    if logs.shape[1] == 1:
        return logs[:, 0]
    seen = np.isfinite(logs)
    logs = np.where(seen, logs, 0.0)
    effect = effects_by_step(observed, weights)[:, None]
    counts, per_step = np.maximum((seen * effect**2).sum(axis=1), 1e-300), np.maximum(seen.sum(axis=0), 1)
    curve = logs.sum(axis=0) / per_step
    for _ in range(1 if seen.all() else 200):  # one turn is exact where no loss is missing
        level = ((logs - curve) * effect * seen).sum(axis=1) / counts
        curve = ((logs - effect * level[:, None]) * seen).sum(axis=0) / per_step
    return np.where(seen.any(axis=1), level + curve.mean(axis=0), np.nan)


def effects_by_step(observed, weights=None) -> np.ndarray:
    """e (k,): the effect of mixtures on log losses at each step, relative to the last step that two
    runs reach; `weights` (n,) of the runs. The mean of two seeds, of weight 2, is more precise but
    adds no degree of freedom.

    e is the slope between the deviations from the means of two steps over runs observed at both,
    with equal errors in both (Deming regression), the same for all loss domains, which have equal
    weights. A normal prior shrinks it to 1, its value without two runs observed at both steps.
    """
    logs = np.log(observed.losses)
    weights = np.ones((len(logs), 1, 1)) if weights is None else np.asarray(weights, dtype=float)[:, None, None]
    by_two_runs = ((np.isfinite(logs) & (weights > 0)).sum(axis=0) > 1).any(axis=1)
    last = logs[:, [np.flatnonzero(by_two_runs)[-1] if by_two_runs.any() else -1]]
    both = np.isfinite(logs + last) & (weights > 0)
    pair = np.where(both, np.stack([logs, np.broadcast_to(last, logs.shape)]), 0.0)  # (2, n, k, d)
    mean = (weights * pair).sum(axis=1, keepdims=True) / np.maximum((weights * both).sum(axis=0), 1e-300)
    deviations = np.where(both, np.sqrt(weights) * (pair - mean), 0.0)
    squares = (deviations**2).sum(axis=(0, 1))  # (k, d)
    varies = squares > 1e-20  # else the same at every run, but for rounding
    freedom = np.maximum(both.sum(axis=0) - 1, 1).mean(axis=1)[:, None, None]
    domain_weights = varies / np.maximum(squares, 1e-20) / np.maximum(varies.sum(axis=1, keepdims=True), 1)
    moments = freedom * np.einsum("ansd,bnsd,sd->sab", deviations, deviations, domain_weights)  # (k, 2, 2)
    noise, signal = np.linalg.eigvalsh(moments).T[:, :, None, None]
    # The prior as additional moments of slope 1, which dominate where the signal is weak.
    clear = np.maximum(1 - np.maximum(noise, 0) / np.maximum(signal, 1e-300), 1e-9)
    prior = np.where(signal > 0, np.maximum(noise, 0) / freedom / EFFECT_SPREAD**2 / clear, 1.0)
    of_step, of_last = np.linalg.eigh(moments + prior)[1][:, :, 1].T
    return np.clip(of_step * np.sign(of_last) / np.maximum(np.abs(of_last), 1e-9), 1 / MOST_EFFECT, MOST_EFFECT)
