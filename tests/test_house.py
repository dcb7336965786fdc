"""The map in bimix/__init__.py is true: rooms, imports, torch, opened files; how large the house is; what was dropped."""

import ast
import re
import sys
from pathlib import Path

import pytest
import yaml

import bimix
import solve_mixture
from bimix import command, dropped
from bimix.errors import InputError, run
from bimix.settings.prepare import Call, prepare

PACKAGE = Path(bimix.__file__).parent
ROOT = PACKAGE.parents[2]
# In the order of the map: the rooms that each imports from, functions included.
ROOMS = {
    "corpus": "",
    "mixtures": "",
    "observations": "mixtures",
    "transfer": "observations",
    "laws": "observations transfer",
    "model": "",
    "training": "corpus mixtures observations model",
    "reweighting": "mixtures model training",
    "plan": "corpus mixtures model training",
    "optimum": "mixtures observations transfer laws",
    "judge": "mixtures observations transfer laws plan training optimum",
    "search": "mixtures observations transfer laws optimum judge",
    "exports": "corpus mixtures training",
    "downstream": "corpus observations model training",
    "results": "mixtures observations transfer laws training optimum judge exports",
    "settings": "corpus mixtures observations model training optimum exports",
}
# Modules of rooms that planning imports: they bring no table and no array.
QUICK = {"errors", "digests", "laws.table", "mixtures.names", "training.recipe"}
QUICK |= {"corpus.files", "corpus.reading", "corpus.shards", "corpus.tasks", "model.shape", "training.costs"}
# The most lines of each kind, for the whole of it. What goes above it is read again, and something goes, before a number
# is raised.
LINES = {"code": 33_650, "tests": 31_000, "docs": 3_250, "README.md": 150}
# What was dropped and stays dropped: the row of bimix/dropped.py and the first words of its sentence.
DROPPED: dict[str, str] = {
    "--allow-unmeasured": "take it away",
    "--format levanter": "export `csv`",
    "--format maxtext-json": "export `csv`",
    "--format megatron-bridge": "export `csv`",
    "--format megatron-splits": "take `megatron-file`",
    "--harm": "add a run of a mixture that reads",
    "--law gaussian_process": "a rival of the board",
    "--law mariner": "a rival of the board",
    "--law scheffe": "a rival of the board",
    "--stage": "a law reads one mixture",
    "bimix allocate": "call `bimix optimise` with --parameters",
    "bimix pareto": "call `bimix optimise` twice",
    "bimix propose": "call `bimix first`",
    "corpus/ask_versions": "name files far away by addresses",
    "datasets/*/corpus/ask_versions": "name files far away by addresses",
    "datasets/*/design": "`bimix first` names the first runs",
    "datasets/*/downstream/precision": "leave it out: weights answer",
    "datasets/*/downstream/rejects": "leave it out: lm_eval asks",
    "datasets/*/downstream/tasks/*": "list names of lm_eval's tasks",
    "datasets/*/methods": "list the mixtures under `compare/mixtures`",
    "datasets/*/observations/allow_unmeasured": "take it away",
    "datasets/*/observations/costs": "leave it out: of runs trained elsewhere",
    "datasets/*/observations/reuse": "join older runs by `bimix reuse`",
    "datasets/*/optimum/objective/carry": "name one number",
    "datasets/*/optimum/objective/confidence": "take it away",
    "datasets/*/optimum/objective/marginals": "bound the shares",
    "datasets/*/optimum/pareto": "call `bimix optimise` twice",
    "datasets/*/optimum/stage": "a law reads one mixture",
    "datasets/*/reuse": "join older runs by `bimix reuse`",
    "datasets/*/swarm/together": "leave it out",
    "datasets/*/training/*/decay_share": "leave it out",
    "datasets/*/training/*/horizons": "leave it out",
    "datasets/*/training/*/optimizer": "leave it out",
    "datasets/*/training/*/schedule=wsds": "take `warm_exponential` or `cosine`",
    "design": "`bimix first` names the first runs",
    "laws/compare=gaussian_process": "a rival of the board",
    "laws/compare=mariner": "a rival of the board",
    "laws/compare=scheffe": "a rival of the board",
    "laws/optimise=gaussian_process": "a rival of the board",
    "laws/optimise=mariner": "a rival of the board",
    "laws/optimise=scheffe": "a rival of the board",
    "models/*/format=levanter": "export `csv`",
    "models/*/format=maxtext-json": "export `csv`",
    "models/*/format=megatron-bridge": "export `csv`",
    "models/*/format=megatron-splits": "take `megatron-file`",
    "models/*/launch/attention": "leave it out",
    "models/*/launch/bucket_megabytes": "leave it out",
    "models/*/launch/gradient_compression": "leave it out",
    "models/*/launch/shard": "leave it out",
    "models/*/losses/file": "name the file itself",
    "models/*/losses/lines": "name the file itself",
    "models/*/losses/loss": "name the file itself",
    "models/*/losses/pattern": "name the file itself",
    "models/*/losses/step": "name the file itself",
    "models/*/losses/table": "name the file itself",
    "training/*/decay_share": "leave it out",
    "training/*/horizons": "leave it out",
    "training/*/optimizer": "leave it out",
    "training/*/schedule=wsds": "take `warm_exponential` or `cosine`",
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
    """The rooms that a file imports from; the table of laws, which imports none, is for all."""
    own = [name for name in imports(path) if name.startswith("bimix.") and not name.startswith("bimix.laws.table.")]
    return {name.split(".")[1] for name in own} & set(ROOMS)


def lines(*patterns: str) -> int:
    """Lines of the files below the checkout that match."""
    files = {path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()}
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


def test_the_house_is_no_larger_than_it_says() -> None:
    code = ["Snakefile", "workflow/rules/**/*.smk", "workflow/scripts/**/*.py", "workflow/scripts/**/*.js"]
    found = {
        "code": lines(*code, "workflow/scripts/**/*.j2", "workflow/scripts/*.sh"),
        "tests": lines("tests/**/*.py"),
        "docs": lines("docs/*.md"),
        "README.md": lines("README.md"),
    }
    assert {kind: count for kind, count in found.items() if count > LINES[kind]} == {}


def test_a_room_imports_from_no_other_than_the_table_says() -> None:
    assert list(ROOMS) == MAPPED
    assert sorted(MAPPED) == sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
    for room, named in ROOMS.items():
        imported = {path.name: rooms_of(path) - {room} for path in sorted((PACKAGE / room).rglob("*.py"))}
        assert set().union(*imported.values()) == set(named.split()), (room, imported)
        assert set(named.split()) <= set(MAPPED[: MAPPED.index(room)]), f"{room} imports from rooms above it on the map"
    for path in PACKAGE.glob("*.py"):
        assert not rooms_of(path), f"{path.name} stands at the top and imports from a room"


def test_what_was_dropped_is_refused_by_its_sentence(tmp_path: Path, monkeypatch, capsys) -> None:
    refused = {**dropped.KEYS, **dropped.FLAGS, **{f"bimix {word}": text for word, text in dropped.COMMANDS.items()}}
    assert {row: sentence[: len(DROPPED.get(row, "-"))] for row, sentence in refused.items()} == DROPPED
    config, said = {}, []
    for number, (row, sentence) in enumerate(dropped.KEYS.items()):
        path, _, value = row.replace("datasets/*", "datasets/demo").replace("*", f"own{number}").partition("=")
        *above, last = path.split("/")
        block = config
        for name in above:
            block = block.setdefault(name, {})
        if value:
            block.setdefault(last, []).append(value)
        else:
            block[last] = {"any": 1}
        said.append(f"{path}: {sentence}")
    mine = tmp_path / "mine.yaml"
    mine.write_text(yaml.safe_dump(config))
    with pytest.raises(InputError) as fault:
        prepare(Call(ROOT, f"{ROOT}/", [ROOT / "config.yaml", mine], 1, {}))
    lines = [line.partition(f"{mine}:")[2].partition(": ")[2] for line in str(fault.value).splitlines()]
    assert set(said) <= set(lines)
    for main, name, status, sentences in (
        (lambda: run(solve_mixture.main), "solve_mixture.py", 1, dropped.FLAGS),
        (command.main, "bimix", 2, dropped.COMMANDS),
    ):
        for row, sentence in sentences.items():
            monkeypatch.setattr(sys, "argv", [name, *row.split()])
            assert main() == status and sentence in capsys.readouterr().err, row


def test_torch_is_imported_and_files_are_opened_where_the_map_says_and_nowhere_else() -> None:
    named = promised("Only")
    torch = {path for path in FILES if any(name.split(".")[0] in ("torch", "accelerate") for name in imports(path))}
    assert {place(path) for path in torch if place(path).split("/")[0] not in named} == {
        name for name in named if "/" in name
    }
    assert {place(path).split("/")[0] for path in torch} >= {name for name in named if "/" not in name}
    assert {place(path) for path in FILES if opens(path)} == promised("Files are opened")


def test_the_plan_imports_the_standard_library_and_what_is_as_quick() -> None:
    for path in (PACKAGE / "plan").glob("*.py"):
        top = ast.parse(path.read_text(encoding="utf-8")).body
        for node in top:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                first = name.split(".")[0]
                known = first in sys.stdlib_module_names or name.startswith("bimix.plan")
                assert known or name.removeprefix("bimix.") in QUICK, f"{place(path)} imports {name}"
