"""What earlier versions had and this one refuses: keys of a config, flags and words of the command
line, each with one sentence that says what to do instead.

None comes back: tests/test_house.py has every row of these tables.
"""

from collections.abc import Iterator, Mapping, Sequence

RIVALS = ("gaussian_process", "mariner", "scheffe")
RIVAL = "a rival of the board of laws alone; take transfer, exponential, olmix or regmix"
FORMATS = ("levanter", "maxtext-json", "megatron-bridge")
FORMAT = "export `csv`, and name its shares in the stack's own configuration"
LOSSES = 'name the file itself, `losses: "{folder}/losses.csv"`, a csv or JSON lines of step, domain and loss'

# {path of the key, * for any name: sentence}; a row `path=value` refuses that value, also in a list
KEYS: dict[str, str] = {
    "datasets/*/downstream/precision": "leave it out: weights answer as they are kept, in fp32",
    "datasets/*/downstream/rejects": "leave it out: lm_eval asks every question of a task",
    "datasets/*/downstream/tasks/*": (
        "list names of lm_eval's tasks, as `tasks: [webquestions]`; their data stand in task files (docs/downstream.md)"
    ),
    "datasets/*/methods": (
        "list the mixtures under `compare/mixtures`: tables/comparison.csv has the runs and FLOPs each was found from"
    ),
    "datasets/*/observations/allow_unmeasured": "take it away: a name that may be misspelt is a remark",
    "datasets/*/observations/costs": (
        "leave it out: of runs trained elsewhere it is not known what a mixture was found from"
    ),
    "datasets/*/observations/reuse": (
        "join older runs by `bimix reuse`, and name the joined tables as `losses` and `mixtures`"
    ),
    "datasets/*/optimum/objective/carry": "name one number as `effect_growth`",
    "datasets/*/optimum/objective/confidence": "take it away: half of the law's 90 % error is the margin",
    "datasets/*/optimum/objective/marginals": "bound the shares by `lower` and `upper`",
    "datasets/*/optimum/pareto": "call `bimix optimise` twice, with two `weights`",
    "datasets/*/optimum/stage": "a law reads one mixture of each run; put an optimum into `stages` as it is",
    "datasets/*/reuse": (
        "join older runs by `bimix reuse`, and name the joined tables under `observations` or give them to `bimix next`"
    ),
    "datasets/*/swarm/together": (
        "leave it out: each run is a job of its own; Snakemake's `--group-components` packs jobs"
    ),
    "models/*/format=megatron-splits": "take `megatron-file`, for --data-args-path",
    "models/*/launch/attention": "leave it out: torch chooses the kernel, and `run.json` names it",
    "models/*/launch/bucket_megabytes": "leave it out: gradients are sent at once, after the backward pass",
    "models/*/launch/gradient_compression": "leave it out: gradients are sent as they are",
    "models/*/launch/shard": "leave it out; train a model above 5e9 parameters by your own `command`",
}
for place in ("", "datasets/*/"):
    KEYS |= {
        f"{place}corpus/ask_versions": (
            "name files far away by addresses that cannot change, or give a changed file another name"
        ),
        f"{place}design": "`bimix first` names the first runs, and a block `search` runs further ones",
        f"{place}training/*/decay_share": "leave it out: it was of the schedule `wsds`",
        f"{place}training/*/horizons": "leave it out, and train one run for each length",
        f"{place}training/*/optimizer": "leave it out: the optimizer is AdamW",
        f"{place}training/*/schedule=wsds": "take `warm_exponential` or `cosine`, with one run for each length",
    }
KEYS |= {f"laws/{key}={law}": RIVAL for key in ("compare", "optimise") for law in RIVALS}
KEYS |= {f"models/*/format={name}": FORMAT for name in FORMATS}
KEYS |= {f"models/*/losses/{name}": LOSSES for name in ("file", "lines", "loss", "pattern", "step", "table")}

# {"--flag" or "--flag value": sentence}, of all scripts
FLAGS: dict[str, str] = {
    "--allow-unmeasured": "take it away: a name that may be misspelt is a remark",
    "--format megatron-splits": "take `megatron-file`, for --data-args-path",
    "--harm": "add a run of a mixture that reads the domain more often, with its text in the column `pool`",
    "--stage": "a law reads one mixture of each run; `mix_stages.py` puts an optimum into stages as it is",
}
FLAGS |= {f"--format {name}": FORMAT for name in FORMATS} | {f"--law {law}": RIVAL for law in RIVALS}

# {word after `bimix`: sentence}
COMMANDS: dict[str, str] = {
    "allocate": (
        "call `bimix optimise` with --parameters and --run-tokens for each size, and divide the budget yourself"
    ),
    "pareto": "call `bimix optimise` twice, with two --weights",
    "propose": "call `bimix first` for the first runs, `bimix next` for more",
}


def dropped_keys(config: Mapping) -> Iterator[tuple[tuple[str, ...], str]]:
    """The keys of a config that KEYS has, as paths, each with its sentence."""
    for row, sentence in KEYS.items():
        path, _, value = row.partition("=")
        for key, found in _at(config, path.split("/")):
            if not value or found == value or (isinstance(found, list) and value in found):
                yield key, sentence


def dropped_words(words: Sequence[str]) -> str:
    """The sentence of the first flag of a command line that FLAGS has; else none."""
    for number, word in enumerate(words):
        flag, _, joined = word.partition("=")
        value = joined or next(iter(words[number + 1 :]), "")
        if sentence := FLAGS.get(flag) or FLAGS.get(f"{flag} {value}"):
            return f"{flag}: {sentence}"
    return ""


def _at(value: object, path: Sequence[str], key: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """What stands at a path with *, by the keys that lead to it."""
    if not path:
        yield key, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if path[0] in ("*", name):
                yield from _at(inner, path[1:], (*key, name))
