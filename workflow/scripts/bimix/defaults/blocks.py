"""The keys that a dataset's block leaves out, put in their places before the config is checked.

A key that the user has set stays as it is, right or wrong; what depends on a wrong one is left to
the checks, which say it.
"""

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

from bimix.config.complete import mixture_lists, write_out_recipes
from bimix.defaults import ladder, sizes
from bimix.defaults.device import seen_machine
from bimix.defaults.record import Basis, read_basis, record_path
from bimix.plan.laws import LAWS
from bimix.plan.search import FOUND, GROUP, search_runs
from bimix.plan.sources import has_wanted
from bimix.start.home import over

RULES = ("usual", "ladder", "hardware")  # blocks of the config that defaults are estimated with
FITTED = "candidates"  # the group that laws are fitted to
COMPARED = ("baseline", "uniform", "ce")
STARTED = ("baseline", "uniform", "temperature", "se", "ce", "je")  # a search, beside rules by hand
UNKNOWN_VOCABULARY = 50_304  # of a tokenizer that is not read before the first job: GPT-NeoX's, padded


@dataclass(frozen=True)
class Filled:
    """What a dataset's defaults were estimated from and, where models were chosen, which."""

    basis: Basis
    choice: ladder.Choice | None

    def remark(self, dataset: str, block: Mapping) -> str:
        """What was chosen, in a sentence for the user; nothing where no models were."""
        if self.choice is None:
            return ""
        small, large = block["training"]
        tokens = self.choice.tokens(block["sequence_length"])
        machine, text = self.basis.machine, sum(self.basis.sizes.values())
        devices = f"{machine.count} {'GPU' if machine.kind == 'gpu' else 'CPU core'}{'s' * (machine.count > 1)}"
        return (
            f"datasets/{dataset}/models: auto: for {text / 1e6:,.3g} MB of text and {devices} the proxy is {small}, the larger"
            f" model {large}, each run {self.choice.steps:,} steps of {self.choice.batch_rows} x {block['sequence_length']:,}"
            f" tokens ({tokens / 1e6:,.3g}M); kept in {record_path(dataset)}."
        )


def fill(config: dict, defaults: Mapping, planning: bool = True) -> dict[str, Filled]:
    """Put the defaults into every dataset's block of a merged config, in place.

    `defaults`: the workflow's own config, whose numbers hold where the user's are none. `planning`:
    whether sizes are looked up; a job of a call that did takes those that it kept.
    Errors (InputError): a record of what was chosen that cannot be read, GPUs that are not there.
    """
    filled, rules = {}, {key: like(config.get(key), defaults[key]) for key in RULES}
    datasets = config.get("datasets")
    for name, block in datasets.items() if isinstance(datasets, dict) else ():
        if isinstance(block, dict) and isinstance(block.get("observations"), dict):
            _observed(block)
        elif isinstance(block, dict) and isinstance(name, str):
            if any(str(key).startswith("obs") for key in block):  # the checks ask what was meant
                continue
            given = block.setdefault("corpus", {})
            if not isinstance(given, dict):
                block["corpus"] = {}
            found = _Block(config, rules, name, block, planning).fill()
            if not isinstance(given, dict):
                block["corpus"] = given
            elif found is not None:
                filled[name] = found
    return filled


def like(own: object, default: object) -> object:
    """`own` where it is of the kind of `default`, which stands for all of it that is not: the
    checks say that.
    """
    if isinstance(default, Mapping):
        given = own if isinstance(own, Mapping) else {}
        return {**given, **{key: like(given.get(key, value), value) for key, value in default.items()}}
    if isinstance(default, bool) or isinstance(own, bool):
        return own if isinstance(own, bool) and isinstance(default, bool) else default
    if isinstance(default, int | float):
        sound = isinstance(own, int | float) and math.isfinite(own) and (own > 0 or own == default)
        return own if sound else default
    if isinstance(default, list):
        numbers = isinstance(own, list) and all(
            isinstance(like(one, 0.5), int | float) and like(one, 0.5) == one for one in own
        )
        return own if numbers and len(own) == len(default) else default
    if default == "auto" and isinstance(own, int):
        return own if own > 0 else default
    return own if isinstance(own, str) else default


def _observed(block: dict) -> None:
    """Defaults of losses measured elsewhere: laws are fitted to all of them."""
    groups = block.setdefault("groups", {"fitted": "all"})
    block.setdefault("held_out", [])
    if isinstance(block.get("optimum"), dict) and isinstance(groups, dict) and groups:
        block["optimum"].setdefault("group", next(iter(groups)))


class _Block:
    """One dataset with a corpus, and what its defaults depend on."""

    def __init__(self, config: dict, rules: dict, name: str, block: dict, planning: bool) -> None:
        self.config, self.name, self.block, self.planning = config, name, block, planning
        self.usual, self.ladder, self.hardware = (rules[key] for key in RULES)

    def fill(self) -> Filled | None:
        """Fill the block; None where it leaves out nothing that depends on its text."""
        self.plain()
        basis = choice = None
        if self.depends():
            basis = self.basis()
            self.of_text(basis)
            if "training" not in self.block:
                choice = self.models(basis)
                if self.block.get("models") == "auto":  # it has been done
                    del self.block["models"]
        self.of_training()
        return Filled(basis, choice) if basis else None

    def plain(self) -> None:
        """What is the same for all texts."""
        block, corpus = self.block, self.block["corpus"]
        usual = self.usual
        for source in ("train", "harvest"):
            if isinstance(corpus.get(source), dict) and corpus[source]:
                block.setdefault("domains", list(corpus[source]))
        block["corpus"] = corpus = over(usual["corpus"], corpus)
        if isinstance(block.setdefault("tokenizer", {"train": {}}), dict):
            for key, value in usual["tokenizer"].items():
                block["tokenizer"].setdefault(key, value)
        block.setdefault("held_out", [])
        measures = ["se", "je", "ce", *(["vne"] if "vectors" in block else [])]
        given = block.get("optimum", {})
        if "groups" not in block and isinstance(given, dict) and not {"group", "models"} & given.keys():
            block.setdefault("search", {})
        block.setdefault("groups", {FITTED: [*measures, "baseline", "uniform"]})
        compare = block.setdefault("compare", {})
        if isinstance(compare, dict):
            laws = self.config.get("laws")
            laws = laws.get("optimise") if isinstance(laws, dict) else None
            names = [law for law in laws if isinstance(law, str)] if isinstance(laws, list) else []
            if self.several():
                names = [law for law in names if law in LAWS and LAWS[law].over_sizes]
            compare.setdefault("mixtures", [*COMPARED, *names, *([FOUND] if "search" in block else [])])
        if isinstance(block["groups"], dict) and isinstance(block.setdefault("optimum", {}), dict) and block["groups"]:
            block["optimum"].setdefault("group", GROUP if "search" in block else next(iter(block["groups"])))
        if isinstance(block.get("search"), dict):
            self.search()
        if any("vne" in names for _, names in mixture_lists(block)) or "vectors" in block:
            own = block.get("vectors", {})
            if isinstance(own, dict):
                kind = {} if "file" in own or "train" in own else {"train": usual["vectors"]["train"]}
                block["vectors"] = {"documents": usual["vectors"]["documents"]} | kind | own

    def search(self) -> None:
        """What a search leaves out: the rules of mixtures that need no run."""
        own, defaults = self.block["search"], self.config.get("search")
        for key, value in defaults.items() if isinstance(defaults, dict) else ():
            own.setdefault(key, value)
        by_hand = []
        if has_wanted(self.block):
            with contextlib.suppress(KeyError, TypeError):  # wrong, and said elsewhere
                by_hand = [f"wanted_{one}" for one in self.config["mixtures"]["wanted"]["rivals"]]
        own.setdefault("start", [*STARTED, *by_hand])

    def several(self) -> bool:
        """Whether the laws are fitted to models of several sizes."""
        return isinstance(self.block.get("optimum"), dict) and "models" in self.block["optimum"]

    def depends(self) -> bool:
        """Whether the block leaves something to be chosen by its text."""
        block = self.block
        tokenizer = block["tokenizer"]
        trained = tokenizer.get("train") if isinstance(tokenizer, dict) else None
        return (
            not {"training", "sequence_length"} <= block.keys()
            or not {"validation", "cut_characters"} <= block["corpus"].keys()
            or (isinstance(trained, dict) and not {"vocabulary", "share"} <= trained.keys())
        )

    def basis(self) -> Basis:
        """The machine and the sizes that count: kept ones of the machine, and in a job of the sizes
        too.
        """
        kept = read_basis(self.name)
        if kept is not None and not self.planning:
            return kept
        device, count = self.ladder["device"], self.ladder["count"]
        if kept is not None and device in ("auto", kept.machine.kind) and count in ("auto", kept.machine.count):
            machine = kept.machine
        else:
            machine = seen_machine(device, count)
        return Basis(machine, sizes.text_bytes(self.config, self.name, self.ladder["packed"]))

    def of_text(self, basis: Basis) -> None:
        """What depends on how much text there is."""
        corpus, numbers = self.block["corpus"], self.ladder
        least = sizes.smallest(basis.sizes, self.domains())
        share = sizes.validation_share(least, numbers["validation_bytes"], tuple(numbers["validation_share"]))
        corpus.setdefault("validation", {"share": share})
        given = corpus["validation"]
        if isinstance(given, dict) and isinstance(given.get("share"), float) and 0 < given["share"] < 1:
            share = given["share"]
            bounds = tuple(numbers["held_out_characters"])
            longest = sizes.longest_held_out(basis.sizes, self.domains(), share, numbers["documents"], bounds)
            corpus.setdefault("held_out_characters", longest)
        corpus.setdefault("cut_characters", numbers["cut_characters"])
        self.block.setdefault("sequence_length", numbers["sequence_length"][basis.machine.kind])
        trained = self.block["tokenizer"].get("train") if isinstance(self.block["tokenizer"], dict) else None
        if isinstance(trained, dict):
            text = sum(basis.sizes.values())
            most = numbers["vocabulary"][basis.machine.kind]
            if "vocabulary" not in trained:
                trained["vocabulary"] = sizes.vocabulary_size(text, numbers["vocabulary"]["least"], most)
                trained.setdefault("fewer", True)  # an estimate by bytes: text of few words yields less
            trained.setdefault("share", float(f"{min(numbers['tokenizer_bytes'] / max(text, 1), 1):.1g}"))

    def domains(self) -> int:
        domains = self.block.get("domains")
        return len(domains) if isinstance(domains, list) and domains else 1

    def vocabulary(self) -> int:
        """Ids of the tokenizer, as far as they are known before it is there."""
        tokenizer = self.block["tokenizer"]
        trained = tokenizer.get("train") if isinstance(tokenizer, dict) else None
        size = trained.get("vocabulary") if isinstance(trained, dict) else None
        return size if isinstance(size, int) and size > 1 else UNKNOWN_VOCABULARY

    def models(self, basis: Basis) -> ladder.Choice:
        """Choose the proxy and the larger model, and write them into the config."""
        config, numbers, block = self.config, self.ladder, self.block
        length = block["sequence_length"]
        length = length if isinstance(length, int) and length > 1 else numbers["sequence_length"]["cpu"]
        optimum = block["optimum"]
        fitted, compared = self.runs()
        machine, vocabulary = basis.machine, self.vocabulary()
        in_token = sizes.token_bytes(vocabulary)
        together = min(machine.count, max(fitted, compared))  # a run takes one device
        choice = ladder.choose(
            ladder.Bounds(
                tokens=sum(basis.sizes.values()) / in_token,
                least=sizes.smallest(basis.sizes, self.domains()) / in_token,
                domains=self.domains(),
                flops=ladder.run_flops(self.hardware, numbers["hours"], machine.kind, together),
                fitted=fitted,
                compared=compared,
                tokens_per_parameter=numbers["tokens_per_parameter"],
                epochs=numbers["epochs"],
                repeats=numbers["repeats"],
                proxy=numbers["proxy"],
                highest_rate=numbers["highest_rate"],
            ),
            vocabulary,
            length,
        )
        precision = "bf16" if machine.kind == "gpu" else "no"
        recipes = config.get("training")
        recipe = numbers["recipe"] if isinstance(recipes, dict) and numbers["recipe"] in recipes else "paper"
        launch = ladder.launch(machine.kind, machine.threads, choice.batch_rows)
        block["training"] = {}
        for rung in (choice.proxy, choice.larger):
            own = ladder.settings(choice, rung == choice.larger, recipe, precision)
            block["training"][self.named(rung, launch)] = own
        if isinstance(optimum, dict):
            optimum.setdefault("max_epochs", numbers["repeats"])
        return choice

    def named(self, rung: ladder.Rung, launch: dict) -> str:
        """The name of a rung among the models, where it is put if it is new; one of another shape
        keeps its name.
        """
        shape = {"layers": rung.layers, "width": rung.width, "heads": rung.heads}
        models = self.config.get("models")
        if not isinstance(models, dict):
            return rung.name
        name, known = rung.name, models.get(rung.name)
        if rung.name in models and not (isinstance(known, dict) and known.get("shape") == shape):
            name = f"ladder-{rung.name}"
        models.setdefault(name, {"shape": shape, "launch": launch})
        return name

    def runs(self) -> tuple[int, int]:
        """Runs of the proxy and of the larger model."""
        block, proxies = self.block, set()
        groups = block["groups"] if isinstance(block["groups"], dict) else {}
        optimum = block["optimum"] if isinstance(block["optimum"], dict) else {}
        held_out = block["held_out"] if isinstance(block["held_out"], list) else []
        searched = {GROUP: search_runs(block)}
        for group in (optimum.get("group"), *held_out):
            names = (groups | searched).get(group) if isinstance(group, str) else None
            proxies |= {str(name) for name in names} if isinstance(names, list) else set()
        compared = block["compare"].get("mixtures") if isinstance(block["compare"], dict) else None
        return max(len(proxies), 1), max(len(compared), 1) if isinstance(compared, list) else 1

    def of_training(self) -> None:
        """The proxy is the first model that is trained, the larger the last; the optimum is for the
        proxy's last step.
        """
        block = self.block
        training = block.get("training")
        if not isinstance(training, dict) or not training:
            return
        optimum, compare = block.get("optimum"), block.get("compare")
        if isinstance(compare, dict):
            compare.setdefault("model", list(training)[-1])
        if self.several():
            if isinstance(compare, dict):
                optimum.setdefault("for", compare["model"])
        elif isinstance(optimum, dict):
            optimum.setdefault("model", next(iter(training)))
            if "step" not in optimum:
                steps = self.steps(training.get(optimum["model"]))
                if steps is not None:
                    optimum["step"] = steps

    def steps(self, settings: object) -> int | None:
        """Steps of a model's run; None where the config does not tell."""
        if not isinstance(settings, Mapping):
            return None
        if "steps" in settings:
            return settings["steps"]
        known = self.config.get("training")
        recipes = {"training": dict(known)} if isinstance(known, dict) else {}
        write_out_recipes(recipes)
        recipe = recipes.get("training", {}).get(str(settings.get("recipe")))
        return recipe.get("steps") if isinstance(recipe, dict) else None
