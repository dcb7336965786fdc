"""The trainer_state.json that Hugging Face's Trainer writes: a list `log_history` of what was
logged at which step.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from bimix.errors import InputError
from bimix.observations.imported_metrics import Loss, Pattern, as_loss, as_step
from bimix.tables import read_json


def read_trainer(path: Path, pattern: Pattern) -> Iterator[Loss]:
    """The losses of a run, called as the folder of its file, or the one above that of a checkpoint.

    Errors: no list `log_history`, no metric that fits.
    """
    log = read_json(path).get("log_history")
    if not isinstance(log, list) or not all(isinstance(entry, dict) for entry in log):
        raise InputError(f"{path} has no list 'log_history': it is no trainer_state.json.")
    found = pattern.domains(dict.fromkeys(key for entry in log for key in entry), path)
    folder = path.resolve().parent
    name = (folder.parent if re.fullmatch(r"checkpoint-\d+", folder.name) else folder).name
    for number, entry in enumerate(log, 1):
        for metric, domain in found.items():
            if metric in entry:
                place = f"{path}, entry {number} of log_history"
                step = as_step(entry.get("step"), f"{place}, key 'step'")
                here = f"{place}, key {metric!r}"
                yield Loss(name, step, domain, as_loss(entry[metric], here), here)
