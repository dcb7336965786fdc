"""What the text of a corpus cannot give, said by the sizes of its files before any of them is read.

Tokens are estimated from bytes: good to a fifth for plain text, to a few times for packed files. So
only what would not do with SURE times as many is a fault.
"""

from collections.abc import Iterator, Mapping
from glob import iglob
from os import path as files

from bimix.plan.raw import has_wildcards
from bimix.plan.runs import schedule_tokens
from bimix.settings.defaults import UNKNOWN_VOCABULARY
from bimix.settings.fault import Fault
from bimix.settings.ladder import text_bytes, token_bytes

SURE = 10


def check_text(config: dict, dataset: str, packed: Mapping[str, float]) -> tuple[list[Fault], list[Fault]]:
    """Faults and remarks of a dataset in a checked and completed config: files without text, rows
    longer than a domain's text, epochs that no mixture keeps to. Of text far away nothing is said.

    `packed`: bytes of text in a byte of files with these endings.
    """
    block = config["datasets"][dataset]
    corpus = block.get("corpus", {})
    faults, remarks = [], []
    for key, patterns in _sources(corpus):
        sizes = {one: files.getsize(one) for one in _near(patterns)}
        empty = [one for one, size in sizes.items() if not size]
        said = f"{', '.join(empty[:3])}{' and more' if len(empty) > 3 else ''}: 0 bytes, so there is no text in it."
        if empty:
            (remarks if any(sizes.values()) else faults).append(Fault(("datasets", dataset, "corpus", *key), said))
    if faults or not corpus or any(_is_far(patterns) for _, patterns in _sources(corpus)):
        return faults, remarks
    vocabulary = block["tokenizer"].get("train", {}).get("vocabulary", UNKNOWN_VOCABULARY)
    sizes = text_bytes(config, dataset, packed)
    tokens = {domain: size / token_bytes(vocabulary) for domain, size in sizes.items()}
    for fault, sure in [*_rows(block, tokens)] or [*_epochs(config, dataset, tokens)]:
        (faults if sure else remarks).append(Fault(("datasets", dataset, *fault.key), fault.sentence))
    return faults, remarks


def _sources(corpus: Mapping) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """The paths, globs and lists of a corpus by their keys."""
    for name in ("train", "validation", "validation_only"):
        part = corpus.get(name, {})
        for domain, patterns in part.items() if isinstance(part, dict) else [(None, part)]:
            if isinstance(patterns, str | list):
                key = (name,) if domain is None else (name, domain)
                yield key, [patterns] if isinstance(patterns, str) else patterns


def _near(patterns: list[str]) -> Iterator[str]:
    """The files on this machine's disks that paths and globs stand for."""
    for pattern in patterns:
        if "://" not in pattern and not pattern.startswith("@"):
            found = sorted(iglob(pattern, recursive=True)) if has_wildcards(pattern) else [pattern]
            yield from (one for one in found if files.isfile(one))


def _is_far(patterns: list[str]) -> bool:
    """Whether the sizes of some files are not known: far away, or perhaps in a list."""
    return any("://" in pattern or pattern.startswith("@") for pattern in patterns)


def _rows(block: dict, tokens: Mapping[str, float]) -> Iterator[tuple[Fault, bool]]:
    """A domain, or what is held out of it, that fills no row."""
    length, validation = block["sequence_length"], block["corpus"]["validation"]
    share = validation.get("share") if isinstance(validation, dict) else None
    share = share if isinstance(share, float) else None
    parts = {"its text": 1.0} | ({f"the {share:g} of it that is held out": share} if share else {})
    for what, part in parts.items():
        domain = min(tokens, key=tokens.__getitem__)
        own = part * tokens[domain]
        if own < length:
            whose = f"of {domain} " if domain else ""
            sentence = (
                f"{length:,} tokens are a row, and {whose}{what} is about {own:,.0f} tokens by the size of its files: no row"
                " is filled. Set a smaller number, or add text."
            )
            yield Fault(("sequence_length",), sentence), SURE * own < length
            return


def _epochs(config: dict, dataset: str, tokens: Mapping[str, float]) -> Iterator[tuple[Fault, bool]]:
    """A bound on epochs with which all text together is less than the run reads."""
    block = config["datasets"][dataset]
    optimum = block["optimum"]
    if "max_epochs" not in optimum:
        return
    model = optimum.get("for", optimum["model"])
    run = schedule_tokens(config, dataset, model)
    if "for" not in optimum:
        run = run // block["training"][model]["steps"] * optimum["step"]
    there = optimum["max_epochs"] * sum(tokens.values())
    if there < run:
        sentence = (
            f"{optimum['max_epochs']:g} epochs of all text are about {there:,.0f} tokens by the size of its files, and a run"
            f" of {model} to step {optimum['step']:,} reads {run:,}: no mixture keeps to that. Allow more, or run for less."
        )
        yield Fault(("optimum", "max_epochs"), sentence), SURE * there < run
