"""The error that a user can fix; a script ends on it in one sentence, without passwords."""

import argparse
import errno
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path

from bimix.dropped import dropped_words

# Errors of files and folders that the user cannot open, and of full disks: no fault of the program.
NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
HIDDEN = "***"


class InputError(ValueError):
    """One sentence for the user with the value, the place (file and line, row or key), the cure."""


def finite(text: str) -> float:
    """The number of a flag. Errors (argparse's, in a sentence): it is none, or not finite."""
    if not math.isfinite(number := float(text)):
        raise argparse.ArgumentTypeError(f"{text} is no finite number")
    return number


def masked(text: str) -> str:
    """The text without the user, password and query of its addresses, which may be secrets."""

    def mask(address: re.Match) -> str:
        scheme, rest = address[1], address[2]
        place, question, _ = rest.partition("?")
        # a key of s3 may hold slashes: it ends at the last @, where a colon comes before
        place = re.sub("^[^/:@]+:.*@" if scheme.startswith("s3") else "^[^/@]*@", f"{HIDDEN}@", place)
        return f"{scheme}{place}{question + HIDDEN if question else ''}"

    # up to a space or the closing quote or bracket around an address
    return re.sub(r"([A-Za-z][A-Za-z0-9+.-]*://)([^\s'\"<>)\]]+)", mask, text)


def run(main: Callable[[], int | None]) -> int:
    """Run a script's `main` and return its exit status; an InputError becomes one line on standard
    error, without the secrets of addresses, and status 1.

    Any other exception is a fault of the program and keeps its traceback.
    """
    try:
        if sentence := dropped_words(sys.argv[1:]):
            raise InputError(sentence)
        return main() or 0
    except InputError as error:
        print(f"{Path(sys.argv[0]).name}: error: {masked(str(error))}", file=sys.stderr)
        return 1
    except OSError as error:
        if error.errno not in (*NOT_ALLOWED, *NO_ROOM):
            raise
        place = f"{error.filename}: " if error.filename else ""
        print(f"{Path(sys.argv[0]).name}: error: {masked(f'{place}{error.strerror}.')}", file=sys.stderr)
        return 1
