"""The checks of one dataset's block: names that stand elsewhere, numbers that go together."""

import math

from bimix.errors import InputError
from bimix.names import unknown
from bimix.plan.laws import is_optimum
from bimix.plan.search import GROUP, search_names, search_runs
from bimix.plan.sources import BEST, REWEIGHTING, swarm_lack
from bimix.settings import objectives
from bimix.settings.block import BlockChecker
from bimix.settings.complete import (
    is_evaluated,
    known_mixtures,
    mixture_lists,
    reweighting_changes,
    swarm_names,
)
from bimix.settings.corpora import check_published, check_sources
from bimix.settings.fits import check_enough, check_fitted, check_sizes, check_steps
from bimix.settings.measured import check_measured, check_schedules
from bimix.settings.stages import check_stages

SUM_TOLERANCE = 1e-9
# Blocks that name a model.
MODEL_BLOCKS = ("optimum", "compare", "reweighting", "swarm", "downstream")


class DatasetChecker(BlockChecker):
    """The checks of one dataset's block."""

    # A dataset whose models are trained

    def corpus(self) -> None:
        block = self.block
        if self.sound("domains"):
            check_sources(self)
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
            check_published(self)
        if self.sound_elsewhere("mixtures", "laws/optimise"):
            self.mixtures()
            check_stages(self)
            if self.sound("reweighting") and self.sound_elsewhere("training"):
                self.reweighting()
        if self.sound("search"):
            self.search()
        self.groups()
        self.bounds(*((check_measured(self), block["domains"]) if self.sound("domains") else (None, None)))
        check_steps(self)
        check_schedules(self)
        if self.sound("downstream") and self.sound_elsewhere("downstream"):
            self.downstream()
        if self.dataset in self.checker.wanted:
            self.files()
        elif self.dataset in self.checker.named:
            self.remark_files()

    def trained(self, *parts: str | int, model: str) -> bool:
        """Whether the dataset says how a model is trained."""
        if model in self.block["training"]:
            return True
        self.fault(*parts, sentence=unknown("training settings for", model, self.block["training"], "`training` has"))
        return False

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

    def search(self) -> None:
        """What a search starts from must be there before it."""
        search = self.block["search"]
        for number, name in enumerate(search["start"]):
            if is_optimum(name) or name in (*BEST, *search_names(self.block)):
                self.fault(
                    "search", "start", number, sentence=f"{name!r} is found by runs: a search starts before them."
                )
        if search.get("budget", len(search["start"]) + 1) <= len(search["start"]):
            self.fault(
                *("search", "budget"),
                sentence=f"{search['budget']} runs in all are spent by the {len(search['start'])} of `start`: allow more.",
            )
        for group in self.block["groups"] if self.sound("groups") else ():
            if group == "search" or group.startswith("search_"):
                self.fault("groups", group, sentence="the search makes groups of this name: take another.")
        if self.sound("groups", "held_out", "optimum") and self.block["optimum"].get("group") == GROUP:
            runs = search_runs(self.block)
            for number, group in enumerate(self.block["held_out"]):
                names = self.block["groups"].get(group)
                if names and set(names) <= set(runs):
                    self.fault(
                        *("held_out", number),
                        sentence=f"all mixtures of {group!r} are runs of the search, to which the laws are fitted:"
                        " hold out one that it does not run.",
                    )

    def groups(self) -> None:
        """Groups that `optimum` and `held_out` name and nothing makes."""
        if not self.sound("groups"):
            return
        known = [*self.block["groups"], "compare"]
        if "observations" not in self.block:
            known += ["methods"] + [name for name in ("swarm", "search") if name in self.block]
        if self.sound("optimum/group") and self.block["optimum"]["group"] not in known:
            self.fault(
                "optimum", "group", sentence=unknown("group", self.block["optimum"]["group"], known, "`groups` has")
            )
        for number, group in enumerate(self.block["held_out"] if self.sound("held_out") else []):
            if group not in known:
                self.fault("held_out", number, sentence=unknown("group", group, known, "`groups` has"))

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
        for domain, bound in upper.items():
            if bound > 1:
                sentence = f"{bound:g} is above 1, and bounds are proportions: write 0.3 for 30 per cent."
                self.fault("optimum", "upper", domain, sentence=sentence)
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
        first = self.block["compare"]["mixtures"][0] if self.sound("compare/mixtures") else ""
        if is_optimum(first):
            self.fault(
                *("compare", "mixtures", 0),
                sentence=f"{first!r} is what a law finds now, and a run of that name may have had other proportions: name"
                " another mixture first, with which all others are compared.",
            )
        answering = trained = None
        if self.dataset in self.checker.wanted and self.sound("observations"):
            there = [
                self.file("observations", name, path=path)
                for name, path in self.block["observations"].items()
                if isinstance(path, str)
            ]
            if all(there):
                answering, trained = self.tables()
        self.bounds(answering, trained)

    def tables(self) -> tuple[list[str], list[str]] | tuple[None, None]:
        """Domains of the losses and of the mixtures, after a look for names that the config uses
        and the tables have not.
        """
        from bimix.observations import metrics, wide

        places = self.block["observations"]
        try:
            mixtures = wide.read_mixtures(places["mixtures"])
            losses = metrics.read_with_metrics(
                places["losses"], mixtures.names("domain"), places.get("metrics"), places.get("lower_is_better", ())
            )
        except InputError as error:
            self.fault("observations", sentence=str(error))
            return None, None
        for key, read in (("losses", losses), ("mixtures", mixtures)):
            if read.remark:
                self.remark("observations", key, sentence=read.remark)
        self.rows(losses.table, mixtures.table)
        proposed = [name for name in losses.names("mixture") if is_optimum(name)]
        if proposed and "all" in self.block["groups"].values():
            sentence = (
                f"{', '.join(proposed)}: called as what a law proposes, so the group `all` leaves it out of the fit."
            )
            self.remark("observations", "losses", sentence=sentence)
        trained = set(mixtures.names("mixture"))
        names = [name for name in losses.names("mixture") if name in trained]
        for key, mixtures_named in mixture_lists(self.block):
            for number, mixture in enumerate(mixtures_named if self.checker.sound(self.key(*key)) else []):
                if mixture not in names:
                    there = f"{places['losses']} and {places['mixtures']} both have"
                    self.fault(*key, number, sentence=unknown("mixture", mixture, names, there))
        if self.sound("optimum/step", "optimum/group", "groups") and losses.table["step"].dtype.is_integer():
            group = self.block["groups"].get(self.block["optimum"]["group"], [])
            own = [name for name in names if (not is_optimum(name) if group == "all" else name in group)]
            fitted = losses.table.filter(losses.table["mixture"].cast(str).is_in(own))
            measured = fitted["step"].drop_nulls().unique().sort().to_list()
            if "parameters" in fitted.columns and fitted["parameters"].drop_nulls().n_unique() > 1:
                check_sizes(self)
            elif measured:
                check_fitted(self, measured)
            if group == "all" or (group and set(group) <= set(names)):
                check_enough(self, len(own), len(mixtures.names("domain")))
        return losses.names("domain"), mixtures.names("domain")

    def rows(self, losses: object, mixtures: object) -> None:
        """Rows of the two tables that are refused, and what is remarkable in the others."""
        from bimix.observations.observations import observations

        places = self.block["observations"]
        names, allowed = (places["losses"], places["mixtures"]), places.get("allow_unmeasured", ())
        try:
            for remark in observations(losses, mixtures, names, allowed).remarks:
                self.remark("observations", "losses", sentence=remark)
        except InputError as error:
            self.fault("observations", sentence=str(error))
