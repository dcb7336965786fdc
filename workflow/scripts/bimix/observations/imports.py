"""From other tools' logs to the two tables: whose run, what was evaluated twice, what fits."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from bimix.errors import InputError
from bimix.observations.logs import (
    Loss,
    Pattern,
    as_number,
    from_table,
    from_tensorboard,
    from_trainer,
    from_wandb,
    pattern,
    read_any,
)
from bimix.observations.metrics import check_lower
from bimix.observations.tables import ROW, Tidy, few, numbered, read_mixtures, tidy_mixtures
from bimix.tables import read_json, read_table

REPEATED = ("first", "last")
COLUMNS = {
    "mixture": pl.String,
    "seed": pl.String,
    "step": pl.Int64,
    "domain": pl.String,
    "loss": pl.Float64,
    "parameters": pl.Float64,
}


class Format(NamedTuple):
    """The form of a tool's logs."""

    pattern: str | None = None  # of the metrics that are losses
    stepped: bool = True  # whether steps and runs are in columns, which flags name
    ratios: str | None = None  # of a swarm: the pattern of the columns that are proportions,
    run: str = ""  # the column of the run,
    ignored: tuple[str, ...] = ()  # and columns that are neither


FORMATS = {
    "table": Format(),
    "wandb": Format(),
    "tensorboard": Format(stepped=False),
    "trainer": Format("eval_{domain}_loss", stepped=False),
    # the first column is pandas' index, which has no name
    "olmix": Format("{domain}", True, "{domain}", "name", ("", "run", "name", "index")),
    "regmix": Format("metric/{domain}_val_loss", True, "train_{domain}", "index", ("index",)),
}
SWARMS = [name for name, form in FORMATS.items() if form.ratios]


class Source(NamedTuple):
    """Logs, the table of their mixtures, and how they are read: flags of import_losses.py."""

    logs: Sequence[Path]
    format: str
    mixtures: Path
    pattern: str | None = None
    ratios: str | None = None
    step: str | None = None
    run: str | None = None
    size: str | None = None
    parameters: str | None = None
    runs: Path | None = None
    rename: Path | None = None
    repeated: str | None = None
    lower_is_better: Collection[str] = ()

    def check(self) -> None:
        """Errors: flags of another format, a pattern that is missing, a log that is named twice."""
        form = FORMATS[self.format]
        if not form.stepped and (self.step or self.run or self.size):
            stepped = ", ".join(name for name, one in FORMATS.items() if one.stepped)
            raise InputError(f"--step, --run and --size are of {stepped}: {self.format} knows its own.")
        if not form.ratios and self.ratios:
            raise InputError(f"--ratios is of {', '.join(SWARMS)}, not of {self.format}.")
        if not (self.pattern or form.pattern):
            raise InputError(f"--format {self.format} needs --pattern, such as eval/{{domain}}/loss.")
        twice = [path for n, path in enumerate(self.logs) if path.resolve() in [p.resolve() for p in self.logs[:n]]]
        if twice:
            raise InputError(f"{twice[0]} is named twice.")


def read_source(source: Source) -> tuple[pl.DataFrame, pl.DataFrame, list[str]]:
    """(losses: mixture, seed, step, domain, loss, parameters; tidy mixtures; remarks). `seed` and
    `parameters` are there where one is given.

    Errors: those of `Source.check`; what cannot be read; what does not fit together.
    """
    source.check()
    form = FORMATS[source.format]
    wanted = pattern(source.pattern or form.pattern)
    runs = _read_runs(source.runs) if source.runs else None
    if form.ratios:
        losses, tidy, remarks = _read_swarm(source, wanted, runs)
    else:
        losses = [loss for path in source.logs for loss in _read_log(source, path, wanted)]
        tidy, remarks = read_mixtures(source.mixtures), []
    rename = read_json(source.rename) if source.rename else {}
    for name, domain in rename.items():
        if not isinstance(domain, str):
            raise InputError(f"{source.rename}: the value of {name!r} is {domain!r}: it must be the name of a domain.")
    table, said = _losses_of(_with_parameters(losses, source.parameters), runs, rename, source.repeated)
    if table.is_empty():
        raise InputError(f"{', '.join(map(str, source.logs[:3]))}: there are no losses after step 0.")
    whole = ", ".join(map(str, source.logs)) if form.ratios and runs is None else None
    said += _match(table, tidy.table, str(source.mixtures), whole)
    return table, tidy.table, [*filter(None, [tidy.remark]), *remarks, *said]


def _read_log(source: Source, path: Path, wanted: Pattern) -> Iterator[Loss]:
    if source.format == "table":
        return from_table(read_any(path), wanted, source.step or "step", source.run, source.size).losses()
    if source.format == "wandb":
        return from_wandb(read_any(path), wanted, source.step, source.run, source.size).losses()
    return {"tensorboard": from_tensorboard, "trainer": from_trainer}[source.format](path, wanted).losses()


def _read_swarm(source: Source, wanted: Pattern, runs: Collection[str] | None) -> tuple[list[Loss], Tidy, list[str]]:
    """(losses, mixtures, remarks on the columns and runs that are taken) of a swarm's tables, which
    may be one. Errors: of a metric more is better, by its name.
    """
    form = FORMATS[source.format]
    run, ratios = source.run or form.run, pattern(source.ratios or form.ratios, "--ratios")
    ignored = {*form.ignored, run, *filter(None, [source.size])}
    losses, remarks = [], []
    for path in source.logs:
        table = read_any(path)
        # in one table, what is a proportion is no metric
        left = ignored | {name for name in table.columns if source.ratios and ratios.domain(name)}
        if source.step and not source.step.isdecimal():
            left |= {source.step}
        if not source.step:
            raise InputError(
                f"{path} has no steps: give the one at which its runs were evaluated, as in --step 10000, or their column."
            )
        log = from_table(table, wanted, source.step, run, source.size, left, runs, whole=True)
        check_lower(log.found, str(path), source.lower_is_better)
        others = [name for name in table.columns if name and name not in log.found]
        remarks.append(
            f"Taken as losses, of which lower is better: {', '.join(log.found)}. Left: {', '.join(others) or 'none'}."
        )
        names = dict.fromkeys(str(row[run]) for _, row in table.rows([run]))
        unnamed = [] if runs is None else [name for name in names if name not in runs]
        if unnamed:
            remarks.append(f"Left out, for --runs does not name them: {few(unnamed)}.")
        losses += log.losses()
    if source.mixtures in source.logs and source.pattern:
        ignored |= {name for name in read_any(source.mixtures).columns if wanted.domain(name)}
    ignored |= {source.step} - {None}
    return losses, _swarm_mixtures(source.mixtures, run, ratios, ignored, source.size is not None), remarks


def _swarm_mixtures(path: Path, run: str, ratios: Pattern, ignored: Collection[str], sized: bool) -> Tidy:
    """The mixtures of a swarm's table, tidy; `sized`: a run may be there once for each size.
    Errors: a run twice, or of other proportions at another size; an empty cell.
    """
    read_any(path).need(run)
    table = numbered(read_table(path), str(path))
    found = ratios.domains([name for name in table.columns if name not in {run, ROW, *ignored}], path)
    place = "row" if path.suffix == ".parquet" else "line"
    seen: dict[str, tuple[tuple, int]] = {}
    for number, name, *shares in table.select(ROW, run, *found).iter_rows():
        if name is None:
            raise InputError(f"{path}, {place} {number}: column {run!r} is empty: it names the run or its size.")
        if None in shares:
            empty = list(found)[shares.index(None)]
            raise InputError(f"{path}, {place} {number}, run {name!r}: column {empty!r} is empty: write 0 for none.")
        first, line = seen.setdefault(name, (tuple(shares), number))
        if line != number and not (sized and first == tuple(shares)):
            raise InputError(f"{path}, {place} {number}: run {name!r} is there twice, first in {place} {line}.")
    table = table.filter(pl.col(ROW).is_in([line for _, line in seen.values()]))
    columns = (pl.col(old).alias(new) for old, new in found.items())
    return tidy_mixtures(table.select(ROW, pl.col(run).cast(pl.String).alias("mixture"), *columns), str(path))


def _read_runs(path: Path) -> dict[str, tuple[str, str]]:
    """{run: (mixture, seed)} of a table with the columns run, mixture and, where mixtures were
    trained again, seed. Errors: a column that is not there, a cell that is empty, a run twice.
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


def _with_parameters(losses: Sequence[Loss], given: str | None) -> list[Loss]:
    """The losses with the parameters of their models.

    `given`: a number, or the JSON file of {name: parameters}, where a name is what the log calls a
    size, else the run or its file; None: the log's sizes are the numbers. Errors: a name that is
    not there, or has no number above 0.
    """
    if given is None and not any(loss.size for loss in losses):
        return list(losses)
    number = as_number(given)
    names = read_json(Path(given)) if given is not None and number is None else {}

    def parameters(loss: Loss) -> float:
        name = loss.size or loss.run
        if given and number is None and name not in names:
            raise InputError(
                f"{given} has no {name!r}, the size of the model of {loss.place}; it has {', '.join(names)}."
            )
        value = number if number is not None else names[name] if given else name
        found = as_number(value)
        if found is None or not 0 < found < float("inf"):
            where = f"{given}, key {name!r}" if names else (given and "--parameters") or loss.place
            raise InputError(
                f"{where}: {value!r} is no number of parameters: it must be above 0, or a name that the JSON of"
                " --parameters has."
            )
        return found

    return [loss._replace(parameters=parameters(loss)) for loss in losses]


def _losses_of(
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


def _match(losses: pl.DataFrame, mixtures: pl.DataFrame, name: str, whole: str | None) -> list[str]:
    """Remarks on what is in one of two tidy tables only, and on the runs of each size.

    `whole`: the logs of a swarm, of which every run is to be there. Errors: a mixture with losses
    and no proportions; of a swarm, one with proportions and no losses.
    """
    known = mixtures["mixture"].cast(pl.String).unique(maintain_order=True).to_list()
    used = losses["mixture"].unique(maintain_order=True).to_list()
    untrained = [mixture for mixture in known if mixture not in used]
    if untrained and whole:
        raise InputError(
            f"{whole} has no run {untrained[0]!r}, which is in {name}: evaluate it, or name by --runs those that count."
        )
    lacking = [mixture for mixture in used if mixture not in known]
    if lacking:
        raise InputError(
            f"{name} has no mixture {lacking[0]!r}, of which there are losses; it has {few(known)}: call runs and mixtures"
            " alike, or say by --runs which run is of which mixture."
        )
    remarks = []
    if whole and "parameters" in losses.columns:
        runs = losses.group_by("parameters").agg(pl.col("mixture").n_unique()).sort("parameters")
        remarks.append(
            "Runs by parameters: " + ", ".join(f"{size:g}: {count}" for size, count in runs.iter_rows()) + "."
        )
    if untrained:
        remarks.append(f"There are no losses of these mixtures: {few(untrained)}.")
    domains = mixtures["domain"].cast(pl.String).unique().to_list()
    others = [domain for domain in losses["domain"].unique(maintain_order=True) if domain not in domains]
    if others:
        remarks.append(
            f"No mixture trains on these domains of losses: {few(others)}. Where they are others' names, use --rename."
        )
    return remarks
