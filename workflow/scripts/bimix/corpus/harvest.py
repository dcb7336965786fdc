"""Text that installed Python packages carry, by kind: whole files, docstrings of
their code, descriptions.
"""

import ast
from email.message import Message


def whole_file(content: str) -> str:
    """The file as it is."""
    return content


def docstrings(content: str) -> str:
    """All docstrings of a Python source, unindented, in order and parted by blank lines; none
    where it does not parse.
    """
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return ""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, owners)]
    return "\n\n".join(text for text in found if text)


# what a file of a package gives, for each kind of domain; `descriptions` also
# takes the package's own page
KINDS = {"files": whole_file, "docstrings": docstrings, "descriptions": whole_file}


def description(metadata: Message) -> str:
    """The long description of a package, from the body of its metadata or, in
    old ones, from a header.
    """
    body = metadata.get_payload()
    return body if isinstance(body, str) and body.strip() else metadata.get("Description") or ""
