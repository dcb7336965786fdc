"""Similar names, of which one may be a typing error of the other."""

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from bimix.errors import InputError

PARTS = r"[\s_./:-]"  # what parts the words of a name
LONGEST = 60  # characters of a value that a sentence shows
MOST_NAMES = 20  # that a sentence lists
SHORT = 4  # letters below which two words are more likely two than a slip of one


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
            raise InputError(f"the weights name {name!r}, which is no {what}: there are {', '.join(names)}.")
    if weights and not any(weights.values()):
        raise InputError(f"all weights are 0: give at least one {what} a weight above 0.")


def folded(name: str) -> str:
    """A name without differences in case, blanks and the encoding of accents."""
    return "".join(unicodedata.normalize("NFC", name).casefold().split())


def is_slip(name: str, other: str) -> bool:
    """Whether two names differ by one letter, or by two in names of eight letters and more.

    Names that differ in a number or in a short part form a series and are no slips: c4 and c5,
    wiki_en and wiki_fr, part_a and part_b.
    """
    name, other = folded(name), folded(other)
    longer = max(len(name), len(other))
    if abs(len(name) - len(other)) > 2 or re.sub(r"\D", "", name) != re.sub(r"\D", "", other):
        return False
    pairs = list(zip(re.split(PARTS, name), re.split(PARTS, other), strict=False))
    if len(re.split(PARTS, name)) == len(re.split(PARTS, other)):
        apart = [max(len(one), len(two)) for one, two in pairs if one != two]
        if apart and max(apart) < SHORT:
            return False
    return longer >= SHORT and 0 < _distance(name, other) <= (2 if longer >= 8 else 1)


def _distance(name: str, other: str) -> int:
    """The number of letters inserted, deleted, changed or transposed (optimal string alignment)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(name, 1):
        earlier, before, row = before, row, [i]
        for j, own in enumerate(other, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (letter != own)))
            if i > 1 and j > 1 and letter == other[j - 2] and name[i - 2] == own:
                row[-1] = min(row[-1], earlier[j - 2] + 1)
    return row[-1]
