"""Text of installed Python packages: whole files, docstrings, comments, descriptions."""

import ast
import hashlib
import io
import re
import tokenize
from collections.abc import Iterator
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


def comments(content: str) -> str:
    """All comments of a source file, a line each; none if it does not parse."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(content).readline))
    except (SyntaxError, tokenize.TokenError):
        return ""
    return "\n".join(token.string.lstrip("#!: ") for token in tokens if token.type == tokenize.COMMENT)


# What a file of a package gives, for each kind of domain; `descriptions` also takes the package's
# own page.
KINDS = {"files": str, "docstrings": docstrings, "comments": comments, "descriptions": str}


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
            page = distribution.metadata
            body = page.get_payload()  # old packages have their description in a header
            text = body if isinstance(body, str) and body.strip() else page.get("Description") or ""
            sources.append((f"{name}: description", text))
        files = (file for file in distribution.files or [] if file.suffix in suffixes)
        sources += [(f"{name}: {file.as_posix()}", Path(file.locate())) for file in files if ".." not in file.parts]
    for source, content in sorted(sources, key=lambda entry: hashlib.blake2b(entry[0].encode()).digest()):
        try:
            yield source, content if isinstance(content, str) else content.read_text(encoding="utf-8")
        except (FileNotFoundError, UnicodeDecodeError):
            continue  # a file that was removed after the installation, or that is no text
