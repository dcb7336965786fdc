"""Sentences over a figure, in lines that are about equally long."""

import textwrap


def balanced(text: str, letters: int) -> list[str]:
    """Lines of at most so many letters, as few as these allow, and none of them a last word alone.

    A number keeps its percent sign.
    """
    joined = text.replace(" %", "\x00%")

    def lines(wide: int) -> list[str]:
        return textwrap.wrap(joined, wide, break_on_hyphens=False)

    widths = range(letters, 0, -1)
    narrow = next((wide for wide in widths if len(lines(wide - 1 or 1)) > len(lines(letters)) or wide == 1), letters)
    return [line.replace("\x00", " ") for line in lines(narrow)]
