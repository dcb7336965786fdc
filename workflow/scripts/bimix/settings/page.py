"""docs/config.md, the page of all keys, made of the models and the defaults."""

import functools
import json
import textwrap
from collections.abc import Iterator
from typing import NamedTuple

from bimix.names import named
from bimix.settings.models import Config

HEAD = """# Every key of the config

What each key means, its default, and what it may hold. Your file holds only what differs:

- `workflow/defaults.yaml` lies beneath, then `config.yaml`, then each file given with `--configfile`,
  then `--config`. Blocks are merged key by key; a list replaces a list, and of exclusive keys the later one the
  earlier (`tokenizer/file` over `hub`). `null` takes a key or a block of an earlier file away.
- `python workflow/scripts/check_config.py mine.yaml` reports all faults of a file at once, and runs nothing.
  Call it first for a stranger's config: Snakemake runs the code that a file of `--configfile` may hold under
  `__use_yte__`, before this workflow sees it.
- Keys that begin with `x-` are for anchors of YAML. `-` as a default: what the key is for is not done.

`python workflow/scripts/document_config.py` makes this page from the
[models](../workflow/scripts/bimix/settings/models.py) and the [defaults](../workflow/defaults.yaml).
"""

# The datasets' blocks have sections of their own; what they change of another section stands there.
ELSEWHERE = {"RecipeKeysChanges": "training", "Changes": "training", "Training": "training"}
MISSING = object()
BLOCK_OF_RECIPE = "paper"  # the recipe whose values stand for defaults

OUTSIDE = "Each key has its path, as messages about faults name it."
OF_DATASETS = {
    "Dataset": "A block under `datasets` with a `corpus`: text that models are trained on. Here `train` is all that must"
    " be set. Blocks that are named above as well take the keys there, which hold where the block has none.",
    "Observed": "A block under `datasets` with `observations`: losses measured elsewhere. Nothing is trained. These"
    " keys are those of a dataset of text: {}.",
}


class Row(NamedTuple):
    """One key of a section: its path, what it means, its default, what may stand there."""

    key: str
    meaning: str
    default: str
    allowed: str


def page(defaults: dict) -> str:
    """The whole page."""
    outside, parts, shown = [], [], set()
    for name, own in schema_of_config()["properties"].items():
        below = [one._replace(key=f"{name}/{one.key}") for one in rows_below(own, defaults.get(name), "")]
        if name != "datasets":  # its blocks have tables of their own
            head = row(name, own, defaults.get(name), False)
            outside += [Row(name, head.meaning, "", "a block") if below else head, *below]
        shown |= {one._replace(default=f"that of `{one.key}`") for one in below}
    for model, title in (("Dataset", "## A dataset of text"), ("Observed", "## A dataset of losses")):
        rows = [inherited(one, defaults) for one in rows_below(definitions()[model], None, "")]
        again = ", ".join(f"`{one.key}`" for one in rows if one in shown and one.key.count("/") < 2)
        parts.append(table(title, OF_DATASETS[model].format(again), [one for one in rows if one not in shown]))
        shown |= set(rows)
    return "\n".join([HEAD, table("## Outside the datasets", OUTSIDE, outside), *parts])


def editor_schema() -> dict:
    """The JSON schema of a file, by which editors complete keys and show what they mean: of no block must
    it have all keys.
    """

    def plain(value: object) -> object:
        if isinstance(value, dict):
            kept = {key: plain(one) for key, one in value.items() if key not in ("default", "required", "oneOf")}
            return kept | ({"anyOf": plain(value["oneOf"])} if "oneOf" in value else {})
        return [plain(one) for one in value] if isinstance(value, list) else value

    return {**plain(schema_of_config()), "patternProperties": {"^x-": {}}}


def table(head: str, text: str, rows: list[Row]) -> str:
    text = "\n".join(textwrap.wrap(text, 100, break_long_words=False, break_on_hyphens=False))
    lines = [f"| `{one.key}` | {one.meaning} | {one.default} | {one.allowed} |" for one in rows]
    return "\n".join([head, "", text, "", "| key | meaning | default | allowed |", "|---|---|---|---|", *lines, ""])


def inherited(one: Row, defaults: dict) -> Row:
    """A key of a dataset's block with its default in another section; deeper blocks have none."""
    found: object = defaults if one.key.count("/") == 1 and one.default in ("-", "must be set", "") else {}
    for part in one.key.split("/"):
        found = found.get(part, MISSING) if isinstance(found, dict) else MISSING
    return one if found is MISSING else one._replace(default=f"that of `{one.key}`")


def entries(own: dict) -> dict:
    """The model below the names of a block that has names of the user's own."""
    inner = own.get("additionalProperties")
    kinds = [resolved(kind) for kind in branches(inner)] if isinstance(inner, dict) else []
    if (
        len(kinds) > 1
        and all("properties" in kind for kind in kinds)
        and inner["oneOf"][0]["$ref"].endswith("LikeRecipe")
    ):
        return {**kinds[1], "properties": kinds[1]["properties"] | kinds[0]["properties"]}
    return resolved(inner) if isinstance(inner, dict) else {}


def rows_below(own: dict, default: object, path: str) -> Iterator[Row]:
    """The keys of a block and of those in it, in the order of the models."""
    block, values = resolved(own), default if isinstance(default, dict) else {}
    if "properties" in entries(block):
        yield from rows_below(entries(block), values.get(BLOCK_OF_RECIPE), f"{path}{{name}}/")
        return
    for branch in map(resolved, branches(block)):
        yield from rows_below(branch, default, path) if "properties" in branch else ()
    for key, child in block.get("properties", {}).items():
        yield row(f"{path}{key}", child, values.get(key), key in block.get("required", []), key in values)
        if not refers_elsewhere(child):
            yield from rows_below(child, values.get(key), f"{path}{key}/")


def refers_elsewhere(own: dict) -> str | None:
    """The section that a block changes, if it does: its keys stand there."""
    inner = own.get("additionalProperties")
    reference = (inner if isinstance(inner, dict) else own).get("$ref", "").removeprefix("#/$defs/")
    return ELSEWHERE.get(reference)


def row(key: str, own: dict, default: object, required: bool, given: bool = True) -> Row:
    """One key's line of a table."""
    block, section_of = resolved(own), refers_elsewhere(own)
    has_keys = "properties" in block or "properties" in entries(block)
    value = "" if has_keys else "must be set" if required else "-"
    if default is not None and (section_of or not has_keys):
        value = f"`{written(default)}`"
    elif "unset" in own and default is None:
        value = own["unset"]
    elif given and any(kind.get("type") == "null" for kind in branches(block)):
        value = "`null`"
    wanted = "a block" if has_keys and "allowed" not in block else allowed(own)
    wanted = f"as in `{section_of}`" if section_of else wanted
    return Row(key, *(text.replace("|", "\\|") for text in (own["description"], value, wanted)))


def written(value: object) -> str:
    """A value in one line, as YAML takes it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {written(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, float):
        return f"{value:.2e}" if value and not 1e-4 <= value < 1e6 else str(value)
    return json.dumps(value, ensure_ascii=False)


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
