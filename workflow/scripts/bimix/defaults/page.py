"""The page of all keys, docs/config.md, made of the schema and of the defaults: meaning, default,
what is allowed.
"""

import json
from collections.abc import Iterator
from typing import NamedTuple

from bimix.faults.wording import allowed, resolved

HEAD = """# Every key of the config

This page is made by `python workflow/scripts/document_config.py` from the
[schema](../workflow/schemas/config.schema.yaml) and the [defaults](../workflow/defaults.yaml); a test
says if it is stale. Your file holds only what differs:

- `workflow/defaults.yaml` lies beneath, then `config.yaml`, then each file given with `--configfile`,
  then `--config`. Blocks are merged key by key; a list replaces a list.
- `python workflow/scripts/check_config.py mine.yaml` says what is wrong with a file, all at once, with
  file, line and key.
- A stranger's config is a program: Snakemake runs the code that a file may hold under `__use_yte__`.
  `config.yaml` is checked before that. Files given with `--configfile` are read first, so their code
  has run when the workflow refuses them. Call `check_config.py` on such a file before: it runs
  nothing. Likewise Snakemake itself ends with a RecursionError on a file of `--configfile` that has
  lists a thousand deep in one another; `check_config.py` says so in a sentence.
- Keys that begin with `x-` are for anchors of YAML; nothing reads them.
- `-` as a default: the key may be left out, and then nothing is done of its kind.
"""

# The datasets' blocks have sections of their own; what they change of another section stands there.
ELSEWHERE = {"settings": "training", "entropy": "entropy", "doremi": "doremi", "doge": "doge"}
BLOCK_OF_RECIPE = "paper"  # the recipe whose values stand for defaults


class Row(NamedTuple):
    """One key of a section: its path, what it means, its default, what may stand there."""

    key: str
    meaning: str
    default: str
    allowed: str


def page(schema: dict, defaults: dict) -> str:
    """The whole page. Errors (KeyError): a key without a `description`."""
    parts = [HEAD]
    for name, own in schema["properties"].items():
        if name == "datasets":
            continue
        parts.append(section(name, own, schema, defaults.get(name), own["description"]))
    text = "A block under `datasets` with a `corpus`: text that models are trained on. Here `train` is all that must be set."
    parts.append(section("a dataset of text", schema["$defs"]["dataset"], schema, None, text, of_dataset=True))
    text = "A block under `datasets` with `observations`: losses measured elsewhere. Nothing is trained."
    parts.append(section("a dataset of losses", schema["$defs"]["observed"], schema, None, text, of_dataset=True))
    return "\n".join(parts)


def section(name: str, own: dict, schema: dict, default: object, text: str, of_dataset: bool = False) -> str:
    """A heading, a sentence, and the table of the keys below; a key that is no block is a table of
    one.
    """
    rows = list(rows_below(own, schema, default, ""))
    heading = f"## {name.capitalize()}" if of_dataset else f"## `{name}`"
    if not rows:
        rows = [row(name, own, schema, default, False)]
    head = ["| key | meaning | default | allowed |", "|---|---|---|---|"]
    lines = [f"| `{one.key}` | {one.meaning} | {one.default} | {one.allowed} |" for one in rows]
    return "\n".join([heading, "", *wrapped(text), "", *head, *lines, ""])


def wrapped(text: str) -> list[str]:
    """Text in lines of 100 letters."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) >= 100:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def rows_below(own: dict, schema: dict, default: object, path: str) -> Iterator[Row]:
    """The keys of a block and of those in it, in the order of the schema."""
    block = resolved(own, schema)
    inner = block.get("additionalProperties")
    if isinstance(inner, dict) and "properties" in resolved(inner, schema):
        several = default if isinstance(default, dict) else {}
        yield from rows_below(inner, schema, several.get(BLOCK_OF_RECIPE), f"{path}{{name}}/")
        return
    for branch in block.get("anyOf", []):
        yield from rows_below(branch, schema, default, path) if "properties" in branch else ()
    for key, child in block.get("properties", {}).items():
        if child is False:
            continue
        value = default.get(key) if isinstance(default, dict) else None
        given = isinstance(default, dict) and key in default
        yield row(f"{path}{key}", child, schema, value, key in block.get("required", []), given)
        if not refers_elsewhere(child):
            yield from rows_below(child, schema, value, f"{path}{key}/")


def refers_elsewhere(own: dict) -> str | None:
    """The section that a block changes, if it does: its keys stand there."""
    inner = own.get("additionalProperties")
    reference = (inner if isinstance(inner, dict) else own).get("$ref", "").removeprefix("#/$defs/")
    return ELSEWHERE.get(reference)


def row(key: str, own: dict, schema: dict, default: object, required: bool, given: bool = True) -> Row:
    """One key's line of a table."""
    block, section_of = resolved(own, schema), refers_elsewhere(own)
    has_keys = "properties" in block or "properties" in resolved(block.get("additionalProperties", {}), schema)
    if default is not None and (section_of or not has_keys):
        value = f"`{written(default)}`"
    elif "unset" in own and default is None:
        value = own["unset"]
    elif given and "null" in block.get("type", []):
        value = "`null`"
    elif has_keys:
        value = ""
    else:
        value = "must be set" if required else "-"
    if section_of:
        wanted = f"as in [`{section_of}`](#{section_of})"
    else:
        wanted = "a block" if has_keys and "allowed" not in block else allowed(own, schema)
    return Row(key, *(text.replace("|", "\\|") for text in (block["description"], value, wanted)))


def written(value: object) -> str:
    """A value in one line, as YAML takes it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {written(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, float):
        return f"{value:.2e}" if value and not 1e-4 <= value < 1e6 else str(value)
    return json.dumps(value, ensure_ascii=False)
