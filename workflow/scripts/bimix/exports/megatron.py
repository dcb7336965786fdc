"""Megatron-LM and what is built on it: NeMo 2.0, Megatron-Bridge.

All take a list of weights and prefixes, one after the other. A weight is the share of the run's
samples, of equal length, and must be above 0. A prefix that reads as a number would be taken for a
weight (megatron/core/datasets/utils.py and blended_dataset.py, training/utils/common_utils.py at
d98e8a64).
"""

import json
import shlex
from collections.abc import Sequence
from itertools import chain

from bimix.exports.weights import Export, Part, decimal
from bimix.exports.written import Written, python, refuse, validation


def arguments(export: Export) -> Written:
    """One line of arguments: `--data-path 0.3 /data/a 0.7 /data/b`."""
    parts = _parts(export)
    for part in parts:
        path = part.files[0].path
        if shlex.quote(path) != path or path.startswith("-"):
            reason = "arguments are split at blanks, and a shell reads its other marks; take --format megatron-splits"
            refuse(export.data, path, reason)
    return Written(" ".join(["--data-path", *_flat(parts)]) + "\n")


def argument_stages(stages: Sequence[Export]) -> Written:
    """A line of arguments for each launch, one after the other: Megatron saves and ends at an
    iteration of --phase-transition-iterations, and counts samples from there when it goes on.
    """
    ends = ",".join(str(export.first) for export in stages[1:])
    lines = [f"--phase-transition-iterations {ends} {arguments(export).text}" for export in stages]
    starts = ", ".join(f"line {number} from {export.first}" for number, export in enumerate(stages, start=1))
    return Written(
        "".join(lines),
        (
            f"A line is the arguments of one launch with the same --save and --load: {starts} iterations on. Each ends by"
            " itself, with a checkpoint. The global batch must be the same in all, and the run's length be given as"
            " --train-samples.",
            "Megatron counts the samples of a stage from 0: it may read again what an earlier stage has read.",
        ),
    )


def file(export: Export) -> Written:
    """A file for --data-args-path, with one weight and prefix a line; it is split at blanks."""
    parts = _parts(export)
    for part in parts:
        if len(part.files[0].path.split()) != 1:
            reason = "the file of --data-args-path is split at blanks; take --format megatron-splits"
            refuse(export.data, part.files[0].path, reason)
    return Written("".join(f"{decimal(part.weight)} {part.files[0].path}\n" for part in parts))


def splits(export: Export) -> Written:
    """JSON for --per-split-data-args-path, whose lists are not split.

    Validation prefixes stand without weights: each counts by its length.
    """
    valid = _valid(export) or None
    blends = {"train": _flat(_parts(export)), "valid": valid, "test": None}
    return Written(json.dumps(blends, indent=2, ensure_ascii=False) + "\n")


NEMO = """
def data(**settings) -> PreTrainingDataModule:
    \"\"\"The mixture; `settings` are seq_length, tokenizer, batch sizes.\"\"\"
    return PreTrainingDataModule(paths=PATHS, **settings)
"""


def nemo(export: Export) -> Written:
    """Python for NeMo 2.0; it wants three splits or one."""
    train, valid = _flat(_parts(export)), _valid(export)
    paths = {"train": train, "validation": valid, "test": valid} if valid else train
    remark = "NeMo wants a test split beside validation: it is the validation files." if valid else None
    text = python(
        {"PATHS": paths},
        "from nemo.collections.llm.gpt.data import PreTrainingDataModule\n\n" + NEMO,
        "A mixture for NeMo 2.0: weights are shares of the samples.",
    )
    return Written(text, (remark,) if remark else ())


BRIDGE = """
def dataset(**settings) -> GPTDatasetConfig:
    \"\"\"The mixture; `settings` are sequence_length and the like, and `split` where there is one
    blend.
    \"\"\"
    return GPTDatasetConfig(**BLEND, **settings)
"""


def bridge(export: Export) -> Written:
    """Python for Megatron-Bridge: a blend of prefixes and weights, one for each split where there
    is validation.
    """
    parts, valid = _parts(export), _valid(export)
    train = ([part.files[0].path for part in parts], [part.weight for part in parts])
    blend = {"blend_per_split": [train, (valid, None), None]} if valid else {"blend": train}
    text = python(
        {"BLEND": blend},
        "from megatron.bridge.training.config import GPTDatasetConfig\n\n" + BRIDGE,
        "A mixture for Megatron-Bridge: weights are shares of the samples.",
    )
    return Written(text)


def _parts(export: Export) -> list[Part]:
    """A part for each prefix. Errors: one that Megatron would not take as it stands."""
    parts = export.by_file("Megatron")
    paths = [*(part.files[0].path for part in parts), *_valid(export)]
    for path in paths:
        if path != path.strip():
            refuse(export.data, path, "Megatron strips blanks around a prefix")
        try:
            float(path)
        except ValueError:
            continue
        refuse(export.data, path, "Megatron would take it for a weight; write ./ before it")
    return parts


def _valid(export: Export) -> list[str]:
    return list(chain(*validation(export.data).values()))


def _flat(parts: list[Part]) -> list[str]:
    return list(chain(*((decimal(part.weight), part.files[0].path) for part in parts)))
