"""How many parameters the models of runs have: a number for all, a column of the table, or a table
of names.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bimix.errors import InputError
from bimix.observations.imported_metrics import Loss, as_number
from bimix.tables import read_json


def with_parameters(losses: Sequence[Loss], given: str | None) -> list[Loss]:
    """The losses with the parameters of their models.

    `given`: a number, or the JSON file of {name: parameters}, where a name is what the log calls a
    size, else the run or its file; None: the log's sizes are the numbers. Errors: a name that is
    not there, or has no number above 0.
    """
    if given is None and not any(loss.size for loss in losses):
        return list(losses)
    number = as_number(given)
    names = read_json(Path(given)) if given is not None and number is None else {}
    return [loss._replace(parameters=_parameters(loss, number, names, given)) for loss in losses]


def _parameters(loss: Loss, number: float | None, names: Mapping[str, object], given: str | None) -> float:
    name = loss.size or loss.run
    value = number if number is not None else names.get(name) if given else name
    if given and number is None and name not in names:
        raise InputError(f"{given} has no {name!r}, the size of the model of {loss.place}; it has {', '.join(names)}.")
    found = as_number(value)
    if found is None or not 0 < found < float("inf"):
        where = f"{given}, key {name!r}" if names else (given and "--parameters") or loss.place
        raise InputError(
            f"{where}: {value!r} is no number of parameters: it must be above 0, or a name that the JSON of --parameters"
            " has."
        )
    return found
