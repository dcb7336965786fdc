"""What a dataset's block leaves out: the same for all texts, or chosen by the text and the machine.

The config is one that the models accept, as plain blocks; the completed one is new.
"""

import copy
from dataclasses import dataclass

from bimix.laws.table import LAWS
from bimix.plan.sources import FOUND, GROUP, has_wanted, search_runs
from bimix.settings import ladder
from bimix.settings.expand import merged_recipe, mixture_lists
from bimix.settings.machine import Basis, read_basis, record_path, seen_machine

FITTED = "candidates"  # the group that laws are fitted to
COMPARED = ("baseline", "uniform", "ce")
STARTED = ("baseline", "uniform", "temperature", "se", "ce", "je")  # a search, with rules by hand
SHARED = {"corpus", "design", "downstream", "entropy"}  # blocks of a dataset over the config's own of that name
HELD_OUT_CHARACTERS = 20_000  # of a document that is held out whole, where the ladder chooses nothing
UNKNOWN_VOCABULARY = 50_304  # of a tokenizer that is not read before the first job: GPT-NeoX's, padded


@dataclass(frozen=True)
class Filled:
    """What a dataset's defaults were estimated from and, where models were chosen, which."""

    basis: Basis
    choice: ladder.Choice | None

    def remark(self, dataset: str, block: dict) -> str:
        """A sentence for the user on the models that were chosen; nothing where none were."""
        if self.choice is None:
            return ""
        small, large = block["training"]
        tokens, text = self.choice.tokens(block["sequence_length"]), sum(self.basis.sizes.values())
        machine = self.basis.machine
        devices = f"{machine.count} {'GPU' if machine.kind == 'gpu' else 'CPU core'}{'s' * (machine.count > 1)}"
        return (
            f"datasets/{dataset}/models: auto: for {text / 1e6:,.3g} MB of text and {devices} the proxy is {small}, the larger"
            f" model {large}, each run {self.choice.steps:,} steps of {self.choice.batch_rows} x {block['sequence_length']:,}"
            f" tokens ({tokens / 1e6:,.3g}M); kept in {record_path(dataset)}."
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
            block["design"] = config["design"] | block.get("design", {})
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
        if self.depends():
            basis = self.basis()
            self.of_text(basis)
            if "training" not in self.block:
                choice = self.choose(basis)
                self.block.pop("models", None)  # auto: it has been done
        self.block["corpus"].setdefault("held_out_characters", HELD_OUT_CHARACTERS)
        self.of_training()
        return Filled(basis, choice) if basis else None

    def plain(self) -> None:
        """Defaults that are the same for all texts."""
        block = self.block
        for name in SHARED & block.keys() | {"corpus", "design", "entropy"}:
            block[name] = self.config[name] | block.get(name, {})
        corpus = block["corpus"]
        by_domain = corpus.get("harvest", corpus.get("train"))
        if isinstance(by_domain, dict):
            block.setdefault("domains", list(by_domain))
        tokenizer = block.setdefault("tokenizer", {"train": {}})
        tokenizer.setdefault("end_of_text", self.config["tokenizer"]["end_of_text"])
        block.setdefault("held_out", [])
        optimum = block.setdefault("optimum", {})
        if "groups" not in block and not {"group", "models"} & optimum.keys():
            block.setdefault("search", {})
        measures = ["se", "je", "ce", *(["vne"] if "vectors" in block else [])]
        groups = block.setdefault("groups", {FITTED: [*measures, "baseline", "uniform"]})
        laws = [law for law in self.config["laws"]["optimise"] if LAWS[law].over_sizes or "models" not in optimum]
        found = [FOUND] if "search" in block else []
        block.setdefault("compare", {}).setdefault("mixtures", [*COMPARED, *laws, *found])
        optimum.setdefault("group", GROUP if "search" in block else next(iter(groups)))
        if "search" in block:  # which starts from rules that need no run
            wanted = self.config["mixtures"]["wanted"]["rivals"] if has_wanted(block) else []
            start = [*STARTED, *(f"wanted_{one}" for one in wanted)]
            block["search"] = {"start": start} | self.config["search"] | block["search"]
        if any("vne" in names for _, names in mixture_lists(block)) or "vectors" in block:
            own = block.get("vectors", {})
            kind = {} if {"file", "train"} & own.keys() else {"train": self.config["vectors"]["train"]}
            block["vectors"] = {"documents": self.config["vectors"]["documents"]} | kind | own

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
            flops=ladder.run_flops(self.config["hardware"], numbers["hours"], machine.kind, devices),
            fitted=fitted,
            compared=compared,
        )
        choice = ladder.choose(bounds, vocabulary, block["sequence_length"])
        precision = "bf16" if machine.kind == "gpu" else "no"
        recipe = numbers["recipe"] if numbers["recipe"] in self.config["training"] else "paper"
        launch = ladder.launch(machine.kind, machine.threads, choice.batch_rows)
        block["training"] = {
            self.named(rung, launch): ladder.settings(choice, rung == choice.larger, recipe, precision)
            for rung in (choice.proxy, choice.larger)
        }
        block["optimum"].setdefault("max_epochs", ladder.REPEATS)
        return choice

    def named(self, rung: ladder.Rung, launch: dict) -> str:
        """The name of a rung among the models, to which it is added; a model of another shape keeps
        its name.
        """
        shape = {"layers": rung.layers, "width": rung.width, "heads": rung.heads}
        models, name = self.config["models"], rung.name
        if name in models and models[name].get("shape") != shape:
            name = f"ladder-{name}"
        models.setdefault(name, {"shape": shape, "launch": launch})
        return name

    def of_training(self) -> None:
        """The proxy is the first model that is trained, the larger the last; the optimum is for the
        proxy's last step, where the config says which that is.
        """
        optimum, compare, training = self.block["optimum"], self.block["compare"], self.block["training"]
        compare.setdefault("model", list(training)[-1])
        if "models" in optimum:
            optimum.setdefault("for", compare["model"])
            return
        own = training.get(optimum.setdefault("model", next(iter(training))), {})
        steps = merged_recipe(self.config, own).get("steps")
        if steps is not None:
            optimum.setdefault("step", steps)
