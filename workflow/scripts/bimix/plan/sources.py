"""The table SOURCES of the rules that make mixtures. The constraints of wildcards, the names that
groups may use and the checks follow from it.

A mixture needs no training, is found while a model trains, or is the optimum of a fitted law. Names
of rounds are static, so that all can be planned: round1, or round1 and round1_2 with two mixtures
per round. A round after the end of the search repeats the one before, and needs no training. Group
`search` has all runs of a search, `search_2` those before round 3.

Settings calls this with blocks that are typed but not yet completed.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bimix.laws.table import LAWS, OPTIMUM, SWARM_LAWS, is_optimum

if TYPE_CHECKING:
    from bimix.plan.dataset import Dataset

REWEIGHTING = ("doremi", "doge")
# Mixtures of the best run of a search: in the group under `optimum`, in the swarm.
BEST = ("best", "best_swarm")
# Rules by hand for wanted domains: their epochs, and the rule for the rest.
WANTED = re.compile(r"wanted_([1-9]\d*)(?:_(uniform|kin))?")
EPOCHS, RIVALS = [2, 4, 8, 12, 16], [4, 8]  # that lists may name, and those that a search starts from
ROUND = re.compile(r"round([1-9]\d*)(?:_([2-9]))?")
FOUND = "found"  # the answer of a search by rounds
GROUP = "search"
LEAST_FLOPS = 10**6  # of a budget: a smaller number counts runs

# Ranks by the cost of finding a mixture; among ties the cheapest is recommended. Token shares,
# equal shares, no run, one or two proxy runs, a search.
TOKEN_SHARES, EQUAL, GIVEN, REWEIGHTED, SEARCHED = range(5)


@dataclass(frozen=True)
class Source:
    """A rule that makes mixtures, their rank by search cost, and their names.

    `pattern` None: the user's names; `known`: the names that a dataset's groups may use; `makes`:
    whether it makes one of that pattern for a dataset, None: if the dataset has the key that it
    `needs`. `plain`: an obvious rule, which a search that starts from it must beat.
    """

    rule: str
    rank: int | None  # None: of stages, the dearest of theirs
    pattern: str | None
    known: Callable[["Dataset"], Iterable[str]] = lambda dataset: ()
    makes: Callable[["Dataset", str], bool] | None = None
    needs: str = ""
    plain: bool = False

    def is_of(self, dataset: "Dataset", mixture: str) -> bool:
        """Whether it makes that mixture for a dataset."""
        if self.pattern is None:
            return mixture in self.known(dataset)
        if not re.fullmatch(self.pattern, mixture):
            return False
        return self.makes(dataset, mixture) if self.makes else self.needs in ("", *dataset.block)


def always(rule: str, rank: int, *names: str, needs: str = "", plain: bool = False) -> Source:
    """A source of fixed names for every dataset, or for those with the block that it `needs`."""
    return Source(
        rule, rank, "|".join(names), lambda own: names if needs in ("", *own.block) else (), None, needs, plain
    )


SOURCES = [
    always("mix_tokens", TOKEN_SHARES, "baseline", plain=True),
    always("mix_uniform", EQUAL, "uniform", plain=True),
    always("mix_tokens", GIVEN, "temperature", "unimax", plain=True),
    Source(
        "mix_wanted",
        GIVEN,
        WANTED.pattern,
        known=lambda dataset: wanted_names(dataset),
        makes=lambda dataset, mixture: has_wanted(dataset.block),
        needs="optimum/weights",
        plain=True,
    ),
    Source(
        "mix_round",
        SEARCHED,
        ROUND.pattern,
        known=lambda dataset: search_names(dataset.block)[:-1],
        makes=lambda dataset, mixture: mixture in search_names(dataset.block),
        needs="search",
    ),
    Source("mix_found", SEARCHED, FOUND, lambda dataset: search_names(dataset.block)[-1:], needs="search"),
    always("mix_entropy", GIVEN, "se", "je", "ce", "vne"),
    Source("mix_published", GIVEN, "published_.*", needs="published"),
    Source("mix_given", GIVEN, None, lambda dataset: dataset.block.get("mixture_files", ())),
    Source("mix_stages", None, None, lambda dataset: dataset.block.get("stages", ())),
    always("mix_given", REWEIGHTED, *REWEIGHTING, needs="reweighting"),
    Source("mix_swarm", GIVEN, r"swarm_\d+", makes=lambda dataset, mixture: mixture in dataset.groups.get("swarm", ())),
    Source("mix_best", SEARCHED, "|".join(BEST)),
    Source(
        "optimize_mixture",
        SEARCHED,
        OPTIMUM.pattern,
        known=lambda dataset: optima_of(dataset),
        makes=lambda dataset, mixture: group_of(mixture) in (None, *own_groups(dataset.block)),
        needs="swarm",
    ),
]
# All mixtures of observed datasets except optima.
OBSERVED = Source("mix_observed", None, None)
OBSERVED_BY_HAND = Source("mix_by_hand", GIVEN, WANTED.pattern)


def known_names(dataset: "Dataset", published: Iterable[str]) -> list[str]:
    """Mixtures that groups may use, without the swarm's; `published`: names in that table."""
    names = (published if source.rule == "mix_published" else source.known(dataset) for source in SOURCES)
    return [name for own in names for name in own]


def lack(dataset: "Dataset", mixture: str) -> tuple[str, str]:
    """The key without which a dataset of text has no mixture of that kind, and what is wrong with it;
    both empty where the name is of no such kind.
    """
    source = next((one for one in SOURCES if one.needs and re.fullmatch(one.pattern, mixture)), None)
    if source is None or (WANTED.fullmatch(mixture) and has_wanted(dataset.block)):
        return "", ""
    if group_of(mixture):
        return "groups", ""
    if WANTED.fullmatch(mixture):
        key = "optimum/objective" if "objective" in dataset.block["optimum"] else source.needs
        return key, f"{mixture} needs domains with more weight than the rest; all weigh the same."
    there = source.needs in dataset.block
    return source.needs, "" if there else f"{mixture} needs the block `{source.needs}`, which the dataset has not."


def published_table(named: str, home: str) -> str:
    """The table under `published`: a path, or the name of one of the workflow's, in `home`."""
    return named if named.endswith(".csv") else f"{home}resources/mixtures/{named}.csv"


def plain(mixture: str) -> bool:
    """Whether a mixture's name is that of an obvious rule."""
    return any(source.plain and re.fullmatch(source.pattern, mixture) for source in SOURCES)


def constraint(datasets: Collection["Dataset"], rule: str) -> str:
    """The mixtures that a rule may make for any dataset, as the constraint of its wildcard."""
    own = (source for source in SOURCES if source.rule == rule)
    return "|".join(one.pattern or one_of({name for each in datasets for name in one.known(each)}) for one in own)


def rank(dataset: "Dataset", mixture: str) -> int:
    """The rank of a mixture by search cost."""
    source = dataset.source(mixture)
    if source is OBSERVED:
        return observed_rank(mixture)
    return max(rank(dataset, one) for one in dataset.staged(mixture)) if source.rank is None else source.rank


def observed_rank(mixture: str) -> int:
    """The rank of a mixture that was trained elsewhere: its name says only whether it is an optimum."""
    return SEARCHED if is_optimum(mixture) or mixture in BEST else GIVEN


def taken(dataset: "Dataset") -> list[str]:
    """Mixtures that an observed dataset names, in groups or alone, without optima."""
    block = dataset.block
    alone = [block.get("centre"), block["optimum"].get("objective", {}).get("reference")]
    lists = (*dataset.groups.values(), dataset.compared, filter(None, alone))
    return sorted({name for names in lists for name in names if not is_optimum(name)})


def observed_names(datasets: Collection["Dataset"]) -> list[str]:
    """Mixtures of all observed datasets."""
    return sorted({name for dataset in datasets if dataset.observed for name in taken(dataset)})


def by_hand_datasets(datasets: Collection["Dataset"]) -> str:
    """A wildcard constraint: observed datasets, unless the rule by hand was run there."""
    named = {dataset.name: filter(wanted_rule, taken(dataset)) for dataset in datasets if dataset.observed}
    found = [re.escape(name) + rf"(?!/mixtures/(?:{one_of(names)})\.json)" for name, names in named.items()]
    return "|".join(found) or one_of(())


def optima_of(dataset: "Dataset") -> list[str]:
    """Optima that a dataset's groups may name."""
    fitted = [law for law in LAWS if law not in SWARM_LAWS]
    fitted += [f"{law}_of_{group}" for group in own_groups(dataset.block) for law in LAWS]
    if "swarm" in dataset.block:
        return [*fitted, *SWARM_LAWS, *(f"{law}_swarm" for law in LAWS)]
    return fitted + [law for law in SWARM_LAWS if law in dataset.config["laws"]["optimise"]]


def own_groups(block: dict) -> list[str]:
    """The groups under `groups` in a user's block, of a completed one too."""
    others = {"compare", "methods", "swarm"} | (groups_of(block) if search_runs(block) else {}).keys()
    return [name for name in block.get("groups", ()) if name not in others]


def group_of(mixture: str) -> str | None:
    """The group that an optimum names as {law}_of_{group}; None where it names none."""
    found = OPTIMUM.fullmatch(mixture)
    return found and found[2]


def wanted_rule(mixture: str) -> tuple[int, str] | None:
    """Epochs of the wanted domains and the rule for the rest; None for another name."""
    found = WANTED.fullmatch(mixture)
    return (int(found[1]), found[2] or "reference") if found else None


def wanted_names(dataset: "Dataset") -> list[str]:
    """The rules by hand of a dataset; none where its objective wants no domain more than others."""
    epochs = EPOCHS if has_wanted(dataset.block) else ()
    return [f"wanted_{one}{rest}" for rest in ("", "_uniform", "_kin") for one in epochs]


def has_wanted(block: dict) -> bool:
    """Whether the objective of a block wants some training domains, not all (`wanted_domains`)."""
    weights, domains = loss_weights(block), list(block.get("domains", []))
    losses = [weights.get(name, 0) for name in (*domains, *at(block, "corpus/validation_only"))]
    above = sum(losses) / len(losses) * (1 + 1e-9) if losses and min(losses) > 0 else 0
    return len({weights.get(name, 0) > above for name in domains}) == 2


def loss_weights(block: dict) -> dict[str, float]:
    """{loss domain: weight} of an objective, a family's weight divided; empty: all equal."""
    optimum = block.get("optimum", {})
    objective = optimum.get("objective", {})
    families = objective.get("families", {})
    weights = objective.get("weights", optimum.get("weights", {})) or dict.fromkeys(families, 1.0)
    members = {name: families.get(name, [name]) for name in weights}
    return {domain: weights[name] / len(own) for name, own in members.items() for domain in own}


def round_of(mixture: str) -> int | None:
    """The number of the round that proposes a mixture, or None."""
    found = ROUND.fullmatch(mixture)
    return int(found[1]) if found else None


def round_names(number: int, count: int) -> list[str]:
    return [f"round{number}", *(f"round{number}_{place}" for place in range(2, count + 1))]


def is_of_search(run: str) -> bool:
    """Whether a search makes the name of a run, whose mixture may be that of another run."""
    return run.partition("@")[0] == FOUND or round_of(run.partition("@")[0]) is not None


def runs_of(budget: float | str | None) -> float | None:
    """The number of runs that a budget is; None where it is FLOPs or a share of the large run."""
    number = LEAST_FLOPS if budget is None or "%" in str(budget) else float(budget)
    return number if number < LEAST_FLOPS else None


def rounds(block: dict) -> range:
    """The numbers of the rounds: as many as are requested and a budget of runs holds."""
    search, most = block["search"], block["search"]["rounds"]
    if (runs := runs_of(search.get("budget"))) is not None:
        most = min(most, max((int(runs) - len(search["start"])) // search["of"], 1))
    return range(1, 1 + most)


def groups_of(block: dict) -> dict[str, list[str]]:
    """The groups of a search by name; none of a dataset without one."""
    if "search" not in block:
        return {}
    groups, runs = {}, list(block["search"]["start"])
    for number in rounds(block):
        groups[f"{GROUP}_{number - 1}"] = list(runs)
        runs += round_names(number, block["search"]["of"])
    return groups | {GROUP: runs}


def search_runs(block: dict) -> list[str]:
    """The mixtures that a search trains the proxy on; the block may not be completed."""
    whole = {"start", "rounds", "of"} <= set(block.get("search", {}))
    return groups_of(block)[GROUP] if whole else []


def search_names(block: dict) -> list[str]:
    """The mixtures that a dataset's search makes, its answer last."""
    runs = search_runs(block)
    return [*runs[len(block["search"]["start"]) :], FOUND] if runs else []


# Entries of the config by path, keys joined by slashes, and what a wildcard may be


def entry_at(config: dict, path: str, wildcards: Mapping[str, str], default: object = None) -> object:
    """The entry at a path that may hold {wildcards}; a `default` but None where there is none.
    Errors: KeyError. Snakemake's `lookup` walks the whole config: 3 ms for each parameter of each
    job.
    """
    found = config
    for key in path.format(**wildcards).split("/"):
        key = int(key) if isinstance(found, list) else key
        if default is not None and not (isinstance(found, dict) and key in found):
            return default
        found = found[key]
    return found


def at(block: dict, path: str) -> dict:
    """An entry of a dataset's block; an empty one where there is none."""
    for key in path.split("/"):
        block = block.get(key, {})
    return block


def one_of(names: Iterable[str]) -> str:
    """A wildcard constraint that takes just these names; of none it matches nothing."""
    return "|".join(map(re.escape, names)) or "(?!)"


def names_under(config: dict, path: str, but: Iterable[str] = ()) -> str:
    """A wildcard constraint: the names at a path in any dataset's block, but for some."""
    return one_of({name for block in config["datasets"].values() for name in at(block, path)} - set(but))


def datasets_with(config: dict, path: str, but: str | None = None) -> str:
    """A wildcard constraint: the datasets with an entry at a path, and none at another."""
    blocks = config["datasets"].items()
    return one_of(name for name, block in blocks if at(block, path) and not (but and at(block, but)))
