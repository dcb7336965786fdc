"""Checks of a dataset of losses measured elsewhere: its tables, and what laws are fitted to."""

from bimix.blocks import Faults
from bimix.errors import InputError
from bimix.laws.table import LAWS, is_optimum
from bimix.names import named
from bimix.settings.mixtures import run_faults, single_laws, step_faults
from bimix.settings.scope import Scope
from bimix.settings.text import file_fault


def check_tables(scope: Scope) -> Faults:
    """Tables that are not there or cannot be read, before names are looked up in them."""
    paths = {name: path for name, path in scope.block["observations"].items() if isinstance(path, str)}
    missing = [(("observations", name), fault) for name, path in paths.items() if (fault := file_fault(path))]
    yield from missing
    if not missing:
        try:
            _ = scope.tables
        except InputError as error:
            yield "observations", str(error)


def check_settings(scope: Scope) -> Faults:
    """A reference that is an optimum, epochs of domains whose tokens are not known, metrics without
    weights, and metrics with the law bimix, which has losses of training domains.
    """
    first, given, optimum = scope.compared[0], scope.block["observations"], scope.block["optimum"]
    if is_optimum(first):
        sentence = f"{first!r} is what a law finds now, and a run of that name may have had other proportions: name"
        yield ("compare", "mixtures", 0), f"{sentence} another mixture first, with which all others are compared."
    if "max_epochs" in optimum and "tokens" not in given:
        sentence = "name a table of domain and tokens as `tokens` under `observations`: it is not known how many there"
        yield "optimum/max_epochs", f"{sentence} are."
    if not (scope.wanted and "metrics" in given):
        return
    objective = optimum.get("objective", {})
    if not (optimum.get("weights") or objective.get("weights") or objective.get("families")):
        sentence = "losses in nats and metrics in units of their own have no common average: say what the mixture is to"
        yield "observations/metrics", f"{sentence} be best at, by `weights` under `optimum`, or by `families`."
    for name in ("optimise", "compare"):
        for law in scope.config["laws"][name]:
            if not LAWS[law].measured_only:
                sentence = f"the law {law} (in laws/{name}) has losses of training domains only; name other laws there,"
                yield "observations/metrics", f"{sentence} such as transfer."


def check_runs(scope: Scope) -> Faults:
    """Runs of a dataset to be built that no law fits, and epochs that leave no mixture."""
    from bimix.observations.observations import observations

    given, (losses, mixtures) = scope.block["observations"], scope.tables
    for key, read in (("losses", losses), ("mixtures", mixtures)):
        if read.remark:
            yield ("observations", key), read.remark, True
    try:
        observed = observations(losses.table, mixtures.table, (given["losses"], given["mixtures"]))
    except InputError as error:
        yield "observations", str(error)
        return
    for remark in observed.remarks:
        yield "observations/losses", remark, True
    yield from _bounds_fault(scope, observed.tokens_per_step)
    group, proposed = scope.groups[scope.block["optimum"]["group"]], list(filter(is_optimum, losses.names("mixture")))
    if proposed and not all(scope.groups.values()):
        sentence = f"{', '.join(proposed)}: called as what a law proposes, so the group `all` leaves it out of the fit."
        yield "observations/losses", sentence, True
    # a group of all is empty here; a law over sizes reads the ends of runs, and so no steps
    fitted = [name for name in scope.known if (name in group if group else not is_optimum(name))]
    rows = losses.table.filter(losses.table["mixture"].cast(str).is_in(fitted))
    measured = rows["step"].drop_nulls().unique().sort().to_list()
    if "parameters" in rows.columns and rows["parameters"].drop_nulls().n_unique() > 1:
        if single := single_laws(scope):
            sentence = f"its losses are of models of several sizes, and {named(single)} (in laws/optimise) is fitted to"
            yield "optimum/group", f"{sentence} one: name transfer alone there, or the runs of one model here."
    elif measured:
        yield from step_faults(scope, measured)
    yield from run_faults(scope, len(fitted))


def _bounds_fault(scope: Scope, tokens_per_step: float | None) -> Faults:
    """Epochs that leave no mixture at the run of the optimum."""
    from bimix.optimum.bounds import feasible_bounds
    from bimix.tables import read_tokens

    optimum, tokens = scope.block["optimum"], scope.block["observations"].get("tokens")
    if not ("max_epochs" in optimum and tokens and tokens_per_step):
        return
    run_tokens, bounds = optimum["step"] * tokens_per_step, (optimum.get("lower", {}), optimum.get("upper", {}))
    try:
        feasible_bounds(scope.domains, *bounds, optimum["max_epochs"], read_tokens(tokens), run_tokens)
    except InputError as error:
        yield "optimum/max_epochs", str(error)
