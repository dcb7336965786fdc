"""What the schema finds, in the words of this workflow: the key, what was given, what is
allowed.
"""

import datetime
import math
import re
from collections.abc import Iterator
from typing import Any

from bimix.faults.fault import Fault, named, shown
from bimix.names import meant

BYTES = 200  # of a domain's name as UTF-8: file systems take 255, endings and temporary names need the rest


def name_fault(name: str) -> str | None:
    """Why a name cannot be that of a domain or of an observed mixture, which become names of files;
    None: it can.
    """
    if not name:
        return "a name must have a letter"
    if name in (".", ".."):
        return "the system's name for a folder"
    if name.startswith("-"):
        return "a name that begins with - would be read as a flag"
    if len(name.encode("utf-8", "replace")) > BYTES:
        return f"a name longer than {BYTES} bytes is too long for a file"
    strange = [letter for letter in name if letter in "/{}" or not letter.isprintable()]
    if strange:
        return f"a name must not hold {strange[0]!a}: it becomes the name of a file"
    angle = re.search("<[a-z][a-z0-9_]*>", name)
    if angle:
        return f"{angle[0]} stands for a path in Snakemake"
    return None


def schema_faults(config: dict, schema: dict) -> list[Fault]:
    """Everything in the config that the schema refuses."""
    from jsonschema import Draft202012Validator, FormatChecker
    from jsonschema.validators import extend

    formats = FormatChecker(formats=())
    formats.checks("file name")(lambda name: not isinstance(name, str) or name_fault(name) is None)
    # 800.0 is no number of steps, and not-a-number is above and below nothing
    types = Draft202012Validator.TYPE_CHECKER.redefine_many({"integer": _is_whole, "number": _is_number})
    validator = extend(Draft202012Validator, type_checker=types)(schema, format_checker=formats)
    errors = validator.iter_errors(config)
    return list(dict.fromkeys(fault for error in errors for fault in _faults(error, schema)))


def _is_whole(checker: object, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(checker: object, value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _faults(error: Any, root: dict) -> Iterator[Fault]:
    """The faults that one error of jsonschema stands for."""
    key, value, rule = tuple(error.absolute_path), error.instance, error.validator
    if "propertyNames" in error.absolute_schema_path:
        yield Fault((*key, value), _of_name(value, error, root))
    elif rule == "additionalProperties":
        schema = resolved(error.schema, root)
        names = [name for name, own in schema.get("properties", {}).items() if own is not False]
        for extra in value:
            if extra not in schema.get("properties", {}) and not _fits(extra, schema.get("patternProperties", {})):
                near = meant(extra, names)
                said = f"unknown key; {near}" if near else "unknown key. "
                yield Fault((*key, extra), f"{said}Allowed here: {', '.join(names)}.")
    elif rule is None:
        yield Fault(key, "this key has no place here.")
    elif rule == "required":
        schema = resolved(error.schema, root)
        for name in error.validator_value:
            if name not in value and error.message.startswith(repr(name)):
                wanted = allowed(schema.get("properties", {}).get(name, {}), root)
                yield Fault((*key, name), f"the key is missing{f'; it takes {wanted}' if wanted else ''}.")
    elif rule in ("oneOf", "anyOf") and all(set(one) == {"required"} for one in error.validator_value):
        if not isinstance(value, dict):
            return  # said of its kind
        ways = [" and ".join(one["required"]) for one in error.validator_value]
        given = (
            [way for way in ways if all(part in value for part in way.split(" and "))]
            if isinstance(value, dict)
            else []
        )
        if not given and any(meant(extra, ways) for extra in value.keys() - error.schema.get("properties", {}).keys()):
            return  # said of the key that was to be one of them
        yield Fault(key, f"exactly one of {', '.join(ways)} must stand here; {' and '.join(given) or 'none'} does.")
    elif rule in ("oneOf", "anyOf"):
        yield from _of_best_branch(error, root)
    elif rule in ("not", "pattern", "format") and isinstance(value, str):
        yield Fault(key, _of_name(value, error, root))
    elif rule == "dependentRequired":
        for name, needed in error.validator_value.items():
            for lacking in (other for other in needed if name in value and other not in value):
                yield Fault(
                    (*key, name), f"it belongs to {lacking}, which does not stand here; take one away or set the other."
                )
    elif rule == "uniqueItems":
        twice = next((one for place, one in enumerate(value) if one in value[:place]), None)
        yield Fault(key, f"{shown(twice)} is there twice; take one away.")
    elif rule in ("minItems", "minProperties"):
        least = "one entry" if error.validator_value == 1 else f"{error.validator_value} entries"
        given = "none" if not value else f"only {shown(value)}"
        yield Fault(key, f"{least} at least must stand here, and there is {given}.")
    else:
        yield Fault(key, _of_value(value, error.schema, root))


def _of_best_branch(error: Any, root: dict) -> Iterator[Fault]:
    """The faults of that alternative which the value is of the same kind as, or one sentence on all
    of them.
    """
    branches: dict[int, list] = {}
    for inner in error.context:
        branches.setdefault(inner.schema_path[0], []).append(inner)
    fitting = []
    for number, inner in branches.items():
        branch = error.validator_value[number]
        if isinstance(error.instance, dict | list) and _takes_kind(branch, error.instance, root):
            own = resolved(branch, root).get("properties", {})
            alike = sum(bool(meant(name, own)) for name in error.instance) if isinstance(error.instance, dict) else 0
            fitting.append((-alike, len(inner), number))
    if not fitting:
        yield Fault(tuple(error.absolute_path), _of_value(error.instance, error.schema, root))
        return
    for inner in branches[min(fitting)[2]]:
        yield from _faults(inner, root)


def _takes_kind(schema: dict, value: object, root: dict) -> bool:
    """Whether a schema takes blocks where `value` is one, lists where it is one."""
    schema = resolved(schema, root)
    if "anyOf" in schema:
        return any(_takes_kind(one, value, root) for one in schema["anyOf"])
    return schema.get("type") == ("object" if isinstance(value, dict) else "array")


def _of_name(name: object, error: Any, root: dict) -> str:
    """A sentence on a name that is not allowed."""
    if isinstance(name, str) and error.validator == "format":
        return f"{shown(name)} cannot be a name here: {name_fault(name)}."
    wanted = allowed(error.schema, root)
    return f"{shown(name)} cannot be a name here{f'; allowed: {wanted}' if wanted else ''}.{_cure(name, wanted)}"


def _of_value(value: object, schema: dict, root: dict) -> str:
    """A sentence on a value that is not allowed."""
    wanted = allowed(schema, root)
    near = meant(value, resolved(schema, root).get("enum", [])) if isinstance(value, str) else ""
    return f"{shown(value)} is given; {near}{'A' if near else 'a'}llowed: {wanted}.{_cure(value, wanted)}"


def _cure(value: object, wanted: str) -> str:
    """What to write in the place of what YAML has read otherwise than it was meant."""
    texts = any(word in wanted for word in ('"', "name", "text", "path", "one of"))
    if isinstance(value, str) and "number" in wanted:
        try:
            number = float(value)
        except ValueError:
            return ""
        if math.isfinite(number):
            return f" In YAML {value} is text: write {_as_number(value, number, 'whole' in wanted)}."
    if isinstance(value, bool) and texts:
        word = "yes" if value else "no"
        return f' YAML reads bare yes, no, on, off, true and false as truth values: quote what is text, as in "{word}".'
    if isinstance(value, float) and value.is_integer() and "whole number" in wanted:
        return f" Write {int(value)}, without a point."
    if isinstance(value, int | float) and not isinstance(value, bool) and texts and "number" not in wanted:
        return f' YAML reads it as a number: quote it, as in "{value}".'
    if isinstance(value, datetime.date):
        return f' YAML reads it as a date: quote it, as in "{value}".'
    return ""


def _as_number(text: str, number: float, whole: bool) -> str:
    """A number in the form that YAML 1.1 takes for one: with a point before an exponent, and a sign
    in it.
    """
    if (whole and number.is_integer()) or re.fullmatch(r"[-+]?\d+", text):
        return str(int(number))
    if "e" not in text.lower():
        return repr(number)
    mantissa, _, exponent = text.lower().partition("e")
    mantissa += "" if "." in mantissa else ".0"
    return f"{mantissa}e{exponent if exponent[0] in '+-' else f'+{exponent}'}"


def allowed(schema: dict | bool, root: dict) -> str:
    """What a schema takes, in words; nothing where it takes anything."""
    if isinstance(schema, bool):
        return ""
    if "allowed" in schema:
        return schema["allowed"]
    schema = resolved(schema, root)
    if "allowed" in schema:
        return schema["allowed"]
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return "one of " + ", ".join(f'"{one}"' if one in ("yes", "no") else str(one) for one in schema["enum"])
    for ways in ("anyOf", "oneOf"):
        if ways in schema and not any(set(one) == {"required"} for one in schema[ways]):
            return " or ".join(dict.fromkeys(allowed(one, root) for one in schema[ways]))
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return " or ".join(_of_kind(kind, schema, root) for kind in kinds)


def _of_kind(kind: str, schema: dict, root: dict) -> str:
    if kind in ("integer", "number"):
        return ("a whole number" if kind == "integer" else "a number") + _bounds(schema)
    if kind == "array":
        items = allowed(schema.get("items", {}), root)
        least = schema.get("minItems", 0)
        count = f" of {least} or more" if least > 1 else ""
        return f"a list{count}{', each ' + items if items else ''}"
    if kind == "object":
        names = [name for name, own in schema.get("properties", {}).items() if own is not False]
        return f"a block with {named(names)}" if names else "a block"
    return {"string": "text", "null": "null", "boolean": "true or false"}[kind]


def _bounds(schema: dict) -> str:
    low, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    high, below = schema.get("maximum"), schema.get("exclusiveMaximum")
    parts = []
    if low is not None:
        parts.append(f"{low:g} or more")
    if above is not None:
        parts.append(f"above {above:g}")
    if high is not None:
        parts.append(f"at most {high:g}")
    if below is not None:
        parts.append(f"below {below:g}")
    return f", {' and '.join(parts)}" if parts else ""


def resolved(schema: dict, root: dict) -> dict:
    """A schema with its `$ref` put in its place; what stands beside it is added."""
    if not isinstance(schema, dict) or "$ref" not in schema:
        return schema
    target = resolved(root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root)
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    both = {**target, **beside}
    if "properties" in target and "properties" in beside:
        both["properties"] = {**target["properties"], **beside["properties"]}
    return both


def _fits(name: str, patterns: dict) -> bool:
    return any(re.search(pattern, name) for pattern in patterns)
