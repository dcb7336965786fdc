"""Text of installed Python packages: whole files, docstrings, descriptions."""

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from bimix.errors import InputError


def docstrings(content: str) -> str:
    """All docstrings of a source file, separated by blank lines; none if it does not parse."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return ""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, owners)]
    return "\n\n".join(text for text in found if text)


SIZES = range(200, 100_001)  # characters of a document: a larger one would be much of its domain's held-out text
MOST_SEEN = 0.1  # of a document's characters, in lines that documents before it have
SHORTEST_LINE = 20  # characters; shorter lines, such as brackets, are in every file


def unlike(texts: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The documents (name, text) without those too short or too long (SIZES), and without near copies
    of earlier ones: boilerplate and generated files would put held-out text into the training text.
    """
    seen: set[str] = set()
    for name, text in texts:
        if len(text) not in SIZES:
            continue
        lines = [line for line in map(str.strip, text.splitlines()) if len(line) >= SHORTEST_LINE]
        repeated = sum(len(line) for line in lines if line in seen)
        if repeated <= MOST_SEEN * len(text):
            seen.update(lines)
            yield name, text


# What a file of a package gives, for each kind of domain; `descriptions` also takes the package's
# own page.
KINDS = {"files": str, "docstrings": docstrings, "descriptions": str}


def read_sources(packages: list[str], suffixes: set[str], with_description: bool) -> Iterator[tuple[str, str]]:
    """Name and text of each file, in the order of hashed names, the same on every machine."""
    sources = []
    for package in packages:
        try:
            distribution = metadata.distribution(package)
        except metadata.PackageNotFoundError:
            raise InputError(f"Package {package!r} is not installed; install envs/requirements.txt.") from None
        # the normalised name: a distribution may spell its own in several ways
        name = re.sub(r"[-_.]+", "-", package).lower()
        if with_description:
            sources.append((f"{name}: description", distribution.metadata.get_payload()))
        files = (file for file in distribution.files or [] if file.suffix in suffixes)
        sources += [(f"{name}: {file.as_posix()}", Path(file.locate())) for file in files if ".." not in file.parts]
    for source, content in sorted(sources, key=lambda entry: hashlib.blake2b(entry[0].encode()).digest()):
        try:
            yield source, content if isinstance(content, str) else content.read_text(encoding="utf-8")
        except (FileNotFoundError, UnicodeDecodeError):
            continue  # a file that was removed after the installation, or that is no text
