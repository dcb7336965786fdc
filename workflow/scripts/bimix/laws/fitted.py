"""Fits a law to observed losses, predicts the losses of mixtures, and sets the law to a run.

A fitted law is a dict, written as readable JSON. It holds the law's name, the training domains in
order, the fitted steps and mixtures, the range of fitted proportions, the coefficients of every
loss domain, and warnings about coefficients that the data do not determine.
"""

from pathlib import Path

import numpy as np
import polars as pl

from bimix.digests import digest_file
from bimix.errors import InputError
from bimix.laws.table import LAWS
from bimix.observations.observations import Observations
from bimix.observations.tables import few
from bimix.transfer.law import by_runs
from bimix.transfer.run import far_apart, has_one_size, reversed_order
from bimix.transfer.unseen import basis, confounded, unseen

# Beyond so many times the last fitted step, a curve over steps is a guess; then it is refused.
FAR_AHEAD, TOO_FAR = 10, 100
SAME_SHARES = 1e-6  # mixtures whose proportions differ by less are one
FEW_MIXTURES = 3  # fewer cannot be cross-validated
SURE = 2.0  # standard deviations of a rank correlation that is not from chance


def fit(law: str, observed: Observations, weights: np.ndarray | None = None) -> dict:
    """Fit the law `law`; the weights (n,) of the mixtures default to their numbers of runs.

    Errors: one mixture only; two steps, from which no curve can be identified; several sizes for a
    law without sizes; those of the law itself.
    """
    entry, rows = LAWS[law], defined_rows(law, observed)
    out = [name for row, name in enumerate(observed.mixtures) if row not in rows]
    if out:
        observed, weights = observed.take(rows), None if weights is None else np.asarray(weights)[rows]
    if weights is None and observed.runs is not None:
        weights = observed.runs.astype(float)  # the variance of a mean falls with the runs behind it
    used = observed.proportions if weights is None else observed.proportions[np.asarray(weights) > 0]
    if np.ptp(used, axis=0).max() < SAME_SHARES:  # also under several names
        raise InputError(f"only one mixture ({observed.mixtures[0]!r}) was observed: a mixing law needs two or more.")
    if observed.parameters is not None and not entry.over_sizes:
        raise InputError(
            f"the losses are of models of {len(np.unique(observed.parameters))} sizes (column parameters), and the law {law} has no"
            " size: fit it to one of them, or use the law transfer."
        )
    if entry.over_steps and len(observed.steps) == 2 and not (entry.over_sizes and by_runs(observed)):
        raise InputError(
            f"losses were observed at two steps ({observed.steps[0]} and {observed.steps[1]}): B, beta and C cannot be determined "
            "from two points of a curve; give three or more steps, or one for the law's fixed-step form."
        )
    coefficients, notes = entry.code.fit(observed, weights)
    shares = zip(*(function(observed.proportions, axis=0) for function in (np.min, np.max, np.mean)), strict=True)
    seen = {
        domain: dict(zip(("min", "max", "mean"), map(float, own), strict=True))
        for domain, own in zip(observed.domains, shares, strict=True)
    }
    fitted = {
        "law": law,
        "formula": entry.formula,
        **({"law_file": {"path": entry.module, "digest": digest_file(Path(entry.module))}} if entry.is_own else {}),
        "domains": list(observed.domains),
        "loss_domains": list(observed.loss_domains),
        "steps": [int(step) for step in observed.steps],
        "mixtures": list(observed.mixtures),
        **({"metrics": list(observed.metrics)} if observed.metrics else {}),
    }
    if observed.pools is not None and observed.tokens is not None:
        most = (observed.proportions * observed.tokens[:, None] / observed.pools).max(axis=0)
        fitted["epochs_seen"] = dict(zip(observed.domains, most.tolist(), strict=True))
    fitted |= {
        "noise_between_runs": observed.noise,
        "tokens_per_step": observed.tokens_per_step,
        "proportions_seen": seen,
        **notes,
        "coefficients": coefficients,
        "coefficients_fitted": entry.code.count(coefficients),
    }
    remark = [f"{law} is fitted without runs that have proportion 0 of a domain: {few(out)}."] if out else []
    return fitted | {"warnings": [*_warnings(fitted), *_rising(fitted, observed), *remark]}


def defined(law: str, observed: Observations) -> Observations:
    """The runs that `fit` takes."""
    return observed.take(defined_rows(law, observed))


def defined_rows(law: str, observed: Observations) -> np.ndarray:
    """The rows of the runs at which a law is defined: some have no loss of a domain at proportion 0 of
    it. All, where too few would be left or a domain is in no run.
    """
    if LAWS[law].measured_only:
        return np.arange(len(observed.mixtures))
    own = [observed.domains.index(name) for name in observed.loss_domains if name in observed.domains]
    rows = np.flatnonzero((observed.proportions[:, own] > 0).all(axis=1))
    return rows if len(rows) >= FEW_MIXTURES else np.arange(len(observed.mixtures))


def predict(fitted: dict, proportions: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Losses (n, k, d), nats per token, of a fitted law at proportions (n, m) in the order of its
    domains, at each of k steps.

    Errors: a step to which a per-step law was not fitted; a mixture or step for which the law
    defines no loss.
    """
    losses = predict_defined(fitted, proportions, steps)
    for domain in undefined(fitted, losses):
        why = f"a mixture has proportion 0 of {domain}"
        if not LAWS[fitted["law"]].over_steps:
            why = f"fewer than two runs have a loss of {domain} at step {' or '.join(f'{step:g}' for step in steps)}"
        raise InputError(f"{why}: the {fitted['law']} law is not defined there; use transfer.")
    return losses


def predict_defined(fitted: dict, proportions: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """As `predict`, with NaN where the law defines no loss: at proportion 0 in `bimix`, and of a
    loss domain that a per-step law was not fitted to at a step.
    """
    code, steps = LAWS[fitted["law"]].code, np.asarray(steps, dtype=float)
    return code.predict(fitted["coefficients"], fitted["domains"], fitted["steps"], proportions, steps)


def undefined(fitted: dict, losses: np.ndarray) -> list[str]:
    """The loss domains with an undefined value among the predicted losses (..., d)."""
    missing = np.isnan(losses).reshape(-1, losses.shape[-1]).any(axis=0)
    return [domain for domain, one in zip(fitted["loss_domains"], missing, strict=True) if one]


def predict_runs(fitted: dict, observed: Observations, steps: np.ndarray | None = None) -> np.ndarray:
    """Losses (n, k, d) of runs at their own sizes, tokens and pools, if any; NaN where undefined."""
    law = LAWS[fitted["law"]]
    steps = observed.steps if steps is None else steps
    if not law.reads_pools or (observed.parameters is None and observed.pools is None):
        run = next(iter(fitted["coefficients"].values())).get("run") if law.reads_pools else None
        if run is not None:  # the law is set to another run, and runs without pools repeat nothing
            of_run = run["parameters"], run["tokens"], None
            fitted = fitted | {"coefficients": law.code.at_run(fitted["coefficients"], fitted["domains"], *of_run)}
        return predict_defined(fitted, observed.proportions, steps)
    seen = list(steps) if "rows" in fitted else fitted["steps"]
    losses = np.empty((len(observed.mixtures), len(steps), len(fitted["loss_domains"])))
    for n, shares in enumerate(observed.proportions):
        known = observed.pools is not None and np.isfinite(observed.pools[n]).any()
        pools = dict(zip(observed.domains, observed.pools[n], strict=True)) if known else None
        of_run = (observed.parameters, observed.tokens)
        size, tokens = (None if one is None or np.isnan(one[n]) else float(one[n]) for one in of_run)
        own = law.code.at_run(fitted["coefficients"], fitted["domains"], size, tokens, pools)
        losses[n] = law.code.predict(own, fitted["domains"], seen, shares[None], np.asarray(steps, dtype=float))[0]
    return losses


def at_run(
    fitted: dict,
    parameters: float | None = None,
    tokens: float | None = None,
    pools: dict[str, float] | None = None,
    step: int | None = None,
) -> dict:
    """The fitted law set to a run: `predict` and the optimum then give the losses of a model of
    `parameters` trained on `tokens`.

    pools {domain: unique tokens}: repeated tokens count less. A domain without a pool is unlimited;
    without pools or the run's tokens no text is repeated. A law over sizes predicts the same at
    every step: `step` is the requested one. An argument that is None keeps the value of the run to
    which the law is set. Of a law of one size, whose runs had pools, `parameters` are of a larger
    model: it has its losses, and loses more by repeated text (`transfer/repetition`).

    Errors: a size for another law of one size, or without tokens where schedules had several
    lengths.
    """
    law, first = LAWS[fitted["law"]], next(iter(fitted["coefficients"].values()))
    levels, run = first.get("size") if law.over_sizes else None, first.get("run") or {}
    one_size = levels is None or has_one_size(levels)
    if parameters is not None and one_size and not (law.over_sizes and "epochs_seen" in fitted):
        raise InputError(
            f"--parameters {parameters:g} is a size, and the law {fitted['law']} was fitted at one: it needs losses of two"
            " sizes or more (column parameters), or mixtures with pools, and the law transfer."
        )
    for what, amount in (("--parameters", parameters), ("--run-tokens", tokens)):
        if amount is not None and not 0 < amount < float("inf"):
            raise InputError(f"{what} is {amount:g}: it must be a finite number above 0.")
    for name, pool in (pools or {}).items():
        if tokens is not None and not pool >= 1:
            raise InputError(f"the pool of {name!r} is {pool:g} tokens: it must be 1 or more.")
    if parameters is not None and tokens is None and (levels is None or levels["tokens"] is not None):
        raise InputError("--parameters needs --run-tokens: a loss depends on both.")
    if levels is not None:
        parameters = run["parameters"] if parameters is None else parameters
        tokens = run["tokens"] if tokens is None else tokens
        # Steps do not determine the tokens of a run of another size.
        fitted = fitted | {"steps": [step if step is not None else fitted["steps"][-1]], "tokens_per_step": None}
    elif not law.reads_pools or (parameters is None and (tokens is None or not pools)):
        return fitted
    else:
        parameters = run.get("parameters") if parameters is None else parameters
    asked = pools if pools and tokens is not None else None
    return fitted | {
        "coefficients": law.code.at_run(fitted["coefficients"], fitted["domains"], parameters, tokens, asked)
    }


def asked_at(fitted: dict, parameters: float, tokens: float) -> dict:
    """A law whose default run has `parameters` and `tokens`, with a warning if that is far from the
    fitted sizes. Errors: those of `at_run`.
    """
    coefficients = at_run(fitted, parameters, tokens)["coefficients"]
    far = far_apart(coefficients, parameters)
    return fitted | {"coefficients": coefficients, "warnings": [*([far] if far else []), *fitted["warnings"]]}


def far_ahead(fitted: dict, step: float) -> str:
    """A warning if a step is so far beyond the fitted ones that the curve over steps is a guess,
    else "". Laws over sizes have no steps; per-step laws refuse other steps themselves.

    Errors: it is beyond TOO_FAR times the last fitted step.
    """
    if not LAWS[fitted["law"]].over_steps or "rows" in fitted or len(fitted["steps"]) < 2:
        return ""
    last = fitted["steps"][-1]
    if step <= FAR_AHEAD * last:
        return ""
    times = f"step {step:g} is {step / last:.3g} times the last step that the law was fitted to, {last}:"
    if step > TOO_FAR * last:
        raise InputError(f"{times} beyond {TOO_FAR} times the runs do not determine it; take an earlier step.")
    return f"{times} so far ahead the curve over steps is a guess; trust ranks more than losses, or fit longer runs."


def _warnings(fitted: dict) -> list[str]:
    """Warnings about undetermined coefficients: constant proportions, coefficients at bounds."""
    sentences = []
    if fitted.get("rows") == "last":
        sentences.append("of each run its last row counts: earlier checkpoints of a schedule have not decayed.")
    if turned := reversed_order(fitted["coefficients"]):
        sentences.append(
            f"the largest models rank the mixtures the other way round than smaller ones in {', '.join(turned)}: "
            "of these losses the mixture is taken to change next to nothing at that size; add runs of it."
        )
    if len(set(fitted["mixtures"])) < FEW_MIXTURES:
        ridge = "to choose the ridge by cross-validation, or " if fitted["law"] == "transfer" else ""
        sentences.append(
            f"{len(set(fitted['mixtures']))} mixtures are too few {ridge}for any error of the law:"
            f" its optimum is all but a guess; {FEW_MIXTURES} at least."
        )
    sentences += [f"no fitted mixture trains on {domain}: {basis(fitted)}." for domain in unseen(fitted)]
    if "prior" in fitted:
        silent = [name for name in fitted["loss_domains"] if name not in fitted["prior"]["gaps"]]
        if silent:
            sentences.append(f"the prior says nothing of {', '.join(silent)}: these losses are fitted without it.")
    for domain, coefficients in fitted["coefficients"].items():
        seen = fitted["proportions_seen"].get(domain)
        if seen and seen["max"] < 1.2 * seen["min"]:
            sentences.append(
                f"the proportion of {domain} varied only from {seen['min']:.4g} to {seen['max']:.4g}: "
                "how its loss answers to its proportion is hardly identified."
            )
        if coefficients.get("alpha") == 0:
            sentences.append(
                f"alpha of {domain} is at its bound 0: in these runs its loss did not fall with its proportion, "
                "so the optimum keeps it at the least proportion that was seen, or at the lower bound you set."
            )
        if coefficients.get("B") == 0 and len(fitted["steps"]) > 1:
            sentences.append(f"{domain} was observed at one step alone: the law has no curve over steps of it.")
        if coefficients.get("C") == 0 and len(fitted["steps"]) > 1:
            sentences.append(f"C of {domain} is at its bound 0: these steps show no floor of the loss yet.")
    return sentences


def _rising(fitted: dict, observed: Observations) -> list[str]:
    """Warnings of `transfer` about domains that no run tells apart, and losses that rose with their own
    share; bimix has alpha.
    """
    if fitted["law"] != "transfer" or by_runs(observed):
        return []
    sentences, last, names = [], observed.last(), observed.domains
    if pairs := [f"{names[i]} and {names[j]}" for i, j in confounded(observed.proportions)]:
        said = "the runs without the first of these have one share of the second, for which it may be taken"
        sentences.append(f"{said}: {few(pairs)}; run a mixture without the first and with another share of the second.")
    for i, domain in enumerate(observed.loss_domains):
        seen = np.isfinite(last[:, i])
        own = observed.pairs.get(domain, domain)
        if own not in observed.domains or seen.sum() < FEW_MIXTURES:
            continue
        both = np.stack([observed.proportions[seen, observed.domains.index(own)], last[seen, i]])
        if (np.ptp(both, axis=1) == 0).any():
            continue
        rho = pl.select(pl.corr(*both, method="spearman")).item()  # ties have the mean of their ranks
        if rho * np.sqrt(seen.sum() - 1) > SURE:
            sentences.append(
                f"the loss of {domain} rose with its own proportion (rank correlation {rho:+.2f}): the law takes a domain's own"
                " text to help it; check the names of domains and losses."
            )
    return sentences
