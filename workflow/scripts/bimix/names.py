"""Similar names, of which one may be a typing error of the other."""

import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from bimix.errors import InputError

LONGEST = 60  # characters of a value that a sentence shows
MOST_NAMES = 20  # that a sentence lists


def meant(name: object, names: Iterable[object]) -> str:
    """`did you mean x? ` where one of the names is similar to this one, else nothing."""
    names = {str(other).lower(): str(other) for other in names}
    close = get_close_matches(str(name).lower(), names, 1, 0.6)
    return f"did you mean {names[close[0]]}? " if close else ""


def shown(value: object) -> str:
    """A value as written in a file, at most LONGEST characters of it."""
    if value is None:
        return "nothing (null)"
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")  # half a surrogate pair cannot be printed
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def named(names: Iterable[object]) -> str:
    """A list of the first MOST_NAMES names, with commas."""
    names = [str(name) for name in names]
    more = [f"and {len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else []
    return ", ".join(names[:MOST_NAMES] + more) or "none"


def unknown(what: str, name: object, names: Iterable[object], there: str = "there are") -> str:
    """A sentence about an unknown name."""
    names = list(names)
    near = meant(name, names)
    there = there[0].upper() + there[1:] if near else there
    return f"no {what} {shown(name)}; {near}{there}: {named(names)}."


def check_weights(weights: Mapping[str, float], names: Sequence[str], what: str = "loss domain") -> None:
    """Errors: a weight of none of the names, which are of a kind `what`; no weight above 0."""
    for name in weights:
        if name not in names:
            raise InputError(
                f"the weights name {name!r}, which is no {what}: {meant(name, names)}there are {', '.join(names)}."
            )
    if weights and not any(weights.values()):
        raise InputError(f"all weights are 0: give at least one {what} a weight above 0.")


def folded(name: str) -> str:
    """A name without differences in case, blanks and the encoding of accents."""
    return "".join(unicodedata.normalize("NFC", name).casefold().split())
