"""The checks of what a dataset's mixture is to be best at, and of what its draws are around."""

from collections.abc import Sequence

from bimix.names import unknown
from bimix.plan.laws import is_optimum
from bimix.plan.sources import BEST
from bimix.settings.block import BlockChecker
from bimix.settings.complete import known_mixtures, swarm_names, unsearched


def check(dataset: BlockChecker, answering: Sequence[str] | None) -> None:
    """Weights, families, a reference and a centre that nothing stands behind, keys of another kind
    of objective, a trust region without tokens, two objectives that are one.

    `answering`: domains with losses, None where they are not known.
    """
    _metrics(dataset)
    if dataset.sound("optimum/weights"):
        weights = dataset.block["optimum"]["weights"]
        if weights and not any(weights.values()):
            dataset.fault("optimum", "weights", sentence="all weights are 0: one at least must be above 0.")
    families: dict = {}
    if dataset.sound("optimum/objective"):
        families = dataset.block["optimum"]["objective"].get("families", {})
        _objective(dataset, answering)
    if dataset.sound("centre"):
        _centre(dataset)
    if dataset.sound("strengths") and (between := dataset.block["strengths"])[0] > between[1]:
        dataset.fault("strengths", sentence=f"{between[0]:g} is above {between[1]:g}: the least strength comes first.")
    if dataset.sound("optimum/pareto"):
        _pareto(dataset, families, answering)


def _metrics(dataset: BlockChecker) -> None:
    """The law bimix knows nothing of a loss that is not trained on; losses and metrics have no
    common average.
    """
    given = isinstance(dataset.block.get("observations"), dict) and "metrics" in dataset.block["observations"]
    if not given or not dataset.sound("observations/metrics") or dataset.dataset not in dataset.checker.wanted:
        return
    if dataset.sound("optimum"):
        optimum = dataset.block["optimum"]
        if not ({"weights", "families"} & {*optimum.get("objective", {})}) and not optimum.get("weights"):
            dataset.fault(
                *("observations", "metrics"),
                sentence="losses in nats and metrics in units of their own have no common average: say what the mixture is to"
                " be best at, by `weights` under `optimum`, or by `families` of its `objective`.",
            )
    for key in ("optimise", "compare"):
        if dataset.sound_elsewhere(f"laws/{key}") and "bimix" in dataset.config["laws"][key]:
            dataset.fault(
                *("observations", "metrics"),
                sentence=f"the law bimix (in laws/{key}) has losses of training domains only; name other laws there, such as"
                " transfer.",
            )


def _objective(dataset: BlockChecker, answering: Sequence[str] | None) -> None:
    optimum = dataset.block["optimum"]
    objective = optimum["objective"]
    kind, families = objective.get("kind", "weighted"), objective.get("families", {})
    key = ("optimum", "objective")
    if "weights" in optimum and ({"weights", "families"} & objective.keys()):
        dataset.fault(
            "optimum", "weights", sentence="`objective` has weights or families of its own; say them there only."
        )
    of: dict[str, str] = {}
    for family, members in families.items():
        for number, domain in enumerate(members):
            if answering is not None and domain not in answering:
                dataset.fault(*key, "families", family, number, sentence=unknown("loss of", domain, answering))
            elif domain in of:
                sentence = f"{domain} is in {of[domain]} as well; leave it in one family."
                dataset.fault(*key, "families", family, number, sentence=sentence)
            of.setdefault(domain, family)
    weights, known = objective.get("weights", {}), list(families) or answering
    for name in weights if known is not None else ():
        if name not in known:
            sentence = unknown("family" if families else "loss of", name, known)
            dataset.fault(*key, "weights", name, sentence=sentence)
    if weights and not any(weights.values()):
        dataset.fault(*key, "weights", sentence="all weights are 0: one at least must be above 0.")
    if "margin" in objective and kind != "no_worse_than":
        dataset.fault(*key, "margin", sentence=f"it is of the kind no_worse_than; {kind} has none.")
    _reference(dataset, kind, objective.get("reference"))
    observed = dataset.block.get("observations")
    unknown_shares = isinstance(observed, dict) and "tokens" not in observed and "centre" not in dataset.block
    if objective.get("trust") and unknown_shares:
        dataset.fault(
            *(*key, "trust"),
            sentence="name a table of domain and tokens as `tokens` under `observations`: it is not known how many there"
            " are.",
        )


def _reference(dataset: BlockChecker, kind: str, name: str | None) -> None:
    """What the optimum is measured against must be there before it."""
    if not dataset.sound("compare/mixtures", "groups"):
        return
    compared = dataset.block["compare"]["mixtures"]
    if name is None:
        first = compared[0] if compared else ""
        if kind != "weighted" and is_optimum(str(first)):
            sentence = f"name one: the first mixture under `compare`, {first}, is an optimum itself."
            dataset.fault("optimum", "objective", sentence=f"`reference` is missing; {sentence}")
        return
    known = _known(dataset)
    if known is not None and name not in known:
        dataset.fault("optimum", "objective", "reference", sentence=unknown("mixture", name, known))
    elif kind != "weighted":
        methods = dataset.block.get("methods") if dataset.sound("methods") else None
        judged = methods
        if methods and "observations" not in dataset.block:
            judged = [*methods, *unsearched(dataset.config, dataset.dataset)]
        for key, names in (("compare/mixtures", compared), ("methods", judged)):
            if names and name not in names:
                sentence = f"{name} is not under `{key}`: add it, as runs are measured against its losses."
                dataset.fault("optimum", "objective", "reference", sentence=sentence)


def _centre(dataset: BlockChecker) -> None:
    """What the draws are around must be there before the runs."""
    known = _known(dataset) if dataset.sound("compare/mixtures", "groups") else None
    if known is None:
        return
    drawn = swarm_names(dataset.config, dataset.dataset) if "observations" not in dataset.block else []
    known = [one for one in known if one not in (*drawn, *BEST)]
    if dataset.block["centre"] not in known:
        dataset.fault("centre", sentence=unknown("mixture", dataset.block["centre"], known))


def _known(dataset: BlockChecker) -> list[str] | None:
    """Mixtures that are no optimum of a law; None where it is not known which there are."""
    compared = dataset.block["compare"]["mixtures"]
    if "observations" in dataset.block:
        lists = [names for names in dataset.block["groups"].values() if isinstance(names, list)]
        known = list(dict.fromkeys(str(one) for names in (*lists, compared) for one in names))
    elif dataset.sound_elsewhere("mixtures", "laws/optimise"):
        known = known_mixtures(dataset.config, dataset.dataset, dataset.checker.code)
        known += swarm_names(dataset.config, dataset.dataset) if dataset.sound("swarm") else []
    else:
        return None
    return [one for one in known if not is_optimum(one)]


def _pareto(dataset: BlockChecker, families: dict, answering: Sequence[str] | None) -> None:
    pair = dataset.block["optimum"]["pareto"]
    for number, one in enumerate(pair if answering is not None else []):
        if isinstance(one, str) and one not in families and one not in answering:
            sentence = unknown("family or loss of", one, [*families, *answering])
            dataset.fault("optimum", "pareto", number, sentence=sentence)
        for name in one if isinstance(one, dict) else ():
            if name not in answering:
                dataset.fault("optimum", "pareto", number, name, sentence=unknown("loss of", name, answering))
    if pair[0] == pair[1]:
        dataset.fault("optimum", "pareto", sentence="both objectives are the same; name two.")
