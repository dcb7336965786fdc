"""Names that are much like one another, which a slip of the pen makes of one."""

from collections.abc import Iterable
from difflib import get_close_matches


def meant(name: object, names: Iterable[object]) -> str:
    """`did you mean x? ` where one of the names is much like this one, else nothing."""
    names = {str(other).lower(): str(other) for other in names}
    close = get_close_matches(str(name).lower(), names, 1, 0.6)
    return f"did you mean {names[close[0]]}? " if close else ""
