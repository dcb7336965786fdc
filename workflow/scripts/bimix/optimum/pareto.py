"""The Pareto front of two averages of losses.

Where the laws are convex, each mixture on the front minimises a weighted sum of the two. The
weights are those of the chord between the two most distant neighbours found so far (Cohon, Church
and Sheer 1979, doi 10.1029/WR015i005p01001).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl

from bimix.errors import InputError
from bimix.laws.fitted import predict_defined
from bimix.optimum.families import checked
from bimix.optimum.objective import Objective, average, target_weights
from bimix.optimum.optimum import Sought
from bimix.tables import read_numbers

# The weight of the other objective at the ends: with 0 a mixture that is not on the front could tie
# with the best ones.
END = 0.01
NOTHING = 1e-9  # of the front's length: neighbours so near are one point


def front(
    sought: Sought, first: Mapping[str, float], second: Mapping[str, float], points: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mixtures (k, m) and both averages (k, 2), from the optimum of the first to that of the
    second; k is `points`, or fewer where the front has fewer.

    `first` and `second`: weights by loss domain. Errors: those of `optimum`, fewer points than two.
    """
    if points < 2:
        raise InputError(f"--points is {points}: a front has two ends at least.")
    fitted, step = sought.fitted, sought.step
    targets = np.array([target_weights(fitted, dict(one)) for one in (first, second)])
    targets = targets / targets.sum(axis=1, keepdims=True)
    names = fitted["loss_domains"]

    def best(share: float) -> tuple[np.ndarray, np.ndarray]:
        """The optimum at weights 1 - share and share of the two, and both averages there."""
        mixed = (1 - share) * targets[0] + share * targets[1]
        weights = {name: float(one) for name, one in zip(names, mixed, strict=True) if one > 0}
        shares = replace(sought, objective=Objective(weights=weights)).shares()
        losses = predict_defined(fitted, shares[None], np.array([step]))[0, 0]
        return shares, np.array([average(losses, target) for target in targets])

    found = _between([best(END), best(1 - END)], best, points)
    kept = [one for one in found if not any((other <= one[1]).all() and (other < one[1]).any() for _, other in found)]
    return np.array([shares for shares, _ in kept]), np.array([values for _, values in kept])


def _between(found: list, best: Callable, points: int) -> list:
    """The sorted points, with points added until there are enough or all gaps are closed."""
    # each loss in units of its range along the front, since their scales may differ
    unit = np.maximum(np.abs(found[0][1] - found[1][1]), 1e-300)
    done: set[int] = set()  # the left ends, by identity, of chords between which there is nothing
    while len(found) < points:
        lengths = [
            -1.0 if id(left) in done else np.linalg.norm((left[1] - right[1]) / unit) for left, right in pairwise(found)
        ]
        at = int(np.argmax(lengths))
        if lengths[at] <= NOTHING:
            break
        (_, left), (_, right) = found[at], found[at + 1]
        fall, rise = left[1] - right[1], right[0] - left[0]  # of the second, of the first
        new = best(rise / (fall + rise)) if fall > 0 and rise > 0 else found[at]
        near = min(np.linalg.norm((new[1] - left) / unit), np.linalg.norm((new[1] - right) / unit))
        if near <= NOTHING:
            done.add(id(found[at]))
        else:
            found.insert(at + 1, new)
    return found


def weights_of(text: str, families: Mapping[str, Sequence[str]], fitted: dict) -> dict[str, float]:
    """The weights by loss domain of one of the two objectives, from the name of a family or of a
    loss domain, or from JSON.

    Errors: an unknown name.
    """
    if text.lstrip().startswith("{"):
        return read_numbers(text)
    checked(families, fitted["loss_domains"])
    if text not in families and text not in fitted["loss_domains"]:
        known = [*families, *fitted["loss_domains"]]
        raise InputError(f"--between names {text!r}, no family and no loss domain: there are {', '.join(known)}.")
    return dict.fromkeys(families.get(text, [text]), 1.0)


def name_of(text: str) -> str:
    """The name of an objective in the table and the figure."""
    numbers = read_numbers(text) if text.lstrip().startswith("{") else None
    return text if numbers is None else " + ".join(f"{one:g} {name}" for name, one in numbers.items() if one)


def as_table(
    law: str, step: int, names: tuple[str, str], domains: Sequence[str], shares: np.ndarray, values: np.ndarray
) -> pl.DataFrame:
    """law, step, point from 1, first, first_loss, second, second_loss, each domain's proportion."""
    columns = {
        "law": law,
        "step": step,
        "point": np.arange(1, len(shares) + 1),
        "first": names[0],
        "first_loss": values[:, 0],
        "second": names[1],
        "second_loss": values[:, 1],
    }
    return pl.DataFrame(columns | {f"proportion of {name}": shares[:, j] for j, name in enumerate(domains)})
