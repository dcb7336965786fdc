"""Text of 80 columns: paragraphs and tables."""

import textwrap

WIDTH = 78


def cut(text: str, width: int) -> str:
    """`text` in at most `width` characters, three dots standing for what is left out."""
    return text if len(text) <= width else text[: width - 3] + "..."


def paragraph(text: str, first: str = "", others: str = "") -> list[str]:
    """Lines of WIDTH characters at most, with their indents; a number keeps its %."""
    indents = {"initial_indent": first, "subsequent_indent": others}
    joined = text.replace(" %", "\x00%")
    lines = textwrap.wrap(joined, WIDTH, **indents, break_on_hyphens=False)
    return [line.replace("\x00", " ") for line in lines]


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
