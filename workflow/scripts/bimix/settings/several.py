"""The checks of `optimum: {models, for}`: laws fitted to models of several sizes, and an optimum
for another.
"""

from bimix.names import named, unknown
from bimix.plan.laws import JOINS, LAWS
from bimix.plan.sources import from_swarm, one_size
from bimix.settings.block import BlockChecker
from bimix.settings.complete import mixture_lists

LONGEST = 100  # letters of the models' names together, which become part of paths


class SizesChecker(BlockChecker):
    """The checks of one dataset's block that optimises for a model of another size."""

    def whole(self) -> None:
        if not self.sound("optimum"):
            return
        optimum = self.block["optimum"]
        if "models" not in optimum:
            if "for" in optimum:
                self.fault(
                    *("optimum", "for"),
                    sentence="a law of one size says nothing of another: name two or more models under `models`.",
                )
            return
        for key, why in (
            ("model", "`models` names the models that the laws are fitted to"),
            ("step", "a law over sizes tells the end of a run, and `for` has its own steps under `training`"),
        ):
            if key in optimum:
                self.fault("optimum", key, sentence=f"{why}: take {key} away.")
        if self.trained_models():
            self.sizes()
        self.runs()
        self.laws()

    def trained_models(self) -> bool:
        """Whether the dataset says how each of the models is trained."""
        optimum, training = self.block["optimum"], self.block.get("training")
        if not isinstance(training, dict):
            return False
        keys = [(("models", number), model) for number, model in enumerate(optimum["models"])]
        keys += [(("for",), optimum["for"])] if "for" in optimum else []
        lacking = [(key, model) for key, model in keys if model not in training]
        for key, model in lacking:
            sentence = unknown("training settings for", model, training, "`training` has")
            self.fault("optimum", *key, sentence=sentence)
        return not lacking

    def sizes(self) -> None:
        """Models of one shape, and names too long for a path."""
        models = self.block["optimum"]["models"]
        length = len(JOINS.join(models))
        if length > LONGEST:
            sentence = f"their names joined have {length} letters, and names of files {LONGEST} at most: shorten some."
            self.fault("optimum", "models", sentence=sentence)
        if not self.sound_elsewhere(*(f"models/{model}" for model in models)):
            return
        blocks = [self.config["models"].get(model, {}) for model in models]
        shapes = [block.get("shape", block.get("parameters")) for block in blocks]
        for number, shape in enumerate(shapes):
            if shape is not None and shape in shapes[:number]:
                other = models[shapes.index(shape)]
                self.fault(
                    *("optimum", "models", number),
                    sentence=f"{models[number]} has the shape of {other}: a law over sizes needs models of several.",
                )

    def runs(self) -> None:
        """Runs that a law over sizes cannot be fitted to, or that nothing compares with it."""
        block, optimum = self.block, self.block["optimum"]
        if optimum.get("group") == "swarm":
            self.fault(
                "optimum", "group", sentence="the swarm is trained with one model: name a group of `groups` instead."
            )
        elif self.sound("groups", "optimum/group") and len(block["groups"].get(optimum["group"], "two")) < 2:
            sentence = "it has one mixture; a law needs the losses of two or more."
            self.fault("optimum", "group", sentence=sentence)
        if self.sound("simulate_epochs") and block["simulate_epochs"]:
            sentence = "each of `optimum/models` would have pools of its own, and a law over sizes reads one of each domain: take it away."
            self.fault("simulate_epochs", sentence=sentence)
        if self.sound("held_out") and block["held_out"]:
            self.remark(
                "held_out", sentence="a law over sizes is not scored on held-out groups; it predicts their losses only."
            )
        if self.sound("compare/model") and optimum.get("for", block["compare"]["model"]) != block["compare"]["model"]:
            self.remark(
                *("optimum", "for"),
                sentence=f"`compare` trains {block['compare']['model']}: what is predicted of {optimum['for']} is not measured.",
            )

    def laws(self) -> None:
        """Laws of one size, as far as this dataset would need them."""
        if not self.sound_elsewhere("laws/optimise"):
            return
        optimise = self.config["laws"]["optimise"]
        single = [law for law in optimise if law in LAWS and not LAWS[law].over_sizes]
        if len(single) == len(optimise):
            sentence = (
                f"{named(single)} (in laws/optimise) are fitted to losses of one size of model: add transfer there."
            )
            self.fault("optimum", "models", sentence=sentence)
        elif single:
            sentence = (
                f"{named(single)} (in laws/optimise) is fitted to losses of one size of model, and left out here."
            )
            self.remark("optimum", "models", sentence=sentence)
        for key, names in mixture_lists(self.block):
            for number, mixture in enumerate(names if self.checker.sound(self.key(*key)) else []):
                single = mixture in LAWS and not LAWS[mixture].over_sizes
                if single and not from_swarm(self.config, self.dataset, mixture):
                    self.fault(*key, number, sentence=one_size(mixture))
