"""Blocks of the config as Pydantic models, and the sentences on what they refuse.

A class of a block is read by everybody: the config is made of them, and scripts build them from JSON.
A key's `description` is its meaning on docs/config.md, `unset` says there what holds where it is left
out, and `allowed` what may stand there where that is not plain from its type.
"""

import datetime
import math
import re
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping
from copy import copy
from functools import cache
from typing import Annotated, Any, ClassVar, Self, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError

from bimix.errors import InputError
from bimix.names import meant, shown

T, U = TypeVar("T"), TypeVar("U")
Key = tuple[str | int, ...]
# What a check yields: the key in its block, as a path or a tuple, and a sentence; a third entry that
# is true makes it a remark.
Faults = Iterator[tuple]


def refusal(*faults: tuple) -> PydanticCustomError:
    """What a model refuses by sentences of its own, each with its key below the value."""
    return PydanticCustomError(
        "refusal", "{sentences}", {"faults": faults, "sentences": " ".join(text for _, text in faults)}
    )


def described(kind: Any, allowed: str, holds: Callable[[Any], object] = lambda value: True, **bounds: Any) -> Any:
    """A type with the words on what it allows; `holds`: a condition that values satisfy."""

    def check(value: T) -> T:
        if not holds(value):
            raise PydanticCustomError("described", "It should be {allowed}", {"allowed": allowed})
        return value

    return Annotated[kind, AfterValidator(check), Field(json_schema_extra={"allowed": allowed}, **bounds)]


def unique_list(entries: list) -> list:
    """Refuse a list with an entry twice."""
    for place, entry in enumerate(entries):
        if entry in entries[:place]:
            raise refusal(((), f"{shown(entry)} is there twice; take one away."))
    return entries


def kind_of(value: object) -> str:
    """Which of several kinds a value is of: the tag of the one model that is to read it."""
    return "=object" if isinstance(value, Mapping) else "=array" if isinstance(value, list) else "=scalar"


def tagged_union(by: Callable[[object], str] = kind_of, **kinds: Any) -> Any:
    """A type that is one of several kinds of value, which `by` tells apart: scalar, array or object."""
    return Annotated[Union[*(Annotated[kind, Tag(f"={name}")] for name, kind in kinds.items())], Discriminator(by)]


def need(description: str, unset: str | None = None, allowed: str | None = None) -> Any:
    """A key that must be set."""
    return key(description, unset, allowed, default=...)


def key(description: str, unset: str | None = None, allowed: str | None = None, default: Any = None) -> Any:
    """A key that may be left out."""
    extra = {name: value for name, value in (("unset", unset), ("allowed", allowed)) if value is not None}
    return Field(default, description=description, **({"json_schema_extra": extra} if extra else {}))


Count = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]
Text = Annotated[str, Field(min_length=1)]
Unique = Annotated[list[T], AfterValidator(unique_list), Field(json_schema_extra={"uniqueItems": True})]
Some = Annotated[Unique[T], Field(min_length=1)]
NoneEmpty = Annotated[dict[T, U], Field(min_length=1)]


class Block(BaseModel):
    """A block of the config; also a mapping of the keys that are set."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)
    EITHER: ClassVar[str] = ""  # of these, with commas between them, one at most
    ONE: ClassVar[bool] = True  # and not none
    BESIDE: ClassVar[dict[str, str]] = {}
    REPLACES: ClassVar[dict[str, str]] = {}  # a key: those of earlier layers that it takes the place of

    @model_validator(mode="after")
    def agree(self) -> Self:
        """Refuse what the block's keys, each of its kind, contradict."""
        ways = [way for way in self.EITHER.split(", ") if way in self]
        found = []
        if self.EITHER and len(ways) != 1 and (ways or self.ONE):
            found = [((), f"exactly one of {self.EITHER} must stand here; {' and '.join(ways) or 'none'} does.")]
        for name, needed in self.BESIDE.items():
            if name in self and (lacking := [other for other in needed.split() if other not in self]):
                sentence = f"it belongs to {' and '.join(lacking)}, which does not stand here; take one away or set the"
                found.append(((name,), f"{sentence} other."))
        found = found or [(key.split("/") if isinstance(key, str) else key, text) for key, text in self.faults()]
        if found:
            raise refusal(*found)
        return self

    def faults(self) -> Faults:
        """What the block's own keys contradict."""
        yield from ()

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __contains__(self, name: object) -> bool:
        return name in self.model_fields_set and getattr(self, name) is not None

    def keys(self) -> KeysView[str]:
        return {name: None for name in self.model_fields_set if name in self}.keys()


def changes(block: type[Block]) -> type[Block]:
    """A model of the same keys, each of which may be left out."""
    fields = {name: copy(field) for name, field in block.model_fields.items()}
    for field in fields.values():
        field.default = None
    return create_model(
        f"{block.__name__}Changes", __base__=Block, **{name: (one.annotation, one) for name, one in fields.items()}
    )


def value_at(block: object, key: Iterable[str | int]) -> object:
    """What stands at a path of blocks, typed or plain; None where there is nothing."""
    for part in key:
        block = block[part] if isinstance(block, Mapping | Block) and part in block else None
    return block


# The types of entries


def one_kind(kind: Any, value: object) -> Any:
    """The one of several kinds that reads a value, without what is annotated."""
    while get_origin(kind) is Annotated:
        kind, *notes = get_args(kind)
        for by in (note.discriminator for note in notes if isinstance(note, Discriminator)):
            kind = next(one for one in get_args(kind) if Tag(by(value)) in get_args(one))
    return kind


def is_block(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Block)


def entry_kind(kind: Any, around: object, name: object) -> Any:
    """The type of an entry of a block or a list; None where the models know none."""
    kind = one_kind(kind, around)
    if is_block(kind):
        return keys_of(kind).get(name)
    return get_args(kind)[-1] if get_origin(kind) in (dict, list) else None


@cache
def keys_of(model: type[Block]) -> dict[str, Any]:
    """The type of each key of a model."""
    hints = get_type_hints(model, include_extras=True)
    return {field.alias or name: hints[name] for name, field in model.model_fields.items()}


# What is refused


def checked(model: type[Block], given: Mapping, what: str) -> Block:
    """The block of a script's JSON. Errors (InputError): all that the model refuses."""
    try:
        return model.model_validate(given)
    except ValidationError as refused:
        found = [
            f"{'/'.join(map(str, place))}: {sentence}" if place else sentence
            for place, sentence in refusals(refused, model, given)
        ]
        raise InputError("\n".join(f"{what}: {one}" for one in found)) from None


def refusals(refused: ValidationError, model: type[Block], given: Mapping) -> list[tuple[Key, str]]:
    """The key and the sentence of each thing that a model refuses of a config."""
    found, given_values, needed = [], {}, {}
    for error in refused.errors(include_url=False):
        place, value, kinds = _place(error, model, given)
        if error["type"] == "refusal":
            found += [((*place, *below), sentence) for below, sentence in error["ctx"]["faults"]]
        elif error["type"] == "missing":
            found.append((place, "the key is missing."))
        elif error["type"] == "extra_forbidden":
            names = list(keys_of(kinds[-2]))
            near = meant(place[-1], names)
            found.append((place, f"unknown key; {near}{'T' if near else 't'}here are {', '.join(names)}."))
        else:  # of several kinds each says what it needs
            given_values[place] = value
            needed.setdefault(place, []).append(error)
    for place, errors in needed.items():
        value = given_values[place]
        expected = " or ".join(dict.fromkeys(map(_expected, errors)))
        near = meant(value, re.findall("'([^']*)'", expected)) if isinstance(value, str) else ""
        hint = next(filter(None, (_hint(error["type"], value) for error in errors)), "")
        found.append((place, f"{shown(value)} is given; {near}{'I' if near else 'i'}t must {expected}.{hint}"))
    return list(dict.fromkeys(found))


def _place(error: Mapping, model: type[Block], given: Mapping) -> tuple[Key, object, list]:
    """The keys in Pydantic's path, which also names the kinds that were tried, what stands there, and the
    kinds of it and of all blocks around it.
    """
    place, value, kinds, last = (), given, [one_kind(model, given)], len(error["loc"]) - 1
    for number, part in enumerate(error["loc"]):
        inside = part in value if isinstance(value, Mapping) else isinstance(value, list) and isinstance(part, int)
        if inside or (number == last and error["type"] == "missing"):
            inner = value[part] if inside else None
            kinds.append(one_kind(entry_kind(kinds[-1], value, part), inner))
            place, value = (*place, part), inner
    return place, place[-1] if error["loc"][-1:] == ("[key]",) else value, kinds


WORDS = {
    r"^\w+ should ": "",
    r" or instance of \w+| after validation, not \d+": "",
    "a valid dictionary": "a block",
    "a valid string": "text",
    "a valid integer": "a whole number",
    "a valid ": "a ",
}


def _expected(error: Mapping) -> str:
    """What Pydantic wants, in the words of YAML."""
    text = error["msg"]
    for pattern, word in WORDS.items():
        text = re.sub(pattern, word, text)
    return text


def _hint(kind: str, value: object) -> str:
    """What to write instead of what YAML has read otherwise than it was meant."""
    if kind in ("string_type", "literal_error") and isinstance(value, bool):
        word = "yes" if value else "no"
        return f' YAML reads bare yes, no, on, off, true and false as truth values: quote what is text, as in "{word}".'
    if isinstance(value, datetime.date) or (kind == "string_type" and isinstance(value, int | float)):
        what = "a number" if isinstance(value, int | float) else "a date"
        return f' YAML reads it as {what}: quote it, as in "{value}".'
    if kind == "int_type" and isinstance(value, float) and value.is_integer():
        return f" Write {int(value)}, without a point."
    if kind in ("int_type", "float_type") and isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            return ""
        whole = kind == "int_type" and number.is_integer()
        text = yaml.safe_dump(int(number) if whole else number).split()[0] if math.isfinite(number) else ""
        return f" In YAML {value} is text: write {text}." if text else ""
    return ""
