"""What training stacks read out of their configurations: {path or name: weight, normalised}.

Written from what their sources do (commits in docs/export.md).
"""

import argparse
import csv
import io
import math
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, make_dataclass
from pathlib import Path

import numpy as np
import yaml

Weights = dict[str, float]


def normalised(pairs: list[tuple[str, float]]) -> Weights:
    """Weights by path. Errors: a path twice, a weight that is not above 0."""
    found = dict(pairs)
    assert len(found) == len(pairs), "a path twice"
    assert all(weight > 0 for weight in found.values()), "Megatron and others assert weights above 0"
    total = math.fsum(found.values())
    return {path: weight / total for path, weight in found.items()}


def blend(items: list) -> tuple[list[str], list[float] | None]:
    """(prefixes, weights) of a flat list: weights where its length is even and every other item
    reads as a number; mixed ones end Megatron.
    """
    if len(items) % 2:
        return [item.strip() for item in items], None
    numbers = []
    for item in items[::2]:
        try:
            numbers.append(float(item))
        except ValueError:
            numbers.append(None)
    if None in numbers:
        assert numbers == [None] * len(numbers)
        return [item.strip() for item in items], None
    return [item.strip() for item in items[1::2]], numbers


def weighted(items: list) -> Weights:
    prefixes, weights = blend(items)
    assert weights is not None, "prefixes without weights"
    return normalised(list(zip(prefixes, weights, strict=True)))


def megatron(text: str) -> Weights:
    """As in `torchrun pretrain_gpt.py $(cat file)`: the shell splits, argparse reads."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-path", nargs="*")
    return weighted(parser.parse_args(text.split()).data_path)


def megatron_file(text: str) -> Weights:
    return weighted(text.split())


@contextmanager
def modules(**contents: dict) -> Iterator[None]:
    """Modules of a stack that is not installed, as long as one of its files is read."""
    names = {name.replace("__", "."): content for name, content in contents.items()}
    packages = {name.rsplit(".", depth)[0] for name in names for depth in range(1, name.count(".") + 1)}
    before = {name: sys.modules.get(name) for name in {*names, *packages}}
    try:
        for name in {*names, *packages}:
            sys.modules[name] = types.ModuleType(name)
            vars(sys.modules[name]).update(names.get(name, {}))
        yield
    finally:
        for name, module in before.items():
            sys.modules.pop(name) if module is None else sys.modules.__setitem__(name, module)


def executed(text: str) -> dict:
    """What a Python file defines: one of ours, written from data by repr."""
    found: dict = {}
    exec(compile(text, "export.py", "exec"), found)  # noqa: S102  the file that is tested
    return found


def nemo(text: str) -> Weights:
    """Three splits, all of them named, or one list."""
    taken = make_dataclass("PreTrainingDataModule", ["paths", ("seq_length", int)])
    with modules(nemo__collections__llm__gpt__data={"PreTrainingDataModule": taken}):
        paths = executed(text)["data"](seq_length=8).paths
    if isinstance(paths, dict):
        assert set(paths) == {"train", "validation", "test"} and all(paths.values())
        assert blend(paths["validation"])[1] is None
        paths = paths["train"]
    return weighted(paths)


@dataclass
class OlmoSource:
    """A source of OLMo-core with what its `validate` asks."""

    source_name: str
    target_ratio: float
    paths: list[str]
    max_repetition_ratio: float = 1.0
    max_source_fraction: float = 1.0

    def __post_init__(self) -> None:
        assert 0 < self.target_ratio <= 1 and self.max_repetition_ratio >= 1 and self.paths


OLMO = {
    "SourceMixtureConfig": OlmoSource,
    "SourceMixtureList": make_dataclass("SourceMixtureList", ["sources"]),
    "SourceMixtureDatasetConfig": make_dataclass(
        "SourceMixtureDatasetConfig", ["source_list", "requested_tokens", "global_batch_size"]
    ),
}


def olmo_config(text: str) -> object:
    with modules(olmo_core__data__source_mixture=OLMO):
        return executed(text)["mixture"](global_batch_size=4096)


def olmo_core(text: str) -> Weights:
    sources = olmo_config(text).source_list.sources
    assert abs(sum(source.target_ratio for source in sources) - 1) < 1e-8
    return normalised([(source.source_name, source.target_ratio) for source in sources])


def olmo_builds(config: object, available: dict[str, int]) -> bool:
    """Whether OLMo-core finds enough tokens for each ratio."""
    return all(
        int(available[source.source_name] * source.max_repetition_ratio)
        >= int(config.requested_tokens * source.target_ratio)
        for source in config.source_list.sources
    )


def olmo_rows(config: object, length: int, dtype: str) -> dict[str, np.ndarray]:
    """The rows (n, length) of each source that OLMo-core reads, in the order of its files.

    Of each file the first ones, as many as its share comes to; all of them and the first once more
    where a source is read more often (get_paths_and_tokens_for_source, NumpyFSLDatasetMixture).
    """
    read = {}
    for source in config.source_list.sources:
        files = [np.fromfile(path, dtype) for path in source.paths]
        left, rows = int(config.requested_tokens * source.target_ratio) / sum(map(len, files)), []
        while left > 0:
            kept = [math.ceil(len(ids) * min(left, 1)) // length * length for ids in files]
            rows += [ids[:count].reshape(-1, length) for ids, count in zip(files, kept, strict=True)]
            left -= 1
        read[source.source_name] = np.concatenate(rows)
    return read


def streaming(text: str) -> Weights:
    """Streams are divided by the sum of their proportions; each has one of remote and local."""
    streams = yaml.safe_load(text)["train_loader"]["dataset"]["streams"]
    return normalised([(stream.get("remote") or stream["local"], stream["proportion"]) for stream in streams.values()])


def huggingface(text: str) -> Weights:
    """Probabilities must be as many as sources and sum to 1, as NumPy's choice has it."""
    loaded: list[dict] = []
    asked: dict = {}

    def interleave(sources: list, **settings: object) -> None:
        assert len(sources) == len(settings["probabilities"])
        assert abs(sum(settings["probabilities"]) - 1) < 1e-8
        asked.update(zip([source["data_files"][0] for source in sources], settings["probabilities"], strict=True))

    stub = {"load_dataset": lambda **given: loaded.append(given) or given, "interleave_datasets": interleave}
    with modules(datasets=stub):
        executed(text)["mixture"]()
    return normalised(list(asked.items()))


class Configurable:
    """A class with a Config that keeps what it is given."""

    class Config:
        def __init__(self, **given: object) -> None:
            self.given = given


def torchtitan(text: str) -> Weights:
    """Children and their weights, each packed below the mix; by the first pattern of a child."""
    names = {
        "IndexedJsonlSource": Configurable,
        "ConcatThenSplitPackingConfig": make_dataclass("ConcatThenSplitPackingConfig", ["dataset"]),
        "SingleDatasetConfig": make_dataclass("SingleDatasetConfig", ["source", "processor", "post_filters"]),
        "DatasetMixConfig": make_dataclass("DatasetMixConfig", ["datasets"]),
        "WeightedDataset": make_dataclass("WeightedDataset", ["dataset", "weight"]),
    }
    with modules(torchtitan__components__data=names):
        mix = executed(text)["mixture"](processor=None)
    assert isinstance(mix.datasets, tuple)
    return normalised([(item.dataset.dataset.source.given["patterns"][0], item.weight) for item in mix.datasets])


def litgpt(text: str) -> Weights:
    """Weights go with the folders by position, and only without `iterate_over_all`."""
    given: dict = {}

    class Combined:
        def __init__(self, datasets, seed, weights, iterate_over_all) -> None:
            assert not iterate_over_all and len(datasets) == len(weights)
            given.update(zip([dataset.input_dir for dataset in datasets], weights, strict=True))

    names = {
        "StreamingDataset": make_dataclass("StreamingDataset", ["input_dir", "item_loader", "shuffle", "drop_last"]),
        "TokensLoader": make_dataclass("TokensLoader", ["block_size"]),
        "CombinedStreamingDataset": Combined,
    }
    with modules(litdata__streaming=names):
        executed(text)["train_data"](sequence_length=8)
    return normalised(list(given.items()))


def nanotron(text: str) -> Weights:
    """Lists of one length in the first stage, which starts at step 1."""
    (stage,) = yaml.safe_load(text)["data_stages"]
    assert stage["start_training_step"] == 1 and set(stage) == {"name", "start_training_step", "data"}
    dataset = stage["data"]["dataset"]
    return normalised(list(zip(dataset["dataset_folder"], dataset["dataset_weights"], strict=True)))


def table(text: str) -> Weights:
    rows = csv.DictReader(io.StringIO(text))
    return normalised([(row["path"], float(row["weight"])) for row in rows if float(row["weight"])])


# What reads a format, and whether it knows domains by name rather than files by path.
READERS: dict[str, tuple[Callable[[str], Weights], bool]] = {
    "megatron": (megatron, False),
    "megatron-file": (megatron_file, False),
    "nemo": (nemo, False),
    "olmo-core": (olmo_core, True),
    "streaming": (streaming, False),
    "huggingface": (huggingface, False),
    "torchtitan": (torchtitan, False),
    "nanotron": (nanotron, False),
    "litgpt": (litgpt, False),
    "csv": (table, False),
}
DOCUMENTS = {"streaming", "huggingface"}  # draw records


def written(path: Path) -> str:
    return path.read_text(encoding="utf-8")
