"""A config made complete: what a dataset's block leaves out, the same for all texts or chosen by
the text and the machine (`with_defaults`), and what other blocks say for it (`expand`).

Both take a config that the models accept, as plain blocks. Defaults that depend on the law, as that of
`optimum/max_epochs`, are not written into it (`optimum.bounds`).
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from bimix.blocks import Key
from bimix.corpus.files import held_by_hash
from bimix.laws.table import JOINS, LAWS, is_optimum
from bimix.mixtures.names import FOUND, GROUP, REWEIGHTING, RIVALS, at, groups_of, has_wanted, own_groups, search_runs
from bimix.model.shape import UNKNOWN_VOCABULARY
from bimix.settings import ladder
from bimix.settings.ladder import Basis, read_basis, record_path, seen_machine

FITTED = "candidates"  # the group that laws are fitted to
COMPARED = ("baseline", "uniform", "ce")
STARTED = ("baseline", "se", "je", "ce", "vne", "uniform")  # the chain's five runs, and equal shares
SAMPLED = 300  # documents of each domain, for its vectors
FASTTEXT = {"vector_size": 300, "sg": 0, "epochs": 5, "alpha": 0.05, "window": 5, "negative": 5, "min_count": 5}
FASTTEXT |= {"min_n": 3, "max_n": 3, "bucket": 10000, "seed": 1}  # as gensim names them
SCHEDULES = {"doremi": {"schedule": "doremi"}, "doge": {}}  # DoReMi's code has one that its step size is made for
HELD_OUT_CHARACTERS = 20_000  # of a document that is held out whole, where the ladder chooses nothing


def mixture_lists(block: Mapping) -> dict[Key, list[str]]:
    """All lists of mixtures in a dataset's block, by their keys."""
    lists = {("groups", group): block["groups"][group] for group in own_groups(block)}
    lists[("compare", "mixtures")] = block.get("compare", {}).get("mixtures")
    lists[("search", "start")] = block.get("search", {}).get("start")
    return {key: names for key, names in lists.items() if names and names != "all"}


def swarm_names(block: Mapping) -> list[str]:
    """Mixtures of a dataset's swarm; none without a swarm."""
    return [f"swarm_{number:04d}" for number in range(1, block.get("swarm", {}).get("runs", 0) + 1)]


# Trainings in full


def merged_recipe(config: Mapping, settings: Mapping) -> dict:
    """Training settings in full: those of the recipe that `settings` names, with its changes."""
    recipe = {**config["training"].get(settings.get("recipe"), {}), **settings}
    return {key: value for key, value in recipe.items() if key != "recipe"}


def reweighting_training(config: Mapping, settings: Mapping, method: str, recipe: dict) -> dict:
    """All training settings of a reweighting: those of a recipe that its changes name, else of
    `recipe`, with the method's own schedule and the dataset's changes, last those for the method.
    """
    full = {**SCHEDULES[method], **settings.get("training", {}), **settings.get(method, {})}
    return {**config["training"].get(full.pop("recipe", None), recipe), **full}


def whole_recipes(recipes: dict) -> dict:
    """Recipes in full: one that is `like` another takes its other settings, in the order of that one.

    One level is resolved; an unknown or nested `like` is left for the checks to refuse.
    """
    whole = dict(recipes)
    for name, changes in recipes.items():
        other = recipes.get(changes.get("like"))
        if other is not None and "like" not in other:
            whole[name] = other | {key: value for key, value in changes.items() if key != "like"}
    return whole


# What a dataset leaves out


@dataclass(frozen=True)
class Filled:
    """What a dataset's defaults were estimated from, the models if any were chosen, and other keys that
    were chosen by the text.
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
    for name, block in config["datasets"].items():
        block.setdefault("held_out", [])
        if "observations" in block:
            block["optimum"].setdefault("group", next(iter(block.setdefault("groups", {"fitted": "all"}))))
            continue
        _fill_alike(config, block)
        keys = tuple(_keys_of_text(block))
        if keys or "training" not in block or "cut_characters" not in block["corpus"]:
            basis, choice = _basis(config, name, planning), None
            _fill_by_text(block, basis)
            if "training" not in block:
                choice = _choose_models(config, block, basis)
            filled[name] = Filled(basis, choice, keys)
        block["corpus"].setdefault("held_out_characters", HELD_OUT_CHARACTERS)
        _fill_by_training(config, block)
    return config, filled


def _fill_alike(config: dict, block: dict) -> None:
    """Defaults that are the same for all texts."""
    corpus = block["corpus"] = config["corpus"] | block["corpus"]
    by_domain = corpus.get("harvest", corpus.get("train"))
    if isinstance(by_domain, dict):
        block.setdefault("domains", list(by_domain))
    block.setdefault("tokenizer", {"train": {}}).setdefault("end_of_text", "<|endoftext|>")
    optimum = block.setdefault("optimum", {})
    if "groups" not in block and "group" not in optimum and _has_one_proxy(block, optimum):
        block.setdefault("search", {})
    groups = block.setdefault("groups", {FITTED: list(STARTED)})
    laws = [law for law in config["laws"]["optimise"] if LAWS[law].over_sizes or "models" not in optimum]
    found = [FOUND] if "search" in block else []
    block.setdefault("compare", {}).setdefault("mixtures", [*COMPARED, *laws, *found])
    optimum.setdefault("group", GROUP if found else next(iter(groups)))
    if found:  # a search starts from rules that need no run
        start = [*STARTED, *(f"wanted_{epochs}" for epochs in (RIVALS if has_wanted(block) else ()))]
        block["search"] = {"start": start} | config["search"] | block["search"]
    vectors = block.get("vectors", {})
    if "vectors" in block or any("vne" in names for names in mixture_lists(block).values()):
        block["vectors"] = {"documents": SAMPLED} | ({} if "file" in vectors else {"train": FASTTEXT}) | vectors


def _has_one_proxy(block: dict, optimum: dict) -> bool:
    """Whether laws are fitted to one model beside that under `compare`: then a round of a search trains one."""
    large = block.get("compare", {}).get("model") or next(reversed(block.get("training", {})), None)
    return len(set(optimum.get("models", ())) - {large}) < 2


def _keys_of_text(block: dict) -> Iterator[str]:
    """Keys that the block leaves out and that are chosen by its text."""
    trained = block["tokenizer"].get("train")
    for key in ("vocabulary", "share"):
        if trained is not None and key not in trained:
            yield f"tokenizer/train/{key}"
    if "validation" not in block["corpus"]:
        yield "corpus/validation/share"
    if "sequence_length" not in block:
        yield "sequence_length"


def _basis(config: dict, name: str, planning: bool) -> Basis:
    """The machine and the sizes that count: the kept machine, and in a job the kept sizes."""
    kept = read_basis(name)
    if kept is not None and not planning:
        return kept
    device, count = config["ladder"]["device"], config["ladder"]["count"]
    if kept is not None and device in ("auto", kept.machine.kind) and count in ("auto", kept.machine.count):
        machine = kept.machine
    else:
        machine = seen_machine(device, count)
    return Basis(machine, ladder.text_bytes(config, name))


def _fill_by_text(block: dict, basis: Basis) -> None:
    """Defaults that depend on the size of the text."""
    corpus, kind, text, domains = block["corpus"], basis.machine.kind, sum(basis.sizes.values()), _domains(block)
    share = ladder.validation_share(ladder.smallest(basis.sizes, domains))
    corpus.setdefault("validation", {"share": share})
    if held_by_hash(corpus):
        longest = ladder.longest_held_out(basis.sizes, domains, corpus["validation"]["share"])
        corpus.setdefault("held_out_characters", longest)
    corpus.setdefault("cut_characters", ladder.CUT_CHARACTERS)
    block.setdefault("sequence_length", ladder.SEQUENCE_LENGTH[kind])
    trained = block["tokenizer"].get("train")
    if trained is not None:
        if "vocabulary" not in trained:
            trained["vocabulary"] = ladder.vocabulary_size(text, kind)
            trained.setdefault("fewer", True)  # an estimate by bytes: text of few words yields less
        trained.setdefault("share", float(f"{min(ladder.TOKENIZER_BYTES / max(text, 1), 1):.1g}"))


def _domains(block: dict) -> int:
    return len(block.get("domains", [])) or 1


def _choose_models(config: dict, block: dict, basis: Basis) -> ladder.Choice:
    """Choose the proxy and the larger model, and write them into the config."""
    machine, length = basis.machine, block["sequence_length"]
    groups = block["groups"] | {GROUP: search_runs(block)}
    proxies = {name for group in (block["optimum"]["group"], *block["held_out"]) for name in groups.get(group, [])}
    fitted, compared = max(len(proxies), 1), len(block["compare"]["mixtures"])
    vocabulary = block["tokenizer"].get("train", {}).get("vocabulary", UNKNOWN_VOCABULARY)
    in_token = ladder.token_bytes(vocabulary)
    devices = min(machine.count, max(fitted, compared))  # a run takes one
    choice = ladder.choose(
        vocabulary,
        length,
        tokens=sum(basis.sizes.values()) / in_token,
        least=ladder.smallest(basis.sizes, _domains(block)) / in_token,
        domains=_domains(block),
        flops=ladder.device_flops(config["hardware"], config["ladder"]["hours"], machine.kind, devices),
        fitted=fitted,
        compared=compared,
    )
    launch = ladder.launch(machine.kind, machine.threads, choice.batch_rows)
    block["training"] = {
        _add_model(config["models"], rung, launch): ladder.settings(choice, rung == choice.larger, machine.kind)
        for rung in (choice.proxy, choice.larger)
    }
    block.pop("models", None)  # auto: it has been done
    return choice


def _add_model(models: dict, rung: ladder.Rung, launch: dict) -> str:
    """Add a rung to the models, by a name that is no other shape's."""
    shape, name = asdict(rung), rung.name
    if name in models and models[name].get("shape") != shape:
        name = f"ladder-{name}"
    models.setdefault(name, {"shape": shape, "launch": launch})
    return name


def _fill_by_training(config: dict, block: dict) -> None:
    """The proxy is the first model, the larger the last; the optimum is for the proxy's end."""
    optimum, compare, training = block["optimum"], block["compare"], block["training"]
    compare.setdefault("model", list(training)[-1])
    if "models" in optimum:
        optimum.setdefault("for", compare["model"])
        return
    proxy = training.get(optimum.setdefault("model", next(iter(training))), {})
    steps = merged_recipe(config, proxy).get("steps")
    if steps is not None:
        optimum.setdefault("step", steps)


# What other blocks say for a dataset


def expand(config: dict) -> dict:
    """Write into each dataset of a complete config all that holds for it, and every group, as rules
    read it.
    """
    for block in config["datasets"].values():
        _expand_objective(block)
        if "observations" in block:  # a group `all` takes every mixture; the one model is called observed
            groups = {group: [] if names == "all" else names for group, names in block["groups"].items()}
            block["groups"] = groups | {"compare": block["compare"]["mixtures"]}
            block["optimum"]["model"] = block["compare"]["model"] = "observed"
        else:
            _expand_text(config, block)
    return config


def _expand_objective(block: dict) -> None:
    """The objective's reference, and its weights of families by loss domain."""
    optimum, first = block["optimum"], block["compare"]["mixtures"][0]
    if "objective" in optimum:
        from bimix.optimum.families import by_domain  # here only: most datasets have no objective

        objective = optimum["objective"]
        if not is_optimum(first):
            objective.setdefault("reference", first)
        if weights := by_domain(objective.get("weights", {}), objective.get("families", {})):
            optimum["weights"] = weights


def _expand_text(config: dict, block: dict) -> None:
    block["domains"] = sorted(block["domains"])  # no parameter of a job changes with their order in the file
    block["training"] = {model: merged_recipe(config, changes) for model, changes in block["training"].items()}
    optimum, training, groups = block["optimum"], block["training"], block["groups"]
    groups |= {"compare": block["compare"]["mixtures"]} | groups_of(block)
    if "models" in optimum:
        # one name for all, the smallest first, and the end of the run that is optimised for
        optimum["models"] = sorted(optimum["models"], key=lambda model: model_size(config["models"][model]))
        optimum["model"] = JOINS.join(optimum["models"])
        optimum["step"] = training[optimum["for"]]["steps"]
    if "swarm" in block:
        swarm, groups["swarm"] = block["swarm"], swarm_names(block)
        swarm["training"] = training[swarm["model"]] | swarm.get("training", {})
    if "reweighting" in block:
        settings = block["reweighting"]
        settings |= {
            method: reweighting_training(config, settings, method, training[settings["model"]])
            for method in REWEIGHTING
        }
    if block.get("simulate_epochs"):
        _match_epochs(block)


def _match_epochs(block: dict) -> None:
    """Give each small run the share of every domain at which it repeats as often as the large one,
    the tokens that it reads over those of the large one (matched repetition, arXiv 2606.07597).
    """

    def rows(recipe: dict) -> int:
        return recipe["steps"] * recipe["batch_rows"]

    large, small = rows(block["training"][block["compare"]["model"]]), list(block["training"].values())
    if "swarm" in block:
        small.append(block["swarm"]["training"])
    if "reweighting" in block:
        small += [block["reweighting"][method] for method in REWEIGHTING]
    for recipe in small:
        recipe["pool_share"] = min(1.0, rows(recipe) / large)


def model_size(model: Mapping) -> float:
    """The size by which models are ordered: parameters, or 12 layers width^2 of a shape."""
    shape = model.get("shape", {})
    return model.get("parameters") or 12 * shape.get("layers", 0) * shape.get("width", 0) ** 2
