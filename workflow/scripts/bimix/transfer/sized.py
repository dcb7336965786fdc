"""The law `transfer` on runs of several sizes, and on runs that repeat small pools: what they are
as arrays, and the JSON of it.

A run counts with its last row: earlier checkpoints of a schedule have not decayed. With sizes the
coefficients of a loss domain hold `size`, the levels. Where some run repeats a pool `repetition`,
what it costs; and `run` is the run that they are read at.
"""

from collections.abc import Callable
from dataclasses import asdict, replace

import numpy as np

from bimix.observations.observations import Observations
from bimix.transfer import asked, mixing, repetition, size
from bimix.transfer import sized_runs as runs

# What is left of a loss without its harm, at least.
LEAST = 0.1
# Of runs that repeat over several schedules each counts with its tokens over the longest
# schedule's. What the form misses grows with the horizon, and the longest is nearest to what is
# asked. Chosen on Wikipedia's horizons: 0 to 2 give the same regret to 0.05 %; at 1 runs on parts
# of the pool are missed by 0.7 %, at 2 by 1.4 %.
HORIZON = 1.0
# (shares that count, shares, effects, own domains, weights, choice or None, start or None) ->
# choice, fitted mixing factor
Factor = Callable[..., tuple[dict, mixing.Mixing]]


def repeated(observed: Observations, own: np.ndarray, weights: np.ndarray | None) -> repetition.Repetition | None:
    """How repeated text counts in these runs; None where no pool is known to be read more than
    once.
    """
    if observed.pools is None or observed.tokens is None:
        return None
    group = np.unique(_keys(observed), axis=0, return_inverse=True)[1].ravel()
    base = np.ones(len(observed.tokens)) if weights is None else np.asarray(weights, dtype=float)
    # Pools are measured by the parameters of each run's model, or else by their own geometric mean.
    limited = observed.pools[np.isfinite(observed.pools)]
    middle = None if observed.parameters is not None or not len(limited) else float(np.exp(np.log(limited).mean()))
    scale = observed.parameters if middle is None else middle
    form = repetition.fit(
        observed.proportions, observed.last(), own, group, observed.tokens, observed.pools, scale, base
    )
    return form and replace(form, scale=middle)


def as_counted(observed: Observations, own: np.ndarray, form: repetition.Repetition) -> Observations:
    """The runs with the shares that count, which sum to less than 1, and their losses without the
    harm.
    """
    per_share = observed.tokens[:, None] / observed.pools
    rho = repetition.counted(observed.proportions, per_share, form.R)[0]
    scale = observed.parameters if form.scale is None else form.scale
    lost = repetition.own_harm(form, observed.proportions, per_share, observed.pools, scale, own)
    # A loss that is all harm would have no logarithm.
    return replace(
        observed, proportions=rho, losses=np.maximum(observed.losses - lost[:, None], LEAST * observed.losses)
    )


def by_horizon(observed: Observations, weights: np.ndarray | None) -> np.ndarray | None:
    """The weights (n,) of runs, those of longer schedules greater where runs of one size repeat
    pools.
    """
    if observed.parameters is not None or observed.pools is None or not by_runs(observed):
        return weights
    base = np.ones(len(observed.tokens)) if weights is None else np.asarray(weights, dtype=float)
    return base * (observed.tokens / observed.tokens.max()) ** HORIZON


def by_runs(observed: Observations) -> bool:
    """Whether the runs have levels by size and tokens: of several sizes, or of known pools over
    several schedules.
    """
    return observed.parameters is not None or (
        observed.pools is not None and np.ptp(observed.tokens) > 1e-6 * observed.tokens.max()
    )


def _keys(observed) -> np.ndarray:
    """Size and schedule (n, 2) of each run, 0 where not known."""
    none = np.zeros(len(observed.mixtures))
    return np.stack([none if one is None else one for one in (observed.parameters, observed.tokens)], axis=1)


def fit(
    seen: Observations,
    straight: np.ndarray,
    own: np.ndarray,
    weights: np.ndarray | None,
    factor: Factor,
    choice: dict | None = None,
    start: mixing.Mixing | None = None,
) -> runs.Sized:
    """The law of runs that are `as_counted`, whose own shares are `straight` (n, m); own (d,),
    weights (n,).

    With a choice that was made, from `start`, it is kept.
    """
    sizes = np.ones(len(seen.mixtures)) if seen.parameters is None else seen.parameters
    # A mixture is the same one where its shares count the same.
    names = tuple(
        f"{name} {np.round(row, 9).tolist()}" for name, row in zip(seen.mixtures, seen.proportions, strict=True)
    )
    plan = size.design(sizes, seen.tokens, names)
    shares = seen.proportions[plan.first]
    base = np.ones(len(names)) if weights is None else np.asarray(weights, dtype=float)

    def of_effects(effects, counts, choice, start):
        return factor(shares, straight[plan.first], effects, own, counts, choice, start)

    return runs.fit(plan, seen.proportions, straight, np.log(seen.last()), base, of_effects, choice, start)


def coefficients_of(observed: Observations, sized: runs.Sized, form: repetition.Repetition | None) -> dict:
    """Coefficients with the levels by size and tokens, at the largest size and its longest
    schedule.
    """
    written = sized.mixed.parts().written(observed.domains)
    curve, plan = sized.curve, sized.plan
    coefficients = {}
    for i, domain in enumerate(observed.loss_domains):
        heights = np.exp(curve.heights[i])
        levels = {
            "B": float(heights[0]),
            "b": curve.b,
            "D": float(heights[1]),
            "g": curve.g,
            "C": float(heights[2]),
            "parameters": curve.parameters,
            "tokens": curve.tokens,
            "centre": float(sized.centre[i]),
            "sizes": [
                {
                    "parameters": float(plan.parameters[group]),
                    "tokens": None if plan.tokens is None else float(plan.tokens[group]),
                    "runs": int(sized.runs[group]),
                    "shift": float(sized.shifts[group, i]),
                    "nu": float(sized.nu[group, i]),
                }
                for group in np.nonzero(sized.runs)[0]
            ],
        }
        coefficients[domain] = written[i] | {"size": levels}
    return at_reference(coefficients, observed, form)


def at_reference(coefficients: dict, observed: Observations, form: repetition.Repetition | None) -> dict:
    """The coefficients with how repetition counts, at the largest size there is and its longest
    schedule.
    """
    if form is not None:
        for domain, values in coefficients.items():
            values["repetition"] = asdict(form)
            if domain not in observed.domains:
                values["repetition"] |= {"P": 0.0}
    if any("size" in values for values in coefficients.values()):
        last = next(iter(coefficients.values()))["size"]["sizes"][-1]
        return at_run(coefficients, list(observed.domains), last["parameters"], last["tokens"], None)
    return coefficients


def as_asked(coefficients: dict, fitted: dict) -> dict:
    """Coefficients at the run that a fitted law is at."""
    run = next(iter(fitted["coefficients"].values())).get("run")
    if run is None:
        return coefficients
    return at_run(coefficients, fitted["domains"], run["parameters"], run["tokens"], run["pools"])


def form_of(coefficients: dict) -> repetition.Repetition | None:
    """How repetition counts in a fitted law; None where none was seen."""
    forms = [values["repetition"] for values in coefficients.values() if "repetition" in values]
    return repetition.Repetition(**max(forms, key=lambda one: one["P"])) if forms else None


def at_run(
    coefficients: dict,
    domains: list[str],
    parameters: float | None,
    tokens: float | None,
    pools: dict[str, float] | None,
) -> dict:
    """The coefficients at a run of a model of so many parameters, on so many tokens, with pools
    {domain: unique tokens}.

    None: as it was fitted, at the largest size and its schedule; without pools nothing is repeated.
    """
    table = list(coefficients.values())
    sized = all("size" in values for values in table)
    if sized:
        last = table[0]["size"]["sizes"][-1]
        parameters = last["parameters"] if parameters is None else float(parameters)
        tokens = last["tokens"] if tokens is None else float(tokens)
    result = {}
    for domain, values in coefficients.items():
        level, nu = _level(values["size"], parameters, tokens) if sized else (0.0, 1.0)
        run = {"parameters": parameters, "tokens": tokens, "pools": pools, "level": level, "nu": nu}
        result[domain] = values | {"run": run}
    return result


def _level(levels, parameters, tokens) -> tuple[float, float]:
    """Level and nu of a loss domain at a size and schedule: those of a size that was fitted where
    it is one, nu of the largest above.
    """
    curve = size.Curve(
        levels["b"], levels["g"], np.log([[levels[name] for name in "BDC"]]), levels["parameters"], levels["tokens"]
    )
    level, nu = float(curve.level(np.array(parameters), np.array(tokens or np.nan))[0]), 1.0
    same = [one for one in levels["sizes"] if abs(np.log(one["parameters"] / parameters)) <= np.log(size.SAME_SIZE)]
    if same:
        near = min(
            same, key=lambda one: 0 if tokens is None or one["tokens"] is None else abs(np.log(one["tokens"] / tokens))
        )
        level, nu = level + near["shift"], near["nu"]
    elif parameters > levels["sizes"][-1]["parameters"]:
        nu = levels["sizes"][-1]["nu"]
    return level + (1 - nu) * levels["centre"], nu


def run_of(coefficients: dict, domains: list[str]) -> asked.Asked | None:
    """The run that the coefficients are at; None where it changes nothing."""
    table = list(coefficients.items())
    run = table[0][1].get("run")
    if run is None:
        return None
    per_share = np.zeros(len(domains))
    pools = np.array([(run["pools"] or {}).get(name) or np.inf for name in domains], dtype=float)
    if run["pools"] is not None:
        per_share = run["tokens"] / pools
    form = form_of(coefficients) or repetition.Repetition()
    own = np.array([domains.index(name) if name in domains else -1 for name, _ in table])
    scale = form.scale or run["parameters"] or 1.0
    harms = np.array([values.get("repetition", {"P": 0.0})["P"] for _, values in table])
    return asked.Asked(
        level=np.array([values["run"]["level"] for _, values in table]),
        nu=np.array([values["run"]["nu"] for _, values in table]),
        per_share=per_share,
        R=form.R,
        height=harms * (scale / pools[own]) ** form.kappa,
        mu=form.mu,
        own=own,
    )


def size_read(fitted: dict) -> float | None:
    """Parameters of the run that a law over several sizes is read at; None of any other, such as
    one over schedules.
    """
    first = next(iter(fitted["coefficients"].values())) if "rows" in fitted else {"size": {"sizes": []}}
    several = len({one["parameters"] for one in first["size"]["sizes"]}) > 1
    return first["run"]["parameters"] if several else None


def reversed_order(coefficients: dict) -> list[str]:
    """The loss domains whose runs of the largest size reverse the order of smaller ones."""
    return [
        domain
        for domain, values in coefficients.items()
        if "size" in values and min(one["nu"] for one in values["size"]["sizes"]) <= size.LEAST_NU
    ]


def far_apart(coefficients: dict, parameters: float | None) -> str:
    """A sentence where a model is so much larger than those fitted that the law is a guess; else
    nothing.
    """
    table = next(iter(coefficients.values()))
    if parameters is None or "size" not in table:
        return ""
    sizes = table["size"]["sizes"]
    small = [one for one in sizes if one["parameters"] * size.FAR_APART < parameters]
    near = sum(one["runs"] for one in sizes) - sum(one["runs"] for one in small)
    if not small or near >= size.ENOUGH_NEAR:
        return ""
    times = parameters / max(one["parameters"] for one in small)
    return (
        f"{sum(one['runs'] for one in small)} runs are of models at least {times:.3g} times smaller than {parameters:.3g} parameters, "
        f"and {near} of larger ones: beyond {size.FAR_APART} times the effect of a mixture is no longer the same, "
        f"and the level is uncertain by several per cent; add {size.ENOUGH_NEAR} or more runs nearer to that size."
    )
