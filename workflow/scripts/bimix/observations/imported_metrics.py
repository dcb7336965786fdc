"""Which metric of a log is the loss of which domain, and what a loss and a step must be."""

import difflib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from bimix.errors import InputError
from bimix.observations.metrics import ERROR_RATE

HOLE = "{domain}"


class Loss(NamedTuple):
    """One evaluation of a run on a domain."""

    run: str
    step: int
    domain: str
    loss: float  # nats per token, where the log has it so
    place: str  # where it stands, for sentences: file, line or step, column
    size: str = ""  # of the model, as the log calls it
    parameters: float | None = None  # of the model, where they are known


@dataclass(frozen=True)
class Pattern:
    """What stands around the domain in the name of a metric: eval/{domain}/loss."""

    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.before}{HOLE}{self.after}"

    def domain(self, metric: str) -> str | None:
        """The domain whose loss the metric is; None where it is another metric."""
        if not (metric.startswith(self.before) and metric.endswith(self.after)):
            return None
        return metric[len(self.before) : len(metric) - len(self.after)] or None

    def domains(self, metrics: Iterable[str], path: object) -> dict[str, str]:
        """{metric: domain} of those metrics that are losses. Errors: none is."""
        metrics = list(dict.fromkeys(metrics))  # a panel has one for each run
        found = {metric: domain for metric in metrics if (domain := self.domain(metric))}
        if not found:
            near = difflib.get_close_matches(str(self), metrics, 6, 0)
            raise InputError(
                f"{path}: no metric fits {str(self)!r}; it has {', '.join(near) or 'none'}"
                f"{' and others' if len(metrics) > len(near) else ''}: name them by --pattern, such as eval/{HOLE}/loss."
            )
        return found


def pattern(text: str, flag: str = "--pattern") -> Pattern:
    """The pattern of the text. Errors: it has not one {domain}, named by the `flag`."""
    if text.count(HOLE) != 1:
        raise InputError(f"{flag} is {text!r}: it needs {HOLE} once, as in eval/{HOLE}/loss.")
    return Pattern(*text.split(HOLE))


def as_loss(value: object, place: str) -> float:
    """A loss. Errors: it is no number, not finite, or not above 0."""
    number = as_number(value)
    if number is None or not math.isfinite(number) or number <= 0:
        raise InputError(f"{place}: {value!r} is no loss: it must be a finite number above 0; {ERROR_RATE}.")
    return number


def as_step(value: object, place: str) -> int:
    """A step. Errors: it is no whole number, or below 0."""
    number = as_number(value)
    if number is None or not math.isfinite(number) or number < 0 or number != int(number):
        raise InputError(f"{place}: {value!r} is no training step: it must be a whole number.")
    return int(number)


def as_number(value: object) -> float | None:
    """The number that a value is or spells; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None
