"""The files of a config as their author wrote them: read with the line of each key, merged, and
refused where they hold what YAML takes in silence or what would run code.

Snakemake merges the files into one dict, in which a key given twice is there once and nothing has a
line.
"""

import copy
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bimix.errors import InputError
from bimix.names import shown
from bimix.settings.faults import Fault, Key, listed

YTE = "__use_yte__"
# Of code in a file of --configfile.
RAN = (
    "Snakemake reads --configfile before this check, so THE CODE HAS RUN. A stranger's config is a program: call"
    " `python workflow/scripts/check_config.py theirs.yaml` first, which runs nothing."
)
DEEPEST = 60  # blocks and lists in one another; a config has about ten
MOST_NODES = 200_000  # keys, values, lists and blocks, with all that aliases repeat
NO_TEXT = "YAML does not read the key as"
# What YAML makes of bare words and numbers; any other tag asks for Python objects or is nobody's.
PLAIN_TAGS = {
    f"tag:yaml.org,2002:{kind}"
    for kind in ["map", "seq", "str", "int", "float", "bool", "null", "timestamp", "merge", "value"]
}


# Found and merged


def prefix(home: Path, working: Path) -> str:
    """What leads from the folder `working`, of the results, to files of `home`, the workflow's: "",
    a relative folder below it, or an absolute one.

    Errors (InputError): a folder with braces in its name, which Snakemake takes for wildcards.
    """
    if home.samefile(working):
        return ""
    found = home.relative_to(working) if home.is_relative_to(working) else home
    if {"{", "}"} & set(str(found)):
        raise InputError(f"The workflow is in {found}; Snakemake takes braces for wildcards: rename the folder.")
    return f"{found}/"


def over(defaults: dict, config: Mapping) -> dict:
    """A new config: `config` over `defaults`, blocks within blocks, as Snakemake merges files."""
    both = copy.deepcopy(dict(defaults))
    for key, value in config.items():
        mine = defaults.get(key)
        both[key] = over(mine, value) if isinstance(mine, dict) and isinstance(value, Mapping) else copy.deepcopy(value)
    return both


def merged(files: Iterable[Path | str]) -> dict:
    """The files as one config, the later ones over the earlier, as Snakemake merges them; code in
    them is not run.
    """
    config: dict = {}
    for path in files:
        own = _yaml().load(Path(path).read_text(encoding="utf-8-sig").expandtabs(), Loader=_loader())
        own.pop(YTE, None)
        config = over(config, own)
    return config


def config_files(own: Iterable[str | Path], given: Iterable[str | Path]) -> list[Path]:
    """The config's files in the order in which they are merged: those of its `own` that exist, then
    those `given`.

    A file below the working folder is named from there.
    """
    working = Path.cwd()
    placed = [Path(os.path.relpath(path)) if Path(path).is_relative_to(working) else Path(path) for path in given]
    return [path for path in map(Path, own) if path.exists()] + placed


# Read with their lines


@dataclass(frozen=True)
class ConfigFile:
    """One file; `places` has the line of each key and entry of a list, and the text of a single
    value as it is written: 007, 1e-3, no. None where the file cannot be read.
    """

    path: str
    places: dict[Key, tuple[int, str | None]] | None

    def line(self, key: Sequence[str | int]) -> int:
        """0: the key is not there."""
        return (self.places or {}).get(tuple(key), (0, None))[0]


def read_config_file(path: Path | str) -> tuple[ConfigFile, list[Fault]]:
    """The file `path`, JSON or YAML, and the faults of its form: nothing in it is executed."""
    name, yaml = str(path), _yaml()

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
    text = text.expandtabs() if _is_json(text) else text  # JSON may be indented with tabs, which YAML refuses
    try:
        oversize = _oversize(yaml.parse(text, Loader=_loader()))
        if oversize:
            return broken(*oversize)
        root = yaml.compose(text, Loader=_loader())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 0
        source = text.splitlines()[line - 1] if 0 < line <= len(text.splitlines()) else ""
        if "\t" in source[: len(source) - len(source.lstrip())]:
            return broken("the line is indented with a tab; YAML takes spaces only.", line)
        opened = f" (what it belongs to begins in line {error.context_mark.line + 1})" if error.context_mark else ""
        problem = error.problem or error.context
        return broken(f"no YAML from here: {problem}{opened}; look for a missing quote, bracket, colon or space.", line)
    except yaml.YAMLError as error:
        return broken(f"no YAML: {' '.join(str(error).split())}.")
    if root is None:
        return broken("the file is empty; it holds blocks such as `run` and `datasets`.")
    if not isinstance(root, yaml.MappingNode):
        kind = "a list" if isinstance(root, yaml.SequenceNode) else "a single value"
        return broken(f"the file holds {kind}; it must hold keys such as `run:` and `datasets:`.", _line(root))
    places: dict[Key, tuple[int, str | None]] = {}
    faults = [fault.at(name, fault.line) for fault in _visit(root, (), places, set())]
    return ConfigFile(name, places), faults


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _oversize(events: Iterable[Any]) -> tuple[str, int] | None:
    """A sentence and its line where the events of a YAML file make more than a config can hold.

    Nothing is built of them, so that aliases of aliases, lists in lists and a block that holds
    itself end here, in less than a second.
    """
    yaml = _yaml()
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


def _visit(node: Any, path: Key, places: dict, seen: set) -> Iterator[Fault]:
    """Enter the keys below a node into `places`. Faults: keys that are there twice, code of yte,
    tags, keys that YAML does not read as text, numbers that are none.
    """
    yaml = _yaml()
    # An anchor is met again where it is used; merged at the top of the file, its keys mean more.
    known, line = (id(node), not path) in seen, _line(node)
    seen.add((id(node), not path))
    if not known and node.tag not in PLAIN_TAGS:
        yield Fault(path, f"the tag {node.tag} is not allowed; write plain keys and values.", line=line, code=True)
    elif not known and isinstance(node, yaml.ScalarNode) and _unreadable(node):
        sentence = f"{shown(node.value)} cannot be read as YAML's {node.tag.rpartition(':')[2]}; quote what is text."
        yield Fault(path, sentence, line=line, code=True)
    if isinstance(node, yaml.SequenceNode):
        for number, entry in enumerate(node.value):
            yield from _enter(entry, (*path, number), _line(entry), places, seen)
    if not isinstance(node, yaml.MappingNode):
        return
    first: dict[str, int] = {}
    merges = [value for key, value in node.value if key.tag.endswith(":merge")]
    for value in merges:  # below the block's own keys
        for one in reversed(value.value) if isinstance(value, yaml.SequenceNode) else [value]:
            yield from _visit(one, path, places, seen)
    for key, value in node.value:
        line = _line(key)
        if key.tag.endswith(":merge"):
            continue
        if not isinstance(key, yaml.ScalarNode):
            faults = ["a key must be a name, not a list or a block."]
            yield from (Fault(path, sentence, line=line) for sentence in faults if not known)
            continue
        if key.value == YTE and not path:
            sentence = "a config that runs code is refused; write out what it would make."
            yield Fault((YTE,), sentence, line=line, code=True)
            continue
        if key.value in first and not known:
            sentence = f"the key is there twice, first in line {first[key.value]}; the later one would replace the"
            yield Fault((*path, key.value), f"{sentence} first in silence: put them together.", line=line)
        first.setdefault(key.value, line)
        if not key.tag.endswith(":str") and not known:
            kind = key.tag.rpartition(":")[2].replace("int", "number").replace("float", "number")
            yield Fault((*path, key.value), f'{NO_TEXT} text but as a {kind}; quote it: "{key.value}".', line=line)
        yield from _enter(value, (*path, key.value), line, places, seen)


def _enter(node: Any, path: Key, line: int, places: dict, seen: set) -> Iterator[Fault]:
    places[path] = line, node.value if isinstance(node.value, str) else None
    yield from _visit(node, path, places, seen)


def _unreadable(node: Any) -> bool:
    """Whether YAML takes a value for a number or a date and cannot make one of it."""
    constructor = _yaml().constructor.SafeConstructor
    try:
        constructor.yaml_constructors[node.tag](constructor(), node)
    except (ValueError, KeyError, IndexError, AttributeError, OverflowError):
        return True
    return False


def _line(node: Any) -> int:
    return node.start_mark.line + 1


def _yaml() -> Any:
    import yaml  # not at the top: most jobs read no file with lines

    return yaml


def _loader() -> Any:
    """libyaml's, where there is one: it takes an eighth of the time."""
    return getattr(_yaml(), "CSafeLoader", _yaml().SafeLoader)


# Faults at their lines


def check_files(files: Sequence[Path | str], read_before: Sequence[Path | str] = ()) -> None:
    """Refuse files that are no config, or hold code, before Snakemake reads them: it would run that
    code. Refuse a Python that does not read names of files as UTF-8 (InputError).

    Of the files that --configfile names, `read_before`, it has run already: Snakemake reads these
    before it reads a Snakefile.
    """
    encoding = sys.getfilesystemencoding()
    if encoding != "utf-8":
        raise InputError(f"Python reads names of files as {encoding} here, and they are UTF-8: set PYTHONUTF8=1.")
    read = [read_config_file(path) for path in files]
    faults = [fault for _, own in read for fault in own]
    if any(file.places is None for file, _ in read) or any(fault.code for fault in faults):
        early = {str(path) for path in read_before}
        raise InputError(
            listed(
                replace(fault, sentence=f"{fault.sentence} {RAN}")
                if fault.key == (YTE,) and fault.file in early
                else fault
                for fault in faults
            )
        )


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
            if line := file.line(fault.key[:length]):
                return fault.at(file.path, line)
    return fault


def source_text(files: Sequence[ConfigFile], key: Key) -> str | None:
    """How the value of a key is written in the file that decides it; None of blocks and lists."""
    return next((file.places[key][1] for file in reversed(files) if file.places and key in file.places), None)
