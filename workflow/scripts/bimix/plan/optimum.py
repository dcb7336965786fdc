"""What the optimum of a law is found from, and what it is asked for."""

import json

from bimix.errors import InputError
from bimix.plan.pools import epoch_tokens, token_table
from bimix.plan.runs import schedule_tokens
from bimix.plan.sources import Fit, from_swarm, source_of


def optimum_fit(config: dict, dataset: str, optimised: str) -> Fit:
    """The fit behind an optimised mixture. Errors: it is none; as of `source_of`."""
    fit = source_of(config, dataset, optimised).fit
    if fit is None:
        raise InputError(f"config: datasets/{dataset}: {optimised!r} is not the optimum of a law.")
    return fit


def optimum_coefficients(config: dict, dataset: str, optimised: str) -> str:
    """The file of the fitted law that an optimised mixture comes from."""
    fit = optimum_fit(config, dataset, optimised)
    return f"results/{dataset}/laws/{fit.model}/{fit.law}/{fit.group}/coefficients.json"


def optimum_mixtures(config: dict, dataset: str, optimised: str) -> str:
    """The table of the mixtures that this law was fitted to."""
    return f"results/{dataset}/mixtures/groups/{optimum_fit(config, dataset, optimised).group}.parquet"


def objective_reference(config: dict, dataset: str) -> list[str]:
    """The mixture that the objective is measured against; none without an objective that has
    one.
    """
    objective = config["datasets"][dataset]["optimum"].get("objective", {})
    return [f"results/{dataset}/mixtures/{objective['reference']}.json"] if "reference" in objective else []


def objective_pair(config: dict, dataset: str) -> list[str]:
    """The two objectives under `pareto`, as a script's flag has them: names, or the JSON of
    weights.
    """
    pair = config["datasets"][dataset]["optimum"]["pareto"]
    return [one if isinstance(one, str) else json.dumps(one) for one in pair]


def optimum_step(config: dict, dataset: str, optimised: str) -> int:
    """The step that an optimised mixture is for."""
    return optimum_fit(config, dataset, optimised).step


def optimum_run_tokens(config: dict, dataset: str, optimised: str) -> int | str:
    """Tokens of the run in which an optimum keeps to a number of epochs.

    Of models of several sizes: those of the one that is optimised for. Where small runs repeat as
    the large one will: those of the large one. Of a swarm's optimum:
    those of the run under `optimum`, which no run of the swarm is. Else `none`: they follow from
    the losses that the law was fitted to.
    """
    block = config["datasets"][dataset]
    if "models" in block["optimum"]:
        return schedule_tokens(config, dataset, block["optimum"]["for"])
    if block.get("simulate_epochs"):
        return schedule_tokens(config, dataset, block["compare"]["model"])
    if not from_swarm(config, dataset, optimised):
        return "none"
    rows = block["training"][block["optimum"]["model"]]["batch_rows"]
    return block["optimum"]["step"] * rows * block["sequence_length"]


def law_run_tokens(config: dict, dataset: str, law: str) -> int | str:
    """The same of the intervals of a law's optimum."""
    return optimum_run_tokens(config, dataset, law)


def search_run_tokens(config: dict, dataset: str) -> int | str:
    """The same of a search by rounds."""
    return optimum_run_tokens(config, dataset, config["datasets"][dataset]["search"]["law"])


def optimum_tokens(config: dict, dataset: str, optimised: str) -> list[str]:
    """The tokens there are, by which an optimum counts epochs; a swarm's runs have no stages."""
    return token_table(config, dataset) if from_swarm(config, dataset, optimised) else epoch_tokens(config, dataset)


def proposed_by(config: dict, dataset: str) -> dict[str, dict]:
    """{mixture: {coefficients, step}} of the mixtures under `methods` that a law proposed."""
    names = config["datasets"][dataset]["methods"]
    fits = {name: source_of(config, dataset, name).fit for name in names}
    return {
        name: {"coefficients": optimum_coefficients(config, dataset, name), "step": fit.step}
        for name, fit in fits.items()
        if fit is not None
    }


def laws_of_methods(config: dict, dataset: str) -> list[str]:
    """The files of those laws."""
    return sorted({law["coefficients"] for law in proposed_by(config, dataset).values()})


def centre(config: dict, dataset: str) -> list[str]:
    """The mixture that draws and penalties are around in the place of the shares of the tokens
    that an optimum is given; none: those. An optimum of a stage is given no tokens.
    """
    block = config["datasets"][dataset]
    name = block.get("centre", "baseline" if "stage" in block["optimum"] else None)
    return [f"results/{dataset}/mixtures/{name}.json"] if name else []
