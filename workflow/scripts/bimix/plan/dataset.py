"""A dataset for planning: its groups of runs, their recipes, the fits of laws.

It is a view of the checked and completed config, which it does not change. Paths are relative to the folder of `results`.
"""

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass

from bimix.errors import InputError
from bimix.laws.table import LAWS, OPTIMUM, is_optimum, one_size
from bimix.mixtures.names import SOURCES, MixtureNames, Source, at, observed_rank, wanted_rule
from bimix.plan.sources import OBSERVED, OBSERVED_BY_HAND, taken
from bimix.training.recipe import evaluations

INTERVAL_RUNS = 3  # a bootstrap draws among so many runs or more


@dataclass(frozen=True)
class Run:
    """A training of a model, in the folder runs/{model}/{mixture} or {mixture}@{seed}."""

    model: str
    name: str
    mixture: str
    seed: int


@dataclass(frozen=True)
class Fit:
    """A law fitted to a group of a model's runs, and the step of its optimum."""

    model: str
    law: str
    group: str
    step: int


@dataclass(frozen=True, eq=False)
class Dataset(MixtureNames):
    """A dataset of the config."""

    @property
    def folder(self) -> str:
        return f"results/{self.name}"

    def fault(self, key: str, sentence: str) -> InputError:
        """An error at a key of the dataset's block."""
        return InputError(f"config: datasets/{self.name}{f'/{key}' if key else ''}: {sentence}")

    @property
    def large(self) -> str:
        """The model under `compare`."""
        return self.block["compare"]["model"]

    @property
    def proxies(self) -> list[str]:
        """The models to which laws are fitted, smallest first; several only for laws over sizes."""
        optimum = self.block["optimum"]
        return optimum.get("models", [optimum["model"]])

    def mixture(self, name: str) -> str:
        return f"{self.folder}/mixtures/{name}.json"

    def mixture_table(self, group: str) -> str:
        return f"{self.folder}/mixtures/groups/{group}.parquet"

    def when(self, key: str, path: str) -> list[str]:
        """A path with the {entry} at a key of its block; none where there is no entry."""
        entry = at(self.block, key)
        return [path.replace("{dataset}", self.name).replace("{entry}", str(entry))] if entry else []

    def brought(self, table: str) -> list[str]:
        """A table that an observed dataset names; none otherwise."""
        return self.when(f"observations/{table}", "{entry}")

    def before(self, round: str) -> str:
        """The group of runs from which a round of a search is proposed."""
        return f"search_{int(round) - 1}"

    def losses(self, run: Run) -> str:
        """The losses of a run."""
        return f"{self.folder}/runs/{run.model}/{run.name}/losses.parquet"

    def runs(self, group: str, model: str) -> list[Run]:
        """Runs of a group: each mixture with the recipe's seed, then `seeds` (mixture@seed). Of a model
        under `compare` that a law over sizes reads, those mixtures alone that `compare` names: an
        optimum is in no group that its law is fitted to, so no law reads its own.
        """
        names = self.groups[group]
        if model == self.large and model in self.block["optimum"].get("models", ()) and group != "swarm":
            names = [name for name in names if name in self.compared]
        usual = self.block["training"][model]["seed"]
        more = [seed for seed in self.block.get("seeds", {}).get(model, []) if seed != usual]
        ends = {"": usual} | {f"@{seed}": seed for seed in more}
        return [Run(model, name + end, name, seed) for name in names for end, seed in ends.items()]

    def recipe(self, model: str, run: str) -> dict:
        """Training settings of a run: the model's or the swarm's, with the run's seed."""
        mixture, _, seed = run.partition("@")
        of_swarm = self.block.get("swarm", {}).get("model") == model and mixture in self.groups["swarm"]
        recipe = self.block["swarm"]["training"] if of_swarm else self.block["training"][model]
        return recipe | ({"seed": int(seed)} if seed else {})

    def run_tokens(self, model: str) -> int:
        """Tokens of a model's whole run."""
        recipe = self.block["training"][model]
        return recipe["steps"] * recipe["batch_rows"] * self.block["sequence_length"]

    @property
    def only_measured(self) -> list[str]:
        """Domains that are evaluated but not trained on."""
        return sorted(self.block["corpus"].get("validation_only", {}))

    def answering_runs(self) -> list[Run]:
        """The runs of `compare`, which answer questions, or none."""
        downstream = self.block.get("downstream")
        return self.runs("compare", downstream["model"]) if downstream else []

    def fit(self, mixture: str) -> Fit | None:
        """The fit of an optimum, or None. Errors: a lacking or small swarm; a law of one size."""
        if not (found := OPTIMUM.fullmatch(mixture)):
            return None
        (law, group), optimum = found.groups(), self.block["optimum"]
        if self.from_swarm(mixture):
            if lack := self.swarm_lack(mixture):
                raise self.fault("swarm/runs", lack)
            return Fit(self.block["swarm"]["model"], law, "swarm", self.block["swarm"]["step"])
        if mixture.endswith("_swarm") and not group:
            raise self.fault("", f"{mixture!r} needs a block `swarm` in the dataset.")
        if "models" in optimum and not LAWS[law].over_sizes:
            raise self.fault("optimum/models", one_size(law))
        return Fit(optimum["model"], law, group or optimum["group"], optimum["step"])

    def coefficients(self, fit: Fit) -> str:
        return f"{self.folder}/laws/{fit.model}/{fit.law}/{fit.group}/coefficients.json"

    @property
    def optimised_laws(self) -> list[str]:
        """Laws fitted to the group under `optimum`; for several sizes only laws over sizes."""
        several = "models" in self.block["optimum"]
        return [law for law in self.config["laws"]["optimise"] if LAWS[law].over_sizes or not several]

    @property
    def resampled_laws(self) -> list[str]:
        """Laws whose optimum is bootstrapped; with simulated mixtures that would take hours."""
        return [law for law in self.optimised_laws if LAWS[law].optimum != "simulated"]

    def fitted_size(self) -> tuple[int, int]:
        """Mixtures and evaluations of the fitted group, known before the first job; observations
        are counted in the table, 0 where it cannot be read. With several sizes each run counts
        once.
        """
        if self.observed:
            return self._counted()[:2]
        group = self.block["optimum"]["group"]
        if len(self.proxies) > 1:
            return len(self.groups[group]), 1
        recipe = self.block["swarm"]["training"] if group == "swarm" else self.block["training"][self.proxies[0]]
        return len(self.groups[group]), len(evaluations(recipe))

    @property
    def has_intervals(self) -> bool:
        """Whether laws are fitted to enough mixtures for a bootstrap."""
        return self.fitted_size()[0] >= INTERVAL_RUNS

    @property
    def observes_sizes(self) -> bool:
        """Whether its observed losses are of models of several sizes."""
        return self.observed and self._counted()[2] > 1

    def _counted(self) -> tuple[int, int, int]:
        """Mixtures, steps and sizes of the fitted group in a table; 0 where it cannot be read."""
        names, rows = self.groups[self.block["optimum"]["group"]], observed_rows(self.block["observations"]["losses"])
        rows = [row for row in rows if (row[0] in names if names else not is_optimum(str(row[0])))]
        mixtures, steps, sizes = (len({row[place] for row in rows if row[place] is not None}) for place in range(3))
        return mixtures, steps, sizes or min(mixtures, 1)

    def source(self, mixture: str) -> Source:
        """The source of a mixture. Errors: no rule makes it, or its runs are missing."""
        if self.observed and not is_optimum(mixture):
            by_hand = wanted_rule(mixture) and mixture not in taken(self)
            return OBSERVED_BY_HAND if by_hand else OBSERVED
        source = next((source for source in SOURCES if source.is_of(self, mixture)), None)
        if source is None:
            raise self.fault("", f"no mixture {mixture!r} can be made of this dataset.")
        if mixture == "vne" and "vectors" not in self.block:
            raise self.fault("", "the mixture vne needs document vectors: name it in a group.")
        # the runs of their searches must exist
        if source.rule == "optimize_mixture":
            self.fit(mixture)
        if source.rule == "mix_best":
            self.searched_runs(mixture)
        return source

    def staged(self, mixture: str) -> list[str]:
        """The mixtures of the stages of a mixture under `stages`."""
        return [stage["mixture"] for stage in self.block["stages"][mixture]]

    def rank(self, mixture: str) -> int:
        """The rank of a mixture by search cost."""
        source = self.source(mixture)
        if source is OBSERVED:
            return observed_rank(mixture)
        return max(map(self.rank, self.staged(mixture))) if source.rank is None else source.rank

    def searched_runs(self, best: str) -> tuple[str, str, int]:
        """Model, group and step of the ranked runs. Errors: no swarm; they cannot be ranked."""
        optimum, swarm = self.block["optimum"], self.block.get("swarm")
        if best == "best_swarm" and swarm is None:
            raise self.fault("", f"{best!r} needs a block `swarm` in the dataset.")
        if best == "best_swarm":
            found = swarm["model"], "swarm", swarm["step"]
        else:
            # the largest says most of a larger one, and of that under `compare` not all are trained
            model = [name for name in self.proxies if name != self.large or "models" not in optimum][-1]
            step = self.block["training"][model]["steps"] if "models" in optimum else optimum["step"]
            found = model, optimum["group"], step
        objective = optimum.get("objective", {})
        kind, reference = objective.get("kind", "weighted"), objective.get("reference")
        if kind != "weighted" and reference not in self.groups[found[1]]:
            sentence = f"is judged by {kind} against the losses of {reference!r}: name that in the group {found[1]}."
            raise self.fault("", f"{best!r} {sentence}")
        return found


def joined_models(config: Mapping) -> list[str]:
    """Names in paths for joined models of several sizes."""
    return sorted({block["optimum"]["model"] for block in config["datasets"].values() if "models" in block["optimum"]})


def observed_rows(path: str) -> frozenset[tuple]:
    """(mixture, step, parameters or None) of the rows of a table; empty if it cannot be read."""
    return _rows(path, os.stat(path).st_mtime_ns if os.path.exists(path) else None)


@functools.cache
def _rows(path: str, stamp: int | None) -> frozenset[tuple]:
    import polars as pl  # here only: it costs each call of Snakemake a quarter of a second

    from bimix.tables import read_table, renamed

    try:
        table = renamed(read_table(path), path)
        size = pl.col("parameters") if "parameters" in table.columns else pl.lit(None).alias("parameters")
        return frozenset(table.select(pl.col("mixture").cast(pl.String), "step", size).unique().iter_rows())
    except (InputError, pl.exceptions.PolarsError):
        return frozenset()
