"""The laws by name, and what planning has to know of each: a law is entered
here and in its own module.
"""

from collections.abc import Callable
from typing import NamedTuple


class Planned(NamedTuple):
    """What planning has to know of a law."""

    # The least number of mixtures, of m training domains: with fewer, losses do not determine its
    # numbers.
    least_runs: Callable[[int], int]
    # Whether its optimum is refused with fewer; else what is lacking is decided by
    # its bounds or its ridge.
    refuses_few: bool
    # Whether it predicts steps that it has not seen; else it is fitted at single steps.
    over_steps: bool
    # How its optimum is found: power_sum, convex, searched from many starts, or simulated, which
    # draws around shares of tokens.
    optimum: str
    # Whether it is fitted to the runs of models of several sizes, and says what another size does.
    over_sizes: bool = False
    # Whether it has losses of domains that nothing trains on.
    measured_only: bool = True
    # Its optimum minimises the mean prediction and so much KL(r || token shares).
    trust: float = 0.0
    # Its optimum reads no domain more often, where the user sets no other number.
    most_epochs: float = float("inf")
    # Whether it is a formula of a few numbers, which the page to play with computes in a browser
    # (results/explore_page/laws.js).
    drawn: bool = True


# Below ten mixtures LightGBM splits nothing and predicts their mean, and folds say little. Olmix:
# arXiv 2602.12237 has the weight 0.05 and four epochs.
LAWS: dict[str, Planned] = {
    "bimix": Planned(lambda m: 2, refuses_few=False, over_steps=True, optimum="power_sum", measured_only=False),
    "transfer": Planned(lambda m: 2, refuses_few=False, over_steps=True, optimum="convex", over_sizes=True),
    "exponential": Planned(lambda m: m + 2, refuses_few=True, over_steps=False, optimum="convex"),
    "olmix": Planned(
        lambda m: m + 2, refuses_few=True, over_steps=False, optimum="convex", trust=0.05, most_epochs=4.0
    ),
    "mariner": Planned(lambda m: 10, refuses_few=True, over_steps=False, optimum="searched"),
    "scheffe": Planned(lambda m: 10, refuses_few=True, over_steps=False, optimum="searched"),
    "gaussian_process": Planned(lambda m: 10, refuses_few=True, over_steps=False, optimum="searched", drawn=False),
    "regmix": Planned(lambda m: 10, refuses_few=True, over_steps=False, optimum="simulated", drawn=False),
    "regmix_tuned": Planned(lambda m: 10, refuses_few=True, over_steps=False, optimum="simulated", drawn=False),
}

# Joins the names of the models of several sizes, where the name of one stands in paths; no model's
# name may hold it.
JOINS = "+"

# Laws whose mixture comes from the swarm, where there is one; of the others {law}_swarm does. The
# swarm is measured at one step.
SWARM_LAWS = tuple(name for name, law in LAWS.items() if not law.over_steps)


def is_optimum(mixture: str) -> bool:
    """Whether a name is that of a law's optimum. A run on one that is added to a table of
    observations tests the law, and the group `all` leaves it out: the law would be fitted to it,
    and another mixture would take its name.
    """
    return mixture.removesuffix("_swarm") in LAWS


def optimised_laws(config: dict, dataset: str) -> list[str]:
    """Laws that are fitted to the group under `optimum`; to models of several sizes only those over
    sizes.
    """
    several = "models" in config["datasets"][dataset]["optimum"]
    return [law for law in config["laws"]["optimise"] if LAWS[law].over_sizes or not several]
