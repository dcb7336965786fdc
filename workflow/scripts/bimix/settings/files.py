"""The files of a config as their author wrote them: read with the line of each key, and refused
where they hold what YAML takes in silence or what would run code; faults at these lines.

Snakemake merges the files into one dict, in which a key given twice is there once and nothing has a
line.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml

from bimix.blocks import Key
from bimix.errors import InputError
from bimix.names import shown

BYTES = 200  # of a domain's name as UTF-8: file systems take 255, endings and temporary names need the rest
YTE = "__use_yte__"
CODE = (
    "a config that runs code is refused; write out what it would make. Snakemake reads files of --configfile before this"
    " check, so THE CODE HAS RUN if this is one of them. A stranger's config is a program: call"
    " `python workflow/scripts/check_config.py theirs.yaml` first, which runs nothing."
)
MISSING = object()
DEEPEST = 60  # blocks and lists in one another; a config has about ten
MOST_NODES = 200_000  # keys, values, lists and blocks, with all that aliases repeat
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's takes an eighth of the time
# What YAML makes of bare words and numbers; any other tag asks for Python objects or is nobody's.
PLAIN_TAGS = {
    f"tag:yaml.org,2002:{kind}"
    for kind in ["map", "seq", "str", "int", "float", "bool", "null", "timestamp", "merge", "value"]
}


# Faults


@dataclass(frozen=True)
class Fault:
    """One thing to mend: the path of its key, and a sentence; file and line where they are known.

    `code`: the value would execute code when loaded, or end the reader with a traceback. `remark`:
    it is odd but possible. `causes`: keys that the key may be at fault with.
    """

    key: Key
    sentence: str
    file: str = ""
    line: int = 0
    code: bool = False
    remark: bool = False
    causes: tuple[Key, ...] = ()

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.line else f"{self.file}: " if self.file else ""
        # of an entry in a list the sentence says the value
        key = path_of(self.key)
        return f"{place}{key}: {self.sentence}" if key else f"{place}{self.sentence}"

    def at(self, file: str, line: int) -> "Fault":
        return replace(self, file=file, line=line)


def path_of(key: Key) -> str:
    return "/".join(str(part) for part in key if not isinstance(part, int))


def located(block: Key, found: Iterable[tuple], causes: str = "") -> Iterator[Fault]:
    """Faults of what checks of a block yield: key in it (path or tuple), sentence, is a remark.
    `causes`: paths in the block, or in the config with a slash before them.
    """
    keys = tuple(
        tuple(path[1:].split("/")) if path[0] == "/" else (*block, *path.split("/")) for path in causes.split()
    )
    for key, sentence, *remark in found:
        whole = (*block, *(key.split("/") if isinstance(key, str) else key))
        yield Fault(whole, sentence, remark=any(remark), causes=keys)


def listed(faults: Iterable[Fault]) -> str:
    """All faults, each on a line of its own, sorted by place."""
    ordered = sorted(faults, key=lambda fault: (fault.file, fault.line, tuple(map(str, fault.key))))
    lines = list(dict.fromkeys(map(str, ordered)))
    if len(lines) == 1:
        return f"config: {lines[0]}"
    return "\n".join([f"config: {len(lines)} faults:", *(f"  {line}" for line in lines)])


def name_fault(name: str) -> str | None:
    """Why a name cannot be that of a domain or an observed mixture, and so of files; else None."""
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


def config_files(own: Iterable[str | Path], given: Iterable[str | Path]) -> list[Path]:
    """Files in the order in which they are merged: its `own` that exist, then those `given`."""
    working = Path.cwd()
    placed = [Path(os.path.relpath(path)) if Path(path).is_relative_to(working) else Path(path) for path in given]
    return [path for path in map(Path, own) if path.exists()] + placed


# Read


def read_layer(path: Path | str) -> dict:
    """One file as plain blocks; code in it is not run."""
    layer = yaml.load(Path(path).read_text(encoding="utf-8-sig").expandtabs(), Loader=LOADER)
    layer.pop(YTE, None)
    return layer


@dataclass
class ConfigFile:
    """One file: the line of each key and of each entry of a list, and the faults of its form.
    `readable`: it holds keys, so that its config can be checked.
    """

    path: str
    lines: dict[Key, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    readable: bool = True


class Unreadable(Exception):
    """A sentence and a line, 0 where none is known: the file cannot be read."""


def read_config_file(path: Path | str) -> ConfigFile:
    """The file `path`, JSON or YAML: nothing in it is executed."""
    visit = _Visit()
    try:
        root = _composed(str(path))
        visit.below(root, ())
    except Unreadable as error:
        sentence, line = error.args
        return ConfigFile(str(path), {}, [Fault((), sentence, str(path), line)], readable=False)
    # what an alias repeats is reported once
    once = {(fault.line, fault.sentence): replace(fault, file=str(path)) for fault in visit.faults}
    return ConfigFile(str(path), visit.lines, list(once.values()))


def _composed(path: str) -> yaml.MappingNode:
    """The nodes of a file. Errors (Unreadable): it is not there, no YAML, or no block."""
    after = "targets go before --configfile, which takes all that follow it."
    if Path(path).parts[:1] == ("results",):
        raise Unreadable(f"this is a result and no config: {after}", 0)
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise Unreadable(f"there is no such file; {after}", 0) from None
    except UnicodeDecodeError as error:
        raise Unreadable(f"the file is not UTF-8 ({error.reason} at byte {error.start}).", 0) from None
    except OSError as error:
        raise Unreadable(f"the file cannot be read ({error.strerror}).", 0) from None
    if path.endswith(".json"):
        text = text.expandtabs()  # which YAML takes for no indentation
    depth = 0
    try:
        for event in yaml.parse(text, Loader=LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                sentence = f"blocks and lists lie more than {DEEPEST} deep in one another."
                raise Unreadable(sentence, event.start_mark.line + 1)
        root = yaml.compose(text, Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        raise Unreadable(*_syntax(error, text.splitlines())) from None
    except yaml.YAMLError as error:
        raise Unreadable(f"no YAML: {' '.join(str(error).split())}.", 0) from None
    if not isinstance(root, yaml.MappingNode):
        kind = "nothing" if root is None else "a list" if isinstance(root, yaml.SequenceNode) else "a single value"
        sentence = f"the file holds {kind}; it must hold keys such as `run:` and `datasets:`."
        raise Unreadable(sentence, _line(root) if root else 0)
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


class _Visit:
    """A walk through the nodes of a file that enters the lines of keys, and as faults keys that are
    there twice or no text, code of yte, tags, and numbers and dates that are none.
    """

    def __init__(self) -> None:
        self.lines, self.faults, self.nodes = {}, [], 0

    def fault(self, key: Key, line: int, sentence: str, code: bool = False) -> None:
        self.faults.append(Fault(key, sentence, line=line, code=code))

    def below(self, node: yaml.Node, key: Key) -> None:
        """A value and all below it. Errors (Unreadable): aliases make too much or a circle."""
        line = _line(node)
        self.nodes += 1
        if len(key) > DEEPEST:
            raise Unreadable("an alias (*name) stands within its own block.", line)
        if self.nodes > MOST_NODES:
            sentence = f"the file has more than {MOST_NODES:,} keys and values, with all that aliases (*name) repeat."
            raise Unreadable(sentence, line)
        if node.tag not in PLAIN_TAGS:
            self.fault(key, line, f"the tag {node.tag} is not allowed; write plain keys and values.", code=True)
        elif isinstance(node, yaml.ScalarNode) and _unreadable(node):
            kind = node.tag.rpartition(":")[2]
            self.fault(key, line, f"{shown(node.value)} cannot be read as YAML's {kind}; quote text.", code=True)
        if isinstance(node, yaml.SequenceNode):
            for number, entry in enumerate(node.value):
                self.enter(entry, (*key, number), _line(entry))
        elif isinstance(node, yaml.MappingNode):
            self.block(node, key)

    def enter(self, node: yaml.Node, key: Key, line: int) -> None:
        self.lines[key] = line
        self.below(node, key)

    def block(self, node: yaml.MappingNode, key: Key) -> None:
        """The merged keys of a block (<<) first: its own decide."""
        first: dict[str, int] = {}
        for _, value in (entry for entry in node.value if entry[0].tag.endswith(":merge")):
            for one in reversed(value.value) if isinstance(value, yaml.SequenceNode) else [value]:
                if not isinstance(one, yaml.MappingNode):
                    self.fault(key, _line(one), "a merge (<<) takes a block or a list of blocks.", code=True)
                self.below(one, key)
        for name, value in (entry for entry in node.value if not entry[0].tag.endswith(":merge")):
            line = _line(name)
            if not isinstance(name, yaml.ScalarNode):
                self.fault(key, line, "a key must be a name, not a list or a block.")
                continue
            own = (*key, name.value)
            if own == (YTE,):
                self.fault(own, line, CODE, code=True)
                continue
            if name.value in first:
                sentence = f"the key is there twice, first in line {first[name.value]}; the later one would replace the"
                self.fault(own, line, f"{sentence} first in silence: put them together.")
            first.setdefault(name.value, line)
            if not name.tag.endswith(":str"):
                kind = name.tag.rpartition(":")[2].replace("int", "number").replace("float", "number")
                sentence = f'YAML does not read the key as text but as a {kind}; quote it: "{name.value}".'
                self.fault(own, line, sentence)
            self.enter(value, own, line)


def _unreadable(node: yaml.ScalarNode) -> bool:
    """Whether YAML takes a value for a number or a date and cannot make one of it."""
    try:
        yaml.constructor.SafeConstructor.yaml_constructors[node.tag](yaml.constructor.SafeConstructor(), node)
    except (ValueError, KeyError, IndexError, AttributeError, OverflowError):
        return True
    return False


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1


# Faults at their lines


def check_files(files: Sequence[Path | str]) -> None:
    """Refuse files that are no config, or hold code, before Snakemake reads them: it would run that
    code. Refuse a Python that does not read names of files as UTF-8 (InputError).
    """
    encoding = sys.getfilesystemencoding()
    if encoding != "utf-8":
        raise InputError(f"Python reads names of files as {encoding} here, and they are UTF-8: set PYTHONUTF8=1.")
    read = [read_config_file(path) for path in files]
    faults = [fault for file in read for fault in file.faults]
    if not all(file.readable for file in read) or any(fault.code for fault in faults):
        raise InputError(listed(faults))


def place(files: Sequence[ConfigFile], fault: Fault, given: Mapping[str, object]) -> Fault:
    """The fault with file and line: those of its key, or of the deepest block around it, in the last
    layer that has it, of which `given`, the command line's --config, is above all files.

    Where a later layer sets one cause alone, that is where the user mends it.
    """
    if fault.file:
        return fault
    # a block within a block of a dataset is near enough to be the user's own place of a key in it
    near = [part for part in fault.key if not isinstance(part, int)][:-1]
    own = _set_in(files, given, fault.key) or (_set_in(files, given, tuple(near)) if len(near) > 3 else None)
    causes = {key: there for key in fault.causes if (there := _set_in(files, given, key)) is not None}
    last = max((layer for layer, _, _ in causes.values()), default=-1)
    late = [key for key, there in causes.items() if there[0] == last]
    if len(late) == 1 and last > (own[0] if own else -1):
        sentence = f"with it {path_of(fault.key)} is at fault: {fault.sentence}"
        return replace(fault, key=late[0], sentence=sentence).at(*causes[late[0]][1:])
    for length in range(len(fault.key), 0, -1):
        if there := _set_in(files, given, fault.key[:length]):
            return fault.at(*there[1:])
    return fault


def _set_in(files: Sequence[ConfigFile], given: Mapping[str, object], key: Key) -> tuple[int, str, int] | None:
    """The number, file and line of the last layer that sets a key; None where none does."""
    value: object = given
    for part in key:
        if not isinstance(value, Mapping):
            break
        value = value.get(part, MISSING)
    if given and value is not MISSING:
        return len(files), "--config", 0
    for number in reversed(range(len(files))):
        if line := files[number].lines.get(key):
            return number, files[number].path, line
    return None
