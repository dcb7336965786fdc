"""Inputs that are refused in a sentence, many of them in one test."""

import re
from collections.abc import Callable

import pytest

from bimix.errors import InputError


def refused(words: str, call: Callable, *given, **named) -> str:
    """The sentence by which a call refuses its input; it has these words, plain or as a pattern."""
    try:
        call(*given, **named)
    except InputError as error:
        said = str(error)
    else:
        pytest.fail(f"this was taken, not refused with {words!r}: {given} {named}")
    assert words in said or re.search(words, said), f"{words!r} is not in {said!r}"
    return said
