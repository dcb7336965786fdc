"""Who makes which mixture, and from what.

`source_of` is the one list. A mixture either comes without a training, is found while a model
trains, or is the optimum of a fitted law. All functions take the checked and completed config.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from bimix.errors import InputError
from bimix.laws.table import LAWS, SWARM_LAWS, is_optimum
from bimix.plan.runs import first_updates, schedule_tokens
from bimix.plan.search import FOUND, GROUP, round_of

MEASURES = ("se", "je", "ce", "vne")
REWEIGHTING = ("doremi", "doge")
# Rules over the tokens there are; chameleon needs a run of the proxy on the uniform mixture.
BY_TOKENS = ("temperature", "unimax")
SIMPLE = (*BY_TOKENS, "chameleon")
# The mixture of the best run of a search: of the group under `optimum`, of the swarm.
BEST = ("best", "best_swarm")

# What a mixture costs to find, by the kind of source that makes it: of mixtures that tie the
# cheaper is recommended. Token shares, equal shares, what needs no run, what one or two runs of a
# proxy find, what a search finds.
TOKEN_SHARES, EQUAL, GIVEN, REWEIGHTED, SEARCHED = range(5)
RANKS = {
    "mix_baseline": TOKEN_SHARES,
    "mix_uniform": EQUAL,
    "mix_tokens": GIVEN,
    "mix_wanted": GIVEN,
    "mix_entropy": GIVEN,
    "mix_given": GIVEN,
    "mix_published": GIVEN,
    "mix_observed": GIVEN,
    "mix_swarm": GIVEN,
    "mix_chameleon": REWEIGHTED,
    "mix_reweighted": REWEIGHTED,
    "mix_round": SEARCHED,
    "mix_found": SEARCHED,
    "mix_best": SEARCHED,
    "optimize_mixture": SEARCHED,
}


# Rules by hand for wanted domains: the epochs of these, and how the rest is mixed.
WANTED = re.compile(r"wanted_([1-9]\d*)(?:_(uniform|kin))?")


def wanted_rule(mixture: str) -> tuple[int, str] | None:
    """Epochs of the wanted domains, and the rule of the rest: reference, uniform or kin; None of
    another name.
    """
    found = WANTED.fullmatch(mixture)
    return (int(found[1]), found[2] or "reference") if found else None


def wanted_names(config: dict, dataset: str) -> list[str]:
    """The rules by hand that a dataset knows: none where its objective wants no domain more than
    others.
    """
    if not has_wanted(config["datasets"][dataset]):
        return []
    epochs = config["mixtures"]["wanted"]["epochs"]
    return [f"wanted_{one}{rest}" for rest in ("", "_uniform", "_kin") for one in epochs]


def wanted_rivals(config: dict, dataset: str) -> list[str]:
    """Those of them that every verdict has: with `epochs` of `mixtures/wanted/rivals`, the rest in
    the reference's shares. Beyond `max_epochs` two would be one.
    """
    if not has_wanted(config["datasets"][dataset]):
        return []
    most = config["datasets"][dataset]["optimum"].get("max_epochs", float("inf"))
    epochs = config["mixtures"]["wanted"]["rivals"]
    return [f"wanted_{one}" for one in epochs if one <= most] or [f"wanted_{min(epochs)}"]


def has_wanted(block: dict) -> bool:
    """Whether the objective of a dataset's block wants some of its training domains more than other
    losses. The block may be unchecked.
    """
    weights = loss_weights(block)
    domains = block.get("domains")
    named = [name for name in (domains if isinstance(domains, list) else ()) if weights.get(str(name), 0) > 0]
    return bool(named) and (len(named) < len(domains) or len(set(weights.values())) > 1)


def loss_weights(block: dict) -> dict[str, float]:
    """{loss domain: weight} of a dataset's objective; empty where all weigh the same. What is no
    number is left out, as the block may be unchecked.
    """
    optimum = block.get("optimum")
    objective = optimum.get("objective") if isinstance(optimum, dict) else None
    parts = [one for one in (objective, optimum) if isinstance(one, dict)]
    weights = next((one["weights"] for one in parts if isinstance(one.get("weights"), dict)), {})
    families = next((one["families"] for one in parts if isinstance(one.get("families"), dict)), {})
    families = {name: members for name, members in families.items() if isinstance(members, list) and members}
    if families and not weights:
        weights = dict.fromkeys(families, 1.0)
    sound = {name: one for name, one in weights.items() if type(one) in (int, float)}
    return {
        str(domain): one / len(families.get(name, [name]))
        for name, one in sound.items()
        for domain in families.get(name, [name])
    }


@dataclass(frozen=True)
class Fit:
    """A law fitted to a group of a model's runs, and the step that its optimum is for."""

    model: str
    law: str
    group: str
    step: int


@dataclass(frozen=True)
class Source:
    """The rule that makes a mixture; `fit` where that mixture is the optimum of a law."""

    rule: str
    fit: Fit | None = None


def source_of(config: dict, dataset: str, mixture: str) -> Source:
    """What makes a dataset's mixture.

    Errors: no rule makes it; the swarm is missing or too small for the law.
    """
    block = config["datasets"][dataset]
    if is_optimum(mixture):
        return Source("optimize_mixture", _fit(config, dataset, mixture))
    if "observations" in block:
        return Source("mix_observed")
    if mixture == "baseline":
        return Source("mix_baseline")
    if mixture == "uniform":
        return Source("mix_uniform")
    if mixture in SIMPLE:
        return Source("mix_tokens" if mixture in BY_TOKENS else "mix_chameleon")
    if wanted_rule(mixture) is not None and has_wanted(block):
        return Source("mix_wanted")
    if "search" in block and mixture in block["groups"][GROUP] and round_of(mixture):
        return Source("mix_round")
    if "search" in block and mixture == FOUND:
        return Source("mix_found")
    if mixture in BEST:
        searched_runs(config, dataset, mixture)
        return Source("mix_best")
    if mixture == "vne" and "vectors" not in block:
        raise InputError(f"config: datasets/{dataset}: the mixture vne needs document vectors: name it in a group.")
    if mixture in MEASURES:
        return Source("mix_entropy")
    if mixture in block.get("mixture_files", {}):
        return Source("mix_given")
    if mixture in block.get("stages", {}):
        return Source("mix_stages")
    if mixture.startswith("published_") and "published" in block:
        return Source("mix_published")
    if mixture in block["groups"].get("swarm", ()):
        return Source("mix_swarm")
    if re.fullmatch(r"doge|doremi(_round[1-9]\d*)?", mixture) and "reweighting" in block:
        return Source("mix_reweighted")
    raise InputError(f"config: datasets/{dataset}: no mixture {mixture!r} can be made of this dataset.")


def rank(config: dict, dataset: str, mixture: str) -> int:
    """What a mixture costs to find; of stages the dearest of theirs."""
    rule = source_of(config, dataset, mixture).rule
    if rule == "mix_stages":
        return max(rank(config, dataset, one) for one in staged_names(config, dataset, mixture))
    return observed_rank(mixture) if rule == "mix_observed" else RANKS[rule]


def observed_rank(mixture: str, shares: Mapping[str, float] | None = None) -> int:
    """That of a mixture that was trained elsewhere, by its name and its shares."""
    if is_optimum(mixture) or mixture in BEST:
        return SEARCHED
    if mixture == "baseline":
        return TOKEN_SHARES
    equal = bool(shares) and max(shares.values()) - min(shares.values()) < 1e-6
    return EQUAL if mixture == "uniform" or equal else GIVEN


def ranks(config: dict, dataset: str) -> dict[str, int]:
    """That of all mixtures in the dataset's groups."""
    names = [name for group in config["datasets"][dataset]["groups"].values() for name in group]
    return {name: rank(config, dataset, name) for name in dict.fromkeys(names)}


def from_swarm(config: dict, dataset: str, mixture: str) -> bool:
    """Whether a mixture is the optimum of a law that is fitted to the dataset's swarm."""
    if "swarm" not in config["datasets"][dataset]:
        return False
    of_law = mixture in SWARM_LAWS and mixture not in config["laws"]["optimise"]
    return of_law or (mixture.endswith("_swarm") and is_optimum(mixture))


def swarm_lack(config: dict, dataset: str, mixture: str) -> str | None:
    """Why a mixture cannot be found with the dataset's swarm: its law needs more runs; None: it
    can, or has no need.
    """
    if not from_swarm(config, dataset, mixture):
        return None
    block, law = config["datasets"][dataset], mixture.removesuffix("_swarm")
    domains, runs = len(block["domains"]), block["swarm"]["runs"]
    least = LAWS[law].least_runs(domains)
    if runs >= least:
        return None
    return f"{mixture!r} needs a swarm of {least} runs at least for {domains} domains; `swarm` has {runs} runs."


def _fit(config: dict, dataset: str, mixture: str) -> Fit:
    """The fit behind an optimised mixture: to the swarm, or to the group under `optimum`."""
    block, law = config["datasets"][dataset], mixture.removesuffix("_swarm")
    if not from_swarm(config, dataset, mixture):
        if mixture != law:
            raise InputError(f"config: datasets/{dataset}: {mixture!r} needs a block `swarm` in the dataset.")
        if "models" in block["optimum"] and not LAWS[law].over_sizes:
            raise InputError(f"config: datasets/{dataset}/optimum/models: {one_size(law)}")
        return Fit(block["optimum"]["model"], law, block["optimum"]["group"], block["optimum"]["step"])
    lack = swarm_lack(config, dataset, mixture)
    if lack is not None:
        raise InputError(f"config: datasets/{dataset}/swarm/runs: {lack}")
    return Fit(block["swarm"]["model"], law, "swarm", block["swarm"]["step"])


def unjudged(config: dict, dataset: str, best: str) -> str | None:
    """Why runs of a search do not say which of them is best by the objective; None: they do."""
    block = config["datasets"][dataset]
    objective = block["optimum"].get("objective", {})
    kind, reference = objective.get("kind", "weighted"), objective.get("reference")
    group = "swarm" if best == "best_swarm" else block["optimum"].get("group")
    if best == "best" and "stage" in block["optimum"]:
        return "the runs under `optimum` differ in a stage, and 'best' is one mixture for the whole run: leave it out."
    if kind == "weighted" or reference in block["groups"].get(group, []):
        return None
    return (
        f"{best!r} is judged by the objective {kind}, against the losses of {reference!r}, which the group {group} has not:"
        " name it there, or leave the best of the runs out."
    )


def searched_runs(config: dict, dataset: str, best: str) -> tuple[str, str, int]:
    """Model, group and step of the runs whose best mixture that is.

    Errors: there is no swarm; nothing measured says which is best.
    """
    block = config["datasets"][dataset]
    fault = unjudged(config, dataset, best)
    if fault is not None:
        raise InputError(f"config: datasets/{dataset}: {fault}")
    optimum = block["optimum"]
    if best == "best" and "models" in optimum:  # the largest says most of a larger one
        model = optimum["models"][-1]
        return model, optimum["group"], block["training"][model]["steps"]
    if best == "best":
        return optimum["model"], optimum["group"], optimum["step"]
    if "swarm" not in block:
        raise InputError(f"config: datasets/{dataset}: {best!r} needs a block `swarm` in the dataset.")
    return block["swarm"]["model"], "swarm", block["swarm"]["step"]


def searched_losses(config: dict, dataset: str, best: str) -> str:
    """The losses of those runs."""
    model, group, _ = searched_runs(config, dataset, best)
    return f"results/{dataset}/losses/{model}/{group}.parquet"


def searched_mixtures(config: dict, dataset: str, best: str) -> str:
    """Their mixtures."""
    return f"results/{dataset}/mixtures/groups/{searched_runs(config, dataset, best)[1]}.parquet"


def searched_step(config: dict, dataset: str, best: str) -> int:
    """The step at which they are compared."""
    return searched_runs(config, dataset, best)[2]


def hand_reference(config: dict, dataset: str, wanted: str) -> list[str]:
    """The mixture whose shares the rest of a rule by hand has: the reference under `compare`, or
    token shares where that is itself found or made by hand; none of other rules.
    """
    first = config["datasets"][dataset]["compare"]["mixtures"][0]
    if wanted_rule(wanted)[1] != "reference":
        return []
    needs = is_optimum(first) or wanted_rule(first) or round_of(first) or first in (*BEST, *REWEIGHTING, FOUND)
    return [f"results/{dataset}/mixtures/{'baseline' if needs else first}.json"]


def rules_without_runs(config: dict, dataset: str) -> list[str]:
    """The mixtures that a search starts from and nobody has to search for; all of them where none
    is such.
    """
    start = config["datasets"][dataset]["search"]["start"]
    plain = [name for name in start if name in ("baseline", "uniform", *BY_TOKENS) or wanted_rule(name)]
    return plain or start


def kin_table(dataset: str, wanted: str) -> list[str]:
    """What a rule by hand weighs the rest by: how well their text predicts the wanted one's."""
    return [f"results/{dataset}/cross_entropy.csv"] if wanted_rule(wanted)[1] == "kin" else []


def staged_names(config: dict, dataset: str, staged: str) -> list[str]:
    """The mixtures of the stages of a mixture under `stages`."""
    return [stage["mixture"] for stage in config["datasets"][dataset]["stages"][staged]]


def staged_mixtures(config: dict, dataset: str, staged: str) -> list[str]:
    """Their files."""
    return [f"results/{dataset}/mixtures/{name}.json" for name in staged_names(config, dataset, staged)]


def staged_shares(config: dict, dataset: str, staged: str) -> list[float]:
    """Their shares of the run."""
    return [stage["share"] for stage in config["datasets"][dataset]["stages"][staged]]


def fitted_stage(config: dict, dataset: str, group: str) -> list[int]:
    """The stage, from 1, in which alone the mixtures of a group differ, as `optimum/stage` says of
    those that laws are fitted to and scored on; none of another group.
    """
    block = config["datasets"][dataset]
    of_stage = "stage" in block["optimum"] and group in (block["optimum"]["group"], *block.get("held_out", []))
    return [block["optimum"]["stage"]] if of_stage else []


def stage_begins(config: dict, dataset: str, model: str, group: str) -> list[int]:
    """The updates before that stage in a model's runs of the group; none of another group."""
    stage = fitted_stage(config, dataset, group)
    if not stage:
        return []
    first, block = config["datasets"][dataset]["groups"][group][0], config["datasets"][dataset]
    shares = staged_shares(config, dataset, first)
    return [first_updates(shares, block["training"][model]["steps"], f"{first}, {model}")[stage[0] - 1]]


def one_size(law: str) -> str:
    """Why a law is not fitted to models of several sizes."""
    others = ", ".join(name for name, other in LAWS.items() if other.over_sizes)
    return f"{law!r} is fitted to losses of one size of model; over several sizes there is {others}."


def compared_tokens(config: dict, dataset: str) -> int | str:
    """Tokens of a run of the model under `compare`; `none` where it was trained elsewhere."""
    if "observations" in config["datasets"][dataset]:
        return "none"
    return schedule_tokens(config, dataset, config["datasets"][dataset]["compare"]["model"])


def embedding_weights(config: dict, dataset: str) -> str:
    """The weights that embed the domains for chameleon: the proxy's, trained on the uniform
    mixture.
    """
    optimum = config["datasets"][dataset]["optimum"]
    return f"results/{dataset}/runs/{optimum.get('models', [optimum['model']])[0]}/uniform/model.safetensors"


def observed_names(config: dict) -> list[str]:
    """Mixtures that observed datasets name in groups and under `compare`, without optima."""
    observed = [block for block in config["datasets"].values() if "observations" in block]
    groups = [
        names
        for block in observed
        for names in (*block["groups"].values(), block["compare"]["mixtures"], block.get("methods", []))
    ]
    names = {name for group in groups for name in group}
    return sorted(name for name in names if not is_optimum(name))
