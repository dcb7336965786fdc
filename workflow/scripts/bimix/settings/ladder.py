"""Which models to train for how long, by the tokens that there are and the machine: `models: auto`.

The larger model is the largest rung whose run of 20 tokens a parameter (Hoffmann et al. 2022)
repeats the text four times at most (Muennighoff et al. 2023) and ends in time with all other runs.
The proxy has about an eighth of its parameters and is trained on as many rows in as many steps, so
that both have the same axis of steps. Rates and the batch follow the compute C of a run in FLOPs:
rate 0.3118 C^-0.1250, batch 0.2920 C^0.3271 tokens (DeepSeek LLM, Bi et al. 2024, Sec. 3.1), the
rate at most as high as the demo's.

What was chosen is kept while the text stays as it is: a job on another machine, or a call from a
login node, must find the models that the first call chose.
"""

import contextlib
import json
import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bimix.corpus.files import is_remote, raw_files
from bimix.errors import InputError
from bimix.model.shape import Shape

Sizes = dict[str, int]  # bytes of text by domain; under "" where the records say which is theirs
EVALUATIONS = 10  # of a run: points of the law's curve over steps
LEAST_STEPS = 100
MOST_VALIDATION_ROWS = 512
EVALUATION_SHARE = 1 / 8  # of a run's time
FORWARD_SHARE = 1 / 3  # of an update's FLOPs
TOKENS_PER_PARAMETER = 20  # of the larger model's run (Hoffmann et al. 2022, Sec. 3.4)
EPOCHS = 4  # of all text: repeated so often it is nearly as good as new (Muennighoff et al. 2023)
# Of the smallest domain under `uniform`: there a repetition is worth 1/e of new text (the same).
REPEATS = 16
PROXY = 1 / 8  # of the larger model's parameters
HIGHEST_RATE = 3e-3  # the demo's
CUT_CHARACTERS = 100_000  # of a document, for the tokenizer: 140 bytes of memory each
SEQUENCE_LENGTH = {"cpu": 128, "gpu": 1024}
# On a CPU more ids would cost a small model more than its blocks.
VOCABULARY = {"cpu": (512, 2048), "gpu": (512, 32_768)}
TOKENIZER_BYTES = 200_000_000  # of text that it is trained on, at most
VALIDATION_BYTES = 60_000  # of the smallest domain, as far as the share allows
VALIDATION_SHARE = (0.01, 0.1)
DOCUMENTS = 10  # of each domain in its validation: longer documents give their ends
HELD_OUT_CHARACTERS = (1_000, 1_000_000)
PACKED = {".gz": 3, ".zst": 3.5, ".xz": 4, ".parquet": 2, ".ds": 2}  # bytes of text in a byte of a file


@dataclass(frozen=True)
class Rung:
    """A shape of the model: `layers` blocks of `width` with `heads` heads."""

    layers: int
    width: int
    heads: int

    @property
    def name(self) -> str:
        return f"{self.layers}x{self.width}"

    def shape(self, vocabulary: int) -> Shape:
        return Shape(**asdict(self), vocabulary=vocabulary)


# Heads of 32 up to a width of 384, then of 64; twice to three times the parameters from rung to
# rung.
SHAPES = [(2, 32, 1), (2, 64, 2), (3, 96, 3), (4, 128, 4), (5, 192, 6), (6, 256, 8), (8, 384, 12), (8, 512, 8)]
SHAPES += [(12, 640, 10), (12, 768, 12), (16, 1024, 16), (16, 1536, 24), (16, 2048, 32), (24, 2048, 32)]
RUNGS = tuple(Rung(*shape) for shape in SHAPES)


@dataclass(frozen=True)
class Choice:
    """The two models and what both are trained with; rates are the proxy's and the larger one's."""

    proxy: Rung
    larger: Rung
    batch_rows: int
    steps: int
    validation_rows: int
    proxy_rate: float
    larger_rate: float

    def tokens(self, sequence_length: int) -> int:
        """Tokens of a run."""
        return self.steps * self.batch_rows * sequence_length


def choose(
    vocabulary: int,
    sequence_length: int,
    *,
    tokens: float,
    least: float,
    domains: int,
    flops: float,
    fitted: int,
    compared: int,
) -> Choice:
    """The rungs and settings for `tokens` in all and of the smallest of the `domains`, FLOPs, and so many
    runs of the proxy and of the larger model; the lowest rungs may run shorter.
    """
    at_most = min(EPOCHS * tokens, REPEATS * domains * least)

    def cost(rung: Rung) -> int:
        return rung.shape(vocabulary).flops_per_token(sequence_length)

    for larger in reversed(RUNGS[1:]):
        proxy = proxy_of(larger, vocabulary)
        wanted = TOKENS_PER_PARAMETER * larger.shape(vocabulary).parameters
        allowed = min(at_most, flops / (compared * cost(larger) + fitted * cost(proxy)))
        if wanted <= allowed:
            break
    tokens = max(min(wanted, allowed), 1)
    compute = tokens * cost(larger)
    rows = 2 ** max(round(math.log2(0.2920 * compute**0.3271 / sequence_length)), 0)
    total = tokens / sequence_length
    while rows > 1 and total / rows < LEAST_STEPS:
        rows //= 2
    steps = max(int(total / rows) // EVALUATIONS, 1) * EVALUATIONS
    measured = steps * rows * EVALUATION_SHARE / FORWARD_SHARE / (EVALUATIONS * max(domains, 1))
    return Choice(
        proxy=proxy,
        larger=larger,
        batch_rows=rows,
        steps=steps,
        validation_rows=int(min(max(measured, 8), MOST_VALIDATION_ROWS)),
        proxy_rate=rate(tokens * cost(proxy)),
        larger_rate=rate(compute),
    )


def proxy_of(larger: Rung, vocabulary: int) -> Rung:
    """The rung below whose parameters are nearest to PROXY of a larger one's."""
    wanted = math.log(larger.shape(vocabulary).parameters * PROXY)
    below = RUNGS[: RUNGS.index(larger)]
    return min(below, key=lambda rung: abs(math.log(rung.shape(vocabulary).parameters) - wanted))


def rate(compute: float) -> float:
    """Peak learning rate of a run of so many FLOPs, to two digits."""
    return float(f"{min(0.3118 * compute**-0.1250, HIGHEST_RATE):.1e}")


def settings(choice: Choice, of_larger: bool, kind: str) -> dict[str, object]:
    """Training settings of one of the two models: the paper's recipe and what differs from it."""
    peak = choice.larger_rate if of_larger else choice.proxy_rate
    return {
        "recipe": "paper",
        "steps": choice.steps,
        "batch_rows": choice.batch_rows,
        "evaluate_every": choice.steps // EVALUATIONS,
        "validation_rows": choice.validation_rows,
        "learning_rate": peak,
        "final_learning_rate": float(f"{peak / 10:.1e}"),
        "precision": "bf16" if kind == "gpu" else "no",
    }


def launch(kind: str, threads: int, batch_rows: int) -> dict[str, object]:
    """How a rung is started: each run on one GPU, or one core."""
    if kind == "gpu":
        device = {"gpus": 1, "threads": threads, "micro_batch": "auto", "loss_chunk": "all", "compile": "yes"}
    else:
        device = {"gpus": 0, "threads": 1, "micro_batch": min(batch_rows, 8), "loss_chunk": 128, "compile": "no"}
    return {"nodes": 1} | device


def device_flops(
    hardware: Mapping[str, Mapping[str, float]], hours: Mapping[str, float], kind: str, count: int
) -> float:
    """FLOPs of all devices together in the hours that all runs may take."""
    device = hardware[kind]
    return device["flops"] * device["utilisation"] * count * hours[kind] * 3600


# How much text a corpus has, by the sizes of its files, before any of them is read


def text_bytes(config: dict, dataset: str) -> Sizes:
    """Bytes of training text by domain, of packed files by PACKED; 0 of files that are not there,
    and of one far away of unknown size a shard.
    """
    corpus = config["datasets"][dataset]["corpus"]
    if "harvest" in corpus:
        return {domain: int(source.get("megabytes", 0) * 10**6) for domain, source in corpus["harvest"].items()}
    train, unknown = corpus.get("train", []), corpus["shard_megabytes"] * 10**6
    by_domain = train if isinstance(train, dict) else {"": train}
    return {
        domain: sum(_size(pattern, unknown) for pattern in ([patterns] if isinstance(patterns, str) else patterns))
        for domain, patterns in by_domain.items()
    }


def _size(pattern: str, unknown: int) -> int:
    """Bytes of text of the files that a path, a glob or a list stands for."""
    text = 0
    with contextlib.suppress(InputError, OSError):  # what is wrong with it is reported by the checks
        for _, path, listed in raw_files(pattern, unknown, ""):
            near = not is_remote(path) and pattern == path
            size = (os.path.getsize(path) if os.path.isfile(path) else 0) if near else listed
            text += int(size * next((ratio for ending, ratio in PACKED.items() if path.endswith(ending)), 1))
    return text


def smallest(sizes: Mapping[str, int], domains: int) -> int:
    """Bytes of the smallest domain; of files of several, a quarter of an equal share."""
    if set(sizes) == {""}:
        return sizes[""] // (4 * max(domains, 1))
    return min(sizes.values(), default=0)


def vocabulary_size(text: int, kind: str) -> int:
    """The power of two below the square root of the text's bytes, within the bounds of a machine:
    about as many words has a text (Heaps 1978), and further ids would hardly be seen.
    """
    least, most = VOCABULARY[kind]
    return min(max(2 ** int(math.log2(max(math.sqrt(text), 1))), least), most)


def token_bytes(vocabulary: int) -> float:
    """Bytes of text of a token, a quarter of the bits of a uniform id: 2.5 with 1,024 ids, 3.75
    with 32,768, as counted on English and code, good to a fifth.
    """
    return math.log2(vocabulary) / 4


def validation_share(least: int) -> float:
    """Share of the documents that measures the smallest domain, of `least` bytes."""
    share = min(max(VALIDATION_BYTES / max(least, 1), VALIDATION_SHARE[0]), VALIDATION_SHARE[1])
    return float(f"{share:.1g}")


def longest_held_out(sizes: Mapping[str, int], domains: int, share: float) -> int | dict[str, int]:
    """Characters above which a document gives its end to validation, not all of it: so few that
    each domain holds out DOCUMENTS texts in the mean. By domain; one number where the files hold
    several. Of one digit, so that some more text moves no split.
    """
    if set(sizes) == {""}:
        sizes = {"": smallest(sizes, domains)}
    least, most = HELD_OUT_CHARACTERS
    wanted = {name: float(f"{size * share / DOCUMENTS:.1g}") for name, size in sizes.items()}
    lengths = {name: int(min(max(length, least), most)) for name, length in wanted.items()}
    return lengths.get("", lengths)


# The machine, seen before the first job and without torch, and what was chosen for it


@dataclass(frozen=True)
class Machine:
    """`count` devices of a kind, gpu or cpu (a core); `threads` of the processor for each."""

    kind: str
    count: int
    threads: int


GPU_THREADS = 8  # of the processor for a GPU, at most


def seen_machine(wanted: str, count: int | str) -> Machine:
    """The GPUs that are allowed here, else the cores; `wanted` is auto, or names one kind, `count`
    auto or their number. Where both are named nothing is looked up: jobs will run elsewhere.

    Errors (InputError): GPUs are wanted and there are none.
    """
    if wanted != "auto" and isinstance(count, int):
        return Machine(wanted, count, GPU_THREADS if wanted == "gpu" else 1)
    cores = len(os.sched_getaffinity(0))
    gpus = _seen_gpus(wanted) if wanted == "gpu" or (wanted == "auto" and shutil.which("nvidia-smi")) else 0
    seen = Machine("gpu", gpus, max(min(cores // gpus, GPU_THREADS), 1)) if gpus else Machine("cpu", cores, 1)
    return replace(seen, count=count) if isinstance(count, int) else seen


def _seen_gpus(wanted: str) -> int:
    """How many GPUs there are; of a driver without a card none."""
    from bimix.training.devices import allowed_devices  # here only: most calls ask no driver

    try:
        gpus, why = len(allowed_devices(os.environ.get("CUDA_VISIBLE_DEVICES"))), "CUDA_VISIBLE_DEVICES allows none."
    except InputError as error:
        gpus, why = 0, str(error)
    if wanted == "gpu" and not gpus:
        raise InputError(f"config: ladder/device: gpu is given. {why}")
    return gpus


@dataclass(frozen=True)
class Basis:
    """The basis of the defaults of a dataset."""

    machine: Machine
    sizes: Sizes


def record_path(dataset: str) -> Path:
    return Path("results", dataset, "ladder.json")


def read_basis(dataset: str) -> Basis | None:
    """The basis of the defaults that a dataset's results were made with, None without any."""
    try:
        kept = json.loads(record_path(dataset).read_text(encoding="utf-8"))["basis"]
        return Basis(Machine(**kept["machine"]), kept["sizes"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        sentence = f"{record_path(dataset)} cannot be read ({error}); delete it, and models are chosen again."
        raise InputError(sentence) from error


def keep(dataset: str, basis: Basis, choice: Choice | None) -> None:
    """Write the basis and what was chosen, unless the record has them."""
    from bimix.outputs import write_json  # it brings polars, a quarter of a second of each call of Snakemake

    path, document = record_path(dataset), {"basis": asdict(basis), "chosen": asdict(choice) if choice else None}
    if not path.exists() or json.loads(path.read_text(encoding="utf-8")) != document:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, document)
