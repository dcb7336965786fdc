"""What a law is to all that use it: one record, `LAW` in the law's own module."""

from collections.abc import Callable
from typing import NamedTuple

from bimix.plan.laws import Planned


class Size(NamedTuple):
    """How many numbers a law fits (paper App.

    Complexity Analysis): m training domains, d loss domains, n steps.
    """

    # m -> numbers of one loss domain at one step; None where they are not known before the fit
    one_step: Callable[[int], int | None]
    # m, n -> of one loss domain at n steps, three or more
    steps: Callable[[int, int], int | None]
    # in letters: one loss domain at one step, all at one step, all at all steps
    written: tuple[str, str, str]


class Law(NamedTuple):
    # (observations, weights (n,) or None, start) -> {loss domain: coefficients}, notes
    fit: Callable
    # (list of (observations, weights), fitted) -> iterator of coefficients, quicker than as many
    # fits
    refit: Callable
    # (coefficients, domains, steps seen, proportions (n, m), steps (k,)) -> (n, k, d) nats
    predict: Callable
    # coefficients -> number of fitted numbers
    count: Callable
    formula: str
    size: Size
    plan: Planned
    # (fitted, step, weights (d,)) -> what its way to the optimum minimises: of a power sum its
    # factors and exponents, (m,) and (m,); of a convex law a function of proportions (m,) that
    # gives value, gradient (m,) and Hessian (m, m); of a simulated one nothing
    objective: Callable | None = None
    # (coefficients, domains, parameters, tokens, pools) -> coefficients at a run of that size, on
    # so many tokens, with pools {domain: unique tokens}; None where neither changes what the law
    # says
    at_run: Callable | None = None
    # at most so many refits without some of the runs, for intervals
    most_refits: int = 32
