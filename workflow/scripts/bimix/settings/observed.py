"""Checks of a dataset of losses measured elsewhere, and of its tables."""

from bimix.errors import InputError
from bimix.laws.table import LAWS, is_optimum
from bimix.names import named
from bimix.settings.disk import file_fault
from bimix.settings.optima import NO_TOKENS, run_faults, single_laws, step_faults
from bimix.settings.scope import Faults, Scope


def check_first(scope: Scope) -> Faults:
    first = scope.block.compare.mixtures[0]
    if is_optimum(first):
        sentence = f"{first!r} is what a law finds now, and a run of that name may have had other proportions: name"
        yield ("compare", "mixtures", 0), f"{sentence} another mixture first, with which all others are compared."


def check_metrics(scope: Scope) -> Faults:
    """Losses and metrics have no common average; the law bimix has losses of training domains."""
    key, optimum = "observations/metrics", scope.block.optimum
    objective = optimum.objective
    if not scope.wanted:
        return
    if not (optimum.weights or (objective and (objective.weights is not None or objective.families is not None))):
        sentence = "losses in nats and metrics in units of their own have no common average: say what the mixture is to"
        yield key, f"{sentence} be best at, by `weights` under `optimum`, or by `families` of its `objective`."
    for name in ("optimise", "compare"):
        for law in getattr(scope.config.laws, name) or ():
            if not LAWS[law].measured_only:
                sentence = f"the law {law} (in laws/{name}) has losses of training domains only; name other laws there,"
                yield key, f"{sentence} such as transfer."


def check_epochs(scope: Scope) -> Faults:
    if not scope.block.observations.tokens:
        yield "optimum/max_epochs", NO_TOKENS


def check_tables(scope: Scope) -> Faults:
    """The tables of a dataset that is to be built: rows that are refused, runs that laws cannot be
    fitted to. Their domains and mixtures go into the scope.
    """
    from bimix.observations import metrics, tables
    from bimix.observations.observations import observations

    given = scope.block.observations
    if not scope.wanted:
        return
    paths = {name: path for name, path in scope.own["observations"].items() if isinstance(path, str)}
    missing = [(("observations", name), fault) for name, path in paths.items() if (fault := file_fault(path))]
    yield from missing
    if missing:
        return
    allowed, lower = given.allow_unmeasured or (), given.lower_is_better or ()
    try:
        mixtures = tables.read_mixtures(given.mixtures)
        losses = metrics.read_with_metrics(given.losses, mixtures.names("domain"), given.metrics, lower)
        scope.answering, scope.trained = losses.names("domain"), mixtures.names("domain")
        shares = set(mixtures.names("mixture"))
        scope.measured = [name for name in losses.names("mixture") if name in shares]
        for key, read in (("losses", losses), ("mixtures", mixtures)):
            if read.remark:
                yield ("observations", key), read.remark, True
        for remark in observations(losses.table, mixtures.table, (given.losses, given.mixtures), allowed).remarks:
            yield "observations/losses", remark, True
    except InputError as error:
        yield "observations", str(error)
        if scope.measured is None:
            return
    proposed = [name for name in losses.names("mixture") if is_optimum(name)]
    if proposed and "all" in (scope.block.groups or {}).values():
        sentence = f"{', '.join(proposed)}: called as what a law proposes, so the group `all` leaves it out of the fit."
        yield "observations/losses", sentence, True
    if scope.sound("optimum/step", "optimum/group", "groups", "/laws/optimise"):
        yield from _fit_faults(scope, losses.table)


def _fit_faults(scope: Scope, losses: object) -> Faults:
    """Faults of the fitted runs; a law over sizes reads their ends, and so no steps."""
    own, names = scope.block.groups.get(scope.block.optimum.group), scope.measured
    fitted = [name for name in names if (not is_optimum(name) if own == "all" else name in (own or ()))]
    if not losses["step"].dtype.is_integer():
        return
    rows = losses.filter(losses["mixture"].cast(str).is_in(fitted))
    measured = rows["step"].drop_nulls().unique().sort().to_list()
    if "parameters" in rows.columns and rows["parameters"].drop_nulls().n_unique() > 1:
        if single := single_laws(scope):
            sentence = f"its losses are of models of several sizes, and {named(single)} (in laws/optimise) is fitted to"
            yield "optimum/group", f"{sentence} one: name transfer alone there, or the runs of one model here."
    elif measured:
        yield from step_faults(scope, measured)
    if own == "all" or set(own or ["-"]) <= set(names):
        yield from run_faults(scope, len(fitted), len(scope.trained))
