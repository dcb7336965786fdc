"""The grammar of mixture names: the table SOURCES of the rules that make mixtures, the names of rounds,
groups and rules by hand, and the names that a dataset's groups may use.

A mixture needs no training, is found while a model trains, or is the optimum of a fitted law. Names
of rounds are static, so that all can be planned: round1, or round1 and round1_2 with two mixtures
per round. A round after the end of the search repeats the one before, and needs no training. Group
`search` has all runs of a search, `search_2` those before round 3.

Settings calls this with blocks that have their defaults and are not yet complete.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from bimix.laws.table import LAWS, OPTIMUM, SWARM_LAWS, is_optimum
from bimix.mixtures.by_hand import wanted_domains

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


@dataclass(frozen=True, eq=False)
class MixtureNames:
    """A dataset of the config, as far as the names of its mixtures go."""

    config: Mapping = field(repr=False)
    name: str

    @property
    def block(self) -> dict:
        return self.config["datasets"][self.name]

    @property
    def observed(self) -> bool:
        """Whether its losses were measured elsewhere."""
        return "observations" in self.block

    @property
    def groups(self) -> dict[str, list[str]]:
        return self.block["groups"]

    @property
    def compared(self) -> list[str]:
        """The mixtures under `compare`, the reference first."""
        return self.block["compare"]["mixtures"]

    def from_swarm(self, mixture: str) -> bool:
        """Whether a mixture is the optimum of a law fitted to the dataset's swarm."""
        of_law = mixture in SWARM_LAWS and mixture not in self.config["laws"]["optimise"]
        return "swarm" in self.block and (of_law or mixture in [f"{law}_swarm" for law in LAWS])

    def swarm_lack(self, mixture: str) -> str | None:
        """The reason why the swarm is too small for a mixture's law; None where it is not."""
        if not self.from_swarm(mixture):
            return None
        domains, runs = len(self.block["domains"]), self.block["swarm"]["runs"]
        least = LAWS[mixture.removesuffix("_swarm")].least_runs(domains)
        lack = f"{mixture!r} needs a swarm of {least} runs at least for {domains} domains; `swarm` has {runs} runs."
        return lack if runs < least else None


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
    known: Callable[["MixtureNames"], Iterable[str]] = lambda dataset: ()
    makes: Callable[["MixtureNames", str], bool] | None = None
    needs: str = ""
    plain: bool = False

    def is_of(self, dataset: "MixtureNames", mixture: str) -> bool:
        """Whether it makes that mixture for a dataset."""
        if self.pattern is None:
            return mixture in self.known(dataset)
        if not re.fullmatch(self.pattern, mixture):
            return False
        return self.makes(dataset, mixture) if self.makes else not self.needs or self.needs in dataset.block


def always(rule: str, rank: int, *names: str, needs: str = "", plain: bool = False) -> Source:
    """A source of fixed names for every dataset, or for those with the block that it `needs`."""
    return Source(
        rule, rank, "|".join(names), lambda own: names if not needs or needs in own.block else (), None, needs, plain
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


def known_names(dataset: "MixtureNames", published: Iterable[str]) -> list[str]:
    """Mixtures that groups may use, without the swarm's; `published`: names in that table."""
    names = (published if source.rule == "mix_published" else source.known(dataset) for source in SOURCES)
    return [name for own in names for name in own]


def lack(dataset: "MixtureNames", mixture: str) -> str:
    """What a dataset of text lacks for a mixture of that kind; empty where the name is of no such kind."""
    source = next((source for source in SOURCES if source.needs and re.fullmatch(source.pattern, mixture)), None)
    if source is None or group_of(mixture):
        return ""
    if WANTED.fullmatch(mixture):
        wants = has_wanted(dataset.block)
        return "" if wants else f"{mixture} needs domains with more weight than the rest; all weigh the same."
    if source.needs in dataset.block:
        return ""
    return f"{mixture} needs the block `{source.needs}`, which the dataset has not."


def published_table(named: str, home: str) -> str:
    """The table under `published`: a path, or the name of one of the workflow's, in `home`."""
    return named if named.endswith(".csv") else f"{home}resources/mixtures/{named}.csv"


def plain(mixture: str) -> bool:
    """Whether a mixture's name is that of an obvious rule."""
    return any(source.plain and re.fullmatch(source.pattern, mixture) for source in SOURCES)


def observed_rank(mixture: str) -> int:
    """The rank of a mixture that was trained elsewhere: its name says only whether it is an optimum."""
    return SEARCHED if is_optimum(mixture) or mixture in BEST else GIVEN


def optima_of(dataset: "MixtureNames") -> list[str]:
    """Optima that a dataset's groups may name."""
    fitted = [law for law in LAWS if law not in SWARM_LAWS]
    fitted += [f"{law}_of_{group}" for group in own_groups(dataset.block) for law in LAWS]
    if "swarm" in dataset.block:
        return [*fitted, *SWARM_LAWS, *(f"{law}_swarm" for law in LAWS)]
    return fitted + [law for law in SWARM_LAWS if law in dataset.config["laws"]["optimise"]]


def own_groups(block: dict) -> list[str]:
    """The groups under `groups` in a user's block, of a completed one too."""
    others = {"compare", "swarm"} | (groups_of(block) if search_runs(block) else {}).keys()
    return [name for name in block.get("groups", ()) if name not in others]


def group_of(mixture: str) -> str | None:
    """The group that an optimum names as {law}_of_{group}; None where it names none."""
    found = OPTIMUM.fullmatch(mixture)
    return found and found[2]


def wanted_rule(mixture: str) -> tuple[int, str] | None:
    """Epochs of the wanted domains and the rule for the rest; None for another name."""
    found = WANTED.fullmatch(mixture)
    return (int(found[1]), found[2] or "reference") if found else None


def wanted_names(dataset: "MixtureNames") -> list[str]:
    """The rules by hand of a dataset; none where its objective wants no domain more than others."""
    epochs = EPOCHS if has_wanted(dataset.block) else ()
    return [f"wanted_{one}{rest}" for rest in ("", "_uniform", "_kin") for one in epochs]


def has_wanted(block: dict) -> bool:
    """Whether the objective of a block wants some training domains, not all (`wanted_domains`)."""
    domains = list(block.get("domains", []))
    wanted = wanted_domains(loss_weights(block), domains, [*domains, *at(block, "corpus/validation_only")])
    return bool(wanted.any() and not wanted.all())


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
    whole = {"start", "rounds", "of"} <= block.get("search", {}).keys()
    return groups_of(block)[GROUP] if whole else []


def search_names(block: dict) -> list[str]:
    """The mixtures that a dataset's search makes, its answer last."""
    runs = search_runs(block)
    return [*runs[len(block["search"]["start"]) :], FOUND] if runs else []


def at(block: dict, path: str) -> dict:
    """An entry of a dataset's block; an empty one where there is none."""
    for key in path.split("/"):
        block = block.get(key, {})
    return block
