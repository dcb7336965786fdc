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
- `python workflow/scripts/check_config.py mine.yaml` reports the faults of a file together, and runs nothing.
  Call it first for a stranger's config: Snakemake runs the code that a file of `--configfile` may hold under
  `__use_yte__`, before this workflow sees it.
- Keys that begin with `x-` are for anchors of YAML. `-` as a default: off unless set.
- `python workflow/scripts/document_config.py` makes this page from the
  [models](../workflow/scripts/bimix/settings/models.py) and the [defaults](../workflow/defaults.yaml).
"""
OUTSIDE = "Each key has its path, as messages about faults name it."
OF_TEXT = (
    "A block under `datasets` with a `corpus`: text that models are trained on. Here `train` is all that must be set."
    " Blocks that are named above as well take the keys there, which hold where the block has none."
)
OF_LOSSES = (
    "A block under `datasets` with `observations`: losses measured elsewhere. Nothing is trained. These keys are those"
    " of a dataset of text: {}."
)
BLOCK_OF_RECIPE = "paper"  # the recipe whose values stand for defaults
OF_RECIPES = ("RecipeKeysChanges", "Changes", "Training")  # blocks with the keys of a recipe, which stand in `training`


class Row(NamedTuple):
    """One key of a section: its path, what it means, its default, what may stand there."""

    key: str
    meaning: str
    default: str
    allowed: str


def page(defaults: dict) -> str:
    """The whole page."""
    outside = [row for row in rows(schema_of_config(), defaults) if not row.key.startswith("datasets")]
    shown = {(row.key, row.meaning) for row in outside}
    of_text = [row for row in rows(definitions()["Dataset"], {}) if (row.key, row.meaning) not in shown]
    of_losses = list(rows(definitions()["Observed"], {}))
    again = ", ".join(f"`{row.key}`" for row in of_losses if row in of_text and row.key.count("/") < 2)
    new = [row for row in of_losses if row not in of_text]
    return "\n".join(
        [
            HEAD,
            table("## Outside the datasets", OUTSIDE, outside),
            table("## A dataset of text", OF_TEXT, of_text),
            table("## A dataset of losses", OF_LOSSES.format(again), new),
        ]
    )


def table(head: str, text: str, rows: list[Row]) -> str:
    text = "\n".join(textwrap.wrap(text, 100, break_long_words=False, break_on_hyphens=False))
    lines = [f"| `{row.key}` | {row.meaning} | {row.default} | {row.allowed} |" for row in rows]
    return "\n".join([head, "", text, "", "| key | meaning | default | allowed |", "|---|---|---|---|", *lines, ""])


def rows(schema: dict, defaults: object, path: str = "") -> Iterator[Row]:
    """The keys of a block and of those in it, in the order of the models, each once."""
    values, seen = defaults if isinstance(defaults, dict) else {}, set()
    for key, child in schema["properties"].items():
        blocks, default = list(blocks_in(child)), values.get(key)
        of_recipe = "RecipeKeysChanges" in str(child) or any(title in OF_RECIPES for title, _, _ in blocks)
        kinds = allowed(child)
        if of_recipe:
            kinds = "as in `training`"
        elif blocks and "allowed" not in child and not branches(child):
            kinds = "a block"
        texts = (child["description"], written_default(schema, key, default, bool(blocks)), kinds)
        yield Row(path + key, *(text.replace("|", "\\|") for text in texts))
        for _, names, block in blocks if not of_recipe else ():
            inner = default.get(BLOCK_OF_RECIPE) if names and default else default
            for below in rows(block, inner, f"{path}{key}/{names}"):
                if below.key not in seen:
                    yield below
                seen.add(below.key)


def blocks_in(schema: dict) -> Iterator[tuple[str, str, dict]]:
    """The blocks that a schema takes, by title: itself, of several kinds, and those under names of the
    user's own, `{name}/`.
    """
    schema = resolved(schema)
    if "properties" in schema:
        yield schema["title"], "", schema
    for kind in branches(schema):
        yield from blocks_in(kind)
    if isinstance(inner := schema.get("additionalProperties"), dict):
        for title, names, block in blocks_in(inner):
            yield title, f"{{name}}/{names}", block


def written_default(schema: dict, key: str, default: object, is_block: bool) -> str:
    """The default of a key as the page shows it."""
    field = schema["properties"][key]
    if default is not None and not is_block:
        return f"`{written(default)}`"
    if "unset" in field:
        return field["unset"]
    if is_block:
        return ""
    if field.get("default") is not None:
        return f"`{written(field['default'])}`"
    if any(kind.get("type") == "null" for kind in branches(field)):
        return "`null`"
    return "must be set" if key in schema.get("required", []) else "-"


def written(value: object) -> str:
    """A value in one line, as YAML takes it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {written(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, float):
        return f"{value:.2e}" if value and not 1e-4 <= value < 1e6 else str(value)
    return json.dumps(value, ensure_ascii=False)


def allowed(schema: dict) -> str:
    """The allowed values of a schema, in words; nothing where anything is allowed."""
    if "allowed" not in schema:
        schema = resolved(schema)
    if "allowed" in schema:
        return schema["allowed"]
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return "one of " + ", ".join(f'"{value}"' if value in ("yes", "no") else str(value) for value in schema["enum"])
    if kinds := branches(schema):
        return " or ".join(dict.fromkeys(map(allowed, kinds)))
    kind = schema.get("type")
    if kind in ("integer", "number"):
        bounds = [text.format(schema[sign]) for sign, text in BOUNDS.items() if sign in schema]
        return ", ".join(["a whole number" if kind == "integer" else "a number", *filter(None, [" and ".join(bounds)])])
    if kind == "array":
        items, least = allowed(schema.get("items", {})), schema.get("minItems", 0)
        return f"a list{f' of {least} or more' if least > 1 else ''}{', each ' + items if items else ''}"
    if kind == "object":
        return f"a block with {named(names)}" if (names := list(schema.get("properties", {}))) else "a block"
    return {"string": "text", "null": "null", "boolean": "true or false"}.get(kind, "")


BOUNDS = {"minimum": "{:.12g} or more", "exclusiveMinimum": "above {:.12g}"}
BOUNDS |= {"maximum": "at most {:.12g}", "exclusiveMaximum": "below {:.12g}"}


# The JSON schema of the models


@functools.cache
def schema_of_config() -> dict:
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


def editor_schema() -> dict:
    """The JSON schema of a file, by which editors complete keys and show what they mean: of no block must
    it have all keys.
    """

    def plain(value: object) -> object:
        if isinstance(value, dict):
            kept = {key: plain(inner) for key, inner in value.items() if key not in ("default", "required", "oneOf")}
            return kept | ({"anyOf": plain(value["oneOf"])} if "oneOf" in value else {})
        return [plain(inner) for inner in value] if isinstance(value, list) else value

    return {**plain(schema_of_config()), "patternProperties": {"^x-": {}}}
