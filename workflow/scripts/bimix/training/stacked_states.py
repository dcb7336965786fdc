"""States of runs that are trained at once: joined as they begin, parted as they are saved.

A checkpoint of a run is that of the run alone, whoever wrote it.
"""

from collections.abc import Sequence

from bimix.errors import InputError
from bimix.model.stacked import part_moments, stack_moments

OWN = ("taken", "before", "history", "seconds")  # of a state, that each run has for itself


def join(names: Sequence[str], states: Sequence[dict]) -> dict:
    """One state of runs that stand at the same step; what each has for itself becomes a list.

    Errors: they stand at several.
    """
    steps = {name: state["step"] for name, state in zip(names, states, strict=True)}
    if len(set(steps.values())) > 1:
        told = ", ".join(f"{name} {step}" for name, step in steps.items())
        raise InputError(f"Runs that are trained at once would go on from different updates ({told}); start again.")
    joined = {"step": states[0]["step"]} | {key: [state[key] for state in states] for key in OWN}
    if "optimizer" in states[0]:
        joined["optimizer"] = stack_moments([state["optimizer"] for state in states])
    return joined | {key: states[0][key] for key in ("fitted",) if key in states[0]}


def part(state: dict, model: dict, optimizer: dict, seconds: float, number: int) -> dict:
    """What a checkpoint of one run holds, of the `state` of all, its own `model` and the
    `optimizer` of all; `seconds` are its share of this attempt.
    """
    own = {key: value for key, value in state.items() if key not in OWN}
    own |= {key: state[key][number] for key in OWN} | {"model": model, "optimizer": part_moments(optimizer, number)}
    return own | {"method": {}, "seconds": state["seconds"][number] + seconds}
