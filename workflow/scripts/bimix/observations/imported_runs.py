"""From the losses of runs to the two tables: which run is of which mixture, what was evaluated
twice, what fits together.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import polars as pl

from bimix.errors import InputError
from bimix.observations.imported_metrics import Loss
from bimix.tables import read_table

REPEATED = ("first", "last")
COLUMNS = {
    "mixture": pl.String,
    "seed": pl.String,
    "step": pl.Int64,
    "domain": pl.String,
    "loss": pl.Float64,
    "parameters": pl.Float64,
}


def read_runs(path: Path) -> dict[str, tuple[str, str]]:
    """{run: (mixture, seed)} of a table with the columns run, mixture and, where mixtures were
    trained again, seed.

    Errors: a column that is not there, a cell that is empty, a run twice.
    """
    table = read_table(path)
    for column in ("run", "mixture"):
        if column not in table.columns:
            raise InputError(f"{path} has no column {column!r}: it needs run, mixture, and seed of repeated runs.")
    columns = ["run", "mixture", *(["seed"] if "seed" in table.columns else [])]
    found: dict[str, tuple[str, str]] = {}
    for number, (run, mixture, *seed) in enumerate(table.select(pl.col(columns).cast(pl.String)).iter_rows(), 2):
        if run is None or mixture is None or seed == [None]:
            raise InputError(f"{path}, line {number}: a cell is empty: it needs {', '.join(columns)}.")
        if run in found:
            raise InputError(f"{path}, line {number}: run {run!r} is there twice.")
        found[run] = (mixture, *seed) if seed else (mixture, "")
    return found


def losses_of(
    losses: Sequence[Loss], runs: Mapping[str, tuple[str, str]] | None, rename: Mapping[str, str], repeated: str | None
) -> tuple[pl.DataFrame, list[str]]:
    """(mixture, seed, step, domain, loss, parameters; remarks): of the runs that are named, under
    the domains' new names.

    `runs`: {run: (mixture, seed)}; None: each is a mixture of its own. `seed` and `parameters` are
    there where one is given. Evaluations at step 0 are left out. Errors: a run that is not in the
    log, two losses of one step where `repeated` is None.
    """
    remarks = []
    there = dict.fromkeys(loss.run for loss in losses)
    if runs is not None:
        absent = [run for run in runs if run not in there]
        if absent:
            raise InputError(f"--runs names {absent[0]!r}, of which there are no losses; there are {few(there)}.")
        left = [run for run in there if run not in runs]
        if left:
            remarks.append(f"Left out, for --runs does not name them: {few(left)}.")
    strange = [name for name in rename if name not in {loss.domain for loss in losses}]
    if strange:
        known = dict.fromkeys(loss.domain for loss in losses)
        raise InputError(f"--rename names {strange[0]!r}, of which there are no losses; there are {few(known)}.")
    kept: dict[tuple, Loss] = {}
    twice: Counter[str] = Counter()
    begun = 0
    for loss in losses:
        if runs is not None and loss.run not in runs:
            continue
        if loss.step == 0:
            begun += 1
            continue
        mixture, seed = (loss.run, "") if runs is None else runs[loss.run]
        key = (mixture, seed, loss.step, rename.get(loss.domain, loss.domain), loss.parameters)
        before = kept.get(key)
        if before is not None and before.loss != loss.loss:
            if repeated is None:
                raise InputError(
                    f"{loss.place}: mixture {mixture!r} has two losses of {key[3]!r} at step {loss.step}, {before.loss:g}"
                    f" ({before.place}) and {loss.loss:g}: choose by --repeated first or last, or give runs of one mixture"
                    " a seed each in --runs."
                )
            twice[loss.run] += 1
        if before is None or repeated == "last":
            kept[key] = loss
    if twice:
        remarks.append(f"Evaluated twice at a step, the {repeated} was taken: {few(twice)}.")
    if begun:
        remarks.append(f"{begun} losses at step 0, before any training, are left out.")
    kept = dict(sorted(kept.items(), key=lambda one: (*one[0][:4], one[0][4] or 0)))
    rows = [(*key[:4], loss.loss, key[4]) for key, loss in kept.items()]
    table = pl.DataFrame(rows, schema=COLUMNS, orient="row")
    unset = [] if (table["seed"] != "").any() else ["seed"]
    return table.drop(unset if table["parameters"].count() else [*unset, "parameters"]), remarks


def match(losses: pl.DataFrame, mixtures: pl.DataFrame, name: str) -> list[str]:
    """Remarks on what is in one of two tidy tables only.

    Errors: a mixture with losses and no proportions.
    """
    known = mixtures["mixture"].cast(pl.String).unique(maintain_order=True).to_list()
    used = losses["mixture"].unique(maintain_order=True).to_list()
    lacking = [mixture for mixture in used if mixture not in known]
    if lacking:
        raise InputError(
            f"{name} has no mixture {lacking[0]!r}, of which there are losses; it has {few(known)}: call runs and mixtures"
            " alike, or say by --runs which run is of which mixture."
        )
    remarks = []
    untrained = [mixture for mixture in known if mixture not in used]
    if untrained:
        remarks.append(f"There are no losses of these mixtures: {few(untrained)}.")
    domains = mixtures["domain"].cast(pl.String).unique().to_list()
    others = [domain for domain in losses["domain"].unique(maintain_order=True) if domain not in domains]
    if others:
        remarks.append(
            f"No mixture trains on these domains of losses: {few(others)}. Where they are others' names, use --rename."
        )
    return remarks


def few(names: Iterable[str]) -> str:
    names = [str(name) for name in names]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
