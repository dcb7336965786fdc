"""The config checked and completed before the first job: all of its faults at once, then every default in its place.

`check` takes the merged config as Snakemake has it, `complete` one without faults. Paths are relative to the folder of
`results`, those of published tables to the `code` folder. Imported when needed only: yaml, jsonschema, polars.
"""

import csv
import math
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from glob import iglob
from pathlib import Path
from types import MappingProxyType

from bimix.config import recipes
from bimix.config.faults import Fault, listed, named, shown, unknown
from bimix.config.files import NO_TEXT, YTE, ConfigFile, place, read_config_file, source_text
from bimix.config.home import over
from bimix.config.wording import schema_faults
from bimix.errors import InputError
from bimix.plan.corpora import has_wildcards
from bimix.plan.least_runs import LEAST_RUNS
from bimix.plan.sources import LAWS, MEASURES, REWEIGHTING, SWARM_LAWS, swarm_lack

# Groups that are named by other blocks than `groups`.
GROUPS = ("compare", "methods", "swarm")
SUM_TOLERANCE = 1e-9

Key = tuple[str | int, ...]


def check(
    config: dict,
    schema: dict,
    code: Path,
    files: Sequence[Path | str] = (),
    wanted: Iterable[str] = (),
    given: Mapping[str, object] = MappingProxyType({}),
) -> list[str]:
    """Remarks on a config without faults, for the user to read; numbers that name mixtures become text in it.

    `files` in the order in which they were merged, `given` what --config has put over them. The
    datasets in `wanted` are to be built: their files must be there and their laws be possible.
    Errors (InputError): all faults together, each with its key and, where a file has it, its line.
    """
    read = [read_config_file(path) for path in files]
    sources = [file for file, _ in read]
    faults = [fault for _, own in read for fault in own]
    told = any(fault.sentence.startswith(NO_TEXT) for fault in faults)
    of_keys, checked = _text_keys(config)
    faults += [] if told else of_keys
    _as_text(config, sources)
    _as_text(checked, sources)
    found, remarks = faults_of(checked, schema, code, [name for name in wanted if isinstance(name, str)])
    faults += found
    if faults:
        raise InputError(listed(place(sources, fault, given) for fault in faults))
    return [str(place(sources, remark, given)) for remark in remarks]


def as_text(config: dict, files: Sequence[Path | str] = ()) -> None:
    """What `check` does to a config that is known to have no faults."""
    _as_text(config, [read_config_file(path)[0] for path in files])


def check_results(folder: Path) -> None:
    """Refuse a link to a disk that is not there, or a file, in the place of the folder of results (InputError)."""
    if folder.is_dir() or not (folder.exists() or folder.is_symlink()):
        return
    what = f"a link to {folder.readlink()}, which is not there" if folder.is_symlink() else "a file"
    raise InputError(f"{folder} is {what}: it must be a folder, or be made anew.")


def check_files(files: Sequence[Path | str]) -> None:
    """Refuse files that are no config, or hold code, before Snakemake reads them: it would run that code (InputError)."""
    read = [read_config_file(path) for path in files]
    if any(file.root is None or any(fault.code for fault in faults) for file, faults in read):
        raise InputError(listed(fault for _, faults in read for fault in faults))


def merged(files: Sequence[Path | str]) -> dict:
    """The files as one config, the later ones over the earlier, as Snakemake merges them; without code."""
    import yaml

    config: dict = {}
    for path in files:
        text = Path(path).read_text(encoding="utf-8-sig")
        own = yaml.safe_load(text.expandtabs())
        own.pop(YTE, None)
        config = over(config, own)
    return config


def faults_of(config: dict, schema: dict, code: Path, wanted: Iterable[str] = ()) -> tuple[list[Fault], list[Fault]]:
    """Faults and remarks of a merged config, without places."""
    found = [*_of_kind_unknown(config), *recipes.write_out(config)]
    # a block whose kind is not known has no further faults: all of its keys would be; nor has a recipe like no other
    blocks = {fault.key[:2] for fault in found}
    found += [fault for fault in schema_faults(config, schema) if fault.key[:2] not in blocks]
    checker = Checker(config, code, frozenset(wanted), found)
    checker.whole()
    return checker.faults, checker.remarks


def _of_kind_unknown(config: dict) -> list[Fault]:
    """Blocks that are neither a corpus nor observations because the key that says so is misspelt."""
    found = []
    datasets = config.get("datasets")
    for name, block in datasets.items() if isinstance(datasets, dict) else ():
        if isinstance(block, dict) and not {"observations", "corpus"} & block.keys():
            for key in block:
                if re.fullmatch("obs.*", str(key)):
                    found.append(Fault(("datasets", name, key), "unknown key; did you mean observations?"))
    return found


def _text_keys(config: dict) -> tuple[list[Fault], dict]:
    """The config with text for all keys, and a fault for each key that was none; blocks of x-... are as they are."""
    faults: list[Fault] = []

    def copy(value: object, key: Key) -> object:
        if isinstance(value, dict):
            for name in value:
                if not isinstance(name, str):
                    faults.append(Fault((*key, str(name)), f'{NO_TEXT} text; quote it: "{name}".'))
            return {str(name): copy(one, (*key, str(name))) for name, one in value.items()}
        return [copy(one, (*key, number)) for number, one in enumerate(value)] if isinstance(value, list) else value

    checked = {
        str(key): value if str(key).startswith("x-") else copy(value, (str(key),)) for key, value in config.items()
    }
    return faults, checked


def _as_text(config: dict, sources: Sequence[ConfigFile]) -> None:
    """Write one dataset to `run` as a list, and mixtures that are named by numbers as text, as the file spells them."""
    if isinstance(config.get("run"), str):
        config["run"] = [config["run"]]
    datasets = config.get("datasets")
    for name, block in datasets.items() if isinstance(datasets, dict) else ():
        for key, mixtures in _mixture_lists(block):
            for number, mixture in enumerate(mixtures):
                if isinstance(mixture, int) and not isinstance(mixture, bool):
                    spelt = source_text(sources, ("datasets", name, *key, number))
                    mixtures[number] = spelt if spelt is not None else str(mixture)


def _mixture_lists(block: object) -> Iterator[tuple[Key, list]]:
    """All lists of mixtures in a dataset's block, by their keys."""
    if not isinstance(block, dict):
        return
    groups = block.get("groups")
    for group, names in groups.items() if isinstance(groups, dict) else ():
        if isinstance(names, list) and group not in GROUPS:
            yield ("groups", group), names
    compare = block.get("compare")
    if isinstance(compare, dict) and isinstance(compare.get("mixtures"), list):
        yield ("compare", "mixtures"), compare["mixtures"]
    if isinstance(block.get("methods"), list):
        yield ("methods",), block["methods"]


def published_names(config: dict, dataset: str, code: Path) -> list[str]:
    """Mixtures of the published table that a dataset names; none where it names none, or one that cannot be read."""
    try:
        table = config["mixtures"]["published"].get(config["datasets"][dataset].get("published"))
        with Path(code, table).open(encoding="utf-8", newline="") as lines:
            return [f"published_{column}" for column in next(csv.reader(lines), [])[1:]]
    except (OSError, TypeError, ValueError):
        return []


def known_mixtures(config: dict, dataset: str, code: Path) -> list[str]:
    """Names that a dataset's groups may use, those of its swarm aside."""
    block = config["datasets"][dataset]
    fitted = ["bimix", "transfer"]
    if "swarm" in block:
        fitted += [*SWARM_LAWS, *(f"{law}_swarm" for law in LAWS)]
    else:
        fitted += [law for law in SWARM_LAWS if law in config["laws"]["optimise"]]
    reweighted = REWEIGHTING if "reweighting" in block else []
    own = block.get("mixture_files", {})
    own = own if isinstance(own, dict) else {}  # wrong, and said elsewhere
    return ["baseline", "uniform", *MEASURES, *published_names(config, dataset, code), *own, *reweighted, *fitted]


def swarm_names(config: dict, dataset: str) -> list[str]:
    """Mixtures of a dataset's swarm; none without a swarm."""
    runs = config["datasets"][dataset].get("swarm", {}).get("runs", 0)
    return [f"swarm_{number:04d}" for number in range(1, runs + 1)]


def merged_recipe(config: dict, settings: dict) -> dict:
    """Training settings in full: those of the recipe that `settings` names, with its changes."""
    recipe = {**config["training"].get(settings.get("recipe"), {}), **settings}
    return {key: value for key, value in recipe.items() if key != "recipe"}


def reweighting_changes(config: dict, dataset: str, method: str) -> list[dict]:
    """What says how a method that reweighs is trained, the last word last: the method, the dataset, the dataset's method."""
    settings = config["datasets"][dataset]["reweighting"]
    own = settings.get(method, {}).get("training", {})
    return [config[method].get("training", {}), settings.get("training", {}), own]


def reweighting_training(config: dict, dataset: str, method: str) -> dict:
    """Training settings of a method in full: of the recipe that is named last, else the model's, with all changes."""
    block, changes = config["datasets"][dataset], reweighting_changes(config, dataset, method)
    recipe = next((change["recipe"] for change in reversed(changes) if "recipe" in change), None)
    full = dict(config["training"][recipe] if recipe else block["training"][block["reweighting"]["model"]])
    for change in changes:
        full |= {name: value for name, value in change.items() if name != "recipe"}
    return full


def complete(config: dict) -> None:
    """Write out, in each dataset, what other blocks say for all of them; the groups compare, methods and swarm as groups."""
    recipes.write_out(config)
    for dataset, block in config["datasets"].items():
        if "observations" in block:
            # a group `all` takes every mixture; the one model is called observed
            block["groups"] = {group: [] if names == "all" else names for group, names in block["groups"].items()}
            block["groups"]["compare"] = block["compare"]["mixtures"]
            block["optimum"]["model"] = block["compare"]["model"] = "observed"
            continue
        block["corpus"] = config["corpus"] | block["corpus"]
        block["entropy"] = config["entropy"] | block.get("entropy", {})
        block["training"] = {model: merged_recipe(config, own) for model, own in block["training"].items()}
        block["groups"]["compare"] = block["compare"]["mixtures"]
        block["groups"]["methods"] = block.get("methods", [])
        if "swarm" in block:
            block["groups"]["swarm"] = swarm_names(config, dataset)
        if "reweighting" in block:
            settings = block["reweighting"]
            for method in REWEIGHTING:
                full = reweighting_training(config, dataset, method)
                settings[method] = config[method] | settings.get(method, {}) | {"training": full}
        if "downstream" in block:
            block["downstream"] = config["downstream"] | block["downstream"]


def is_evaluated(recipe: dict, step: int) -> bool:
    """Whether a training measures its losses at a step."""
    return step <= recipe["steps"] and (step % recipe["evaluate_every"] == 0 or step == recipe["steps"])


@dataclass
class Checker:
    """What no schema can say: names that stand elsewhere, numbers that go together, files.

    A check is left out where a fault of the schema lies in what it reads. `faults` grows.
    """

    config: dict
    code: Path
    wanted: frozenset[str]
    faults: list[Fault]
    remarks: list[Fault] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.broken = [fault.key for fault in self.faults]

    def fault(self, key: Key, sentence: str) -> None:
        self.faults.append(Fault(key, sentence))

    def remark(self, key: Key, sentence: str) -> None:
        self.remarks.append(Fault(key, sentence))

    def sound(self, *keys: Key) -> bool:
        """Whether the schema finds nothing wrong in, around or below any of the keys."""
        return not any(key[: len(bad)] == bad[: len(key)] for key in keys for bad in self.broken)

    def whole(self) -> None:
        config = self.config
        if self.sound(("run",)) and isinstance(config.get("datasets"), dict):
            for number, dataset in enumerate(config["run"]):
                if dataset not in config["datasets"]:
                    self.fault(("run", number), unknown("dataset", dataset, config["datasets"], "`datasets` has"))
        models = config.get("models")
        for model in models if isinstance(models, dict) else ():
            if self.sound(("models", model)):
                self.shape(("models", model, "shape"), config["models"][model]["shape"])
        datasets = config.get("datasets")
        for dataset, block in datasets.items() if isinstance(datasets, dict) else ():
            if isinstance(block, dict):
                check = DatasetChecker(self, dataset, block)
                check.observed() if "observations" in block else check.corpus()

    def shape(self, key: Key, shape: dict) -> None:
        """What `bimix.model.Shape` refuses."""
        width, heads = shape["width"], shape["heads"]
        if width % heads:
            self.fault((*key, "width"), f"{width} is not a multiple of heads, {heads}.")
        elif width // heads < 8 or width // heads // 4 % 2:
            self.fault(
                (*key, "width"),
                f"a quarter of the width of a head, {width} / {heads} = {width // heads}, must be even for the rotary"
                f" embedding; take a multiple of {8 * heads}.",
            )


class DatasetChecker:
    """The checks of one dataset's block."""

    def __init__(self, checker: Checker, dataset: str, block: dict) -> None:
        self.checker, self.dataset, self.block, self.config = checker, dataset, block, checker.config

    def key(self, *parts: str | int) -> Key:
        return "datasets", self.dataset, *parts

    def fault(self, *parts: str | int, sentence: str) -> None:
        self.checker.fault(self.key(*parts), sentence)

    def remark(self, *parts: str | int, sentence: str) -> None:
        self.checker.remark(self.key(*parts), sentence)

    def sound(self, *paths: str) -> bool:
        """Whether the block has what stands behind these paths (keys and slashes), and nothing is wrong in it."""
        for path in paths:
            found = self.block
            for key in path.split("/"):
                if not isinstance(found, dict) or key not in found:
                    return False
                found = found[key]
        return self.checker.sound(*(self.key(*path.split("/")) for path in paths))

    def sound_elsewhere(self, *paths: str) -> bool:
        """The same of the config's other blocks."""
        return self.checker.sound(*(tuple(path.split("/")) for path in paths))

    # A dataset whose models are trained

    def corpus(self) -> None:
        block = self.block
        if self.sound("domains"):
            self.sources()
        if isinstance(block.get("training"), dict):
            self.trainings()
            for model in block["seeds"] if self.sound("seeds") else ():
                self.trained("seeds", model, model=model)
            for name in ("optimum", "compare", "reweighting", "swarm", "downstream"):
                if self.sound(f"{name}/model"):
                    self.trained(name, "model", model=block[name]["model"])
        if self.sound("published") and self.sound_elsewhere("mixtures"):
            self.published()
        if self.sound_elsewhere("mixtures", "laws/optimise"):
            self.mixtures()
            if self.sound("reweighting"):
                self.reweighting()
        self.groups()
        known = block["domains"] if self.sound("domains") else None
        self.bounds(known, known)
        self.steps()
        if self.sound("downstream") and self.sound_elsewhere("downstream"):
            self.downstream()
        if self.dataset in self.checker.wanted:
            self.files()

    def trained(self, *parts: str, model: str) -> bool:
        """Whether the dataset says how a model is trained."""
        if model in self.block["training"]:
            return True
        self.fault(*parts, sentence=unknown("training settings for", model, self.block["training"], "`training` has"))
        return False

    def recipe(self, model: str) -> dict | None:
        """Training settings of a model in full, None where something is wrong with them."""
        if not self.sound(f"training/{model}") or not self.sound_elsewhere("training"):
            return None
        own = self.block["training"][model]
        return merged_recipe(self.config, own) if own["recipe"] in self.config["training"] else None

    def trainings(self) -> None:
        config = self.config
        for model, settings in self.block["training"].items():
            if not isinstance(config.get("models"), dict) or not isinstance(config.get("training"), dict):
                return
            if model not in config["models"]:
                self.fault("training", model, sentence=unknown("model", model, config["models"], "`models` has"))
            if self.sound(f"training/{model}/recipe") and settings["recipe"] not in config["training"]:
                sentence = unknown("recipe", settings["recipe"], config["training"], "`training` has")
                self.fault("training", model, "recipe", sentence=sentence)
            recipe = self.recipe(model)
            if recipe is None or not self.sound_elsewhere(f"models/{model}") or model not in config["models"]:
                continue
            launch = config["models"][model]["launch"]
            processes = max(launch["gpus"], 1) * launch["nodes"]
            if recipe["batch_rows"] < processes:
                self.fault(
                    *("training", model, "batch_rows"),
                    sentence=f"{recipe['batch_rows']} rows cannot be shared by the {processes} processes of {model}"
                    f" (gpus times nodes in its `launch`); each needs one at least.",
                )
            if recipe["evaluate_every"] > recipe["steps"]:
                self.remark(
                    *("training", model),
                    sentence=f"with evaluate_every {recipe['evaluate_every']:,} and {recipe['steps']:,} steps the losses are"
                    " measured once, at the end; a law over steps needs several.",
                )

    def published(self) -> None:
        tables, name = self.config["mixtures"]["published"], self.block["published"]
        if name not in tables:
            self.fault("published", sentence=unknown("table", name, tables, "mixtures/published has"))
            return
        try:
            with Path(self.checker.code, tables[name]).open(encoding="utf-8", newline="") as lines:
                header, *rows = [row for row in csv.reader(lines) if row] or [[]]
        except (OSError, UnicodeDecodeError) as error:
            self.fault("published", sentence=f"the table {tables[name]} cannot be read ({error}).")
            return
        if header[:1] != ["domain"] or len(header) < 2:
            self.fault("published", sentence=f"the table {tables[name]} must have a column domain and one a mixture.")
            return
        strange = [row[0] for row in rows if self.sound("domains") and row[0] not in self.block["domains"]]
        if strange:
            self.fault(
                "published",
                sentence=f"the table {tables[name]} has a domain {shown(strange[0])}, which `domains` has not.",
            )

    def mixtures(self) -> None:
        """Mixtures that a list names and nothing makes."""
        known = known_mixtures(self.config, self.dataset, self.checker.code)
        swarm = swarm_names(self.config, self.dataset) if self.sound("swarm") else []
        broken_swarm = "swarm" in self.block and not swarm
        counted = swarm and self.sound("domains")
        for key, names in _mixture_lists(self.block):
            if not self.checker.sound(self.key(*key)):
                continue
            for number, mixture in enumerate(names):
                if mixture in REWEIGHTING and mixture not in known:
                    self.fault(*key, number, sentence=f"{mixture!r} needs a block `reweighting` in the dataset.")
                elif mixture not in known and mixture not in swarm and not broken_swarm:
                    more = [f"{swarm[0]} to {swarm[-1]}"] if swarm else []
                    self.fault(*key, number, sentence=unknown("mixture", mixture, known + more, "the dataset knows"))
                elif counted and (lack := swarm_lack(self.config, self.dataset, mixture)) is not None:
                    self.fault(*key, number, sentence=lack)

    def groups(self) -> None:
        """Groups that `optimum` and `held_out` name and nothing makes."""
        if not self.sound("groups"):
            return
        known = [*self.block["groups"], "compare"]
        if "observations" not in self.block:
            known += ["methods"] + (["swarm"] if "swarm" in self.block else [])
        if self.sound("optimum/group") and self.block["optimum"]["group"] not in known:
            self.fault(
                "optimum", "group", sentence=unknown("group", self.block["optimum"]["group"], known, "`groups` has")
            )
        for number, group in enumerate(self.block["held_out"] if self.sound("held_out") else []):
            if group not in known:
                self.fault("held_out", number, sentence=unknown("group", group, known, "`groups` has"))

    def steps(self) -> None:
        """Steps of optima that no run reaches, or at which it has no loss."""
        block = self.block
        if self.sound("swarm"):
            recipe = self.recipe(block["swarm"]["model"])
            recipe = recipe and recipe | block["swarm"].get("training", {})
            step = block["swarm"]["step"]
            if recipe and not is_evaluated(recipe, step):
                self.fault(
                    *("swarm", "step"),
                    sentence=f"the losses of the swarm are measured every {recipe['evaluate_every']} steps and after the last,"
                    f" {recipe['steps']}, not at {step}.",
                )
        if self.sound("optimum/step", "optimum/model", "optimum/group"):
            recipe = self.recipe(block["optimum"]["model"])
            if recipe and block["optimum"]["group"] == "swarm" and self.sound("swarm"):
                recipe = recipe | block["swarm"].get("training", {})
            if recipe:
                every, last = recipe["evaluate_every"], recipe["steps"]
                self.fitted([*range(every, last, every), last])
                groups = block["groups"] if self.sound("groups") else {}
                names = groups.get(block["optimum"]["group"])
                if names is not None and self.sound("domains"):
                    self.enough(len(names), len(block["domains"]))

    def fitted(self, measured: list[int]) -> None:
        """Steps at which the runs are measured that laws are fitted to, and the step that the optimum is for."""
        step = self.block["optimum"]["step"]
        laws = self.config["laws"]["optimise"] if self.sound_elsewhere("laws/optimise") else []
        single = [law for law in laws if law in SWARM_LAWS or len(measured) == 1]
        curves = [law for law in laws if law not in single]
        wanted = self.dataset in self.checker.wanted
        if wanted and curves and len(measured) == 2:
            self.fault(
                *("optimum", "group"),
                sentence=f"its runs are measured at two steps, {measured[0]:,} and {measured[1]:,}, from which {named(curves)}"
                " cannot tell a curve: measure at three or more, or at one.",
            )
        if step in measured:
            return
        if wanted and single:
            self.fault(
                *("optimum", "step"),
                sentence=f"{named(single)} says nothing about the step {step:,}, at which no run is measured; there are"
                f" {named(f'{one:,}' for one in measured)}.",
            )
        elif step > measured[-1]:
            self.remark(*("optimum", "step"), sentence=_beyond(step, measured[-1]))
        elif step < measured[0]:
            sentence = f"{step:,} comes before the first measured step, {measured[0]:,}: the law extrapolates."
            self.remark("optimum", "step", sentence=sentence)
        else:
            before = max(one for one in measured if one < step)
            sentence = f"{step:,} lies between two measured steps, {before:,} and the next: the law fills in."
            self.remark("optimum", "step", sentence=sentence)

    def enough(self, runs: int, domains: int) -> None:
        """Refuse laws that need more runs than the group under `optimum` has."""
        if self.dataset not in self.checker.wanted:
            return
        if runs < 2:
            self.fault("optimum", "group", sentence="it has one mixture; a law needs the losses of two or more.")
        for law in self.config["laws"]["optimise"] if self.sound_elsewhere("laws/optimise") else []:
            least = LEAST_RUNS[law](domains)
            if law in SWARM_LAWS and 2 <= runs < least:
                self.fault(
                    *("optimum", "group"),
                    sentence=f"{law} (in laws/optimise) needs {least} runs at least for {domains} domains; the group has {runs}.",
                )

    def reweighting(self) -> None:
        settings, known = self.block["reweighting"], known_mixtures(self.config, self.dataset, self.checker.code)
        references = [name for name in known if name not in REWEIGHTING]
        if settings["reference"] not in references:
            self.fault("reweighting", "reference", sentence=unknown("mixture", settings["reference"], references))
        for method in filter(lambda method: self.checker.sound((method,)), REWEIGHTING):
            for change in reweighting_changes(self.config, self.dataset, method):
                name = change.get("recipe")
                if name not in [None, *self.config["training"]]:
                    sentence = unknown("recipe", name, self.config["training"])
                    self.fault("reweighting", method, "training", "recipe", sentence=sentence)
        targets = settings.get("targets")
        if not targets:
            return
        corpora = [
            name for name, block in self.config["datasets"].items() if isinstance(block, dict) and "corpus" in block
        ]
        if targets["dataset"] not in corpora:
            sentence = unknown("dataset", targets["dataset"], corpora, "with a corpus there are")
            self.fault("reweighting", "targets", "dataset", sentence=sentence)
        elif self.checker.sound(("datasets", targets["dataset"], "domains")):
            domains = self.config["datasets"][targets["dataset"]]["domains"]
            for number, domain in enumerate(targets["domains"]):
                if domain not in domains:
                    sentence = unknown("domain", domain, domains, f"{targets['dataset']} has")
                    self.fault("reweighting", "targets", "domains", number, sentence=sentence)

    def downstream(self) -> None:
        downstream = self.config["downstream"] | self.block["downstream"]
        recipe = self.recipe(downstream["model"])
        for number, step in enumerate(downstream["steps"] if recipe else []):
            if not is_evaluated(recipe, step):
                self.fault(
                    *("downstream", "steps", number),
                    sentence=f"{step} is no evaluation of {downstream['model']}, which has one every"
                    f" {recipe['evaluate_every']} steps up to {recipe['steps']}.",
                )
        if not self.sound("sequence_length"):
            return
        length = self.block["sequence_length"]
        if downstream["new_tokens"] >= length:
            self.fault("downstream", "new_tokens", sentence=f"no room is left for a question in {length} tokens.")
        if downstream["cache_tokens"] < length:
            sentence = f"fewer than the {length} of one prompt and its answer."
            self.fault("downstream", "cache_tokens", sentence=sentence)

    def sources(self) -> None:
        """Domains that the corpus names or leaves out."""
        domains, corpus = self.block["domains"], self.block.get("corpus")
        if not isinstance(corpus, dict):
            return
        for name in ("harvest", "train", "validation", "labels"):
            part = corpus.get(name)
            if (
                not self.sound(f"corpus/{name}")
                or not isinstance(part, dict)
                or (name == "validation" and {"share", "tokens"} & part.keys())
            ):
                continue
            for domain in part:
                if domain not in domains:
                    self.fault("corpus", name, domain, sentence=unknown("domain", domain, domains, "`domains` has"))
            lacking = [domain for domain in domains if domain not in part]
            if lacking and name != "labels":
                what = "harvest" if name == "harvest" else "files"
                self.fault(
                    "corpus", name, sentence=f"no {what} for {named(lacking)}; name some, or take it out of `domains`."
                )
        if not self.sound("corpus/domain_field", "corpus/labels"):
            return
        if corpus["domain_field"] is None:
            unmapped = [
                name for name in ("train", "validation") if name in corpus and isinstance(corpus[name], str | list)
            ]
            for name in unmapped:
                self.fault(
                    *("corpus", name),
                    sentence="files without a domain: name the field of the records that says it as `domain_field`, or map"
                    " domains to their files, as in `train: {web: web/*.jsonl}`.",
                )
        labels: dict[str, str] = {}
        for domain in domains:
            label = corpus["labels"].get(domain, domain)
            if label in labels and corpus["domain_field"] is not None:
                self.fault(
                    "corpus", "labels", sentence=f"{labels[label]!r} and {domain!r} have the same label {label!r}."
                )
            labels[label] = domain

    def bounds(self, answering: list[str] | None, trained: list[str] | None) -> None:
        """Weights of domains without a loss, bounds of domains that no run trains on, bounds that no mixture keeps to.

        `answering`: domains with losses, `trained`: domains of mixtures, None where they are not known.
        """
        optimum = self.block.get("optimum")
        bounds = [self.key("optimum", name) for name in ("weights", "lower", "upper")]
        if not isinstance(optimum, dict) or not self.checker.sound(*bounds):
            return
        for name, known in (("weights", answering), ("lower", trained), ("upper", trained)):
            for domain in optimum.get(name, {}):
                if known is not None and domain not in known:
                    self.fault("optimum", name, domain, sentence=unknown("domain", domain, known))
        weights, lower, upper = (optimum.get(name, {}) for name in ("weights", "lower", "upper"))
        if weights and not any(weights.values()):
            self.fault("optimum", "weights", sentence="all weights are 0: one at least must be above 0.")
        for domain in lower.keys() & upper.keys():
            if lower[domain] > upper[domain]:
                sentence = f"{lower[domain]:g} is above the upper bound of {domain!r}, {upper[domain]:g}."
                self.fault("optimum", "lower", domain, sentence=sentence)
        if math.fsum(lower.values()) > 1 + SUM_TOLERANCE:
            total = math.fsum(lower.values())
            self.fault("optimum", "lower", sentence=f"the lower bounds sum to {total:g}: no mixture holds more than 1.")
        if trained and upper and set(trained) <= upper.keys() and math.fsum(upper.values()) < 1 - SUM_TOLERANCE:
            total = math.fsum(upper.values())
            self.fault("optimum", "upper", sentence=f"the upper bounds sum to {total:g}: no mixture reaches 1.")

    # Files

    def files(self) -> None:
        """Files on this machine's disks that the config names and that are not there, or are none."""
        block, results = self.block, Path("results", self.dataset)
        if self.sound("tokenizer") and "file" in block["tokenizer"] and not Path(results, "tokenizer.json").exists():
            self.file("tokenizer", "file", path=block["tokenizer"]["file"])
        if self.sound("vectors") and "file" in block["vectors"]:
            self.file("vectors", "file", path=block["vectors"]["file"])
        for name, path in (block["mixture_files"] if self.sound("mixture_files") else {}).items():
            self.file("mixture_files", name, path=path)
        for task, settings in (block["downstream"]["tasks"] if self.sound("downstream") else {}).items():
            for key in ("items", "shots"):
                if isinstance(settings.get(key), str) and "://" not in settings[key]:
                    self.file("downstream", "tasks", task, key, path=settings[key])
        if not self.sound("corpus"):
            return
        corpus = self.block["corpus"]
        formats = corpus.get("formats")
        if formats is None and self.sound_elsewhere("corpus"):
            formats = self.config["corpus"]["formats"]
        for name in ("train", "validation"):
            part = corpus.get(name, {})
            if isinstance(part, dict) and {"share", "tokens"} & part.keys():
                continue
            for domain, patterns in part.items() if isinstance(part, dict) else [(None, part)]:
                key = ("corpus", name) if domain is None else ("corpus", name, domain)
                for number, pattern in enumerate([patterns] if isinstance(patterns, str) else patterns):
                    own = key if isinstance(patterns, str) else (*key, number)
                    self.pattern(own, pattern, formats)

    def pattern(self, key: Key, pattern: str, formats: dict[str, str] | None) -> None:
        """One path, glob or list of a corpus."""
        if pattern.startswith("@"):
            if self.file(*key, path=pattern[1:]):
                # what it says of its lines is said where they are read
                for line in Path(pattern[1:]).read_text(encoding="utf-8", errors="replace").split("\n"):
                    path = line.partition("\t")[0]
                    if path and "://" not in path and os.path.exists(path):
                        self.file(*key, path=path)
        elif "://" in pattern:
            return
        elif has_wildcards(pattern):
            if not any(os.path.isfile(path) for path in iglob(pattern, recursive=True)):
                self.fault(*key, sentence=f"no file matches {pattern!r}.")
        elif self.file(*key, path=pattern):
            name = re.sub(r"\.(gz|xz|zst)$", "", pattern)
            if formats and not any(name.endswith(ending) for ending in formats):
                self.fault(
                    *key,
                    sentence=f"{pattern!r} ends in none of {named(formats)}; say in corpus/formats what such files hold.",
                )

    def file(self, *key: str | int, path: str) -> bool:
        """Whether `path` is a file, or a link to one; a device or a pipe would be read without an end."""
        try:
            mode = os.stat(path).st_mode
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            self.fault(*key, sentence=f"{shown(path)} cannot be found ({reason}).")
            return False
        if stat.S_ISREG(mode):
            return True
        kind = "a folder; name its files, as in a glob" if stat.S_ISDIR(mode) else "a pipe or a device; name a file"
        self.fault(*key, sentence=f"{shown(path)} is {kind}.")
        return False

    # A dataset of losses measured elsewhere

    def observed(self) -> None:
        epochs = self.sound("optimum", "observations") and "max_epochs" in self.block["optimum"]
        if epochs and "tokens" not in self.block["observations"]:
            self.fault(
                *("optimum", "max_epochs"),
                sentence="name a table of domain and tokens as `tokens` under `observations`: it is not known how many"
                " there are.",
            )
        self.groups()
        answering = trained = None
        if self.dataset in self.checker.wanted and self.sound("observations"):
            there = [self.file("observations", name, path=path) for name, path in self.block["observations"].items()]
            if all(there):
                answering, trained = self.tables()
        self.bounds(answering, trained)

    def tables(self) -> tuple[list[str], list[str]] | tuple[None, None]:
        """Domains of the losses and of the mixtures, after a look for names that the config uses and the tables have not."""
        from bimix.laws.wide import read_losses, read_mixtures

        places = self.block["observations"]
        try:
            mixtures = read_mixtures(places["mixtures"])
            losses = read_losses(places["losses"], mixtures.names("domain"))
        except InputError as error:
            self.fault("observations", sentence=str(error))
            return None, None
        for key, read in (("losses", losses), ("mixtures", mixtures)):
            if read.remark:
                self.remark("observations", key, sentence=read.remark)
        trained = set(mixtures.names("mixture"))
        names = [name for name in losses.names("mixture") if name in trained]
        for key, mixtures_named in _mixture_lists(self.block):
            for number, mixture in enumerate(mixtures_named if self.checker.sound(self.key(*key)) else []):
                if mixture not in names:
                    there = f"{places['losses']} and {places['mixtures']} both have"
                    self.fault(*key, number, sentence=unknown("mixture", mixture, names, there))
        if self.sound("optimum/step", "optimum/group", "groups") and losses.table["step"].dtype.is_integer():
            group = self.block["groups"].get(self.block["optimum"]["group"], [])
            own = names if group == "all" else [name for name in names if name in group]
            of_group = losses.table["mixture"].cast(str).is_in(own)
            measured = losses.table.filter(of_group)["step"].drop_nulls().unique().sort().to_list()
            if measured:
                self.fitted(measured)
            if group == "all" or (group and set(group) <= set(names)):
                self.enough(len(own), len(mixtures.names("domain")))
        return losses.names("domain"), mixtures.names("domain")


def _beyond(step: int, last: int) -> str:
    return f"{step:,} is {step / last:.3g} times the last measured step, {last:,}: the law extrapolates."
