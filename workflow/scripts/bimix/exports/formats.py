"""The export formats by name; each has a template, `templates/{name}{ending}.j2`."""

from typing import NamedTuple


class Format(NamedTuple):
    """`sources`: whether files or domains have weights. `records`: whether a weight is a share of
    records of any length, and not of tokens or of samples of equal length.

    `zero`: whether domains of proportion 0 stay in it; `text`: whether the consumer reads raw text, not
    only the output of its own preprocessing; `stages`: whether it holds a mixture in stages.
    """

    ending: str
    sources: str = "files"
    records: bool = False
    zero: bool = False
    text: bool = False
    stages: bool = False


FORMATS = {
    "megatron": Format(".txt", stages=True),
    "megatron-file": Format(".txt"),
    "nemo": Format(".py"),
    "olmo-core": Format(".py", "domains"),
    "streaming": Format(".yaml", records=True),
    "huggingface": Format(".py", "domains", records=True, text=True),
    "torchtitan": Format(".py", "domains", text=True),
    "nanotron": Format(".yaml", stages=True),
    "litgpt": Format(".py"),
    "csv": Format(".csv", zero=True, text=True),
}
