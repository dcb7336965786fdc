"""The checks of one dataset's block: names that stand elsewhere, numbers that go together."""

import csv
import math
from pathlib import Path

from bimix.config import objectives
from bimix.config.blocks import BlockChecker
from bimix.config.complete import (
    is_evaluated,
    known_mixtures,
    measurements,
    merged_recipe,
    mixture_lists,
    reweighting_changes,
    swarm_names,
)
from bimix.config.measured import check_measured, check_schedules
from bimix.config.stages import check_stages
from bimix.errors import InputError
from bimix.faults.fault import named, shown, unknown
from bimix.plan.laws import LAWS, SWARM_LAWS
from bimix.plan.settings import evaluations
from bimix.plan.sources import REWEIGHTING, swarm_lack

SUM_TOLERANCE = 1e-9
# Blocks that name a model.
MODEL_BLOCKS = ("optimum", "compare", "reweighting", "swarm", "downstream")


class DatasetChecker(BlockChecker):
    """The checks of one dataset's block."""

    # A dataset whose models are trained

    def corpus(self) -> None:
        block = self.block
        if self.sound("domains"):
            self.sources()
        if "models" in block and self.sound("models"):
            self.fault(
                "models", sentence="auto stands beside `training`, which names the models; take one of them away."
            )
        if isinstance(block.get("training"), dict):
            self.trainings()
            named = [("seeds", model, model) for model in (block["seeds"] if self.sound("seeds") else ())]
            offered = block["design"]["models"] if self.sound("design/models") else []
            named += [("design", "models", place, model) for place, model in enumerate(offered)]
            blocks = [name for name in MODEL_BLOCKS if self.sound(f"{name}/model")]
            for *key, model in named + [(name, "model", block[name]["model"]) for name in blocks]:
                self.trained(*key, model=model)
        if self.sound("published") and self.sound_elsewhere("mixtures"):
            self.published()
        if self.sound_elsewhere("mixtures", "laws/optimise"):
            self.mixtures()
            check_stages(self)
            if self.sound("reweighting") and self.sound_elsewhere("training"):
                self.reweighting()
        self.groups()
        self.bounds(*((check_measured(self), block["domains"]) if self.sound("domains") else (None, None)))
        self.steps()
        check_schedules(self)
        if self.sound("downstream") and self.sound_elsewhere("downstream"):
            self.downstream()
        if self.dataset in self.checker.wanted:
            self.files()

    def trained(self, *parts: str | int, model: str) -> bool:
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
        for key, names in mixture_lists(self.block):
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
                    sentence=f"the losses of the swarm are measured {measurements(recipe)}, not at {step}.",
                )
        if self.sound("optimum/step", "optimum/model", "optimum/group"):
            recipe = self.recipe(block["optimum"]["model"])
            if recipe and block["optimum"]["group"] == "swarm" and self.sound("swarm"):
                recipe = recipe | block["swarm"].get("training", {})
            if recipe:
                self.fitted(evaluations(recipe))
                groups = block["groups"] if self.sound("groups") else {}
                names = groups.get(block["optimum"]["group"])
                if names is not None and self.sound("domains"):
                    self.enough(len(names), len(block["domains"]))

    def fitted(self, measured: list[int]) -> None:
        """Steps at which the runs are measured that laws are fitted to, and the step that the
        optimum is for.
        """
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
            least = LAWS[law].least_runs(domains)
            if LAWS[law].refuses_few and 2 <= runs < least:
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
        """Weights of domains without a loss, bounds of domains that no run trains on, bounds that
        no mixture keeps to.

        `answering`: domains with losses, `trained`: domains of mixtures, None where they are not
        known.
        """
        objectives.check(self, answering)
        optimum = self.block.get("optimum")
        bounds = [self.key("optimum", name) for name in ("weights", "lower", "upper")]
        if not isinstance(optimum, dict) or not self.checker.sound(*bounds):
            return
        for name, known in (("weights", answering), ("lower", trained), ("upper", trained)):
            for domain in optimum.get(name, {}):
                if known is not None and domain not in known:
                    self.fault("optimum", name, domain, sentence=unknown("domain", domain, known))
        lower, upper = (optimum.get(name, {}) for name in ("lower", "upper"))
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
        """Domains of the losses and of the mixtures, after a look for names that the config uses
        and the tables have not.
        """
        from bimix.observed import metrics, wide

        places = self.block["observations"]
        try:
            mixtures = wide.read_mixtures(places["mixtures"])
            losses = metrics.read_with_metrics(places["losses"], mixtures.names("domain"), places.get("metrics"))
        except InputError as error:
            self.fault("observations", sentence=str(error))
            return None, None
        for key, read in (("losses", losses), ("mixtures", mixtures)):
            if read.remark:
                self.remark("observations", key, sentence=read.remark)
        trained = set(mixtures.names("mixture"))
        names = [name for name in losses.names("mixture") if name in trained]
        for key, mixtures_named in mixture_lists(self.block):
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
