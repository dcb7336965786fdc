"""The map in bimix/__init__.py is true: rooms, their sizes, imports, torch, opened files."""

import ast
import re
import sys
from pathlib import Path

import bimix

PACKAGE = Path(bimix.__file__).parent
# In the order of the map: the most lines of a room, and the rooms that it imports from, functions
# included. A room that outgrows its number is read again before that is raised.
ROOMS = {
    "corpus": (1663, ""),
    "mixtures": (525, ""),
    "observations": (1746, "mixtures"),
    "transfer": (2038, "observations"),
    "laws": (1591, "observations transfer"),
    "plan": (1761, "corpus laws"),
    "model": (1011, ""),
    "training": (2856, "corpus mixtures observations plan model"),
    "reweighting": (462, "model training"),
    "optimum": (2219, "mixtures observations transfer laws"),
    "judge": (1735, "mixtures observations transfer laws plan model training reweighting optimum"),
    "search": (2305, "mixtures observations transfer laws plan optimum judge"),
    "exports": (645, "corpus mixtures plan"),
    "downstream": (727, "corpus model training"),
    "results": (2104, "corpus mixtures observations transfer laws plan training optimum judge exports"),
    "settings": (3400, "mixtures observations laws plan training optimum exports"),
}
MAPPED = re.findall(r"^    (\w+) ", bimix.__doc__, flags=re.MULTILINE)
FILES = sorted(PACKAGE.rglob("*.py"))
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
