"""Olmix (Chen et al., arXiv 2602.12237): the exponential form for each metric, and an optimum that
stays near the token shares.

As its code does: L_i(r) = c_i + exp(t_i.r), Huber loss of width 0.02; the proportions sum to 1, so
our k_i is a shift of all t_ij. Its optimum minimises the mean of the predictions plus 0.05
KL(r || token shares), and reads no domain more than four times (`trust` and `most_epochs` in
`plan/laws`).
"""

import numpy as np

from bimix.laws import exponential
from bimix.laws.per_step import fit_steps, refit_with
from bimix.observations.observations import Observations
from bimix.plan.laws import LAWS

HUBER = 0.02


def fit(observed: Observations, weights: np.ndarray | None = None, start: dict | None = None) -> tuple[dict, dict]:
    """Coefficients as of `exponential.fit`, and no notes."""
    return fit_steps(exponential.fitted_as(HUBER, observed.domains), observed, weights, start), {}


LAW = exponential.LAW._replace(
    fit=fit, refit=refit_with(fit), formula="c + exp(t.r), per step, near the token shares", plan=LAWS["olmix"]
)
