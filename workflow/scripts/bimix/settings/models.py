"""What a config may hold: one model for each block, every key optional.

The field's `description` is its meaning on docs/config.md, `allowed` what may stand there, where
that is not plain from its type, and `unset` what holds where neither the user nor
workflow/defaults.yaml sets it. What has no default (`NEEDED`), keys that exclude one another
(`EITHER`), keys that go together (`BESIDE`) and values that do not (`faults`) are looked at once the
defaults are in their places.
"""

import math
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from bimix.exports.formats import FORMATS
from bimix.laws.table import LAWS
from bimix.mixtures.names import SOURCES, runs_of
from bimix.names import meant, shown
from bimix.settings.files import name_fault

T, U = TypeVar("T"), TypeVar("U")
# What a check yields: the key in its block, as a path or a tuple, and a sentence; a third entry that
# is true makes it a remark.
Faults = Iterator[tuple]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
NAMES = "a name of at most 100 letters, digits, dots, dashes and underscores, the first a letter or digit"
# mixtures that the workflow makes itself, and what is near to these
USED = "|".join([*(source.pattern for source in SOURCES if source.pattern), "swarm_.*", ".*_swarm"])
OF_OWN = (
    "a name like any other that this workflow does not use itself, as baseline, uniform, the measures, laws and methods"
    " and what begins with published_, swarm_ or {law}_of_ or ends in _swarm"
)


def said(sentence: str) -> PydanticCustomError:
    """A fault whose sentence is known where it is found."""
    return PydanticCustomError("said", "{sentence}", {"sentence": sentence})


def where(holds: Callable[[Any], object]) -> AfterValidator:
    """What takes values for which something holds."""

    def check(value: T) -> T:
        if not holds(value):
            raise ValueError
        return value

    return AfterValidator(check)


def words(kind: Any, allowed: str, *more: Any, **bounds: Any) -> Any:
    """A type with the words on what is allowed."""
    return Annotated[kind, *more, Field(json_schema_extra={"allowed": allowed}, **bounds)]


def a_name(allowed: str, without: str = "(?!)") -> Any:
    """A kind of name."""
    return words(str, allowed, where(lambda name: NAME.fullmatch(name) and not re.fullmatch(without, name)))


def of_a_file(name: str) -> str:
    """A name that can be a file's."""
    if fault := name_fault(name):
        raise said(f"{shown(name)} cannot be a name here: {fault}.")
    return name


def once(entries: list) -> list:
    """A list in which nothing is twice."""
    for place, one in enumerate(entries):
        if one in entries[:place]:
            raise said(f"{shown(one)} is there twice; take one away.")
    return entries


def kind_of(value: object) -> str:
    """Which of several kinds a value is of: the tag of the one model that is to read it."""
    return "=object" if isinstance(value, dict) else "=array" if isinstance(value, list) else "=scalar"


def kind_of_dataset(value: object) -> str:
    return "=Observed" if isinstance(value, dict) and "observations" in value else "=Dataset"


def kind_of_validation(value: object) -> str:
    """A share to be drawn, or files; a block with a key like those of a share is one."""
    drawn = isinstance(value, dict) and (not value or any(meant(key, ["share"]) for key in value))
    return "=Drawn" if drawn else kind_of(value)


def either(by: Callable[[object], str] = kind_of, **kinds: Any) -> Any:
    """A type that is one of several kinds of value, as `by` says: scalar, array or object."""
    return Annotated[Union[*(Annotated[kind, Tag(f"={name}")] for name, kind in kinds.items())], Discriminator(by)]


def key(description: str, unset: str | None = None, allowed: str | None = None, **more: Any) -> Any:
    """A key that may be left out."""
    extra = {name: value for name, value in (("unset", unset), ("allowed", allowed)) if value is not None}
    return Field(None, description=description, **({"json_schema_extra": extra} if extra else {}), **more)


class Block(BaseModel):
    """A block of the config."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        defer_build=True,  # by Config, all at once: quicker
        json_schema_extra=lambda schema, model: model.arrange(schema),
    )
    NEEDED: ClassVar[str] = ""  # keys that must be set, where no default sets them
    EITHER: ClassVar[str] = ""  # of these, with commas between them, exactly one
    BESIDE: ClassVar[dict[str, str]] = {}

    @classmethod
    def arrange(cls, schema: dict) -> None:
        """Put a block's own keys before those that it has in common with others."""
        keys = schema.get("properties", {})
        names = [cls.model_fields[name].alias or name for name in cls.__annotations__ if name in cls.model_fields]
        schema["properties"] = {name: keys[name] for name in names} | keys
        if cls.NEEDED:
            schema["needed"] = cls.NEEDED.split()

    def faults(self) -> Faults:
        """What the block's own keys, each of its kind, contradict."""
        yield from ()


# Keys of `launch` that every training gets as a resource and as a flag, with their defaults; (): a
# model with a `shape` must set it.
LAUNCHED = {
    "micro_batch": (),
    "loss_chunk": (),
    "compile": (),
    "log_with": ("tensorboard",),
}
OF_SHAPE = "must be set with `shape`"
NO_WEIGHT = "all weights are 0: one at least must be above 0."
SUM_TOLERANCE = 1e-9
Count = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]
Part = Annotated[float, Field(gt=0, lt=1)]
Whole = Annotated[float, Field(gt=0, le=1)]
Text = Annotated[str, Field(min_length=1)]
Unique = Annotated[list[T], AfterValidator(once), Field(json_schema_extra={"uniqueItems": True})]
Some = Annotated[Unique[T], Field(min_length=1)]
Several = Annotated[Unique[T], Field(min_length=2)]
Filled = Annotated[list[T], Field(min_length=1)]
Two = Annotated[list[T], Field(min_length=2, max_length=2)]
NoneEmpty = Annotated[dict[T, U], Field(min_length=1)]

Name = a_name(NAMES)
OwnName = a_name(OF_OWN, USED)
Group = a_name("a name, but not compare or swarm", "compare|swarm")
ObservedGroup = a_name("a name, but not compare", "compare")
Task = words(str, "the name of a task, but not average, the mean over tasks", where(lambda name: name != "average"))
Domain = words(str, "the name of a domain", AfterValidator(of_a_file))
Mixture = words(
    str, "the name of a mixture (without @)", where(lambda name: "@" not in name), AfterValidator(of_a_file)
)
Mixtures = Some[Mixture]
Names = either(scalar=Literal["all"], array=Mixtures)
ModelName = words(str, "the name of a model")
MixtureName = words(str, "the name of a mixture")
RecipeName = words(str, "the name of a recipe of training")
File = words(str, "the path of a file", min_length=1)
Table = words(str, "the path of a .csv, .tsv or .parquet table", pattern=r"\.(csv|tsv|parquet)$")
Command = words(Text, "a program and its flags, with fields such as {mixture}")
Below = words(
    str,
    "a .csv, .tsv or .jsonl file below {folder}/, as each run has its own",
    where(lambda path: path.startswith("{folder}/") and ".." not in path and path.endswith((".csv", ".tsv", ".jsonl"))),
)
Law = Literal[tuple(LAWS)]
Family = words(Some[str], "a list of domains")
Numbers = words(dict[Domain, NotNegative], "a block of domains and their numbers")
EffectGrowth = words(float, "a number, 0.05 or more", ge=0.05)
Relatives = words(list[str | None], "a list of a source and a topic, each a name or null", min_length=1, max_length=2)
Strengths = words(Two[Positive], "two numbers above 0, the lesser first", where(lambda two: two[0] <= two[1]))
Labels = dict[Domain, str]
Formats = NoneEmpty[str, Literal["lines", "parquet", "text"]]
Backend = Literal["tokenizers", "gigatoken"]
TextField = words(str, "the name of a field of the records", min_length=1)
DomainField = words(str | None, "the name of a field of the records or null")
Path = words(str, "a path, a glob, an address or @ and the path of a list", min_length=1)
PathList = words(list[Path], "a list of them", min_length=1)
Paths = either(scalar=Path, array=PathList)
DomainPaths = words(dict[Domain, Paths], "a block of domains and their paths", min_length=1)
TrainPaths = words(dict[Domain, Paths], "a block of domains and their paths", min_length=2)
Revision = words(Text | None, "a branch, a tag or a commit of the repository, or null for main")


class Shape(Block):
    NEEDED = "layers width heads"
    layers: Count = key("Blocks of the transformer.")
    width: Count = key("Width of the residual stream: numbers that represent a token.")
    heads: Count = key("Heads of attention; the width of each is a multiple of 8.")

    def faults(self) -> Faults:
        """What `bimix.model.transformer.Shape` refuses."""
        width, heads = self.width, self.heads
        if width % heads:
            yield "width", f"{width} is not a multiple of heads, {heads}."
        elif width // heads < 8 or width // heads // 4 % 2:
            sentence = f"a quarter of the width of a head, {width} / {heads} = {width // heads}, must be even for the"
            yield "width", f"{sentence} rotary embedding; take a multiple of {8 * heads}."


class Launch(Block):
    NEEDED = "nodes gpus threads"
    nodes: Count = key("Machines that a training takes.")
    gpus: Natural = key("GPUs on each node; 0: the CPU.")
    threads: Count = key("CPU threads on each node.")
    micro_batch: Count | Literal["auto"] = key("Rows at once on a process; `auto`: as many as fit.", OF_SHAPE)
    loss_chunk: Count | Literal["all"] = key("Tokens whose logits exist at once; fewer are faster on a CPU.", OF_SHAPE)
    compile: Literal["yes", "no"] = key("Whether the model is compiled.", OF_SHAPE)
    log_with: Literal["tensorboard", "wandb", "trackio", "none"] = key("What draws a run's curves.", "tensorboard")


class Model(Block):
    NEEDED = "launch"
    EITHER = "shape, command"
    BESIDE = {"command": "losses parameters", "losses": "command", "format": "command", "parameters": "command"}
    shape: Shape = key("The size of the model.")
    command: Command = key("In the place of `shape`: the program that trains it ([trainers](trainers.md)).")
    format: Literal[tuple(FORMATS)] = key("Format of the command's file `{mixture}`.", "JSON of domain and proportion")
    parameters: Positive = key("Parameters of the command's model; each costs 6 FLOPs a token.")
    losses: Below = key("The file of `step`, `domain`, `loss` that the command writes.")
    launch: Launch = key("How its trainings are started; changes no result.")

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
    NEEDED = "name flops utilisation"
    name: Text = key("Its name, for the table.")
    flops: Positive = key("FLOP/s at its peak.")
    utilisation: Whole = key("The share of the peak that trainings reach.")


class Hardware(Block):
    NEEDED = "gpu cpu"
    gpu: Device = key("A GPU.")
    cpu: Device = key("A CPU thread.")


class Hours(Block):
    NEEDED = "cpu gpu"
    cpu: Positive = key("On a CPU.")
    gpu: Positive = key("On GPUs.")


class Ladder(Block):
    NEEDED = "device count hours"
    device: Literal["auto", "cpu", "gpu"] = key("The device that models are chosen for; `auto`: GPUs, else cores.")
    count: Count | Literal["auto"] = key("How many of these all jobs share; `auto`: all of this machine.")
    hours: Hours = key("Hours that all trainings of a dataset may take on it together, estimated by `hardware`.")


class Settings(Block):
    """Settings of a training, or what differs from another's."""

    steps: Annotated[int, Field(ge=1, le=10**8)] = key("Updates.")
    batch_rows: Count = key("Rows of an update.")
    evaluate_every: Count = key("Steps between two evaluations of the losses.")
    validation_rows: Count = key("Validation rows of each domain, at most.")
    learning_rate: Positive = key("Peak rate.")
    final_learning_rate: Positive = key("Rate at the end, at most the peak.")
    schedule: Literal["exponential", "warm_exponential", "doremi", "cosine"] = key(
        "`exponential`, the paper's; `warm_exponential`, after a warm-up; `doremi`, after it all but flat; `cosine`, "
        "after it."
    )
    warmup_share: Share = key("Share of the steps; `exponential` has none.")
    beta1: Share = key("Of AdamW.")
    beta2: Share = key("Of AdamW.")
    epsilon: Positive = key("Of AdamW.")
    weight_decay: NotNegative = key("Of AdamW.")
    max_gradient_norm: Positive = key("Norm to which larger gradients are clipped.")
    precision: Literal["no", "bf16"] = key('`"no"` is fp32.')
    seed: Natural = key("Seed of the initial weights and the order of rows.")


class Recipe(Settings):
    NEEDED = (
        "steps batch_rows evaluate_every validation_rows learning_rate final_learning_rate schedule "
        "warmup_share beta1 beta2 epsilon weight_decay max_gradient_norm precision seed"
    )
    like: str = key("The recipe whose other settings it takes.", "none", "the name of a recipe written out in full")


class Changes(Settings):
    recipe: RecipeName = key("The recipe that these settings change.")


class Training(Changes):
    NEEDED = "recipe"


class Temperature(Block):
    NEEDED = "exponent"
    exponent: NotNegative = key("1 keeps the shares, 0 makes all equal.")


class MixturesByRule(Block):
    NEEDED = "temperature"
    temperature: Temperature = key("The mixture `temperature`: token shares raised to a power.")


class Intervals(Block):
    NEEDED = "resamples level"
    resamples: Count = key("How many are drawn.")
    level: Part = key("The probability of an interval.")


class Laws(Block):
    NEEDED = "compare optimise seed intervals"
    compare: Some[Law] = key("Laws that are fitted and scored side by side.")
    optimise: Some[Law] = key("Laws that give an optimised mixture.")
    seed: Natural = key("Seed of all random draws.")
    prior: bool = key("Whether transfer starts from `cross_entropy.csv`, where text is counted.", "true")
    intervals: Intervals = key("Refits for those of coefficients and proportions ([laws](laws.md)).")


class Reading(Block):
    NEEDED = "text_field domain_field labels rejects shard_megabytes document_megabytes formats backend"
    text_field: TextField = key("The field of a record that holds the text.")
    domain_field: DomainField = key("The field that names a record's domain; `null`: domains have files of their own.")
    labels: Labels = key("Names of domains in the records, where they differ.")
    rejects: Share = key("The share of bad records that may be left out; 0: the first one stops the job.")
    shard_megabytes: Positive = key("Size of a shard (job) on average, of raw files as they lie on disk.")
    document_megabytes: Positive = key("Longer records are rejected, which bounds a job's memory.")
    formats: Formats = key("What a file holds, by its ending before `.gz`, `.xz` or `.zst`.")
    backend: Backend = key("The library that encodes; `gigatoken` is 20 times faster, where its ids are the same.")


# FLOPs, as a number or in YAML a text such as 2e18, or per cent of the large run.
Budget = Positive | Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?%?$")]


class Search(Block):
    NEEDED = "rounds of law least"
    rounds: Count = key("Rounds at most; a search ends where more gain less than the noise of a run.")
    of: Literal[1, 2] = key("Mixtures a round; the second is proposed by the other voice.")
    law: Law = key("The law that the runs correct.")
    least: Share = key("The part of its token share that a round leaves a domain without a `lower`.")


class SearchOfText(Search):
    NEEDED = "start rounds of law least"
    start: Mixtures = key(
        "Mixtures that are run first; no optimum of runs.",
        "token shares, uniform, temperature, the entropies, and rules by hand where domains are wanted",
    )
    budget: Budget = key(
        "What all runs may take, with those of `start`.",
        "by `rounds`",
        "a number of runs below 1,000,000, FLOPs, as 2.0e+18, or per cent of the large run, as 5%",
    )

    def faults(self) -> Faults:
        if (runs := runs_of(self.budget)) is not None and runs <= len(self.start):
            yield "budget", f"{runs:g} runs in all are spent by the {len(self.start)} of `start`: allow more."


class Downstream(Block):
    NEEDED = "model steps tasks"
    model: ModelName = key("The model whose runs on the mixtures of `compare` answer.")
    steps: Some[Count] = key("Steps whose weights answer: evaluations of its runs.")
    tasks: Some[Task] = key("Tasks of lm_eval, or of task files, by name.")
    task_files: Text = key(
        "A folder of task files of your own, whose names win.", "none; resources/tasks is always read", "a path"
    )
    shots: Natural = key("Solved examples before each question.", "as each task says")
    limit: Count = key("Questions of each task at most.", "all")
    batch_size: Count | Literal["auto"] = key("Questions at once; `auto`: as many as fit on a GPU.", "8")
    backend: Literal["hf", "vllm"] = key("What answers (`--model` of lm_eval).", "`hf`: transformers")


class Objective(Block):
    kind: Literal["weighted", "minimax", "no_worse_than"] = key(
        "The least average; the least worst loss over the reference's; or the average, no loss above the reference's.",
        "weighted",
    )
    weights: Numbers = key("Of the families, or of loss domains where there are none.", "all alike")
    families: NoneEmpty[Name, Family] = key("Loss domains that count as one; others weigh 0.", "each by itself")
    reference: MixtureName = key("The mixture that losses are compared with.", "the first of `compare`")
    margin: NotNegative = key("Of `no_worse_than`: how far a loss may be above the reference's, relative.", "0")
    effect_growth: EffectGrowth = key(
        "Of `no_worse_than`: how many times larger log effects are at the model of the bound.", "1"
    )

    def faults(self) -> Faults:
        of: dict[str, str] = {}
        for family, members in (self.families or {}).items():
            for number, domain in enumerate(members):
                if of.setdefault(domain, family) != family:
                    sentence = f"{domain} is in {of[domain]} as well; leave it in one family."
                    yield ("families", family, number), sentence
        if self.weights and not any(self.weights.values()):
            yield "weights", NO_WEIGHT
        kind = self.kind or "weighted"
        for name in ("margin", "effect_growth") if kind != "no_worse_than" else ():
            if getattr(self, name) is not None:
                yield name, f"it is of the kind no_worse_than; {kind} has none."


class Optimum(Block):
    group: str = key("The group that the laws are fitted to.", "the first of `groups`", "the name of a group")
    weights: Numbers = key("Weights of the domains' losses in the average; one that is left out weighs 0.", "all alike")
    step: Count = key("The step that the mixture is best at; not with `models`.", "of text the last of the proxy's run")
    max_epochs: Positive = key("How often a run may repeat a domain.", "16 with `models: auto`, else no bound")
    lower: Numbers = key("Least proportions.", "0")
    upper: Numbers = key("Greatest proportions.", "1")
    objective: Objective = key("What the mixture is [best at](objectives.md).", "the average loss by `weights`")

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
    NEEDED = "group step"


class OptimumOfText(Optimum):
    NEEDED = "group"
    BESIDE = {"for": "models"}
    model: ModelName = key("The model to whose losses the laws are fitted.", "the proxy: the first under `training`")
    models: Several[str] = key("In place of `model`: sizes to fit `transfer` to.", "one model", "a list of models")
    for_: ModelName = key("With `models`: the model that the mixture is best for.", "that of `compare`", alias="for")


class Export(Block):
    data: File = key("The files of each domain, as `data.json` has them.", "the dataset's own, if it has a corpus")
    run_tokens: Count = key("Tokens of the run that is exported.", "those of the larger model's run")


class Harvest(Block):
    NEEDED = "kind packages suffixes megabytes"
    kind: str = key("Which part of the files is text.")
    packages: Filled[str] = key("Packages that are installed.")
    suffixes: Filled[str] = key("Endings of their files.")
    megabytes: Positive = key("Text at most.")


class Drawn(Block):
    NEEDED = "share"
    share: Part = key("Share of the documents.", "must be set")


class Corpus(Reading):
    NEEDED = "validation text_field domain_field labels cut_characters rejects"
    EITHER = "train, harvest"
    harvest: dict[Domain, Harvest] = key("In the place of `train`: text of installed Python packages (the demo's).")
    train: either(scalar=Path, array=PathList, object=TrainPaths) = key("Files, of all domains or of each.")
    validation: either(kind_of_validation, Drawn=Drawn, scalar=Path, array=PathList, object=DomainPaths) = key(
        "What is held out: files, or a `share` of the documents by their hash.", "a share, by [the ladder](costs.md)"
    )
    validation_only: DomainPaths = key("Domains measured and not trained on; not with `bimix`.", "none")
    cut_characters: Count | None = key("Longer documents are cut at white space; `null`: none is.", "`100000`")
    held_out_characters: either(scalar=Count, object=dict[str, Count]) = key(
        "Of longer documents only the end is held out ([data](data.md#what-is-held-out)).",
        "by [the ladder](costs.md), else 20000",
        "a whole number above 0, or a block of domains with one each",
    )


class TrainedTokenizer(Block):
    NEEDED = "vocabulary share"
    vocabulary: Annotated[int, Field(ge=257)] = key("Token ids.", "by [the ladder](costs.md)")
    fewer: bool = key(
        "Whether few words may yield fewer ids.", "`true` where the ladder chose `vocabulary`, else `false`"
    )
    share: Whole = key("Share of the documents that trains it.", "all, up to 200 MB of text")


class Tokenizer(Block):
    NEEDED = "end_of_text"
    EITHER = "train, file, hub"
    BESIDE = {"revision": "hub"}
    train: TrainedTokenizer = key("A byte-level BPE is trained on the text.")
    file: File = key("A `tokenizer.json`.")
    hub: Text = key("A repository of the hub.", allowed="the name of a repository on the hub")
    revision: Revision = key("Of that repository.", "main")
    end_of_text: Text = key("The token that ends a document.", "`<|endoftext|>`", "the token that ends a document")


class Vectors(Block):
    NEEDED = "documents"
    EITHER = "train, file"
    file: File = key("A model in the format of FastText.")
    train: dict[str, Any] = key("Settings of FastText, as gensim names them.")  # it refuses what it does not know
    documents: Count = key("Documents of each domain, for training them and for the entropy.", "300")


class Stage(Block):
    NEEDED = "share mixture"
    share: Part = key("The stage's share of the run's steps.")
    mixture: MixtureName = key("Its mixture.")


Stages = words(list[Stage], "a list of stages", min_length=2)


class Swarm(Block):
    NEEDED = "model runs seed step"
    model: ModelName = key("The model that is trained.")
    runs: Annotated[int, Field(ge=2, le=1000)] = key("How many; their paths are words of one command.")
    seed: Natural = key("Seed of the drawn mixtures.")
    step: Count = key("The step of the optima.")
    training: Settings = key("What differs from the model's settings.", "nothing")


class Reweighting(Block):
    NEEDED = "model reference"
    model: ModelName = key("The model that is trained.")
    reference: str = key("The mixture of DoReMi's reference run.")
    training: Settings = key("What differs from the model's recipe, for both.", "nothing")
    doremi: Changes = key("What differs of DoReMi's.", "`schedule: doremi`")
    doge: Changes = key("What differs of DoGE's; a `recipe` takes the place of the model's, here and above.", "nothing")


class Compare(Block):
    NEEDED = "mixtures"
    mixtures: Mixtures = key("The reference is first.", "of text `[baseline, uniform, ce]`, `laws/optimise`, `found`")


class CompareOfText(Compare):
    NEEDED = "model mixtures"
    model: ModelName = key("The larger model.", "the last under `training`")


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


class Dataset(AnyDataset):
    NEEDED = "domains corpus tokenizer sequence_length groups training optimum held_out compare"
    domains: Several[Domain] = key("The domains that are mixed.", "the keys of `corpus/train`")
    corpus: Corpus = key("The text.")
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
        "that of `search`, where neither `groups` nor `optimum/group` or `models` is set; else none",
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
    NEEDED = "losses mixtures"
    losses: Table = key("Mixture, step, domain, loss in nats a token.")
    mixtures: Table = key("Mixture, domain, proportion.")
    metrics: Table = key("Mixture and a column for each metric, lower is better: further loss domains.", "none")
    tokens: File = key("Domain, tokens; needed where `optimum/max_epochs` is set.", "none")
    cross_entropy: Table = key("Domain, under, nats: the [prior](transfer.md#a-prior-from-text) of `transfer`.", "none")
    lower_is_better: Unique[Domain] = key("Metrics of which less is better, by any name.", "none", "a list of metrics")


class Observed(AnyDataset):
    """Losses measured elsewhere; nothing is trained."""

    NEEDED = "observations groups optimum held_out compare"
    observations: Observations = key("The tables of losses measured elsewhere; nothing is trained.")
    groups: NoneEmpty[ObservedGroup, Names] = key("Lists of mixtures by name; `all` takes all.", "`{fitted: all}`")
    optimum: OptimumOfLosses = key("What is optimised.")
    compare: Compare = key("Mixtures that are compared with the first of them.")


AnyKind = either(kind_of_dataset, Observed=Observed, Dataset=Dataset)


class Config(Block):
    """The whole config; its blocks of `x-...`, for anchors, are left out before it is read."""

    NEEDED = "run models hardware ladder training mixtures laws corpus search datasets"
    run: Some[str] = key(
        "The datasets that a plain `snakemake` builds.",
        "the datasets of the file given with `--configfile`, else of the folder's `config.yaml`, else `demo`",
        "names of datasets",
    )
    container: str | None = key("An image with `envs/requirements.txt` installed, for `--sdm apptainer`.")
    models: dict[Name, Model] = key("Models by name: a shape to train here, or a command, and how it is started.")
    hardware: Hardware = key("What `results/{dataset}/plan.csv` and the ladder assume.")
    ladder: Ladder = key("The machine and the time that [the ladder](costs.md) chooses models for.")
    training: dict[Name, Recipe] = key("Recipes of training by name; one may be `like` another, with changes.")
    mixtures: MixturesByRule = key("Mixtures by a rule that needs no search.")
    laws: Laws = key("Which laws are fitted, scored and optimised, and how intervals are drawn.")
    corpus: Reading = key("How corpora are read; a dataset may set these in its own `corpus`.")
    search: Search = key("Searches by rounds; a dataset with a block `search` may set these in it.")
    datasets: dict[Name, AnyKind] = key("The datasets by name: text to train on, or losses measured elsewhere.")
