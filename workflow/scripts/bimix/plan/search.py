"""A search by rounds: its mixtures, the groups of its runs, what each round reads.

The mixtures of a round are round1, of two a round round1 and round1_2. All are planned at once; a
round after the search has ended is the one before again, whose training costs nothing. Group
`search` has all runs, `search_2` those before round 3.
"""

import re

ROUND = re.compile(r"round([1-9]\d*)(?:_([2-9]))?")
FOUND = "found"
GROUP = "search"
LEAST_FLOPS = 10**6  # of a budget: a smaller number counts runs


def round_of(mixture: str) -> int | None:
    """The number of the round that proposes a mixture; None: none does."""
    found = ROUND.fullmatch(mixture)
    return int(found[1]) if found else None


def is_of_search(run: str) -> bool:
    """Whether a run, with its seed or without, is named by a search: such a name may stand for the
    mixture of another one.
    """
    mixture = run.partition("@")[0]
    return mixture == FOUND or round_of(mixture) is not None


def proposed_in(block: dict, number: int) -> list[str]:
    """The mixtures of a round."""
    return [f"round{number}" + (f"_{place}" if place > 1 else "") for place in range(1, block["search"]["of"] + 1)]


def counts_runs(budget: object) -> bool:
    """Whether a budget is a number of runs; else FLOPs, or a share of the large run."""
    return isinstance(budget, int | float) and budget < LEAST_FLOPS


def rounds(block: dict) -> range:
    """The numbers of the rounds: as many as are asked for and a budget of runs holds."""
    search, numbers = block["search"], range(1, 1 + block["search"]["rounds"])
    if not counts_runs(search.get("budget")):
        return numbers
    return numbers[: max((int(search["budget"]) - len(search["start"])) // search["of"], 1)]


def budget_plan(config: dict, dataset: str) -> list[str]:
    """What runs cost, for a budget of FLOPs."""
    budget = config["datasets"][dataset]["search"].get("budget")
    return [] if budget is None or counts_runs(budget) else [f"results/{dataset}/plan.csv"]


def budget_flags(config: dict, dataset: str) -> list[str]:
    """A budget of FLOPs as words of a command, of the proxies and beside the large run."""
    block = config["datasets"][dataset]
    if not budget_plan(config, dataset):
        return []
    proxies = block["optimum"].get("models", [block["optimum"]["model"]])
    return ["--budget", str(block["search"]["budget"]), "--large", block["compare"]["model"], "--offered", *proxies]


def mixtures_before(block: dict, number: int) -> list[str]:
    """The mixtures that are run before a round."""
    return [*block["search"]["start"], *(name for one in range(1, number) for name in proposed_in(block, one))]


def groups_of(block: dict) -> dict[str, list[str]]:
    """The groups of a search by name; none of a dataset without one."""
    if "search" not in block:
        return {}
    last = rounds(block)[-1]
    return {f"{GROUP}_{number - 1}": mixtures_before(block, number) for number in rounds(block)} | {
        GROUP: mixtures_before(block, last + 1)
    }


def search_names(block: dict) -> list[str]:
    """The mixtures that a dataset's search makes, its answer last; the block may be unchecked."""
    search = block.get("search")
    if not isinstance(search, dict):
        return []
    count, of = search.get("rounds"), search.get("of")
    if type(count) is not int or of not in (1, 2) or not isinstance(search.get("start"), list):
        return []
    return [*(name for number in rounds(block) for name in proposed_in(block, number)), FOUND]


def search_runs(block: dict) -> list[str]:
    """The mixtures that a search trains the proxy on; the block may be unchecked."""
    names = search_names(block)[:-1]
    return [*(block["search"]["start"] if names else ()), *names]


def losses_before(dataset: str, model: str, round: str) -> str:
    """The losses of the runs before a round."""
    return f"results/{dataset}/losses/{model}/{GROUP}_{int(round) - 1}.parquet"


def mixtures_tabled_before(dataset: str, round: str) -> str:
    """Their mixtures."""
    return f"results/{dataset}/mixtures/groups/{GROUP}_{int(round) - 1}.parquet"


def reports_before(dataset: str, model: str, round: str) -> list[str]:
    """What each earlier round expected."""
    return [f"results/{dataset}/search/{model}/{number}/report.json" for number in range(1, int(round))]


def all_reports(config: dict, dataset: str, model: str) -> list[str]:
    """What all rounds expected."""
    numbers = rounds(config["datasets"][dataset])
    return [f"results/{dataset}/search/{model}/{number}/report.json" for number in numbers]


def proposals_with(config: dict, dataset: str, proposed: str) -> str:
    """The table in which a round's mixture is proposed."""
    model = config["datasets"][dataset]["optimum"]["model"]
    return f"results/{dataset}/search/{model}/{round_of(proposed)}/next.csv"
