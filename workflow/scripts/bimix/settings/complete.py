"""A config made complete: what a dataset's block leaves out, the same for all texts or chosen by
the text and the machine, and what other blocks say for it (`expanded`).

Functions take a config that the models accept, as plain blocks; the completed one is new.
"""

import copy
import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bimix.blocks import Key
from bimix.laws.table import JOINS, LAWS, is_optimum
from bimix.mixtures.names import (
    FOUND,
    GROUP,
    REWEIGHTING,
    RIVALS,
    MixtureNames,
    at,
    groups_of,
    has_wanted,
    known_names,
    published_table,
    search_runs,
)
from bimix.model.shape import UNKNOWN_VOCABULARY
from bimix.settings import ladder
from bimix.settings.ladder import Basis, read_basis, record_path, seen_machine

GROUPS = ("compare", "swarm", GROUP)  # that other blocks than `groups` name
FITTED = "candidates"  # the group that laws are fitted to
COMPARED = ("baseline", "uniform", "ce")
STARTED = ("baseline", "se", "je", "ce", "vne", "uniform")  # the chain's five runs, and equal shares
SAMPLED = 300  # documents of each domain, for its vectors
FASTTEXT = {"vector_size": 300, "sg": 0, "epochs": 5, "alpha": 0.05, "window": 5, "negative": 5, "min_count": 5}
FASTTEXT |= {"min_n": 3, "max_n": 3, "bucket": 10000, "seed": 1}  # as gensim names them
SCHEDULES = {"doremi": {"schedule": "doremi"}, "doge": {}}  # DoReMi's code has one that its step size is made for
HELD_OUT_CHARACTERS = 20_000  # of a document that is held out whole, where the ladder chooses nothing


# The mixtures of a dataset by name


def mixture_lists(block: dict) -> Iterator[tuple[Key, list[str]]]:
    """All lists of mixtures in a dataset's block, by their keys."""
    lists = {("groups", group): names for group, names in block.get("groups", {}).items() if group not in GROUPS}
    lists[("compare", "mixtures")] = block.get("compare", {}).get("mixtures")
    lists[("search", "start")] = block.get("search", {}).get("start")
    return ((key, names) for key, names in lists.items() if names and names != "all")


def published_rows(config: dict, dataset: str, code: Path) -> list[list[str]]:
    """The published table that a dataset names; no rows without one. Errors: it cannot be read."""
    named = config["datasets"][dataset].get("published")
    if named is None:
        return []
    with Path(published_table(named, f"{code}/")).open(encoding="utf-8", newline="") as lines:
        return [row for row in csv.reader(lines) if row]


def known_mixtures(config: dict, dataset: str, code: Path) -> list[str]:
    """Names that a dataset's groups may use, without its swarm's."""
    try:
        header = (published_rows(config, dataset, code) or [[]])[0]
    except (OSError, ValueError):  # a fault of its own
        header = []
    return known_names(MixtureNames(config, dataset), [f"published_{column}" for column in header[1:]])


def swarm_names(config: dict, dataset: str) -> list[str]:
    """Mixtures of a dataset's swarm; none without a swarm."""
    runs = config["datasets"][dataset].get("swarm", {}).get("runs", 0)
    return [f"swarm_{number:04d}" for number in range(1, runs + 1)]


# Trainings in full


def merged_recipe(config: Mapping, settings: Mapping) -> dict:
    """Training settings in full: those of the recipe that `settings` names, with its changes."""
    recipe = {**config["training"].get(settings.get("recipe"), {}), **settings}
    return {key: value for key, value in recipe.items() if key != "recipe"}


def reweighting_training(config: dict, dataset: str, method: str, recipe: dict) -> dict:
    """All training settings of a reweighting: those of a recipe that its changes name, else of
    `recipe`, with the method's own schedule and the dataset's changes, last those for the method.
    """
    settings = config["datasets"][dataset]["reweighting"]
    full = {**SCHEDULES[method], **settings.get("training", {}), **settings.get(method, {})}
    return {**config["training"].get(full.pop("recipe", None), recipe), **full}


# What a dataset leaves out


@dataclass(frozen=True)
class Filled:
    """What a dataset's defaults were estimated from, what the user is told of them, and the
    models if any were chosen.
    """

    basis: Basis
    choice: ladder.Choice | None
    keys: tuple[str, ...] = ()

    def remark(self, dataset: str, block: dict) -> str:
        """A sentence for the user on all that was chosen; nothing where nothing was."""
        values = ", ".join(f"{key} {at(block, key):g}" for key in self.keys)
        if self.choice is None:
            return values and f"datasets/{dataset}: by the size of its text: {values}."
        (small, large), length, machine = block["training"], block["sequence_length"], self.basis.machine
        devices = f"{machine.count} {'GPU' if machine.kind == 'gpu' else 'CPU core'}{'s' * (machine.count > 1)}"
        return (
            f"datasets/{dataset}/models: auto: for {sum(self.basis.sizes.values()) / 1e6:,.3g} MB of text and {devices} the"
            f" proxy is {small}, the larger model {large}, each run {self.choice.steps:,} steps of"
            f" {self.choice.batch_rows} x {length:,} tokens ({self.choice.tokens(length) / 1e6:,.3g}M); kept in"
            f" {record_path(dataset)}{values and f'. Also chosen: {values}'}."
        )


def with_defaults(config: dict, planning: bool = True) -> tuple[dict, dict[str, Filled]]:
    """The config with the defaults of every dataset, and what they were estimated from.

    `planning`: whether sizes are looked up; a job uses those that the call which planned it kept.
    Errors (InputError): a record of what was chosen that cannot be read, GPUs that are not there.
    """
    config = copy.deepcopy(config)
    config["training"] = whole_recipes(config["training"])
    filled = {}
    for name, block in config.get("datasets", {}).items():
        if "observations" in block:
            groups = block.setdefault("groups", {"fitted": "all"})
            block.setdefault("held_out", [])
            if "optimum" in block:
                block["optimum"].setdefault("group", next(iter(groups)))
        elif (found := _Text(config, name, planning).fill()) is not None:
            filled[name] = found
    return config, filled


def whole_recipes(recipes: dict) -> dict:
    """Recipes in full: one that is `like` another takes over what it does not set, in the order of
    that one. One that is like none, or like one that is itself like another, stays as it is.
    """

    def whole(own: dict) -> dict:
        other = recipes.get(own.get("like"))
        if other is None or "like" in other:
            return own
        return other | {key: value for key, value in own.items() if key != "like"}

    return {name: whole(own) for name, own in recipes.items()}


class _Text:
    """A dataset of text in a config that is being filled."""

    def __init__(self, config: dict, name: str, planning: bool) -> None:
        self.config, self.name, self.planning = config, name, planning
        self.block, self.ladder = config["datasets"][name], config["ladder"]

    def fill(self) -> Filled | None:
        """Fill the block; None where it leaves out nothing that depends on its text."""
        self.plain()
        basis = choice = None
        keys: tuple[str, ...] = ()
        if self.depends():
            basis, keys = self.basis(), tuple(self.unset())
            self.of_text(basis)
            if "training" not in self.block:
                choice = self.choose(basis)
                self.block.pop("models", None)  # auto: it has been done
        self.block["corpus"].setdefault("held_out_characters", HELD_OUT_CHARACTERS)
        self.of_training()
        return Filled(basis, choice, keys) if basis else None

    def plain(self) -> None:
        """Defaults that are the same for all texts."""
        block = self.block
        corpus = block["corpus"] = self.config["corpus"] | block.get("corpus", {})
        by_domain = corpus.get("harvest", corpus.get("train"))
        if isinstance(by_domain, dict):
            block.setdefault("domains", list(by_domain))
        tokenizer = block.setdefault("tokenizer", {"train": {}})
        tokenizer.setdefault("end_of_text", "<|endoftext|>")
        block.setdefault("held_out", [])
        optimum = block.setdefault("optimum", {})
        if "groups" not in block and not {"group", "models"} & optimum.keys():
            block.setdefault("search", {})
        groups = block.setdefault("groups", {FITTED: list(STARTED)})
        laws = [law for law in self.config["laws"]["optimise"] if LAWS[law].over_sizes or "models" not in optimum]
        found = [FOUND] if "search" in block else []
        block.setdefault("compare", {}).setdefault("mixtures", [*COMPARED, *laws, *found])
        optimum.setdefault("group", GROUP if found else next(iter(groups)))
        if found:  # a search starts from rules that need no run
            start = [*STARTED, *(f"wanted_{one}" for one in (RIVALS if has_wanted(block) else ()))]
            block["search"] = {"start": start} | self.config["search"] | block["search"]
        own = block.get("vectors", {})
        if any("vne" in names for _, names in mixture_lists(block)) or "vectors" in block:
            block["vectors"] = {"documents": SAMPLED} | ({} if "file" in own else {"train": FASTTEXT}) | own

    def depends(self) -> bool:
        """Whether the block leaves something to be chosen by its text."""
        trained = self.block["tokenizer"].get("train")
        return (
            not {"training", "sequence_length"} <= self.block.keys()
            or not {"validation", "cut_characters"} <= self.block["corpus"].keys()
            or (trained is not None and not {"vocabulary", "share"} <= trained.keys())
        )

    def basis(self) -> Basis:
        """The machine and the sizes that count: the kept machine, and in a job the kept sizes."""
        kept = read_basis(self.name)
        if kept is not None and not self.planning:
            return kept
        device, count = self.ladder["device"], self.ladder["count"]
        if kept is not None and device in ("auto", kept.machine.kind) and count in ("auto", kept.machine.count):
            machine = kept.machine
        else:
            machine = seen_machine(device, count)
        return Basis(machine, ladder.text_bytes(self.config, self.name))

    def unset(self) -> Iterator[str]:
        """Keys of the block that are chosen by its text and that a corpus which grows must keep."""
        trained, corpus = self.block["tokenizer"].get("train"), self.block["corpus"]
        for key in ("vocabulary", "share") if trained is not None else ():
            yield from [f"tokenizer/train/{key}"] * (key not in trained)
        yield from ["corpus/validation/share"] * ("validation" not in corpus)
        yield from ["sequence_length"] * ("sequence_length" not in self.block)

    def of_text(self, basis: Basis) -> None:
        """Defaults that depend on the size of the text."""
        corpus, kind, text = self.block["corpus"], basis.machine.kind, sum(basis.sizes.values())
        share = ladder.validation_share(ladder.smallest(basis.sizes, self.domains()))
        given = corpus.setdefault("validation", {"share": share})
        if isinstance(given, dict) and "share" in given:
            longest = ladder.longest_held_out(basis.sizes, self.domains(), given["share"])
            corpus.setdefault("held_out_characters", longest)
        corpus.setdefault("cut_characters", ladder.CUT_CHARACTERS)
        self.block.setdefault("sequence_length", ladder.SEQUENCE_LENGTH[kind])
        trained = self.block["tokenizer"].get("train")
        if trained is not None:
            if "vocabulary" not in trained:
                trained["vocabulary"] = ladder.vocabulary_size(text, kind)
                trained.setdefault("fewer", True)  # an estimate by bytes: text of few words yields less
            trained.setdefault("share", float(f"{min(ladder.TOKENIZER_BYTES / max(text, 1), 1):.1g}"))

    def domains(self) -> int:
        return len(self.block.get("domains", [])) or 1

    def choose(self, basis: Basis) -> ladder.Choice:
        """Choose the proxy and the larger model, and write them into the config."""
        numbers, block, machine = self.ladder, self.block, basis.machine
        groups = block["groups"] | {GROUP: search_runs(block)}
        proxies = {name for group in (block["optimum"]["group"], *block["held_out"]) for name in groups.get(group, [])}
        fitted, compared = max(len(proxies), 1), len(block["compare"]["mixtures"])
        vocabulary = block["tokenizer"].get("train", {}).get("vocabulary", UNKNOWN_VOCABULARY)
        in_token = ladder.token_bytes(vocabulary)
        devices = min(machine.count, max(fitted, compared))  # a run takes one
        bounds = ladder.Bounds(
            tokens=sum(basis.sizes.values()) / in_token,
            least=ladder.smallest(basis.sizes, self.domains()) / in_token,
            domains=self.domains(),
            flops=ladder.device_flops(self.config["hardware"], numbers["hours"], machine.kind, devices),
            fitted=fitted,
            compared=compared,
        )
        choice = ladder.choose(bounds, vocabulary, block["sequence_length"])
        launch = ladder.launch(machine.kind, machine.threads, choice.batch_rows)
        block["training"] = {
            self.named(rung, launch): ladder.settings(choice, rung == choice.larger, "paper", machine.kind)
            for rung in (choice.proxy, choice.larger)
        }
        block["optimum"].setdefault("max_epochs", ladder.REPEATS)
        return choice

    def named(self, rung: ladder.Rung, launch: dict) -> str:
        """The name of a rung among the models, to which it is added; no other shape's name."""
        shape = {"layers": rung.layers, "width": rung.width, "heads": rung.heads}
        models, name = self.config["models"], rung.name
        if name in models and models[name].get("shape") != shape:
            name = f"ladder-{name}"
        models.setdefault(name, {"shape": shape, "launch": launch})
        return name

    def of_training(self) -> None:
        """The proxy is the first model, the larger the last; the optimum is for the proxy's end."""
        optimum, compare, training = self.block["optimum"], self.block["compare"], self.block["training"]
        compare.setdefault("model", list(training)[-1])
        if "models" in optimum:
            optimum.setdefault("for", compare["model"])
            return
        own = training.get(optimum.setdefault("model", next(iter(training))), {})
        steps = merged_recipe(self.config, own).get("steps")
        if steps is not None:
            optimum.setdefault("step", steps)


# What other blocks say for a dataset


def expanded(config: dict) -> dict:
    """The config as rules read it: in each dataset all that holds for it, and every group."""
    datasets = {}
    for name, block in config["datasets"].items():
        block = block | {"optimum": _with_weights(block)}
        compared = block["compare"]["mixtures"]
        if "observations" in block:  # a group `all` takes every mixture; the one model is called observed
            groups = {group: [] if names == "all" else names for group, names in block["groups"].items()}
            block["groups"] = groups | {"compare": compared}
            block |= {key: block[key] | {"model": "observed"} for key in ("optimum", "compare")}
        else:
            block["groups"] = block["groups"] | {"compare": compared}
            _expand(config | {"datasets": config["datasets"] | {name: block}}, name)
        datasets[name] = block
    return config | {"datasets": datasets}


def _with_weights(block: dict) -> dict:
    """An optimum with its objective's reference, and the weights of families by loss domain."""
    optimum, first = dict(block["optimum"]), block["compare"]["mixtures"][0]
    if "objective" in optimum:
        from bimix.optimum.families import by_domain  # here only: most datasets have no objective

        usual = {} if is_optimum(first) else {"reference": first}
        optimum["objective"] = objective = optimum["objective"] | usual | optimum["objective"]
        weights = by_domain(objective.get("weights", {}), objective.get("families", {}))
        optimum |= {"weights": weights} if weights else {}
    return optimum


def _expand(config: dict, name: str) -> None:
    """Complete a dataset of text, whose block is a copy."""
    block = config["datasets"][name]
    block["domains"] = sorted(block["domains"])  # no parameter of a job changes with their order in the file
    block["training"] = {model: merged_recipe(config, own) for model, own in block["training"].items()}
    optimum, training, groups = block["optimum"], block["training"], block["groups"]
    groups |= groups_of(block)
    if "models" in optimum:
        # one name for all, the smallest first, and the end of the run that is optimised for
        optimum["models"] = sorted(optimum["models"], key=lambda model: weights_of(config["models"][model]))
        optimum["model"] = JOINS.join(optimum["models"])
        optimum["step"] = training[optimum["for"]]["steps"]
    if "swarm" in block:
        groups["swarm"] = swarm_names(config, name)
    if "reweighting" in block:
        own = block["reweighting"]
        for method in REWEIGHTING:
            whole = reweighting_training(config, name, method, training[own["model"]])
            block["reweighting"] = block["reweighting"] | {method: whole}
    if block.get("simulate_epochs"):
        _match_epochs(block)


def _match_epochs(block: dict) -> None:
    """Give each small run the share of every domain at which it repeats as often as the large one,
    the tokens that it reads over those of the large one (matched repetition, arXiv 2606.07597).
    """

    def read(recipe: dict) -> int:
        return recipe["steps"] * recipe["batch_rows"]

    large, small = read(block["training"][block["compare"]["model"]]), list(block["training"].values())
    if "swarm" in block:
        changes = block["swarm"].get("training", {})
        share = min(1.0, read(block["training"][block["swarm"]["model"]] | changes) / large)
        block["swarm"] = block["swarm"] | {"training": changes | {"pool_share": share}}
    if "reweighting" in block:
        small += [block["reweighting"][method] for method in REWEIGHTING]
    for recipe in small:
        recipe["pool_share"] = min(1.0, read(recipe) / large)


def weights_of(model: Mapping) -> float:
    """The size by which models are ordered: parameters, or 12 layers width^2 of a shape."""
    shape = model.get("shape", {})
    return model.get("parameters") or 12 * shape.get("layers", 0) * shape.get("width", 0) ** 2
