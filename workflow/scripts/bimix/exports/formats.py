"""The formats by name. What a format looks like is its template, `templates/{name}{ending}.j2`."""

from typing import NamedTuple


class Format(NamedTuple):
    """`unit`: what a weight is the share of. `sources`: what has weights, files or domains.
    `needs`: what the run must be known by, run_tokens or pools.

    `zero`: whether domains of proportion 0 stay in it; `text`: whether its consumer reads raw text,
    and not only what a tool of its own made of it; `stages`: whether it holds a mixture in stages.
    """

    ending: str
    unit: str
    sources: str = "files"
    needs: tuple[str, ...] = ()
    zero: bool = False
    text: bool = False
    stages: bool = False


FORMATS = {
    "megatron": Format(".txt", "samples", stages=True),
    "megatron-file": Format(".txt", "samples"),
    "megatron-splits": Format(".json", "samples"),
    "nemo": Format(".py", "samples"),
    "megatron-bridge": Format(".py", "samples"),
    "olmo-core": Format(".py", "tokens", "domains", needs=("run_tokens", "pools")),
    "streaming": Format(".yaml", "records"),
    "huggingface": Format(".py", "rows", "domains", text=True),
    "torchtitan": Format(".py", "packed rows", "domains", text=True),
    "nanotron": Format(".yaml", "samples", stages=True),
    "litgpt": Format(".py", "blocks"),
    "maxtext": Format(".txt", "records"),
    "maxtext-json": Format(".json", "records"),
    "levanter": Format(".yaml", "sequences", "domains", zero=True, text=True, stages=True),
    "axolotl": Format(".yaml", "rows that are kept", text=True),
    "csv": Format(".csv", "tokens", zero=True, text=True),
}
