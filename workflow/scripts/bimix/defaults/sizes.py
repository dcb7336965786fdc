"""How much text a corpus has, estimated from the sizes of its files before any of them is read."""

import math
import os
from collections.abc import Mapping

from bimix.errors import InputError
from bimix.plan.raw import is_remote, raw_files

Sizes = dict[str, int]  # bytes of text by domain; under "" where the records say which is theirs


def text_bytes(config: dict, dataset: str, ratios: Mapping[str, float]) -> Sizes:
    """Bytes of training text by domain; a domain whose files are not there, or not known, has 0.

    Packed files hold more than they take, by `ratios` of their endings. One far away whose
    size no list and no store tells counts as a shard.
    """
    corpus = config["datasets"][dataset]["corpus"]
    if isinstance(corpus.get("harvest"), dict):
        return {
            domain: int(source["megabytes"] * 10**6) if _is_number(source, "megabytes") else 0
            for domain, source in corpus["harvest"].items()
        }
    train = corpus.get("train")
    sources = train if isinstance(train, dict) else {"": train}
    return {domain: sum(_sizes(config, dataset, patterns, ratios)) for domain, patterns in sources.items()}


def _sizes(config: dict, dataset: str, patterns: object, ratios: Mapping[str, float]) -> list[int]:
    """Bytes of text of the files that paths, globs and lists stand for."""
    patterns = [patterns] if isinstance(patterns, str) else patterns
    if not isinstance(patterns, list) or not all(isinstance(one, str) and one for one in patterns):
        return []
    usual = config.get("corpus")
    block = {"corpus": (usual if isinstance(usual, dict) else {}) | config["datasets"][dataset]["corpus"]}
    sizes = []
    for pattern in patterns:
        try:
            for _, path, listed in raw_files({"datasets": {dataset: block}}, dataset, "train", pattern):
                near = not is_remote(path) and pattern == path
                size = (os.path.getsize(path) if os.path.isfile(path) else 0) if near else listed
                ratio = next((ratio for ending, ratio in ratios.items() if path.endswith(ending)), 1)
                sizes.append(int(size * ratio))
        except (InputError, OSError, KeyError, TypeError, ValueError):  # what is wrong with it is said by the checks
            continue
    return sizes


def _is_number(block: object, key: str) -> bool:
    value = block.get(key) if isinstance(block, dict) else None
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def smallest(sizes: Mapping[str, int], domains: int) -> int:
    """Bytes of the smallest domain; where the files do not tell domains apart, a quarter of an
    equal share.
    """
    if set(sizes) == {""}:
        return sizes[""] // (4 * max(domains, 1))
    return min(sizes.values(), default=0)


def vocabulary_size(text: int, least: int, most: int) -> int:
    """The power of two below the square root of the text's bytes, within bounds.

    The words of a text are about as many as the square root of its length (Heaps 1978): a larger
    vocabulary would have ids that are hardly seen.
    """
    return min(max(2 ** int(math.log2(max(math.sqrt(text), 1))), least), most)


def token_bytes(vocabulary: int) -> float:
    """Bytes of text that a token stands for: a quarter of the bits that a uniform id holds.

    2.5 with 1,024 ids, 3.75 with 32,768, as counted on English and code: good to a fifth.
    """
    return math.log2(vocabulary) / 4


def validation_share(least: int, wanted: int, bounds: tuple[float, float]) -> float:
    """The share of the documents that gives the smallest domain, of `least` bytes, so many bytes to
    be measured on.
    """
    share = min(max(wanted / max(least, 1), bounds[0]), bounds[1])
    return float(f"{share:.1g}")


def longest_held_out(
    sizes: Mapping[str, int], domains: int, share: float, documents: int, bounds: tuple[int, int]
) -> int | dict[str, int]:
    """Characters above which a document gives its end to validation, not all of it: so few that
    each domain holds out so many texts in the mean.

    By domain; one number where the files do not tell domains apart. Of one digit, so that some more
    text moves no split.
    """
    if set(sizes) == {""}:
        sizes = {"": smallest(sizes, domains)}
    wanted = {name: float(f"{size * share / documents:.1g}") for name, size in sizes.items()}
    lengths = {name: int(min(max(length, bounds[0]), bounds[1])) for name, length in wanted.items()}
    return lengths.get("", lengths)
