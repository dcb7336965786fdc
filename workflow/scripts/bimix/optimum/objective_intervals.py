"""The intervals of an objective that is no average of losses: the worst ratio to the reference, of
the optimum.
"""

from collections.abc import Callable, Mapping

import numpy as np

from bimix.optimum.goal import Goal
from bimix.optimum.intervals import Bootstrap, LeftOut, middle
from bimix.optimum.objective import Objective


def objective_rows(
    fitted: dict,
    step: int,
    objective: Objective,
    find: Callable[[dict], np.ndarray],
    of_losses: LeftOut | Bootstrap,
    level: float,
    tokens: Mapping[str, float] | None = None,
) -> list[tuple]:
    """A row of the quantity `worst_ratio`, as `intervals` has rows: of the optimum by minimax,
    without what a trust region adds; none for other objectives, which are averages.

    By a bootstrap the refits' own ratios at that mixture. By runs left out the ratio of the worst
    part at both mixtures, with the widths of both losses, each domain's own, as for a gain.
    """
    if objective.kind != "minimax":
        return []
    shares, reference = find(fitted), objective.shares(fitted)

    def worst(one: dict) -> tuple[float, np.ndarray, Goal]:
        goal = Goal(one, step, objective, tokens)
        ratios = goal.rows @ goal.predicted(shares)
        return float(ratios.max()), goal.rows[ratios.argmax()], goal

    guess, row, goal = worst(fitted)
    if isinstance(of_losses, Bootstrap):
        low, high = middle([worst(one)[0] for one in of_losses.refitted], level)
    else:
        columns = [fitted["loss_domains"].index(name) for name in goal.names]
        widths = of_losses.width(np.array([shares, reference]), step, None, level)[:, columns]
        # Of a family the mean of its domains' widths: their errors are taken to go together.
        width = (row > 0) @ np.sqrt((widths**2).sum(axis=0)) / (row > 0).sum()
        low, high = guess * np.exp(-width), guess * np.exp(width)
    return [("worst_ratio", step, of_losses.kind, fitted["law"], None, guess, low, high)]
