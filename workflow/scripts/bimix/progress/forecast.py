"""How long the trainings of a call will take, at the pace of those that run."""

from collections.abc import Iterable

from bimix.progress.readings import Reading
from bimix.progress.work import Work


def seconds_left(trainings: Iterable[tuple[Work, Reading | None]]) -> float | None:
    """Seconds until the last of these trainings ends, where as many as now run to the end.

    Of each training its work and what its log says last, None where it has not begun. None where no
    log tells a pace, or where all have begun: each tells its own time then.
    """
    flops = pace = 0.0
    waiting = False
    for work, reading in trainings:
        waiting |= reading is None
        flops += work.flops * (1 - (reading.share if reading is not None else 0.0))
        if reading is not None and reading.tokens_per_second:
            pace += reading.tokens_per_second * work.flops / work.tokens
    return flops / pace if waiting and pace else None
