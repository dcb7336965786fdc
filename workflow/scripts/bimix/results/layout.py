"""Text of 80 columns: paragraphs and tables."""

import textwrap
from collections.abc import Iterable

WIDTH = 78


def cut(text: str, width: int, end: int | None = None) -> str:
    """`text` in at most `width` characters, three dots standing for its middle; `end`: how many
    characters follow them, None for half of all.
    """
    end = (width - 3) // 2 if end is None else end
    return text if len(text) <= width else text[: width - 3 - end] + "..." + text[len(text) - end :]


def labels(names: Iterable[str], width: int) -> dict[str, str]:
    """{name: it in at most `width` characters}, all different."""
    names, half = list(dict.fromkeys(names)), (width - 3) // 2
    for end in sorted(range(width - 2), key=lambda end: abs(end - half)):
        found = {name: cut(name, width, end) for name in names}
        if len(set(found.values())) == len(names):
            return found
    return {name: f"{n} {cut(name, width - len(str(len(names))) - 1)}" for n, name in enumerate(names, 1)}


def paragraph(text: str, first: str = "", others: str = "") -> list[str]:
    """Lines of WIDTH characters at most, with their indents; a number keeps its %."""
    indents = {"initial_indent": first, "subsequent_indent": others}
    joined = text.replace(" %", "\x00%")
    lines = textwrap.wrap(joined, WIDTH, **indents, break_on_hyphens=False)
    return [line.replace("\x00", " ") for line in lines]


def labelled(entries: Iterable[tuple[str, str]]) -> list[str]:
    """Labels with their texts, which go on in indented lines."""
    entries = list(entries)
    wide = max((len(label) for label, _ in entries), default=0) + 2
    return [line for label, text in entries for line in paragraph(text, f"{label:<{wide}}", " " * wide)]


def table(header: list[str], rows: list[list[str]], ragged: tuple[int, ...] = (0,)) -> list[str]:
    """Lines of a table; columns are set to the right, but for the numbers of `ragged`."""
    widths = [max(len(row[k]) for row in [header, *rows]) for k in range(len(header))]
    return [
        "  "
        + "  ".join(
            f"{cell:<{w}}" if k in ragged else f"{cell:>{w}}"
            for k, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [header, *rows]
    ]
