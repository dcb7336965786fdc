"""The map in bimix/__init__.py is true: rooms, their sizes, imports, torch, opened files."""

import ast
import re
import sys
import tokenize
from pathlib import Path

import bimix

PACKAGE = Path(bimix.__file__).parent
# In the order of the map: the most lines of a room, and the rooms that it imports from, functions
# included. A room that outgrows its number is read again before that is raised.
ROOMS = {
    "corpus": (1662, ""),
    "mixtures": (519, ""),
    "observations": (1721, "mixtures"),
    "transfer": (2039, "observations"),
    "laws": (1583, "observations transfer"),
    "plan": (1753, "corpus laws"),
    "model": (1012, ""),
    "training": (2819, "corpus mixtures observations plan model"),
    "reweighting": (464, "model training"),
    "optimum": (2189, "mixtures observations transfer laws"),
    "judge": (1723, "mixtures observations transfer laws plan model training reweighting optimum"),
    "search": (2303, "mixtures observations transfer laws plan optimum judge"),
    "exports": (641, "corpus mixtures plan"),
    "downstream": (727, "corpus model training"),
    "results": (2174, "corpus mixtures observations transfer laws plan training optimum judge exports"),
    "settings": (3390, "mixtures observations laws plan training optimum exports"),
}
MAPPED = re.findall(r"^    (\w+) ", bimix.__doc__, flags=re.MULTILINE)
FILES = sorted(PACKAGE.rglob("*.py"))
ROOT = PACKAGE.parents[2]
SOURCES = [path for folder in ("workflow", "tests") for path in sorted((ROOT / folder).rglob("*.*"))]
PROSE_COLUMNS = 100  # of docstrings and comments; the formatter keeps code at 120
OPENING = {"open", "read_text", "write_text", "read_bytes", "write_bytes"}


def imports(path: Path) -> set[str]:
    """Full names of all that a file imports, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def opens(path: Path) -> bool:
    """Whether a file opens others by the standard library's or polars' functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in OPENING or re.match(r"(read|scan|write)_(parquet|csv|ndjson)$", name):
                return True
    return False


def place(path: Path) -> str:
    """A file as the map calls it: `room/module`, or the module alone at the top."""
    return str(path.relative_to(PACKAGE).with_suffix(""))


def promised(sentence: str) -> set[str]:
    """The names in back quotes of the map's sentence that begins so."""
    found = re.search(rf"{sentence}[^.]*\.", bimix.__doc__)
    assert found, f"the map has no sentence {sentence!r}"
    return set(re.findall(r"`([\w/]+)`", found[0]))


def rooms_of(path: Path) -> set[str]:
    """The rooms that a file imports from."""
    return {name.split(".")[1] for name in imports(path) if name.startswith("bimix.")} & set(ROOMS)


def test_a_room_is_no_larger_and_imports_from_no_other_than_the_table_says() -> None:
    assert list(ROOMS) == MAPPED
    assert sorted(MAPPED) == sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
    for room, (most, named) in ROOMS.items():
        files = sorted((PACKAGE / room).rglob("*.py"))
        lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
        assert lines <= most, f"{room} has {lines} lines"
        imported = {path.name: rooms_of(path) - {room} for path in files}
        assert set().union(*imported.values()) == set(named.split()), (room, imported)
        assert set(named.split()) <= set(MAPPED[: MAPPED.index(room)]), f"{room} imports from rooms above it on the map"
    for path in PACKAGE.glob("*.py"):
        assert not rooms_of(path), f"{path.name} stands at the top and imports from a room"


def test_torch_is_imported_and_files_are_opened_where_the_map_says_and_nowhere_else() -> None:
    named = promised("Only")
    torch = {path for path in FILES if any(name.split(".")[0] in ("torch", "accelerate") for name in imports(path))}
    assert {place(path) for path in torch if place(path).split("/")[0] not in named} == {
        name for name in named if "/" in name
    }
    assert {place(path).split("/")[0] for path in torch} >= {name for name in named if "/" not in name}
    assert {place(path) for path in FILES if opens(path)} == promised("Files are opened")


def test_the_plan_imports_the_standard_library_only() -> None:
    for path in (PACKAGE / "plan").glob("*.py"):
        top = ast.parse(path.read_text(encoding="utf-8")).body
        for node in top:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                first = name.split(".")[0]
                known = first in sys.stdlib_module_names or re.match(r"bimix\.(plan|errors|digests|laws\.table)", name)
                assert known or name == "bimix.corpus.shards", f"{place(path)} imports {name}"


def prose(path: Path) -> dict[int, str]:
    """The lines of a Python or rule file by number that are in docstrings or are comments alone."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if path.suffix == ".smk":
        text = "\n".join(lines)
        found = re.finditer(r'^ *"""\w.*?"""$|^ *#[^\n]*$', text, flags=re.MULTILINE | re.DOTALL)
        spans = [(text.count("\n", 0, one.start()) + 1, text.count("\n", 0, one.end()) + 1) for one in found]
    else:
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        nodes = [node for node in ast.walk(ast.parse("\n".join(lines))) if isinstance(node, kinds)]
        spans = [(node.body[0].lineno, node.body[0].end_lineno) for node in nodes if ast.get_docstring(node)]
        with path.open("rb") as file:
            marks = [mark for mark in tokenize.tokenize(file.readline) if mark.type == tokenize.COMMENT]
        spans += [(mark.start[0], mark.start[0]) for mark in marks if mark.line.lstrip().startswith("#")]
    return {number: lines[number - 1] for first, last in spans for number in range(first, last + 1)}


def test_prose_is_no_wider_than_a_page() -> None:
    sources = [path for path in SOURCES if path.suffix in (".py", ".smk")]
    assert len(sources) > 100
    wide = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sources
        for number, line in prose(path).items()
        if len(line) > PROSE_COLUMNS
    ]
    assert not wide
