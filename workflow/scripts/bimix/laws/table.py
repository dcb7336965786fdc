"""All laws, one entry each. Planning reads this table too, so a law's code is imported only where
it is used.

A law over steps is a module with

    fit(observed, weights (n,) or None) -> {loss domain: coefficients}, notes
    refit(samples of (observed, weights), fitted) -> iterator of coefficients
    predict(coefficients, domains, steps seen, proportions (n, m), steps (k,)) -> losses (n, k, d)
        objective(fitted, step, weights (d,)) -> the function to minimise, see `Law.optimum`
    count(coefficients) -> number of fitted numbers

and, where it reads pools, `at_run`. A per-step law is a module with these functions for one step
and one loss domain (`per_step.py`).

A module of the user's own needs no entry: the variable BIMIX_LAWS names it, {name: path} as JSON. A
workflow sets it by `laws/own` of its config.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

OWN_LAWS = "BIMIX_LAWS"


@dataclass(frozen=True)
class Law:
    module: str  # below bimix.laws; of the user's own laws a path
    formula: str
    # The number of coefficients as formulas (paper App. Complexity Analysis) in m training domains,
    # d loss domains, n steps: one loss domain at one step, all at one step, all at all steps.
    letters: tuple[str, str, str]
    # The method for its optimum. `power_sum`: `objective` gives factors (m,) and exponents (m,).
    # `convex`: a function of proportions (m,) with value and gradient (m,).
    # `simulated` by draws around the token shares: no objective.
    optimum: str
    # The least number of mixtures, by the number m of training domains: with fewer, losses do not
    # determine its coefficients.
    least_runs: Callable[[int], int]
    # Whether its optimum is refused with fewer; else bounds or its ridge determine the rest.
    refuses_few: bool = True
    # m, d, n -> these numbers, for n >= 3; None where they are not known before the fit
    numbers: Callable[[int, int, int], tuple[int | None, int | None, int | None]] = lambda m, d, n: (None,) * 3
    # Whether it predicts steps to which it was not fitted; else it is a per-step law.
    over_steps: bool = False
    # Whether it can be fitted to runs of several model sizes, and predicts other sizes.
    over_sizes: bool = False
    # Whether `at_run` uses the epochs of a run over the pools of its domains.
    reads_pools: bool = False
    # Whether its fit uses the prior from text (observations/prior.py).
    reads_prior: bool = False
    # Whether it has a loss of a domain that a run does not train on, as one that is only measured.
    measured_only: bool = True
    # The factor of KL(r || token shares), which its optimum adds to the mean prediction.
    trust: float = 0.0
    # The default limit of its optimum on the epochs of a domain.
    most_epochs: float = float("inf")
    # The largest number of refits on left-out runs, for intervals.
    most_refits: int = 32
    # Whether explore.html computes it in the browser (results/explore_page/laws.js).
    drawn: bool = False
    # Arguments of `fit_step`, where two laws share a module.
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_own(self) -> bool:
        return self.module.endswith(".py")

    @cached_property
    def code(self) -> Any:
        """The functions of the law, as listed in the head of this file."""
        if self.is_own:
            spec = spec_from_file_location(Path(self.module).stem, self.module)
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = import_module(f"bimix.laws.{self.module}")
        if self.over_steps:
            return module
        return import_module("bimix.laws.per_step").PerStep(module, self.settings)


# Below ten mixtures LightGBM makes no split and predicts their mean, and folds are too small.
TEN = 10


def _exponential(m: int) -> int:
    return m + 2


LAWS: dict[str, Law] = {
    "bimix": Law(
        "bimix",
        "A/r_i^alpha (B/s^beta + C)",
        ("2", "2 d", "4 d"),  # the paper writes 5 m: A scales B and C
        "power_sum",
        least_runs=lambda m: 2,
        refuses_few=False,
        numbers=lambda m, d, n: (2, 2 * d, 4 * d),
        over_steps=True,
        measured_only=False,
        drawn=True,
    ),
    "transfer": Law(
        "transfer",
        "(sum A (k.r^gamma)^-alpha exp(t.r))^e(s) (B/s^beta + C)",
        ("m + 2", "d (m + 2)", "d (m + 4) + n - 1"),  # a further term adds m + 2
        "convex",
        least_runs=lambda m: 2,
        refuses_few=False,
        numbers=lambda m, d, n: (m + 2, d * (m + 2), d * (m + 4) + n - 1),
        over_steps=True,
        over_sizes=True,
        reads_pools=True,
        reads_prior=True,
        drawn=True,
    ),
    "exponential": Law(
        "exponential",
        "c + k exp(t.r), per step",
        ("m + 2", "d (m + 2)", "d n (m + 2)"),
        "convex",
        least_runs=_exponential,
        numbers=lambda m, d, n: (m + 2, d * (m + 2), d * n * (m + 2)),
        drawn=True,
    ),
    # Olmix's exponential form (arXiv 2602.12237): c_i + exp(t_i.r), in which our k_i is a shift of
    # all t_ij, since proportions sum to 1; a narrower Huber loss, at most four epochs.
    "olmix": Law(
        "exponential",
        "c + exp(t.r), per step, near the token shares",
        ("m + 2", "d (m + 2)", "d n (m + 2)"),
        "convex",
        least_runs=_exponential,
        numbers=lambda m, d, n: (m + 2, d * (m + 2), d * n * (m + 2)),
        trust=0.05,
        most_epochs=4.0,
        settings={"width": 0.02},
        drawn=True,
    ),
    "regmix": Law(
        "regmix",
        "gradient-boosted trees of r, per step",
        ("leaves", "leaves", "leaves"),
        "simulated",
        least_runs=lambda m: TEN,
        most_refits=8,  # a fit takes seconds
    ),
}


def own_law(path: str) -> Law:
    """The entry of a law of the user's own, by the functions that its file defines: it is not run here."""
    text = Path(path).read_text(encoding="utf-8", errors="replace") if Path(path).is_file() else ""
    convex = any(f"\ndef {name}(" in text for name in ("slope_step", "objective"))
    return Law(
        path,
        f"of {path}",
        ("-", "-", "-"),
        "convex" if convex else "simulated",
        least_runs=lambda m: 2,
        refuses_few=False,
        over_steps="\ndef fit(" in text,
    )


LAWS = {name: own_law(path) for name, path in json.loads(os.environ.get(OWN_LAWS, "{}")).items()} | LAWS

# Laws whose optimum {law} is fitted to the swarm, where there is one; for the others {law}_swarm
# is. The swarm is measured at one step.
SWARM_LAWS = tuple(name for name, law in LAWS.items() if not law.over_steps)

# The optimum of a law: fitted to the group under `optimum`, to the swarm, or to another group.
OPTIMUM = re.compile(rf"({'|'.join(map(re.escape, LAWS))})(?:_swarm|_of_([^/]+))?")

# Joins the names of models of several sizes in paths; no model's name may contain it.
JOINS = "+"


def is_optimum(mixture: str) -> bool:
    """Whether a name is that of a law's optimum. The group `all` leaves out such a run in a table
    of observations: it tests the law, and if the law were fitted to it, another mixture would take
    its name.
    """
    return OPTIMUM.fullmatch(mixture) is not None


def one_size(law: str) -> str:
    """The reason why a law is not fitted to models of several sizes."""
    others = ", ".join(name for name, other in LAWS.items() if other.over_sizes)
    return f"{law!r} is fitted to losses of one size of model; over several sizes there is {others}."
