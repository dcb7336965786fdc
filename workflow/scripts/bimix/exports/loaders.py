"""Stacks whose mixtures are Python: Hugging Face datasets, torchtitan, LitGPT with LitData,
OLMo-core.
"""

import re

from bimix.errors import InputError
from bimix.exports.weights import Export
from bimix.exports.written import Written, python, refuse

# Endings of files by the builder of Hugging Face datasets that reads them, also where packed.
BUILDERS = {"json": r"jsonl?|ndjson", "parquet": "parquet", "csv": "csv|tsv", "text": "te?xt", "arrow": "arrow"}
PACKED = r"(\.(gz|zst|xz|bz2))?"

HUGGINGFACE = """
def mixture(seed: int = 42, streaming: bool = True):
    \"\"\"The mixture as a dataset of rows; one that is read to its end begins again.\"\"\"
    sources = [load_dataset(**SOURCES[name], split="train", streaming=streaming) for name in PROBABILITIES]
    return interleave_datasets(
        sources, probabilities=list(PROBABILITIES.values()), seed=seed, stopping_strategy="all_exhausted"
    )
"""


def huggingface(export: Export) -> Written:
    """Python for Hugging Face datasets, which draws rows: records, or text files.

    The stop "all_exhausted" never comes with a source of probability 0, so there is none.
    """
    tokens = export.record_tokens("huggingface")
    parts = export.by_domain({name: share / tokens[name] for name, share in export.shares.items()})
    sources = {}
    for part in parts:
        paths = [file.path for file in part.files]
        builder = _builder(export, paths)
        sources[part.domain] = {"path": builder, "data_files": paths}
        if builder == "text":  # a row would be a line
            sources[part.domain]["sample_by"] = "document"
    text = python(
        {"SOURCES": sources, "PROBABILITIES": {part.domain: part.weight for part in parts}},
        "from datasets import interleave_datasets, load_dataset\n\n" + HUGGINGFACE,
        "A mixture for Hugging Face datasets: probabilities are shares of the rows.",
    )
    return Written(text)


def _builder(export: Export, paths: list[str]) -> str:
    """The builder that reads all of the paths. Errors: an ending that is not known, or another."""
    found = []
    for path in paths:
        endings = (name for name, ending in BUILDERS.items() if re.search(rf"\.({ending}){PACKED}$", path))
        found.append(next(endings, None))
        if found[-1] is None:
            refuse(export.data, path, "its ending is none of .jsonl, .json, .parquet, .csv, .txt and .arrow")
        if found[-1] != found[0]:
            refuse(
                export.data, path, f"{paths[0]!r} of the same domain is read as {found[0]}, and one builder reads all"
            )
    return found[0]


TORCHTITAN = """
def mixture(processor, reader=IndexedJsonlSource) -> DatasetMixConfig:
    \"\"\"The mixture; `processor` makes a TextSequence of a record.

    Each source is packed before it is drawn from, so that weights are shares of the tokens.
    \"\"\"

    def packed(patterns):
        documents = SingleDatasetConfig(
            source=reader.Config(patterns=patterns),
            processor=processor,
            post_filters=(lambda sample: sample is not None,),
        )
        return ConcatThenSplitPackingConfig(dataset=documents)

    return DatasetMixConfig(
        datasets=tuple(
            WeightedDataset(dataset=packed(source["patterns"]), weight=source["weight"]) for source in SOURCES.values()
        )
    )
"""


def torchtitan(export: Export) -> Written:
    """Python for torchtitan (components/data at b5bcd76c): children are packed, then mixed."""
    sources = {
        part.domain: {"weight": part.weight, "patterns": tuple(file.path for file in part.files)}
        for part in export.by_domain()
    }
    names = ["ConcatThenSplitPackingConfig", "DatasetMixConfig", "IndexedJsonlSource", "SingleDatasetConfig"]
    imports = "".join(f"    {name},\n" for name in [*names, "WeightedDataset"])
    text = python(
        {"SOURCES": sources},
        f"from torchtitan.components.data import (\n{imports})\n\n{TORCHTITAN}",
        "A mixture for torchtitan: weights are shares of packed rows, so of the tokens.",
    )
    return Written(text)


LITGPT = """
def train_data(sequence_length: int, seed: int = 42) -> CombinedStreamingDataset:
    \"\"\"The mixture; a block is a row with the token after it.\"\"\"
    return CombinedStreamingDataset(
        datasets=[
            StreamingDataset(
                input_dir=source["input_dir"],
                item_loader=TokensLoader(block_size=sequence_length + 1),
                shuffle=True,
                drop_last=True,
            )
            for source in SOURCES.values()
        ],
        seed=seed,
        weights=tuple(source["weight"] for source in SOURCES.values()),
        iterate_over_all=False,
    )
"""


def litgpt(export: Export) -> Written:
    """Python for LitGPT: LitData's CombinedStreamingDataset, which draws blocks of tokens.

    It stops where the first folder ends, and all of them begin again.
    """
    parts = export.by_file("litgpt")
    sources = {part.label: {"weight": part.weight, "input_dir": part.files[0].path} for part in parts}
    most = export.most_epochs()
    remark = (
        "LitData ends an epoch of the mixture with its first folder, and begins all of them again, shuffled anew:"
        " some rows of others are read twice before all are read once."
    )
    text = python(
        {"SOURCES": sources},
        "from litdata.streaming import CombinedStreamingDataset, StreamingDataset, TokensLoader\n\n" + LITGPT,
        "A mixture for LitGPT: weights are shares of blocks, so of the tokens.",
    )
    return Written(text, () if most is not None and most < 1 else (remark,))


OLMO = """
def mixture(global_batch_size: int, **settings) -> SourceMixtureDatasetConfig:
    \"\"\"The mixture; `global_batch_size` in tokens, `settings` are processes, seed and the like.\"\"\"
    return SourceMixtureDatasetConfig(
        source_list=SourceMixtureList(sources=[SourceMixtureConfig(**source) for source in SOURCES]),
        requested_tokens=REQUESTED_TOKENS,
        global_batch_size=global_batch_size,
        **settings,
    )
"""
OLMO_IMPORTS = (
    "from olmo_core.data.source_mixture import (\n    SourceMixtureConfig,\n    SourceMixtureDatasetConfig,\n"
    "    SourceMixtureList,\n)\n\n"
)


def olmo_core(export: Export) -> Written:
    """Python for OLMo-core's source mixtures (src/olmo_core/data/source_mixture.py at fa6c5014):
    ratios are shares of the tokens, which it counts itself.

    A source that is too small for its ratio ends the build unless max_repetition_ratio allows
    enough epochs. Errors: the run's tokens or a pool are not known.
    """
    if export.run_tokens is None:
        raise InputError("--format olmo-core needs --run-tokens: it requests so many tokens of the mixture.")
    unknown = [name for name in export.shares if export.pools[name] is None]
    if unknown:
        raise InputError(
            f"--format olmo-core needs the unique tokens of {unknown[0]!r}, by --tokens or by 'unique_tokens' in"
            f" {export.data.name}: it refuses a source that must be read more often than it is told."
        )
    sources = [
        {
            "source_name": part.domain,
            "target_ratio": part.weight,
            "paths": [file.path for file in part.files],
            "max_repetition_ratio": export.allowed_epochs(part.domain),
        }
        for part in export.by_domain()
    ]
    text = python(
        {"REQUESTED_TOKENS": export.run_tokens, "SOURCES": sources},
        OLMO_IMPORTS + OLMO,
        "A mixture for OLMo-core: target ratios are shares of the tokens.",
    )
    length = export.data.sequence_length
    if export.data.records == "samples" and length:
        remark = (
            f"Rows of {length:,} tokens stand in a permuted order, for OLMo-core reads the first ones of each file: train"
            " with that sequence_length, or a divisor of it. A longer one would join rows of different texts."
        )
    else:
        remark = "OLMo-core reads the first tokens of each file, so files must not hold their text in an order."
    return Written(text, (remark,))
