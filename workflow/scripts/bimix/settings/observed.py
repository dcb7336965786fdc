"""Checks of a dataset of losses measured elsewhere, and of its tables."""

from collections.abc import Iterator

from bimix.errors import InputError
from bimix.laws.table import LAWS, is_optimum
from bimix.names import named, unknown
from bimix.settings.disk import file_fault
from bimix.settings.faults import Fault
from bimix.settings.optima import run_faults, single_laws, step_faults
from bimix.settings.scope import Scope

Faults = Iterator[Fault]


def check_first(scope: Scope) -> Faults:
    first = scope.block.compare.mixtures[0]
    if is_optimum(first):
        yield Fault(
            ("compare", "mixtures", 0),
            f"{first!r} is what a law finds now, and a run of that name may have had other proportions: name another"
            " mixture first, with which all others are compared.",
        )


def check_metrics(scope: Scope) -> Faults:
    """Losses and metrics have no common average; the law bimix has losses of training domains."""
    key, optimum = ("observations", "metrics"), scope.block.optimum
    if not scope.wanted:
        return
    objective = optimum.objective
    if not (optimum.weights or (objective and (objective.weights is not None or objective.families is not None))):
        yield Fault(
            key,
            "losses in nats and metrics in units of their own have no common average: say what the mixture is to be"
            " best at, by `weights` under `optimum`, or by `families` of its `objective`.",
        )
    for name in ("optimise", "compare"):
        for law in getattr(scope.config.laws, name) or ():
            if not LAWS[law].measured_only:
                sentence = f"the law {law} (in laws/{name}) has losses of training domains only; name other laws there,"
                yield Fault(key, f"{sentence} such as transfer.")


def check_epochs(scope: Scope) -> Faults:
    if not scope.block.observations.tokens:
        sentence = (
            "name a table of domain and tokens as `tokens` under `observations`: it is not known how many there are."
        )
        yield Fault(("optimum", "max_epochs"), sentence)


def check_tables(scope: Scope) -> Faults:
    """The tables of a dataset that is to be built: rows that are refused, names that the config
    uses and they have not, runs that laws cannot be fitted to. Their domains go into the scope.
    """
    from bimix.observations import metrics, tables
    from bimix.observations.observations import observations

    given = scope.block.observations
    if not scope.wanted:
        return
    paths = {name: path for name, path in scope.own["observations"].items() if isinstance(path, str)}
    missing = [fault for name, path in paths.items() if (fault := file_fault(("observations", name), path))]
    yield from missing
    if missing:
        return
    allowed, lower = given.allow_unmeasured or (), given.lower_is_better or ()
    try:
        mixtures = tables.read_mixtures(given.mixtures)
        losses = metrics.read_with_metrics(given.losses, mixtures.names("domain"), given.metrics, lower)
    except InputError as error:
        yield Fault(("observations",), str(error))
        return
    for key, read in (("losses", losses), ("mixtures", mixtures)):
        if read.remark:
            yield Fault(("observations", key), read.remark, remark=True)
    scope.answering, scope.trained = losses.names("domain"), mixtures.names("domain")
    try:
        for remark in observations(losses.table, mixtures.table, (given.losses, given.mixtures), allowed).remarks:
            yield Fault(("observations", "losses"), remark, remark=True)
    except InputError as error:
        yield Fault(("observations",), str(error))
    proposed = [name for name in losses.names("mixture") if is_optimum(name)]
    if proposed and "all" in (scope.block.groups or {}).values():
        sentence = f"{', '.join(proposed)}: called as what a law proposes, so the group `all` leaves it out of the fit."
        yield Fault(("observations", "losses"), sentence, remark=True)
    shares = set(mixtures.names("mixture"))
    names = [name for name in losses.names("mixture") if name in shares]
    for key, own in scope.lists():
        for number, mixture in enumerate(own):
            if mixture not in names:
                there = f"{given.losses} and {given.mixtures} both have"
                yield Fault((*key, number), unknown("mixture", mixture, names, there))
    if scope.sound("optimum/step", "optimum/group", "groups", "/laws/optimise"):
        yield from _fit_faults(scope, losses.table, names)


def _fit_faults(scope: Scope, losses: object, names: list[str]) -> Faults:
    """Faults of the fitted runs; a law over sizes reads their ends, and so no steps."""
    group = scope.block.optimum.group
    every = scope.block.groups.get(group) == "all"
    fitted = [name for name in names if (not is_optimum(name) if every else name in (scope.group(group) or []))]
    if not losses["step"].dtype.is_integer():
        return
    rows = losses.filter(losses["mixture"].cast(str).is_in(fitted))
    measured = rows["step"].drop_nulls().unique().sort().to_list()
    if "parameters" in rows.columns and rows["parameters"].drop_nulls().n_unique() > 1:
        if single := single_laws(scope):
            yield Fault(
                ("optimum", "group"),
                f"its losses are of models of several sizes, and {named(single)} (in laws/optimise) is fitted to one: name"
                " transfer alone there, or the runs of one model here.",
            )
    elif measured:
        yield from step_faults(scope, measured)
    if every or set(scope.group(group) or ["-"]) <= set(names):
        yield from run_faults(scope, len(fitted), len(scope.trained))
