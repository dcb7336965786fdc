"""The files of a config as their author wrote them: read with the line of each key, and refused where
they hold what YAML takes in silence or what would run code.

Snakemake merges the files into one dict, in which a key given twice is there once and nothing has a
line.
"""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from bimix.blocks import Key, value_at
from bimix.errors import InputError
from bimix.names import shown

YTE = "__use_yte__"
CODE = (
    "a config that runs code is refused; write out what it would make. Snakemake reads files of --configfile before this"
    " check, so THE CODE HAS RUN if this is one of them. A stranger's config is a program: call"
    " `python workflow/scripts/check_config.py theirs.yaml` first, which runs nothing."
)
DEEPEST = 60  # blocks and lists in one another; a config has about ten
MOST_NODES = 200_000  # keys, values, lists and blocks, with all that aliases repeat
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's takes an eighth of the time
# What makes plain values; any other tag asks for Python objects or is nobody's.
CONSTRUCTORS = yaml.constructor.SafeConstructor.yaml_constructors


@dataclass(frozen=True)
class Fault:
    """One thing to mend: the path of its key, and a sentence; file and line where they are known.

    `remark`: it is odd but possible.
    """

    key: Key
    sentence: str
    file: str = ""
    line: int = 0
    remark: bool = False

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.line else f"{self.file}: " if self.file else ""
        # of an entry in a list the sentence names the value
        key = "/".join(str(part) for part in self.key if not isinstance(part, int))
        return f"{place}{key}: {self.sentence}" if key else f"{place}{self.sentence}"


def listed(faults: Iterable[Fault]) -> str:
    """All faults, each on a line of its own, sorted by place."""
    ordered = sorted(faults, key=lambda fault: (fault.file, fault.line, tuple(map(str, fault.key))))
    lines = list(dict.fromkeys(map(str, ordered)))
    if len(lines) == 1:
        return f"config: {lines[0]}"
    return "\n".join([f"config: {len(lines)} faults:", *(f"  {line}" for line in lines)])


# Found


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


def config_files(prefix: str, given: Iterable[str | Path], replaced: bool = False) -> list[Path]:
    """Files in the order in which they are merged: the workflow's config.yaml, that of the folder of the
    results where it is another, both unless `replaced`, then those `given`.
    """
    working, own = Path.cwd(), {} if replaced else dict.fromkeys([f"{prefix}config.yaml", "config.yaml"])
    placed = [Path(os.path.relpath(path)) if Path(path).is_relative_to(working) else Path(path) for path in given]
    return [path for path in map(Path, own) if path.exists()] + placed


# Read


def read_layer(path: Path | str) -> dict:
    """One file as plain blocks; code in it is not run."""
    layer = yaml.load(Path(path).read_text(encoding="utf-8-sig").expandtabs(), Loader=LOADER)
    layer.pop(YTE, None)
    return layer


def announce_laws(paths: Iterable[Path | str]) -> None:
    """Name the laws under `laws/own` of files to this process and its jobs, before laws/table.py is
    imported.
    """
    named: dict[str, str] = {}
    for path in paths:
        own = value_at(read_layer(path), ("laws", "own"))
        named |= {str(name): str(file) for name, file in own.items()} if isinstance(own, Mapping) else {}
    if named:
        os.environ["BIMIX_LAWS"] = json.dumps(named)


class ConfigFile:
    """A file, JSON or YAML, of which nothing is executed: the line of each key and of each entry of a
    list, and the faults of its form.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = str(path)
        self.lines: dict[Key, int] = {}
        self.faults: list[Fault] = []
        self.nodes = 0
        try:
            self._value(_root_node(self.path), ())
        except _Unreadable as error:
            self.faults.append(Fault((), error.args[0], self.path, error.args[1]))

    def _fault(self, key: Key, node: yaml.Node, sentence: str) -> None:
        self.faults.append(Fault(key, sentence, self.path, _line(node)))

    def _value(self, node: yaml.Node, key: Key) -> None:
        """A value and all below it. Errors (_Unreadable): aliases make too much or a circle."""
        self.nodes += 1
        if len(key) > DEEPEST:
            raise _Unreadable("an alias (*name) stands within its own block.", _line(node))
        if self.nodes > MOST_NODES:
            sentence = f"the file has more than {MOST_NODES:,} keys and values, with all that aliases (*name) repeat."
            raise _Unreadable(sentence, _line(node))
        if node.tag not in CONSTRUCTORS:
            self._fault(key, node, f"the tag {node.tag} is not allowed; write plain keys and values.")
        elif isinstance(node, yaml.ScalarNode):
            try:
                CONSTRUCTORS[node.tag](yaml.constructor.SafeConstructor(), node)
            except (ValueError, LookupError, AttributeError, OverflowError):
                kind = node.tag.rpartition(":")[2]
                self._fault(key, node, f"{shown(node.value)} cannot be read as YAML's {kind}; quote text.")
        elif isinstance(node, yaml.SequenceNode):
            for number, entry in enumerate(node.value):
                self._entry(entry, (*key, number), entry)
        else:
            self._block(node, key)

    def _entry(self, node: yaml.Node, key: Key, place: yaml.Node) -> None:
        self.lines[key] = _line(place)
        self._value(node, key)

    def _block(self, node: yaml.MappingNode, key: Key) -> None:
        """The merged keys of a block (<<) first: its own decide."""
        merges = [value for name, value in node.value if name.tag.endswith(":merge")]
        for merge in merges:
            for block in reversed(merge.value) if isinstance(merge, yaml.SequenceNode) else [merge]:
                if isinstance(block, yaml.MappingNode):
                    self._value(block, key)
                else:
                    self._fault(key, block, "a merge (<<) takes a block or a list of blocks.")
        first_lines: dict[str, int] = {}
        for name, value in node.value:
            if name.tag.endswith(":merge"):
                continue
            if not isinstance(name, yaml.ScalarNode):
                self._fault(key, name, "a key must be a name, not a list or a block.")
                continue
            path = (*key, name.value)
            if path == (YTE,):
                self._fault(path, name, CODE)
            if name.value in first_lines:
                first = f"the key is there twice, first in line {first_lines[name.value]};"
                self._fault(path, name, f"{first} the later one would replace the first in silence: put them together.")
            first_lines.setdefault(name.value, _line(name))
            if not name.tag.endswith(":str"):
                kind = name.tag.rpartition(":")[2].replace("int", "number").replace("float", "number")
                sentence = f'YAML does not read the key as text but as a {kind}; quote it: "{name.value}".'
                self._fault(path, name, sentence)
            self._entry(value, path, name)


def check_files(paths: Iterable[Path | str]) -> list[ConfigFile]:
    """Read files with their lines, before Snakemake reads them and runs code in them. Errors
    (InputError): all that is wrong with their form; a Python that does not read names as UTF-8.
    """
    encoding = sys.getfilesystemencoding()
    if encoding != "utf-8":
        raise InputError(f"Python reads names of files as {encoding} here, and they are UTF-8: set PYTHONUTF8=1.")
    files = [ConfigFile(path) for path in paths]
    if faults := [fault for file in files for fault in file.faults]:
        raise InputError(listed(faults))
    return files


class _Unreadable(Exception):
    """A sentence and a line, 0 where none is known."""


def _root_node(path: str) -> yaml.MappingNode:
    """The nodes of a file. Errors (_Unreadable): it is not there, no YAML, or no block."""
    after = "targets go before --configfile, which takes all that follow it."
    if Path(path).parts[:1] == ("results",):
        raise _Unreadable(f"this is a result and no config: {after}", 0)
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise _Unreadable(f"there is no such file; {after}", 0) from None
    except UnicodeDecodeError as error:
        raise _Unreadable(f"the file is not UTF-8 ({error.reason} at byte {error.start}).", 0) from None
    except OSError as error:
        raise _Unreadable(f"the file cannot be read ({error.strerror}).", 0) from None
    if path.endswith(".json"):
        text = text.expandtabs()  # which YAML takes for no indentation
    depth = 0
    try:
        for event in yaml.parse(text, Loader=LOADER):  # composing them would end the interpreter
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                sentence = f"blocks and lists lie more than {DEEPEST} deep in one another."
                raise _Unreadable(sentence, event.start_mark.line + 1)
        root = yaml.compose(text, Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        raise _Unreadable(*_syntax(error, text.splitlines())) from None
    except yaml.YAMLError as error:
        raise _Unreadable(f"no YAML: {' '.join(str(error).split())}.", 0) from None
    if not isinstance(root, yaml.MappingNode):
        sentence = "the file must hold keys such as `run:` and `datasets:`, not a list, a single value or nothing."
        raise _Unreadable(sentence, _line(root) if root else 0)
    return root


def _syntax(error: yaml.MarkedYAMLError, lines: Sequence[str]) -> tuple[str, int]:
    """The sentence and the line of what is no YAML."""
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 0
    source = lines[line - 1] if 0 < line <= len(lines) else ""
    if "\t" in source[: len(source) - len(source.lstrip())]:
        return "the line is indented with a tab; YAML takes spaces only.", line
    opened = f" (what it belongs to begins in line {error.context_mark.line + 1})" if error.context_mark else ""
    problem = error.problem or error.context
    return f"no YAML from here: {problem}{opened}; look for a missing quote, bracket, colon or space.", line


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1


def place(files: Sequence[ConfigFile], fault: Fault, given: Mapping[str, object]) -> Fault:
    """The fault with file and line: those of its key, or of the deepest block around it that is set, in
    the last layer that has it, of which `given`, the command line's --config, is above all files.
    """
    for length in range(len(fault.key), 0, -1):
        key = fault.key[:length]
        # an entry of a list is set where its list is
        if value_at(given, [part for part in key if not isinstance(part, int)]) is not None:
            return replace(fault, file="--config")
        for file in reversed(files):
            if line := file.lines.get(key):
                return replace(fault, file=file.path, line=line)
    return fault
