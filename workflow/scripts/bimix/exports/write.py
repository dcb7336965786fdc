"""Writes a mixture by its format's template (Jinja2, `templates/`).

A template may write a value only through a filter that quotes it, or that refuses what the format
cannot hold; any other value raises an error. Jinja's own escaping, for HTML, is off.
"""

import csv
import io
import pprint
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context

from bimix.errors import InputError
from bimix.exports.data import Data
from bimix.exports.weights import DECIMALS, MOST_DECIMALS, Export, Part

# The builder of Hugging Face datasets for each file ending, packed or not.
BUILDERS = {"json": r"jsonl?|ndjson", "parquet": "parquet", "csv": "csv", "text": "te?xt", "arrow": "arrow"}
SHARES_ALONE = ("megatron", "megatron-file", "nanotron")
PACKED = r"(\.(gz|zst|xz|bz2))?"
TEXT = r"\.(jsonl?|ndjson|te?xt|parquet|csv|tsv|arrow)(\.\w+)?$"


class Written(NamedTuple):
    """The text of an export, and remarks for the user."""

    text: str
    remarks: tuple[str, ...] = ()


class Quoted(str):
    """Text that may be written as it is."""


class Missing(StrictUndefined):
    """A name that a template does not define; to quote it is an error, too."""

    __repr__ = StrictUndefined.__str__


def write(stages: Sequence[Export]) -> Written:
    """A mixture in its format; several exports are its stages. The remarks name domains that are
    left out or that the mixture lacks, and how the consumer treats the file.

    Errors: a number that the format needs is not known; a path that it cannot hold.
    """
    export, remarks = stages[0], []

    def remark(caller: Callable[[], str]) -> Quoted:
        remarks.append(_sentence(caller()))
        return Quoted()

    named = {name for stage in stages for name in (*stage.shares, *stage.dropped)}
    domains = {name: domain for name, domain in export.data.domains.items() if name in named}
    template = ENVIRONMENT.get_template(f"{export.format}{export.form.ending}.j2")
    text = template.render(
        export=export, parts=export.parts, stages=stages, data=export.data, domains=domains, remark=remark
    )
    return Written(text, tuple(dict.fromkeys((*_unread(stages), *remarks))))


def blanks(domains: Sequence[str]) -> dict[str, str]:
    """{format: text with marks} of the formats that consist of shares and paths alone, for a page that
    fills in a mixture: @@d0@@ is the first domain's weight as a decimal, @@w0@@ as a number, @@p0@@
    its path.
    """
    # These weights are written first, and marks replace them. They are so small that a number has an
    # exponent, unlike a decimal, and none is a prefix of another.
    weights = {name: (10_001 + 10 * k) / 10**DECIMALS for k, name in enumerate(domains)}
    data = Data(name="", domains={name: {"train": [f"path/{k}/of"]} for k, name in enumerate(domains)})
    texts = {}
    for format in SHARES_ALONE:
        export = Export(format, data, weights, (), None, dict.fromkeys(domains))
        parts = [Part(name, data.domains[name].train, weight, name) for name, weight in weights.items()]
        vars(export)["parts"] = parts  # the cached property would round the weights to a sum of 1
        text = write([export]).text
        for k, weight in enumerate(weights.values()):
            text = text.replace(_decimal(weight), f"@@d{k}@@").replace(repr(weight), f"@@w{k}@@")
            text = text.replace(f"path/{k}/of", f"@@p{k}@@")
        texts[format] = text
    return texts


def _unread(stages: Sequence[Export]) -> list[str]:
    """Remarks on all stages together: domains left out, domains of the data that the mixture lacks,
    and files that the consumer cannot read.
    """
    export, data, remarks = stages[0], stages[0].data, []
    shares = dict.fromkeys(name for stage in stages for name in stage.shares)
    dropped = dict.fromkeys(name for stage in stages for name in stage.dropped if name not in shares)
    if dropped and not export.form.zero:
        remarks.append(f"Left out, for their proportion is 0: {', '.join(dropped)}.")
    others = [name for name in data.domains if name not in shares and name not in dropped]
    if others:
        remarks.append(f"The mixture does not name these domains of {data.name}: {', '.join(others)}.")
    files = (file.path for name in shares for file in data.domains[name].train)
    text_files = [] if export.form.text else [path for path in files if re.search(TEXT, path)]
    if text_files:
        remarks.append(
            f"{export.format} reads what a tool of its own made of text, and {text_files[0]!r} is text: tokenise it, and"
            f" name what comes out in {data.name}."
        )
    return remarks


def overview(stages: Sequence[Export]) -> str:
    """A table of proportions (by stage), tokens and epochs of the whole run."""
    titles = ["proportion"] if len(stages) == 1 else [f"stage {number}" for number in range(1, len(stages) + 1)]
    rows = [("domain", *titles, "run tokens", "unique tokens", "epochs")]
    for name in sorted({name for stage in stages for name in stage.shares}):
        reading = [stage for stage in stages if name in stage.shares]
        unique, tokens = reading[0].pools[name], None
        if reading[0].run_tokens is not None:
            tokens = sum(stage.shares[name] * stage.run_tokens for stage in reading)
        numbers = [tokens, unique, None if tokens is None or unique is None else tokens / unique]
        cells = ["-" if number is None else f"{number:.4g}" for number in numbers]
        rows.append((name, *(f"{stage.shares.get(name, 0.0):.6f}" for stage in stages), *cells))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    line = "  ".join(f"{{:{width}}}" for width in widths)
    return "\n".join(line.format(*row).rstrip() for row in rows)


def _sentence(text: str) -> str:
    return " ".join(line.strip() for line in text.splitlines()).strip()


def _finalize(value: object) -> object:
    """A value as Jinja writes it. Errors: it went through no filter that quotes it."""
    if isinstance(value, Quoted) or type(value) is int:
        return value
    raise TypeError(f"a template writes {value!r} without a filter that quotes it")


def _python(value: object) -> Quoted:
    """A Python literal."""
    return Quoted(pprint.pformat(value, width=100, sort_dicts=False))


def _yaml(value: str | float) -> Quoted:
    """A YAML scalar on one line, as a key or a value: a text with line breaks in double quotes."""
    style = '"' if isinstance(value, str) and value.splitlines() not in ([], [value]) else None
    text = yaml.safe_dump(value, allow_unicode=True, width=float("inf"), default_style=style)
    return Quoted(text.removesuffix("\n").removesuffix("\n..."))  # the end of a document


def _csv(row: Sequence) -> Quoted:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(row)
    return Quoted(text.getvalue())


def _decimal(weight: float) -> Quoted:
    """A weight as a decimal without an exponent: 0.25, 0.000000001."""
    text = f"{weight:.{MOST_DECIMALS}f}".rstrip("0")
    return Quoted(text + "0" if text.endswith(".") else text)


def _refuse(context: Context, path: str, reason: str) -> NoReturn:
    raise InputError(f"{context['data'].name}: the path {path!r} cannot be exported: {reason}.")


# Characters that a format cannot hold in a path, and why, by the filter that refuses them.
PATHS = {
    "prefix": {
        r"^\s|\s$": "Megatron strips blanks around a prefix",
        r"(?i)^[+-]?(nan|inf|infinity|[\d._]+(e[+-]?[\d_]+)?)$": "Megatron would take it for a weight; write ./ before it",
    },
    "argument": {  # as shlex.quote
        r"(?a)^-|[^\w@%+=:,./-]": "arguments are split at blanks, and a shell reads its other marks; take --format"
        " megatron-file"
    },
    "word": {r"\s": "the file of --data-args-path is split at blanks"},
    "uninterpolated": {r"\$\{": "llm-foundry would replace what stands in ${}"},
}
BARE = ("argument", "word")  # after these a path stands without quotes


def _refusing(name: str) -> Callable[[Context, str], str]:
    """A filter that refuses paths by a rule of PATHS."""

    @pass_context
    def checked(context: Context, path: str) -> str:
        for wrong, reason in PATHS[name].items():
            if re.search(wrong, path):
                _refuse(context, path, reason)
        return Quoted(path) if name in BARE else path

    return checked


@pass_context
def _needed(context: Context, number: float | None, why: str) -> float:
    """A number that the format cannot do without. Errors: it is not known."""
    if number is None:
        raise InputError(f"--format {context['export'].format} needs {why}.")
    return number


@pass_context
def _builder(context: Context, paths: Sequence[str]) -> str:
    """The builder of datasets that reads all the paths, by their endings."""
    found = []
    for path in paths:
        fitting = (name for name, ending in BUILDERS.items() if re.search(rf"\.({ending}){PACKED}$", path))
        found.append(next(fitting, None))
        if found[-1] is None:
            _refuse(context, path, "its ending is none of .jsonl, .json, .parquet, .csv, .txt and .arrow")
        if found[-1] != found[0]:
            reason = f"{paths[0]!r} of the same domain is read as {found[0]}, and one builder reads all"
            _refuse(context, path, reason)
    return found[0]


ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=False,
    undefined=Missing,
    finalize=_finalize,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    extensions=["jinja2.ext.do"],
)
ENVIRONMENT.filters |= {
    "python": _python,
    "repr": lambda value: Quoted(repr(value)),
    "number": lambda value, spec: Quoted(format(value, spec)),
    "yaml": _yaml,
    "csv": _csv,
    "needed": _needed,
    "decimal": _decimal,
    "builder": _builder,
    **{name: _refusing(name) for name in PATHS},
}
