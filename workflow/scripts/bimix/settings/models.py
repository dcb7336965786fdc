"""What a config may hold: its blocks, of those that the rooms below have, with what only a config says.

A key that may be left out has None, or a default of its own, until the defaults of a dataset are in
their places (complete.py); what must be set is required here.
"""

import math
import re
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, Field

from bimix.blocks import (
    Block,
    Count,
    Faults,
    Natural,
    NoneEmpty,
    NotNegative,
    Positive,
    Share,
    Some,
    Text,
    Unique,
    changes,
    described,
    key,
    kind_of,
    need,
    refusal,
    tagged_union,
    value_at,
)
from bimix.corpus.reading import ReadingKeys
from bimix.exports.formats import FORMATS
from bimix.laws.table import LAWS
from bimix.mixtures.names import SOURCES
from bimix.model.shape import ShapeKeys
from bimix.names import meant, shown
from bimix.optimum.config import NO_WEIGHT, ObjectiveKeys
from bimix.training.recipe import RecipeKeys

T = TypeVar("T")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
NAMES = "a name of at most 100 letters, digits, dots, dashes and underscores, the first a letter or digit"
BYTES = 200  # of a name as UTF-8: file systems take 255, endings and temporary names need the rest
NO_FILE = re.compile(r"^-|^\.{1,2}$|[/{}]|<[a-z][a-z0-9_]*>")
# mixtures that the workflow makes itself, and what is near to these
USED = "|".join([*(source.pattern for source in SOURCES if source.pattern), "swarm_.*", ".*_swarm"])
OF_OWN = (
    "a name like any other that this workflow does not use itself, as baseline, uniform, the measures, laws and methods"
    " and what begins with published_, swarm_ or {law}_of_ or ends in _swarm"
)


def name_type(allowed: str, without: str = "(?!)") -> Any:
    """A kind of name."""
    return described(str, allowed, lambda name: NAME.fullmatch(name) and not re.fullmatch(without, name))


def check_file_name(name: str) -> str:
    """A name that can be a file's, and that Snakemake takes for neither a wildcard nor a folder of paths."""
    fits = name.isprintable() and 0 < len(name.encode("utf-8", "replace")) <= BYTES
    if not fits or NO_FILE.search(name):
        sentence = (
            f"{shown(name)} cannot be a name here, since files are called by it: take a printable name of at most"
        )
        raise refusal(
            ((), f"{sentence} {BYTES} bytes that does not begin with - and has no /, {{, }} or <word> in it.")
        )
    return name


def kind_of_dataset(value: object) -> str:
    found = isinstance(value, dict) and "corpus" not in value and any(str(name).startswith("obs") for name in value)
    return "=Observed" if found else "=Dataset"


def kind_of_recipe(value: object) -> str:
    return "=LikeRecipe" if isinstance(value, dict) and "like" in value else "=RecipeKeys"


def kind_of_validation(value: object) -> str:
    """A share to be drawn, or files; a block with a key like those of a share is one."""
    drawn = isinstance(value, dict) and (not value or any(meant(key, ["share"]) for key in value))
    return "=Drawn" if drawn or isinstance(value, Drawn) else kind_of(value)


# Keys of `launch` that every training gets as a resource and as a flag, with their defaults; (): a
# model with a `shape` must set it.
LAUNCHED = {
    "micro_batch": (),
    "loss_chunk": (),
    "compile": (),
    "log_with": ("tensorboard",),
}
OF_SHAPE = "must be set with `shape`"
SUM_TOLERANCE = 1e-9
Part = Annotated[float, Field(gt=0, lt=1)]
Whole = Annotated[float, Field(gt=0, le=1)]
Several = Annotated[Unique[T], Field(min_length=2)]
Filled = Annotated[list[T], Field(min_length=1)]
Two = Annotated[list[T], Field(min_length=2, max_length=2)]

Name = name_type(NAMES)
OwnName = name_type(OF_OWN, USED)
LawName = name_type(
    "a name that no law and no mixture of the workflow has",
    "|".join(
        [source.pattern for source in SOURCES if source.pattern and source.rule != "optimize_mixture"]
        + [name for name, law in LAWS.items() if not law.is_own]
    ),
)
Group = name_type("a name, but not compare or swarm", "compare|swarm")
ObservedGroup = name_type("a name, but not compare", "compare")
Task = described(str, "the name of a task, but not average, the mean over tasks", lambda name: name != "average")
Domain = Annotated[described(str, "the name of a domain"), AfterValidator(check_file_name)]
Mixture = Annotated[
    described(str, "the name of a mixture (without @)", lambda name: "@" not in name), AfterValidator(check_file_name)
]
Mixtures = Some[Mixture]
Names = tagged_union(scalar=Literal["all"], array=Mixtures)
ModelName = described(str, "the name of a model")
MixtureName = described(str, "the name of a mixture")
File = described(str, "the path of a file", min_length=1)
Table = described(
    str, "the path of a .csv, .tsv or .parquet table", lambda path: path.endswith((".csv", ".tsv", ".parquet"))
)
Command = described(Text, "a program and its flags, with fields such as {mixture}")
Below = described(
    str,
    "a .csv, .tsv or .jsonl file below {folder}/, as each run has its own",
    lambda path: path.startswith("{folder}/") and ".." not in path and path.endswith((".csv", ".tsv", ".jsonl")),
)
Law = Literal[tuple(LAWS)]
Python = described(str, "the path of a Python file", lambda path: path.endswith(".py"))
Numbers = described(dict[Domain, NotNegative], "a block of domains and their numbers")
Relatives = described(
    list[str | None], "a list of a source and a topic, each a name or null", min_length=1, max_length=2
)
Strengths = described(Two[Positive], "two numbers above 0, the lesser first", lambda two: two[0] <= two[1])
Path = described(str, "a path, a glob, an address or @ and the path of a list", min_length=1)
PathList = described(list[Path], "a list of them", min_length=1)
Paths = tagged_union(scalar=Path, array=PathList)
DomainPaths = described(dict[Domain, Paths], "a block of domains and their paths", min_length=1)
TrainPaths = described(dict[Domain, Paths], "a block of domains and their paths", min_length=2)
Revision = described(Text | None, "a branch, a tag or a commit of the repository, or null for main")


class Launch(Block):
    nodes: Count = need("Machines that a training takes.")
    gpus: Natural = need("GPUs on each node; 0: the CPU.")
    threads: Count = need("CPU threads on each node.")
    micro_batch: Count | Literal["auto"] = key("Rows at once on a process; `auto`: as many as fit.", OF_SHAPE)
    loss_chunk: Count | Literal["all"] = key("Tokens whose logits exist at once; fewer are faster on a CPU.", OF_SHAPE)
    compile: Literal["yes", "no"] = key("Whether the model is compiled.", OF_SHAPE)
    log_with: Literal["tensorboard", "wandb", "trackio", "none"] = key("What draws a run's curves.", "tensorboard")


class Model(Block):
    EITHER = "shape, command"
    BESIDE: ClassVar = {
        "command": "losses parameters",
        "losses": "command",
        "format": "command",
        "parameters": "command",
    }
    shape: ShapeKeys = key("The size of the model.")
    command: Command = key("In the place of `shape`: the program that trains it ([trainers](trainers.md)).")
    format: Literal[tuple(FORMATS)] = key("Format of the command's file `{mixture}`.", "JSON of domain and proportion")
    parameters: Positive = key("Parameters of the command's model; each costs 6 FLOPs a token.")
    losses: Below = key("The file of `step`, `domain`, `loss` that the command writes.")
    launch: Launch = need("How its trainings are started; changes no result.")

    def faults(self) -> Faults:
        given = self.launch.model_fields_set
        for name, usual in LAUNCHED.items():
            if self.shape and not usual and name not in given:
                yield f"launch/{name}", "the key is missing; a model with a `shape` needs it."
            if self.command and name in given:
                yield f"launch/{name}", "a command is not given it: take it away."
        if self.command:
            from bimix.training.command import fault  # brings polars

            if sentence := fault(self.command):
                yield "command", sentence


class Device(Block):
    name: Text = need("Its name, for the table.")
    flops: Positive = need("FLOP/s at its peak.")
    utilisation: Whole = need("The share of the peak that trainings reach.")


class Hardware(Block):
    gpu: Device = need("A GPU.")
    cpu: Device = need("A CPU thread.")


class Hours(Block):
    cpu: Positive = need("On a CPU.")
    gpu: Positive = need("On GPUs.")


class Ladder(Block):
    device: Literal["auto", "cpu", "gpu"] = need("The device that models are chosen for; `auto`: GPUs, else cores.")
    count: Count | Literal["auto"] = need("How many of these all jobs share; `auto`: all of this machine.")
    hours: Hours = need("Hours that all trainings of a dataset may take on it together, estimated by `hardware`.")


class LikeRecipe(changes(RecipeKeys)):
    like: described(str, "the name of a recipe written out in full") = need(
        "The recipe whose other settings it takes.", "none"
    )


class Changes(changes(RecipeKeys)):
    recipe: described(str, "the name of a recipe of training") = key("The recipe that these settings change.")


class Training(changes(RecipeKeys)):
    recipe: described(str, "the name of a recipe of training") = need("The recipe that these settings change.")


AnyRecipe = tagged_union(kind_of_recipe, RecipeKeys=RecipeKeys, LikeRecipe=LikeRecipe)


class Temperature(Block):
    exponent: NotNegative = need("1 keeps the shares, 0 makes all equal.")


class MixturesByRule(Block):
    temperature: Temperature = need("The mixture `temperature`: token shares raised to a power.")


class Intervals(Block):
    resamples: Count = need("How many are drawn.")
    level: Part = need("The probability of an interval.")


class Laws(Block):
    compare: Some[Law] = need("Laws that are fitted and scored side by side.")
    optimise: Some[Law] = need("Laws that give an optimised mixture.")
    seed: Natural = need("Seed of all random draws.")
    prior: bool = key("Whether transfer starts from `cross_entropy.csv`, where text is counted.", "true")
    own: dict[LawName, Python] = key("Laws of your own, by name ([how](contributing.md#add-a-law)).", "none")
    intervals: Intervals = need("Refits for those of coefficients and proportions ([laws](laws.md)).")


# FLOPs, as a number or in YAML a text such as 2e18, or per cent of the large run.
Budget = Positive | Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?%?$")]


class CorpusKeys(ReadingKeys):
    domain_field: described(str | None, "the name of a field of the records or null") = need(
        "The field that names a record's domain; `null`: domains have files of their own."
    )
    labels: dict[Domain, str] = need("Names of domains in the records, where they differ.")
    shard_megabytes: Positive = need("Size of a shard (job) on average, of raw files as they lie on disk.")
    backend: Literal["tokenizers", "gigatoken"] = need(
        "The library that encodes; `gigatoken` is 20 times faster, where its ids are the same."
    )


class Search(Block):
    rounds: Count = need("Rounds at most; a search ends where more gain less than the noise of a run.")
    of: Literal[1, 2] = need("Mixtures a round; the second is proposed by the other voice.")
    law: Law = need("The law that the runs correct.")
    least: Share = need("The part of its token share that a round leaves a domain without a `lower`.")


class SearchOfText(changes(Search)):
    start: Mixtures = key(
        "Mixtures that are run first; no optimum of runs.",
        "token shares, uniform, temperature, the entropies, and rules by hand where domains are wanted",
    )
    budget: Budget = key(
        "What all runs may take, with those of `start`.",
        "by `rounds`",
        "a number of runs below 1,000,000, FLOPs, as 2.0e+18, or per cent of the large run, as 5%",
    )


class Downstream(Block):
    model: ModelName = need("The model whose runs on the mixtures of `compare` answer.")
    steps: Some[Count] = need("Steps whose weights answer: evaluations of its runs.")
    tasks: Some[Task] = need("Tasks of lm_eval, or of task files, by name.")
    task_files: Text = key(
        "A folder of task files of your own, whose names win.", "none; resources/tasks is always read", "a path"
    )
    shots: Natural = key("Solved examples before each question.", "as each task says")
    limit: Count = key("Questions of each task at most.", "all")
    batch_size: Count | Literal["auto"] = key("Questions at once; `auto`: as many as fit on a GPU.", "8")
    backend: Literal["hf", "vllm"] = key("What answers (`--model` of lm_eval).", "`hf`: transformers")


class Optimum(Block):
    group: str = key("The group that the laws are fitted to.", "the first of `groups`", "the name of a group")
    weights: Numbers = key("Weights of the domains' losses in the average; one that is left out weighs 0.", "all alike")
    step: Count = key("The step that the mixture is best at; not with `models`.", "of text the last of the proxy's run")
    max_epochs: Annotated[float, Field(gt=0, allow_inf_nan=True)] = key(
        "How often a run may repeat a domain; `.inf`: as often as it likes.",
        "6 in a run of up to 1e10 tokens, 16 from 1e11 on; `olmix`: 4",
    )
    lower: Numbers = key("Least proportions.", "0")
    upper: Numbers = key("Greatest proportions.", "1")
    objective: ObjectiveKeys = key("What the mixture is [best at](objectives.md).", "the average loss by `weights`")

    def faults(self) -> Faults:
        lower, upper = self.lower or {}, self.upper or {}
        if self.weights and not any(self.weights.values()):
            yield "weights", NO_WEIGHT
        for domain in lower.keys() & upper.keys():
            if lower[domain] > upper[domain]:
                sentence = f"{lower[domain]:g} is above the upper bound of {domain!r}, {upper[domain]:g}."
                yield ("lower", domain), sentence
        for domain, bound in upper.items():
            if bound > 1:
                sentence = f"{bound:g} is above 1, and bounds are proportions: write 0.3 for 30 per cent."
                yield ("upper", domain), sentence
        if (least := math.fsum(lower.values())) > 1 + SUM_TOLERANCE:
            yield "lower", f"the lower bounds sum to {least:g}: no mixture holds more than 1."


class OptimumOfLosses(Optimum):
    step: Count = need("The step that the mixture is best at.")


class OptimumOfText(Optimum):
    REPLACES: ClassVar = {"models": "model step", "model": "models"}
    model: ModelName = key("The model to whose losses the laws are fitted.", "the proxy: the first under `training`")
    models: Several[str] = key(
        "In place of `model`: sizes to fit `transfer` to; of that under `compare` what it runs of the group.",
        "one model",
        "a list of models",
    )
    for_: Annotated[ModelName, Field(alias="for")] = key(
        "A larger model that the mixture is best for.", "with `models` that of `compare`, else `model` itself"
    )


class Export(Block):
    data: File = key("The files of each domain, as `data.json` has them.", "the dataset's own, if it has a corpus")
    run_tokens: Count = key("Tokens of the run that is exported.", "those of the larger model's run")


class Harvest(Block):
    kind: str = need("Which part of the files is text.")
    packages: Filled[str] = need("Packages that are installed.")
    suffixes: Filled[str] = need("Endings of their files.")
    megabytes: Positive = need("Text at most.")


class Drawn(Block):
    share: Part = need("Share of the documents.")


class Corpus(changes(CorpusKeys)):
    EITHER = "train, harvest"
    harvest: dict[Domain, Harvest] = key("In the place of `train`: text of installed Python packages (the demo's).")
    train: tagged_union(scalar=Path, array=PathList, object=TrainPaths) = key("Files, of all domains or of each.")
    validation: tagged_union(kind_of_validation, Drawn=Drawn, scalar=Path, array=PathList, object=DomainPaths) = key(
        "What is held out: files, or a `share` of the documents by their hash.", "a share, by [the ladder](costs.md)"
    )
    validation_only: DomainPaths = key("Domains measured and not trained on; not with `bimix`.", "none")
    cut_characters: Count | None = key("Longer documents are cut at white space; `null`: none is.", "`100000`")
    held_out_characters: tagged_union(scalar=Count, object=dict[str, Count]) = key(
        "Of longer documents only the end is held out ([data](data.md#what-is-held-out)).",
        "by [the ladder](costs.md), else 20000",
        "a whole number above 0, or a block of domains with one each",
    )


class TrainedTokenizer(Block):
    vocabulary: Annotated[int, Field(ge=257)] = key("Token ids.", "by [the ladder](costs.md)")
    fewer: bool = key(
        "Whether few words may yield fewer ids.", "`true` where the ladder chose `vocabulary`, else `false`"
    )
    share: Whole = key("Share of the documents that trains it.", "all, up to 200 MB of text")


class Tokenizer(Block):
    EITHER = "train, file, hub"
    BESIDE: ClassVar = {"revision": "hub"}
    train: TrainedTokenizer = key("A byte-level BPE is trained on the text.")
    file: File = key("A `tokenizer.json`.")
    hub: Text = key("A repository of the hub.", allowed="the name of a repository on the hub")
    revision: Revision = key("Of that repository.", "main")
    end_of_text: Text = key("The token that ends a document.", "`<|endoftext|>`", "the token that ends a document")


class Vectors(Block):
    EITHER = "train, file"
    ONE = False  # without a file they are trained
    file: File = key("A model in the format of FastText.")
    train: dict[str, Any] = key("Settings of FastText, as gensim names them.")  # it refuses what it does not know
    documents: Count = key("Documents of each domain, for training them and for the entropy.", "300")


class Stage(Block):
    share: Part = need("The stage's share of the run's steps.")
    mixture: MixtureName = need("Its mixture.")


Stages = described(list[Stage], "a list of stages", min_length=2)


class Swarm(Block):
    model: ModelName = need("The model that is trained.")
    runs: Annotated[int, Field(ge=2, le=1000)] = need("How many; their paths are words of one command.")
    seed: Natural = need("Seed of the drawn mixtures.")
    step: Count = need("The step of the optima.")
    training: changes(RecipeKeys) = key("What differs from the model's settings.", "nothing")


class Reweighting(Block):
    model: ModelName = need("The model that is trained.")
    reference: str = need("The mixture of DoReMi's reference run.")
    training: changes(RecipeKeys) = key("What differs from the model's recipe, for both.", "nothing")
    doremi: Changes = key("What differs of DoReMi's.", "`schedule: doremi`")
    doge: Changes = key("What differs of DoGE's; a `recipe` takes the place of the model's, here and above.", "nothing")


class Compare(Block):
    mixtures: Mixtures = need("The reference is first.")


class CompareOfText(Compare):
    mixtures: Mixtures = key("The reference is first.", "`[baseline, uniform, ce]`, `laws/optimise`, `found`")
    model: ModelName = key("The larger model.", "the last under `training`")


# A key of a dataset at fault where the other stands, too, and why.
APART = (
    ("models", "training", "auto chooses what the other names"),
    ("optimum/model", "optimum/models", "both name what the laws are fitted to"),
    ("optimum/step", "optimum/models", "a law over sizes predicts the end of the run of `for`"),
    ("simulate_epochs", "optimum/models", "each model would have pools of its own, and the law reads one of a domain"),
    ("optimum/weights", "optimum/objective/weights", "the objective has weights of its own"),
    ("optimum/weights", "optimum/objective/families", "the objective has weights of its own"),
)


class AnyDataset(Block):
    centre: MixtureName = key("The mixture that draws and Olmix' penalty are centred on.", "token shares")
    strengths: Strengths = key(
        "Least and greatest strength of draws (strong: near the centre).", "[0.1, 5], as RegMix has it"
    )
    held_out: Unique[str] = key("Groups that the laws must predict.", "none", "a list of groups")
    domain_groups: dict[str, Relatives] = key(
        "{domain: [source, topic]}: domains of one of these help alike ([groups](transfer.md#groups-of-domains)).",
        "as names say that are split at `:` or `/`",
    )
    export: Export = key("Files and run of [exports](export.md).", "the dataset's own files, if it has text")

    def faults(self) -> Faults:
        for name, other, why in APART:
            if value_at(self, name.split("/")) and value_at(self, other.split("/")):
                yield name, f"it does not go with `{other}`: {why}. Take one of them away."


class Dataset(AnyDataset):
    domains: Several[Domain] = key("The domains that are mixed.", "the keys of `corpus/train`")
    corpus: Corpus = need("The text.")
    tokenizer: Tokenizer = key("The tokenizer.", "a byte-level BPE that is trained on the text")
    sequence_length: Annotated[int, Field(ge=2)] = key("Tokens of a row.", "128 on a CPU, 1,024 on GPUs")
    simulate_epochs: bool = key("Whether small runs repeat domains as often as the larger run.", "false")
    vectors: Vectors = key("Document vectors for the mixture `vne`.", "trained on the text where a list names `vne`")
    published: str = key(
        "A table with a column a mixture, `published_{column}`.", "none", "pile, slimpajama or the path of a .csv table"
    )
    mixture_files: dict[OwnName, File] = key("Your own mixtures: JSON, or csv of domain, proportion.", "none")
    stages: dict[OwnName, Stages] = key("Mixtures that change within a run ([stages](mixtures.md#stages)).", "none")
    groups: NoneEmpty[Group, Mixtures] = key(
        "Lists of mixtures; the proxy is trained on those of `optimum` and `held_out`.",
        "`{candidates: [baseline, se, je, ce, vne, uniform]}`",
    )
    models: Literal["auto"] = key("Models and steps are chosen ([ladder](costs.md)).", "`auto` without `training`")
    training: NoneEmpty[str, Training] = key("Recipes by model: the proxy first, the larger last.", "by the ladder")
    search: SearchOfText = key(
        "A search by rounds ([page](search.md)): mixtures `round1`, ..., and `found`.",
        "that of `search`, where neither `groups` nor `optimum/group` is set and a round trains one model; else none",
    )
    swarm: Swarm = key("Small runs on mixtures drawn around the token shares (RegMix): the group `swarm`.", "none")
    seeds: dict[str, Unique[Natural]] = key(
        "Seeds of further runs of each mixture.", "none", "lists of seeds by model, as {target: [2, 3]}"
    )
    reweighting: Reweighting = key("The model that DoReMi and DoGE train.", "none")
    optimum: OptimumOfText = key("What is optimised.")
    downstream: Downstream = key("Questions to the models.", "none")
    compare: CompareOfText = key("The larger model's runs, compared with the first of them.")


class Observations(Block):
    losses: Table = need("Mixture, step, domain, loss in nats a token.")
    mixtures: Table = need("Mixture, domain, proportion.")
    metrics: Table = key("Mixture and a column for each metric, lower is better: further loss domains.", "none")
    tokens: File = key("Domain, tokens; needed where `optimum/max_epochs` is set.", "none")
    cross_entropy: Table = key("Domain, under, nats: the [prior](transfer.md#a-prior-from-text) of `transfer`.", "none")
    lower_is_better: Unique[Domain] = key("Metrics of which less is better, by any name.", "none", "a list of metrics")


class Observed(AnyDataset):
    """Losses measured elsewhere; nothing is trained."""

    observations: Observations = need("The tables of losses measured elsewhere; nothing is trained.")
    groups: NoneEmpty[ObservedGroup, Names] = key("Lists of mixtures by name; `all` takes all.", "`{fitted: all}`")
    optimum: OptimumOfLosses = need("What is optimised.")
    compare: Compare = need("Mixtures that are compared with the first of them.")


AnyKind = tagged_union(kind_of_dataset, Observed=Observed, Dataset=Dataset)


class Config(Block):
    """The whole config; its blocks of `x-...`, for anchors, are left out before it is read."""

    run: Some[str] = need(
        "The datasets that a plain `snakemake` builds.",
        "the datasets of the file given with `--configfile`, else of the folder's `config.yaml`, else `demo`",
        "names of datasets",
    )
    container: str | None = key("An image with `envs/requirements.txt` installed, for `--sdm apptainer`.")
    models: dict[Name, Model] = need("Models by name: a shape to train here, or a command, and how it is started.")
    hardware: Hardware = need("What `results/{dataset}/plan.csv` and the ladder assume.")
    ladder: Ladder = need("The machine and the time that [the ladder](costs.md) chooses models for.")
    training: dict[Name, AnyRecipe] = need("Recipes of training by name; one may be `like` another, with changes.")
    mixtures: MixturesByRule = need("Mixtures by a rule that needs no search.")
    laws: Laws = need("Which laws are fitted, scored and optimised, and how intervals are drawn.")
    corpus: CorpusKeys = need("How corpora are read; a dataset may set these in its own `corpus`.")
    search: Search = need("Searches by rounds; a dataset with a block `search` may set these in it.")
    datasets: dict[Name, AnyKind] = need("The datasets by name: text to train on, or losses measured elsewhere.")
