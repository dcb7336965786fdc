"""A config read by its models: what they refuse, in the words of this workflow (the key, what was
given, what is allowed), and the rest of the config without it.
"""

import copy
import datetime
import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

from bimix.names import meant, named, shown
from bimix.settings.files import Fault, Key, located
from bimix.settings.models import Block, Config


class Place(NamedTuple):
    """Where an error is: the key, what stands there, what may, and what may stand around it."""

    key: Key
    value: object
    schema: dict | None
    around: dict


def accepted(config: dict) -> tuple[dict, list[Fault], Config]:
    """The config without the values that its models refuse, a fault for each, and what is left as
    its models; what is refused only because another was taken out goes, too, and is no fault.
    """
    faults: list[Fault] | None = None
    while True:
        try:
            # blocks of `x-...`, for anchors, are no keys
            model = Config.model_validate({key: value for key, value in config.items() if not key.startswith("x-")})
            return config, faults or [], model
        except ValidationError as refused:
            places = [(error, _place(error["loc"], config)) for error in refused.errors(include_url=False)]
        if faults is None:
            faults = list(dict.fromkeys(Fault(place.key, _sentence(error, place)) for error, place in places))
            config = copy.deepcopy(config)
        for _, place in places:
            _take_out(config, place.key)


def _take_out(config: dict, key: Key) -> None:
    """Remove what stands at a key, of an entry of a list the whole list. A block is of losses
    measured elsewhere though its `observations` are refused: of them nothing is left.
    """
    while isinstance(key[-1], int):
        key = key[:-1]
    found: Any = config
    for part in key[:-1]:
        try:
            found = found[part]
        except (KeyError, IndexError, TypeError):  # taken out with another key
            return
    if isinstance(found, dict) and key[2:] == ("observations",) and found.get("observations") != {}:
        found["observations"] = {}
    elif isinstance(found, dict):
        found.pop(key[-1], None)


def incomplete(config: Config, broken: Sequence[Key]) -> Iterator[Fault]:
    """Faults of a filled config: keys that nothing sets, that exclude one another, and that need
    another. None where what was taken out, `broken`, may have been that key.
    """
    for key, block, given in _blocks(config, (), broken):
        if key not in broken:
            yield from _lacking(block, key, given, set(broken))


def contradictory(config: Config, broken: Sequence[Key]) -> Iterator[Fault]:
    """Faults of keys of one block that do not go together, in which nothing is `broken`."""
    for key, block, _ in _blocks(config, (), broken):
        if not any(key[: len(bad)] == bad[: len(key)] for bad in broken):
            yield from located(key, block.faults())


def _blocks(value: object, key: Key, broken: Sequence[Key]) -> Iterator[tuple[Key, Block, dict]]:
    """All blocks by their keys, each with what is set in it."""
    if isinstance(value, Block):
        if (*key, "observations") in broken:  # without these a block would be of another kind
            return
        fields = type(value).model_fields
        own = {fields[name].alias or name: getattr(value, name) for name in value.model_fields_set}
        yield key, value, own
        value = own
    if isinstance(value, dict | list):
        for name, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _blocks(one, (*key, name), broken)


def _lacking(block: Block, key: Key, given: dict, broken: set[Key]) -> Iterator[Fault]:
    """The faults of one block's own keys."""

    def lacks(*names: str) -> list[str]:
        """The names that neither stand here nor are refused."""
        refused = {bad[len(key)] for bad in broken if bad[: len(key)] == key and bad != key}
        return [one for one in names if one not in given and one not in refused]

    for name in lacks(*block.NEEDED.split()) if lacks("like") else ():
        # only here: the schema takes 0.09 s of each call of Snakemake
        schema = schema_of_config() if type(block) is Config else definitions()[type(block).__name__]
        wanted = allowed(schema["properties"][name])
        yield Fault((*key, name), f"the key is missing{f'; it takes {wanted}' if wanted else ''}.")
    ways = [way for way in block.EITHER.split(", ") if given.keys() >= set(way.split(" and "))]
    every = block.EITHER.replace(" and ", ", ").split(", ")
    # what is refused may have been meant for one of them
    meant_one = any(bad[:-1] == key for bad in broken) or any(one not in given and not lacks(one) for one in every)
    if block.EITHER and len(ways) != 1 and not meant_one:
        yield Fault(key, f"exactly one of {block.EITHER} must stand here; {' and '.join(ways) or 'none'} does.")
    for name, needed in block.BESIDE.items():
        for other in lacks(*needed.split()) if name in given else ():
            sentence = f"it belongs to {other}, which does not stand here; take one away or set the other."
            yield Fault((*key, name), sentence)


# What is allowed, in words


@functools.cache
def schema_of_config() -> dict:
    """The JSON schema of the models, for editors, for the page of all keys and for sentences."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Config.model_json_schema()}


def definitions() -> dict:
    return schema_of_config()["$defs"]


def resolved(schema: dict) -> dict:
    """A schema with its `$ref` put in its place; keys next to it are added."""
    if "$ref" not in schema:
        return schema
    return {**definitions()[schema["$ref"].removeprefix("#/$defs/")], **schema}


def branches(schema: dict) -> list[dict]:
    """The kinds of value that a schema takes; none where it takes one."""
    return schema.get("oneOf", []) + schema.get("anyOf", [])


def _place(loc: Sequence[str | int], config: dict) -> Place:
    """The keys in Pydantic's path, which also names the kinds that were tried."""
    key: list[str | int] = []
    value: object = config
    around = schema = schema_of_config()
    for part in loc:
        kinds = branches(schema or {})
        if part == "[key]":
            return Place(tuple(key), key[-1], around.get("propertyNames", {}), around)
        if isinstance(part, str) and part.startswith("=") and kinds:
            schema = next(resolved(kind) for kind in kinds if _is_kind(kind, part))
        elif (isinstance(value, dict) and part in value) or (isinstance(value, list) and isinstance(part, int)):
            around, value = schema or {}, value[part]
            inner = around.get("additionalProperties")
            below = around.get("items") if isinstance(part, int) else around.get("properties", {}).get(part, inner)
            schema = resolved(below) if isinstance(below, dict) else None
            key.append(part)
    return Place(tuple(key), value, schema, around)


def _is_kind(schema: dict, tag: str) -> bool:
    if schema.get("$ref", "").endswith("/" + tag[1:]):
        return True
    kind = resolved(schema).get("type")
    return tag == {"object": "=object", "array": "=array"}.get(kind, "=scalar")


def _sentence(error: Any, place: Place) -> str:
    """The sentence of one error of Pydantic."""
    kind, value = error["type"], place.value
    if kind == "said":
        return error["ctx"]["sentence"]
    if kind == "extra_forbidden":
        names = list(place.around.get("properties", {}))
        near = meant(place.key[-1], names)
        return f"{f'unknown key; {near}' if near else 'unknown key. '}Allowed here: {', '.join(names)}."
    if kind == "too_short":
        number = error["ctx"]["min_length"]
        least = "one entry" if number == 1 else f"{number} entries"
        return f"{least} at least must stand here, and there is {f'only {shown(value)}' if value else 'none'}."
    wanted = allowed(place.schema or {})
    near = meant(value, (place.schema or {}).get("enum", [])) if isinstance(value, str) else ""
    return f"{shown(value)} is given; {near}{'A' if near else 'a'}llowed: {wanted}.{_cure(value, wanted)}"


def _cure(value: object, wanted: str) -> str:
    """What to write instead of what YAML has read otherwise than it was meant."""
    texts = any(word in wanted for word in ('"', "name", "text", "path", "one of"))
    if isinstance(value, str) and "number" in wanted:
        try:
            number = float(value)
            whole = "whole" in wanted and number.is_integer()
            text = yaml.safe_dump(int(number) if whole else number).split()[0]
            return f" In YAML {value} is text: write {text}." if math.isfinite(number) else ""
        except ValueError:
            return ""
    if isinstance(value, bool) and texts:
        word = "yes" if value else "no"
        return f' YAML reads bare yes, no, on, off, true and false as truth values: quote what is text, as in "{word}".'
    if isinstance(value, float) and value.is_integer() and "whole number" in wanted:
        return f" Write {int(value)}, without a point."
    kind = "a date" if isinstance(value, datetime.date) else "a number" if isinstance(value, int | float) else ""
    if kind == "a date" or (kind and not isinstance(value, bool) and texts and "number" not in wanted):
        return f' YAML reads it as {kind}: quote it, as in "{value}".'
    return ""


def allowed(schema: dict) -> str:
    """The allowed values of a schema, in words; nothing where anything is allowed."""
    if "allowed" not in schema:
        schema = resolved(schema)
    if "allowed" in schema:
        return schema["allowed"]
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return "one of " + ", ".join(f'"{one}"' if one in ("yes", "no") else str(one) for one in schema["enum"])
    if kinds := branches(schema):
        return " or ".join(dict.fromkeys(map(allowed, kinds)))
    kind = schema.get("type")
    if kind in ("integer", "number"):
        return ("a whole number" if kind == "integer" else "a number") + _bounds(schema)
    if kind == "array":
        items, least = allowed(schema.get("items", {})), schema.get("minItems", 0)
        return f"a list{f' of {least} or more' if least > 1 else ''}{', each ' + items if items else ''}"
    if kind == "object":
        return f"a block with {named(names)}" if (names := list(schema.get("properties", {}))) else "a block"
    return {"string": "text", "null": "null", "boolean": "true or false"}.get(kind, "")


def _bounds(schema: dict) -> str:
    signs = {"minimum": "{:.12g} or more", "exclusiveMinimum": "above {:.12g}"}
    signs |= {"maximum": "at most {:.12g}", "exclusiveMaximum": "below {:.12g}"}
    parts = [text.format(schema[sign]) for sign, text in signs.items() if sign in schema]
    return f", {' and '.join(parts)}" if parts else ""
