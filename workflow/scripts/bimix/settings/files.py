"""The files of a config as their author wrote them: what YAML takes in silence, and the line on
which a key stands.

Snakemake merges the files into one dict, in which a key given twice is there once and nothing has a
line.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bimix.names import shown
from bimix.settings.fault import Fault

YTE = "__use_yte__"
DEEPEST = 60  # blocks and lists in one another; a config has about ten
MOST_NODES = 200_000  # keys, values, lists and blocks, with all that aliases repeat
NO_TEXT = "YAML does not read the key as"
# What YAML makes of bare words and numbers; any other tag asks for Python objects or is nobody's.
PLAIN_TAGS = {
    f"tag:yaml.org,2002:{kind}"
    for kind in ["map", "seq", "str", "int", "float", "bool", "null", "timestamp", "merge", "value"]
}


@dataclass(frozen=True)
class ConfigFile:
    """One file; `root` is its node tree, None where it cannot be read."""

    path: str
    root: Any


def read_config_file(path: Path | str) -> tuple[ConfigFile, list[Fault]]:
    """The file `path`, JSON or YAML, and the faults of its form: nothing in it is executed."""
    import yaml

    name = str(path)

    def broken(sentence: str, line: int = 0) -> tuple[ConfigFile, list[Fault]]:
        return ConfigFile(name, None), [Fault((), sentence, name, line)]

    if Path(path).parts[:1] == ("results",):
        return broken("this is a result and no config: targets go before --configfile, which takes all words after it.")
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return broken("there is no such file; targets go before --configfile, which takes all words that follow it.")
    except UnicodeDecodeError as error:
        return broken(f"the file is not UTF-8 ({error.reason} at byte {error.start}).")
    except OSError as error:
        return broken(f"the file cannot be read ({error.strerror}).")
    try:
        json.loads(text)
        is_json = True
    except (ValueError, RecursionError):
        is_json = False
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = text.expandtabs() if is_json else text  # JSON may be indented with tabs, which YAML refuses
    try:
        oversize = _oversize(yaml.parse(text, Loader=loader))
        if oversize:
            return broken(*oversize)
        root = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 0
        source = text.splitlines()[line - 1] if 0 < line <= len(text.splitlines()) else ""
        if source[: len(source) - len(source.lstrip())].count("\t"):
            return broken("the line is indented with a tab; YAML takes spaces only.", line)
        opened = f" (what it belongs to begins in line {error.context_mark.line + 1})" if error.context_mark else ""
        return broken(
            f"no YAML from here: {error.problem or error.context}{opened}; look for a missing quote,"
            " bracket, colon or space.",
            line,
        )
    except yaml.YAMLError as error:
        return broken(f"no YAML: {' '.join(str(error).split())}.")
    if root is None:
        return broken("the file is empty; it holds blocks such as `run` and `datasets`.")
    if not isinstance(root, yaml.MappingNode):
        kind = "a list" if isinstance(root, yaml.SequenceNode) else "a single value"
        return broken(f"the file holds {kind}; it must hold keys such as `run:` and `datasets:`.", _line(root))
    return ConfigFile(name, root), list(_faults_of_form(root, name))


def _oversize(events: Iterable[Any]) -> tuple[str, int] | None:
    """A sentence and its line where the events of a YAML file make more than a config can hold.

    Nothing is built of them, so that aliases of aliases, lists in lists and a block that holds
    itself end here, in less than a second.
    """
    import yaml

    total, depth, opened, sizes = 0, 0, [], {}  # opened: (anchor, nodes before it) of each block around
    for event in events:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in opened):
                return f"*{event.anchor} stands within the block &{event.anchor} itself; write out what is meant.", line
            total += sizes.get(event.anchor, 1)
        elif isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
            total += 1
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                opened.append((event.anchor, total - 1))
            elif event.anchor:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
            anchor, before = opened.pop()
            if anchor:
                sizes[anchor] = total - before
        if depth > DEEPEST:
            return f"blocks and lists lie more than {DEEPEST} deep in one another.", line
        if total > MOST_NODES:
            return f"the file has more than {MOST_NODES:,} keys and values, with all that aliases (*name) repeat.", line
    return None


def _unreadable(node: Any) -> bool:
    """Whether YAML takes a value for a number or a date and cannot make one of it."""
    import yaml

    try:
        yaml.constructor.SafeConstructor.yaml_constructors[node.tag](yaml.constructor.SafeConstructor(), node)
    except (ValueError, KeyError, IndexError, AttributeError, OverflowError):
        return True
    return False


def _faults_of_form(root: Any, name: str) -> Iterator[Fault]:
    """Keys that are there twice, code of yte, tags, keys that YAML does not read as text, numbers
    that are none.
    """
    import yaml

    waiting, seen = [((), root)], set()
    while waiting:
        path, node = waiting.pop()
        # an anchor, from another place; at the top of the file, by a merge, its keys mean more
        if (id(node), not path) in seen:
            continue
        seen.add((id(node), not path))
        if node.tag not in PLAIN_TAGS:
            sentence = f"the tag {node.tag} is not allowed; write plain keys and values."
            yield Fault(path, sentence, name, _line(node), code=True)
        elif isinstance(node, yaml.ScalarNode) and _unreadable(node):
            kind = node.tag.rpartition(":")[2]
            sentence = f"{shown(node.value)} cannot be read as YAML's {kind}; quote what is text."
            yield Fault(path, sentence, name, _line(node), code=True)
        if isinstance(node, yaml.SequenceNode):
            waiting += [((*path, number), entry) for number, entry in enumerate(node.value)]
        if not isinstance(node, yaml.MappingNode):
            continue
        first: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                yield Fault(path, "a key must be a name, not a list or a block.", name, _line(key))
                continue
            if key.tag.endswith(":merge"):
                waiting += [(path, one) for one in (value.value if isinstance(value, yaml.SequenceNode) else [value])]
                continue
            if key.value == YTE and not path:
                sentence = "a config that runs code is refused; write out what it would make."
                yield Fault((YTE,), sentence, name, _line(key), code=True)
                continue
            if key.value in first:
                yield Fault(
                    (*path, key.value),
                    f"the key is there twice, first in line {first[key.value]}; the later"
                    " one would replace the first in silence: put them together.",
                    name,
                    _line(key),
                )
            first.setdefault(key.value, _line(key))
            if not key.tag.endswith(":str"):
                kind = key.tag.rpartition(":")[2].replace("int", "number").replace("float", "number")
                yield Fault(
                    (*path, key.value), f'{NO_TEXT} text but as a {kind}; quote it: "{key.value}".', name, _line(key)
                )
            waiting.append(((*path, key.value), value))


def line_of(file: ConfigFile, key: Sequence[str | int]) -> int:
    """The line on which a key (or an entry of a list, by its number) stands in a file; 0: it is not
    there.
    """
    node, line = file.root, 0
    for part in key:
        found = _child(node, part)
        if found is None:
            return 0
        line, node = found
    return line


def place(files: Sequence[ConfigFile], fault: Fault, given: Mapping[str, object]) -> Fault:
    """The fault with file and line: those of its key, or of the deepest block around it that a file
    names.

    `files` in the order in which they are merged: the last one that has the key decides it, and
    before it `given`, the command line's --config.
    """
    if fault.file:
        return fault
    value: object = given
    for part in fault.key:
        value = value.get(part) if isinstance(value, Mapping) else value
    if given and value is not None:
        return fault.at("--config", 0)
    for length in range(len(fault.key), 0, -1):
        for file in reversed(files):
            line = line_of(file, fault.key[:length])
            if line:
                return fault.at(file.path, line)
    return fault


def source_text(files: Sequence[ConfigFile], key: Sequence[str | int]) -> str | None:
    """How the value of a key is written in the file that decides it: 007, 1e-3, no; None for blocks
    and lists.
    """
    for file in reversed(files):
        node = file.root
        for part in key:
            found = _child(node, part)
            if found is None:
                break
            node = found[1]
        else:
            return node.value if isinstance(getattr(node, "value", None), str) else None
    return None


def _child(node: Any, part: str | int) -> tuple[int, Any] | None:
    """Line and node of an entry of a block or list."""
    import yaml

    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return _line(node.value[part]), node.value[part]
    if not isinstance(node, yaml.MappingNode):
        return None
    for key, value in reversed(node.value):
        if key.value == str(part) and not key.tag.endswith(":merge"):
            return _line(key), value
    for key, value in node.value:
        if key.tag.endswith(":merge"):
            for one in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                found = _child(one, part)
                if found is not None:
                    return found
    return None


def _line(node: Any) -> int:
    return node.start_mark.line + 1
