"""The keys that a dataset's block leaves out, put in their places: what is usual, and what its text
and the machine choose.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bimix.plan.laws import LAWS
from bimix.plan.search import FOUND, GROUP, search_runs
from bimix.plan.sources import has_wanted
from bimix.settings import ladder
from bimix.settings.complete import mixture_lists, write_out_recipes
from bimix.settings.home import over
from bimix.settings.machine import Basis, read_basis, record_path, seen_machine

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


def fill(config: dict, planning: bool = True) -> dict[str, Filled]:
    """Put the defaults into every dataset's block of a config that the models accept, in place.

    `planning`: whether sizes are looked up; a job of a call that did takes those that it kept.
    Errors (InputError): a record of what was chosen that cannot be read, GPUs that are not there.
    """
    filled = {}
    for name, block in config.get("datasets", {}).items():
        if "observations" in block:
            _observed(block)
        elif (found := _Block(config, name, block, planning).fill()) is not None:
            filled[name] = found
    return filled


def _observed(block: dict) -> None:
    """Defaults of losses measured elsewhere: laws are fitted to all of them."""
    groups = block.setdefault("groups", {"fitted": "all"})
    block.setdefault("held_out", [])
    if "optimum" in block:
        block["optimum"].setdefault("group", next(iter(groups)))


class _Block:
    """One dataset with a corpus, and what its defaults depend on."""

    def __init__(self, config: dict, name: str, block: dict, planning: bool) -> None:
        self.config, self.name, self.block, self.planning = config, name, block, planning
        self.usual, self.ladder, self.hardware = (config[key] for key in ("usual", "ladder", "hardware"))

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
        block, usual = self.block, self.usual
        corpus = block["corpus"] = over(usual["corpus"], block.get("corpus", {}))
        for source in ("train", "harvest"):
            if isinstance(corpus.get(source), dict):
                block.setdefault("domains", list(corpus[source]))
        tokenizer = block.setdefault("tokenizer", {"train": {}})
        block["tokenizer"] = tokenizer | {key: one for key, one in usual["tokenizer"].items() if key not in tokenizer}
        block.setdefault("held_out", [])
        measures = ["se", "je", "ce", *(["vne"] if "vectors" in block else [])]
        if "groups" not in block and not {"group", "models"} & block.get("optimum", {}).keys():
            block.setdefault("search", {})
        block.setdefault("groups", {FITTED: [*measures, "baseline", "uniform"]})
        names = self.config["laws"]["optimise"]
        if self.several():
            names = [law for law in names if LAWS[law].over_sizes]
        block.setdefault("compare", {}).setdefault(
            "mixtures", [*COMPARED, *names, *([FOUND] if "search" in block else [])]
        )
        optimum = block.setdefault("optimum", {})
        optimum.setdefault("group", GROUP if "search" in block else next(iter(block["groups"])))
        if "search" in block:
            self.search()
        if any("vne" in names for _, names in mixture_lists(block)) or "vectors" in block:
            own = block.get("vectors", {})
            kind = {} if "file" in own or "train" in own else {"train": usual["vectors"]["train"]}
            block["vectors"] = {"documents": usual["vectors"]["documents"]} | kind | own

    def search(self) -> None:
        """What a search leaves out: the rules of mixtures that need no run."""
        own = self.block["search"]
        for key, value in self.config["search"].items():
            own.setdefault(key, value)
        wanted = self.config["mixtures"]["wanted"]["rivals"] if has_wanted(self.block) else []
        own.setdefault("start", [*STARTED, *(f"wanted_{one}" for one in wanted)])

    def several(self) -> bool:
        """Whether the laws are fitted to models of several ladder."""
        return "models" in self.block.get("optimum", {})

    def depends(self) -> bool:
        """Whether the block leaves something to be chosen by its text."""
        block = self.block
        trained = block["tokenizer"].get("train")
        return (
            not {"training", "sequence_length"} <= block.keys()
            or not {"validation", "cut_characters"} <= block["corpus"].keys()
            or (trained is not None and not {"vocabulary", "share"} <= trained.keys())
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
        return Basis(machine, ladder.text_bytes(self.config, self.name, self.ladder["packed"]))

    def of_text(self, basis: Basis) -> None:
        """What depends on how much text there is."""
        corpus, numbers = self.block["corpus"], self.ladder
        least = ladder.smallest(basis.sizes, self.domains())
        share = ladder.validation_share(least, numbers["validation_bytes"], tuple(numbers["validation_share"]))
        corpus.setdefault("validation", {"share": share})
        given = corpus["validation"]
        if isinstance(given, dict) and "share" in given:
            share, bounds = given["share"], tuple(numbers["held_out_characters"])
            longest = ladder.longest_held_out(basis.sizes, self.domains(), share, numbers["documents"], bounds)
            corpus.setdefault("held_out_characters", longest)
        corpus.setdefault("cut_characters", numbers["cut_characters"])
        self.block.setdefault("sequence_length", numbers["sequence_length"][basis.machine.kind])
        trained = self.block["tokenizer"].get("train")
        if trained is not None:
            text = sum(basis.sizes.values())
            most = numbers["vocabulary"][basis.machine.kind]
            if "vocabulary" not in trained:
                trained["vocabulary"] = ladder.vocabulary_size(text, numbers["vocabulary"]["least"], most)
                trained.setdefault("fewer", True)  # an estimate by bytes: text of few words yields less
            trained.setdefault("share", float(f"{min(numbers['tokenizer_bytes'] / max(text, 1), 1):.1g}"))

    def domains(self) -> int:
        return len(self.block.get("domains", [])) or 1

    def vocabulary(self) -> int:
        """Ids of the tokenizer, as far as they are known before it is there."""
        return self.block["tokenizer"].get("train", {}).get("vocabulary", UNKNOWN_VOCABULARY)

    def models(self, basis: Basis) -> ladder.Choice:
        """Choose the proxy and the larger model, and write them into the config."""
        config, numbers, block = self.config, self.ladder, self.block
        length = block["sequence_length"]
        fitted, compared = self.runs()
        machine, vocabulary = basis.machine, self.vocabulary()
        in_token = ladder.token_bytes(vocabulary)
        together = min(machine.count, max(fitted, compared))  # a run takes one device
        choice = ladder.choose(
            ladder.Bounds(
                tokens=sum(basis.sizes.values()) / in_token,
                least=ladder.smallest(basis.sizes, self.domains()) / in_token,
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
        recipe = numbers["recipe"] if numbers["recipe"] in config["training"] else "paper"
        launch = ladder.launch(machine.kind, machine.threads, choice.batch_rows)
        block["training"] = {}
        for rung in (choice.proxy, choice.larger):
            own = ladder.settings(choice, rung == choice.larger, recipe, precision)
            block["training"][self.named(rung, launch)] = own
        block["optimum"].setdefault("max_epochs", numbers["repeats"])
        return choice

    def named(self, rung: ladder.Rung, launch: dict) -> str:
        """The name of a rung among the models, where it is put if it is new; one of another shape
        keeps its name.
        """
        shape = {"layers": rung.layers, "width": rung.width, "heads": rung.heads}
        models, name = self.config["models"], rung.name
        if name in models and models[name].get("shape") != shape:
            name = f"ladder-{name}"
        models.setdefault(name, {"shape": shape, "launch": launch})
        return name

    def runs(self) -> tuple[int, int]:
        """Runs of the proxy and of the larger model."""
        block = self.block
        groups = block["groups"] | {GROUP: search_runs(block)}
        proxies = {name for group in (block["optimum"]["group"], *block["held_out"]) for name in groups.get(group, [])}
        return max(len(proxies), 1), len(block["compare"]["mixtures"])

    def of_training(self) -> None:
        """The proxy is the first model that is trained, the larger the last; the optimum is for the
        proxy's last step.
        """
        block = self.block
        optimum, compare, training = block["optimum"], block["compare"], block["training"]
        compare.setdefault("model", list(training)[-1])
        if self.several():
            optimum.setdefault("for", compare["model"])
            return
        optimum.setdefault("model", next(iter(training)))
        if "step" not in optimum:
            steps = self.steps(training.get(optimum["model"], {}))
            if steps is not None:
                optimum["step"] = steps

    def steps(self, settings: dict) -> int | None:
        """Steps of a model's run; None where the config does not tell."""
        recipes = {"training": dict(self.config["training"])}
        write_out_recipes(recipes)
        return (recipes["training"].get(settings.get("recipe"), {}) | settings).get("steps")
