"""Similar names, of which one may be a typing error of the other."""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from bimix.errors import InputError

LONGEST = 60  # characters of a value that a sentence shows
MOST_NAMES = 20  # that a sentence lists
# Words around a domain's name that say which of its texts is meant.
AROUND = {"train", "training", "val", "valid", "validation", "eval", "test", "loss"}


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


def paired(names: Sequence[str], others: Sequence[str]) -> dict[str, str]:
    """{name: other} of names that are none of the others and match one of them, and it alone: but
    for case and punctuation, words of AROUND at the ends, and words at the ends that all names of
    one of the two lists share.
    """
    found: dict[str, str] = {}
    for ways in ((_plain, _plain), (_short, _plain), (_plain, _short)):
        keys = [dict(zip(one, way(one), strict=True)) for one, way in zip((names, others), ways, strict=True)]
        left = {name: key for name, key in keys[0].items() if name not in others and name not in found}
        free = {other: key for other, key in keys[1].items() if other not in names and other not in found.values()}
        counts = Counter(left.values()), Counter(free.values())
        by_key = {key: other for other, key in free.items()}
        found |= {name: by_key[key] for name, key in left.items() if counts[0][key] == counts[1][key] == 1}
    return found


def _plain(names: Sequence[str]) -> list[tuple[str, ...]]:
    """The words of each name in lower case, without those of AROUND at its ends."""
    found = []
    for name in names:
        words = [word for word in re.split(r"[\W_]+", unicodedata.normalize("NFC", name).casefold()) if word]
        while len(words) > 1 and words[0] in AROUND:
            words = words[1:]
        while len(words) > 1 and words[-1] in AROUND:
            words = words[:-1]
        found.append(tuple(words))
    return found


def _short(names: Sequence[str]) -> list[tuple[str, ...]]:
    """The words of `_plain` without those at the ends that all names share."""
    found = _plain(names)
    while len(found) > 1 and min(map(len, found)) > 1 and len({words[0] for words in found}) == 1:
        found = [words[1:] for words in found]
    while len(found) > 1 and min(map(len, found)) > 1 and len({words[-1] for words in found}) == 1:
        found = [words[:-1] for words in found]
    return found
