"""The one kind of error that a user can fix, and how a script ends on it: a sentence, no traceback,
in which no address has a password.
"""

import errno
import re
import sys
from collections.abc import Callable
from pathlib import Path

# Of files and folders that are another's to open: no fault of the program.
NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)
HIDDEN = "***"


class InputError(ValueError):
    """One full sentence for the user: it names the value, the place (file and line,
    row or key) and what to do.
    """


def masked(text: str) -> str:
    """A text whose addresses have neither user and password nor a query: both may be secrets."""

    def mask(address: re.Match) -> str:
        scheme, rest = address[1], address[2]
        place, question, _ = rest.partition("?")
        # a key of s3 may hold slashes: it ends at the last @, where a colon comes before
        place = re.sub("^[^/:@]+:.*@" if scheme.startswith("s3") else "^[^/@]*@", f"{HIDDEN}@", place)
        return f"{scheme}{place}{question + HIDDEN if question else ''}"

    # up to a space or the quote or bracket that closes what an address stands in
    return re.sub(r"([A-Za-z][A-Za-z0-9+.-]*://)([^\s'\"<>)\]]+)", mask, text)


def run(main: Callable[[], int | None]) -> int:
    """Run a script's `main` and return its exit status; an InputError becomes one line on
    standard error and status 1.

    Addresses in it lose what may be a secret.
    Any other exception is a fault of the program and keeps its traceback.
    """
    try:
        return main() or 0
    except InputError as error:
        print(f"{Path(sys.argv[0]).name}: error: {masked(str(error))}", file=sys.stderr)
        return 1
    except OSError as error:
        if error.errno not in NOT_ALLOWED:
            raise
        place = f"{error.filename}: " if error.filename else ""
        print(f"{Path(sys.argv[0]).name}: error: {masked(f'{place}{error.strerror}.')}", file=sys.stderr)
        return 1
